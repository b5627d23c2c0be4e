// The devices of openmrc's libibverbs, opened once and kept.
#pragma once

#include <cstdint>
#include <vector>

#include "rdmacm/api.hpp"
#include "rdmacm/message.hpp"
#include "rdmacm/socket_address.hpp"

namespace openmrc::rdmacm {

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;  // of QPs whose program names none
  ibv_gid gid{};
  std::uint8_t planes = 0;
  std::uint8_t reads_max = 0;  // READs and atomics in flight on one QP
  QpKind kind = QpKind::kPair;
  bool published = false;
  bool by_file = false;  // all addresses of the host lead to it: a fabric of SRv6 paths may carry no TCP
  std::vector<SocketAddress> addresses;  // of its planes
};

const std::vector<Device>& devices();
// Around fork(): the child must not wait for a thread of its parent that opens them.
void lock_devices();
void unlock_devices();

// The device that an own address belongs to: one with a plane of this address, or else with a plane on the same
// interface. Loopback addresses belong to the first device if none has a plane there. nullptr: none.
const Device* device_at(const SocketAddress& address);

// False for addresses that an identifier may be bound to without a device: wildcards, and loopback addresses that no
// plane has, as the kernel's manager has it. libfabric binds to localhost, and then lists the devices.
bool names_a_device(const SocketAddress& address);

// Of its port. 0: unknown.
std::uint8_t mtu_of(const Device& device);

}  // namespace openmrc::rdmacm
