#include "rdmacm/devices.hpp"

#include <ifaddrs.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include "verbs/device_details.hpp"

namespace openmrc::rdmacm {
namespace {

constinit std::mutex opening;                         // taken after that of the service
constinit const std::vector<Device>* kept = nullptr;  // never destroyed: used during the exit, too

bool describe(ibv_context* context, Device& device) {
  verbs::DeviceDetails details;
  ibv_device_attr attributes{};
  if (openmrc_device_details(context, &details) != 0 || ibv_query_device(context, &attributes) != 0) return false;
  if (ibv_query_gid(context, 1, 0, &device.gid) != 0) return false;
  device.pd = ibv_alloc_pd(context);
  if (device.pd == nullptr) return false;
  device.context = context;
  device.planes = static_cast<std::uint8_t>(details.planes);
  device.reads_max = static_cast<std::uint8_t>(attributes.max_qp_rd_atom);
  device.kind = static_cast<QpKind>(details.kind);
  device.published = details.published != 0;
  device.by_file = details.by_file != 0;
  for (std::uint32_t plane = 0; plane < details.planes; ++plane) {
    device.addresses.emplace_back(&details.local[plane].any);
    device.addresses.emplace_back(&details.advertised[plane].any);
  }
  return true;
}

std::vector<Device> open_all() {
  std::vector<Device> opened;
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) continue;
    if (!describe(context, opened.emplace_back())) {
      opened.pop_back();
      ibv_close_device(context);
    }
  }
  if (list != nullptr) ibv_free_device_list(list);
  return opened;
}

bool has(const Device& device, const SocketAddress& address) {
  return std::any_of(device.addresses.begin(), device.addresses.end(),
                     [&](const SocketAddress& one) { return one.has_address_of(address); });
}

std::string interface_of(const ifaddrs* all, const SocketAddress& address) {
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (SocketAddress(one->ifa_addr).has_address_of(address)) return one->ifa_name;
  }
  return {};
}

const Device* device_on_interface(const SocketAddress& address) {
  ifaddrs* listed = nullptr;
  if (::getifaddrs(&listed) != 0) return nullptr;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(listed, &::freeifaddrs);
  const std::string interface = interface_of(listed, address);
  if (interface.empty()) return nullptr;
  for (const Device& device : devices()) {
    for (const SocketAddress& plane : device.addresses) {
      if (interface_of(listed, plane) == interface) return &device;
    }
  }
  const auto found = std::find_if(devices().begin(), devices().end(), [](const Device& one) { return one.by_file; });
  return found == devices().end() ? nullptr : &*found;
}

}  // namespace

const std::vector<Device>& devices() {
  const std::lock_guard guard(opening);
  if (kept == nullptr) kept = new std::vector<Device>(open_all());
  return *kept;
}

void lock_devices() { opening.lock(); }

void unlock_devices() { opening.unlock(); }

const Device* device_at(const SocketAddress& address) {
  for (const Device& device : devices()) {
    if (has(device, address)) return &device;
  }
  if (!address.is_loopback()) return device_on_interface(address);
  for (const Device& device : devices()) {
    if (device.addresses.front().is_loopback()) return &device;
  }
  return devices().empty() ? nullptr : &devices().front();
}

bool names_a_device(const SocketAddress& address) {
  if (address.is_wildcard()) return false;
  return !address.is_loopback() ||
         std::any_of(devices().begin(), devices().end(), [&](const Device& device) { return has(device, address); });
}

std::uint8_t mtu_of(const Device& device) {
  ibv_port_attr port{};
  return ibv_query_port(device.context, 1, &port) == 0 ? static_cast<std::uint8_t>(port.active_mtu) : std::uint8_t{0};
}

}  // namespace openmrc::rdmacm
