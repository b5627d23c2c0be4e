// The devices that NCCL sees: those of OPENMRC_PORTS or OPENMRC_PATHS, and the ones it merges.
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "nccl/adapter.hpp"
#include "nccl/log.hpp"
#include "verbs/device_settings.hpp"

namespace openmrc::nccl {
namespace {

constexpr int kCommsMax = 1 << 15;  // half of the QPs of a NIC
constexpr int kFilesPerComm = 2;    // the TCP connection, and the event of the CQ
constexpr int kOtherFiles = 128;    // of the NIC, and of the rest of the program

struct ListedDevice {
  verbs::DeviceDescription description;
  std::string pci_path;
  std::vector<int> parts;  // of a merged device
  std::shared_ptr<Adapter> adapter;
};

struct Devices {
  std::mutex mutex;
  std::deque<ListedDevice> all;  // NCCL keeps pointers to the names
  int count = 0;                 // without merged ones
};

// Never destroyed: NCCL may call during the exit of the program.
Devices& devices() {
  static Devices& made = *new Devices;
  return made;
}

std::string interface_name(const verbs::PlaneDescription& plane) {
  return plane.interface.empty() ? verbs::interface_of(plane.local) : plane.interface;
}

// Empty for interfaces without hardware.
std::string pci_path_of(const verbs::PlaneDescription& plane) {
  const std::string interface = interface_name(plane);
  if (interface.empty()) return {};
  char* path = ::realpath(("/sys/class/net/" + interface + "/device").c_str(), nullptr);
  const std::string found = path == nullptr ? "" : path;
  std::free(path);
  return found;
}

ListedDevice& listed(Devices& known, int dev) {
  if (dev >= 0 && static_cast<std::size_t>(dev) < known.all.size()) return known.all[static_cast<std::size_t>(dev)];
  throw Failure{ncclInvalidArgument, "device " + std::to_string(dev) + " does not exist: 0 to " +
                                         std::to_string(static_cast<int>(known.all.size()) - 1) + " do"};
}

std::uint64_t guid_of(const verbs::PlaneDescription& plane) {
  std::uint64_t guid = 0;
  for (const std::uint8_t byte : plane.advertise.bytes) guid = guid * 0x100'0000'01B3ULL + byte + 1;
  return guid;
}

// Connections that can be open at once.
int comms_max() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kCommsMax * kFilesPerComm + kOtherFiles) {
    return kCommsMax;
  }
  return std::max(1, (static_cast<int>(files.rlim_cur) - kOtherFiles) / kFilesPerComm);
}

}  // namespace

void find_devices() {
  Devices& known = devices();
  const std::lock_guard guard(known.mutex);
  if (!known.all.empty()) return;
  for (verbs::DeviceDescription& description : verbs::describe_devices()) {
    std::string path = pci_path_of(description.planes.front());
    known.all.push_back({std::move(description), std::move(path), {}, nullptr});
  }
  known.count = static_cast<int>(known.all.size());
  if (known.count == 0) {
    throw Failure{
        ncclSystemError,
        "no device: OPENMRC_PORTS has to list interfaces or addresses, as `openmrc run` sets it, or OPENMRC_PATHS "
        "to name a path file"};
  }
}

int device_count() {
  const std::lock_guard guard(devices().mutex);
  return devices().count;
}

void describe_device(int dev, ncclNetProperties_v11_t& properties) {
  Devices& known = devices();
  const std::lock_guard guard(known.mutex);
  ListedDevice& device = listed(known, dev);
  std::uint64_t rate_bps = 0;
  for (const verbs::PlaneDescription& plane : device.description.planes) rate_bps += verbs::rate_of(plane);
  properties = {};
  properties.name = device.description.name.data();
  properties.pciPath = device.pci_path.empty() ? nullptr : device.pci_path.data();
  properties.guid = guid_of(device.description.planes.front());
  properties.ptrSupport = NCCL_PTR_HOST;
  properties.speed = static_cast<int>(std::min<std::uint64_t>(rate_bps / 1'000'000, INT_MAX));
  properties.port = 1;
  properties.maxComms = comms_max();
  properties.maxRecvs = static_cast<int>(kGroupMax);
  properties.netDeviceType = NCCL_NET_DEVICE_HOST;
  properties.vProps.ndevs = std::max(1, static_cast<int>(device.parts.size()));
  properties.vProps.devs[0] = dev;
  std::copy(device.parts.begin(), device.parts.end(), properties.vProps.devs);
  properties.maxP2pBytes = properties.maxCollBytes = kMessageSizeMax;
  properties.maxMultiRequestSize = 1;
}

int merge_devices(const ncclNetVDeviceProps_t& wanted) {
  Devices& known = devices();
  const std::lock_guard guard(known.mutex);
  if (wanted.ndevs < 1 || wanted.ndevs > NCCL_NET_MAX_DEVS_PER_NIC) {
    throw Failure{ncclInvalidUsage, "a virtual device of " + std::to_string(wanted.ndevs) + " devices: 1 to " +
                                        std::to_string(NCCL_NET_MAX_DEVS_PER_NIC) + " are allowed"};
  }
  if (wanted.ndevs == 1) {
    listed(known, wanted.devs[0]);
    return wanted.devs[0];
  }
  ListedDevice merged;
  for (const int dev : std::span(wanted.devs, static_cast<std::size_t>(wanted.ndevs))) {
    const ListedDevice& part = listed(known, dev);
    const auto& planes = part.description.planes;
    auto& all = merged.description.planes;
    const bool repeated = std::find(merged.parts.begin(), merged.parts.end(), dev) != merged.parts.end();
    const bool same_family = all.empty() || all.front().local.family == planes.front().local.family;
    if (!part.parts.empty() || repeated || !same_family || all.size() + planes.size() > kPortCountMax) {
      throw Failure{ncclInvalidUsage, "device " + part.description.name +
                                          " cannot become part of a virtual device: "
                                          "different devices of one address family, with at most " +
                                          std::to_string(kPortCountMax) + " planes together, can"};
    }
    if (!merged.parts.empty()) merged.description.name += "+";
    merged.description.name += part.description.name;
    all.insert(all.end(), planes.begin(), planes.end());
    merged.parts.push_back(dev);
  }
  merged.pci_path = known.all[static_cast<std::size_t>(merged.parts.front())].pci_path;
  known.all.push_back(std::move(merged));
  return static_cast<int>(known.all.size()) - 1;
}

std::shared_ptr<Adapter> adapter_of(int dev) {
  Devices& known = devices();
  const std::lock_guard guard(known.mutex);
  ListedDevice& device = listed(known, dev);
  if (device.adapter == nullptr || device.adapter->device().closed()) {
    device.adapter = std::make_shared<Adapter>(device.description);
  }
  return device.adapter;
}

}  // namespace openmrc::nccl
