#include "verbs/device_description.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "engine/base/limits.hpp"
#include "nic/socket_address.hpp"
#include "verbs/path_file.hpp"

namespace openmrc::verbs {
namespace {

struct InterfaceAddress {
  std::string interface;
  Address address;
  std::uint32_t prefix_bits = 0;
  bool loopback = false;
  bool link_local = false;
};

std::uint32_t size_of(const Address& address) { return address.family == AddressFamily::kIpv4 ? 4 : 16; }

std::uint32_t prefix_of(const sockaddr& mask) {
  const std::uint8_t* bytes = nullptr;
  std::size_t count = 0;
  if (mask.sa_family == AF_INET) {
    bytes = reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in&>(mask).sin_addr);
    count = 4;
  } else {
    bytes = reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in6&>(mask).sin6_addr);
    count = 16;
  }
  std::uint32_t bits = 0;
  while (bits < count * 8 && (bytes[bits / 8] >> (7 - bits % 8) & 1U) != 0) ++bits;
  return bits;
}

Address address_of(const sockaddr& from) {
  sockaddr_storage storage{};
  const std::size_t size = from.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(&from), size, reinterpret_cast<std::uint8_t*>(&storage));
  std::uint16_t port = 0;
  return nic::from_socket_address(storage, port);
}

std::vector<InterfaceAddress> list_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_netmask == nullptr) continue;
    if (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6) continue;
    InterfaceAddress& found = all.emplace_back();
    found.interface = one->ifa_name;
    found.address = address_of(*one->ifa_addr);
    found.prefix_bits = prefix_of(*one->ifa_netmask);
    found.loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    const auto& bytes = found.address.bytes;
    found.link_local = found.address.family == AddressFamily::kIpv6 && bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
  }
  return all;
}

bool same_prefix(const Address& one, const Address& other, std::uint32_t bits) {
  if (one.family != other.family) return false;
  for (std::uint32_t bit = 0; bit < bits; ++bit) {
    if (((one.bytes[bit / 8] ^ other.bytes[bit / 8]) >> (7 - bit % 8) & 1U) != 0) return false;
  }
  return true;
}

bool same_host(const Address& one, const Address& other, std::uint32_t prefix_bits) {
  for (std::uint32_t bit = prefix_bits; bit < size_of(one) * 8; ++bit) {
    if (((one.bytes[bit / 8] ^ other.bytes[bit / 8]) >> (7 - bit % 8) & 1U) != 0) return false;
  }
  return true;
}

std::uint32_t prefix_bits_of(const Address& address, const std::vector<InterfaceAddress>& known) {
  for (const InterfaceAddress& one : known) {
    if (one.address == address) return one.prefix_bits;
  }
  for (const InterfaceAddress& one : known) {  // 127.0.0.0/8 holds more addresses than the interface lists
    if (one.loopback && same_prefix(one.address, address, one.prefix_bits)) return one.prefix_bits;
  }
  return size_of(address) * 8;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t end = text.find(separator);
    std::string_view word = text.substr(0, end);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

const InterfaceAddress* best_address(const std::string& interface, AddressFamily family,
                                     const std::vector<InterfaceAddress>& known) {
  for (const InterfaceAddress& one : known) {
    if (one.interface == interface && one.address.family == family && !one.link_local) return &one;
  }
  return nullptr;
}

bool parse_plane(const std::string& word, AddressFamily family, const std::vector<InterfaceAddress>& known,
                 PlaneDescription& plane) {
  if (const InterfaceAddress* own = best_address(word, family, known)) {
    plane.local = plane.advertise = own->address;
    if (!own->loopback) plane.interface = own->interface;
    plane.prefix_bits = own->prefix_bits;
    return true;
  }
  const std::size_t advertised = word.find('@');
  const std::string own = word.substr(0, advertised);
  const std::size_t interface = own.find('%');
  if (!nic::parse_address(own.substr(0, interface), plane.local) || plane.local.family != family) return false;
  plane.advertise = plane.local;
  if (interface != std::string::npos) plane.interface = own.substr(interface + 1);
  plane.prefix_bits = prefix_bits_of(plane.local, known);
  return advertised == std::string::npos ||
         (nic::parse_address(word.substr(advertised + 1), plane.advertise) && plane.advertise.family == family);
}

bool parse_planes(const std::vector<std::string>& words, AddressFamily family,
                  const std::vector<InterfaceAddress>& known, std::vector<PlaneDescription>& planes) {
  planes.clear();
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return parse_plane(word, family, known, planes.emplace_back()); });
}

