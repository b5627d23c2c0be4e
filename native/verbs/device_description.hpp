// The devices of this process, as its environment describes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/time.hpp"
#include "nic/path_rules.hpp"

namespace openmrc::verbs {

struct PlaneDescription {
  Address local;
  Address advertise;
  std::string interface;          // empty: as the routing table says
  std::uint32_t prefix_bits = 0;  // of the network that `local` belongs to
  // Of a path file: where packets arrive, the high halves of the EVs, and the rate (0: the interface's).
  Address receive;
  std::vector<std::uint16_t> selectors;
  std::uint64_t rate_bps = 0;
};

struct DeviceDescription {
  std::string name;  // mrc0, mrc1, ...
  std::vector<PlaneDescription> planes;
  std::vector<nic::PathRule> rules;  // of a path file; none: addresses alone, in EV format UDP
  TimePs base_rtt = 0;               // of a path file; 0: not stated
};

// OPENMRC_PORTS: interfaces or addresses ("ADDRESS[%INTERFACE][@ADVERTISE]"), separated by commas, one for each plane;
// a semicolon separates devices. OPENMRC_PATHS in its place: a path file, which is one device. Empty if neither is set.
// Mistakes are reported on stderr, and their device is left out.
std::vector<DeviceDescription> describe_devices();

// The interface that has an address; empty: none lists it.
std::string interface_of(const Address& address);

// Address of the peer's port on a plane. A GID is the address of the peer's first port. Planes that number hosts alike,
// and planes in one network, have the distance between this side's own addresses; other planes their own network and
// the host part of the GID. With a path file, planes number hosts alike.
Address peer_address(const std::vector<PlaneDescription>& planes, std::size_t plane, const Address& first);

}  // namespace openmrc::verbs
