// The software NIC behind one verbs device: one in a process, shared by all contexts of the device.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "nic/device.hpp"
#include "verbs/api.hpp"
#include "verbs/async_events.hpp"
#include "verbs/connection_values.hpp"
#include "verbs/device_description.hpp"
#include "verbs/drainer.hpp"
#include "verbs/polling.hpp"

namespace openmrc::verbs {

// Programs exchange GID and QP number, no UDP port, and several of them share a host: each process binds the first free
// UDP port, and the upper bits of its QP numbers say which one. The next bit is set where all interfaces have room for
// packets of kPayloadMtuMax, twice the largest path MTU that programs can agree on: RC needs the same size at both ends.
inline constexpr std::uint32_t kSlotShift = 15;
inline constexpr std::uint32_t kWideBit = 1U << 14;
inline constexpr std::uint32_t kQpNumbers = kWideBit;
inline constexpr std::uint32_t kSlots = 1U << (24 - kSlotShift);

inline std::uint16_t udp_port_of(std::uint32_t qp_number) {
  return static_cast<std::uint16_t>(kFirstUdpPort + (qp_number >> kSlotShift));
}

// The largest path MTU of verbs, in bytes, that leaves packets within this payload.
constexpr std::uint32_t path_mtu_at_most(std::uint32_t payload) {
  std::uint32_t path_mtu = 256;
  while (path_mtu < kPayloadMtuMax / 2 && 2 * path_mtu <= payload) path_mtu *= 2;
  return path_mtu;
}

// Payload of full RC packets between two QPs with this path MTU: the same at both ends, which exchange nothing else.
constexpr std::uint32_t full_payload(std::uint32_t path_mtu, std::uint32_t qp_number, std::uint32_t peer_qp_number) {
  const bool wide = path_mtu == kPayloadMtuMax / 2 && (qp_number & peer_qp_number & kWideBit) != 0;
  return wide ? kPayloadMtuMax : path_mtu;
}

ibv_gid gid_of(const Address& address);
// kNone family: neither IPv4-mapped nor a unicast IPv6 address.
Address address_of(const ibv_gid& gid);

class Nic {
 public:
  // Throws nic::NicError.
  explicit Nic(DeviceDescription description);

  nic::Device& device() { return *device_; }
  Polling& polling() { return *polling_; }
  Drainer& drainer() { return drainer_; }
  AsyncEvents& events() { return *events_; }
  // Held by the one thread that sends probes and takes their answers.
  std::mutex& probing() { return probing_; }
  const DeviceDescription& description() const { return description_; }
  ibv_gid gid() const { return gid_of(description_.planes.front().advertise); }
  // Payload of a full packet that the interfaces have room for, before a peer is known.
  std::uint32_t payload_room() const { return payload_room_; }
  std::uint64_t rate_bps() const { return rate_bps_; }
  TimePs base_rtt() const { return description_.base_rtt != 0 ? description_.base_rtt : kBaseRtt; }
  std::uint64_t receive_buffer_bytes() const { return receive_buffer_bytes_; }

  PeerConfig peer(const Address& first, std::uint32_t qp_number) const;
  // Room on the way to a peer. Throws nic::NicError if there is no route.
  std::uint32_t payload_room(const PeerConfig& peer);

  // An even number that no QP of the process has. False: none is left.
  bool draw_qp_number(std::uint32_t& number);
  void free_qp_number(std::uint32_t number);
  DomainId next_domain();

 private:
  void open();
  void measure_interfaces();

  DeviceDescription description_;
  std::unique_ptr<nic::Device> device_;
  std::unique_ptr<Polling> polling_;
  Drainer drainer_;
  AsyncEvents* events_ = nullptr;  // never destroyed: its thread refers to it
  std::uint32_t slot_ = 0;
  std::uint32_t payload_room_ = 0;
  std::uint64_t rate_bps_ = 0;
  std::uint64_t receive_buffer_bytes_ = 0;
  std::mutex mutex_, probing_;
  std::unordered_set<std::uint32_t> numbers_;
  DomainId domains_ = 0;
};

// The NIC of a device, opened at its first use and kept until the process ends. Throws nic::NicError.
std::shared_ptr<Nic> shared_nic(const DeviceDescription& description);

}  // namespace openmrc::verbs