// Adds with carry, as if addresses were big-endian numbers: `to` + (`a` - `b`).
Address shifted(const Address& to, const Address& a, const Address& b) {
  Address sum = to;
  int carry = 0;
  for (std::size_t i = size_of(to); i-- > 0;) {
    const int value = to.bytes[i] + a.bytes[i] - b.bytes[i] + carry;
    sum.bytes[i] = static_cast<std::uint8_t>(value & 0xFF);
    carry = value >> 8;
  }
  return sum;
}

std::vector<DeviceDescription> device_of_file(const char* file) {
  try {
    DeviceDescription device = read_path_file(file);
    device.name = "mrc0";
    return {std::move(device)};
  } catch (const PathFileError& error) {
    std::fprintf(stderr, "openmrc: OPENMRC_PATHS: %s: %s\n", file, error.what());
    return {};
  }
}

}  // namespace

std::vector<DeviceDescription> describe_devices() {
  const char* text = std::getenv("OPENMRC_PORTS");
  const char* file = std::getenv("OPENMRC_PATHS");
  if (file != nullptr && *file != '\0') {
    if (text == nullptr || *text == '\0') return device_of_file(file);
    std::fputs("openmrc: OPENMRC_PORTS and OPENMRC_PATHS are both set: one of them is allowed\n", stderr);
    return {};
  }
  if (text == nullptr) return {};
  const std::vector<InterfaceAddress> known = list_addresses();
  std::vector<DeviceDescription> devices;
  for (const std::string& ports : split(text, ';')) {
    const std::vector<std::string> words = split(ports, ',');
    DeviceDescription device;
    device.name = "mrc" + std::to_string(devices.size());
    const bool parsed = !words.empty() && words.size() <= kPortCountMax &&
                        (parse_planes(words, AddressFamily::kIpv4, known, device.planes) ||
                         parse_planes(words, AddressFamily::kIpv6, known, device.planes));
    if (parsed) {
      devices.push_back(std::move(device));
    } else {
      std::fprintf(stderr,
                   "openmrc: OPENMRC_PORTS: %s: 1 to %u interfaces with an address, or addresses of one family, are "
                   "allowed; `openmrc doctor` lists them\n",
                   ports.c_str(), static_cast<unsigned>(kPortCountMax));
    }
  }
  return devices;
}

std::string interface_of(const Address& address) {
  for (const InterfaceAddress& one : list_addresses()) {
    if (one.address == address) return one.interface;
  }
  return {};
}

Address peer_address(const std::vector<PlaneDescription>& planes, std::size_t plane, const Address& first) {
  if (plane == 0) return first;
  const PlaneDescription& own = planes[plane];
  const PlaneDescription& own_first = planes.front();
  const Address& here = own.advertise;
  const Address& here_first = own_first.advertise;
  const bool one_network = same_prefix(here, here_first, std::min(own.prefix_bits, own_first.prefix_bits));
  if (one_network || same_host(here, here_first, own.prefix_bits)) return shifted(first, here, here_first);
  Address found = here;
  for (std::uint32_t bit = own.prefix_bits; bit < size_of(here) * 8; ++bit) {
    const auto mask = static_cast<std::uint8_t>(0x80U >> bit % 8);
    found.bytes[bit / 8] = static_cast<std::uint8_t>((found.bytes[bit / 8] & ~mask) | (first.bytes[bit / 8] & mask));
  }
  return found;
}

}  // namespace openmrc::verbs
