// Builds the datagrams of a burst from header values: encoding and padding. The ICRC is added later, see
// engine/seal.hpp.
#pragma once

#include "engine/qp/context.hpp"
#include "engine/wire/run_headers.hpp"

namespace openmrc {

// Size of a datagram for congestion control: UDP length + 40 (A.3.5).
constexpr std::uint32_t nominal_bytes(std::uint32_t datagram_bytes) { return datagram_bytes + 8 + 40; }

class BurstBuilder {
 public:
  // Opens an empty burst towards `peer` on `port`.
  BurstBuilder(TxBurst& burst, const EngineConfig& config, const Address& destination, std::uint16_t destination_port,
               PortId port, std::uint32_t ev, TrafficClass traffic_class, std::uint32_t qp);

  // Continues a burst.
  explicit BurstBuilder(TxBurst& burst) : burst_(burst) {}

  // Appends one packet; sets the pad count in `packet.bth`.
  void add(wire::Packet& packet, const std::uint8_t* payload, std::uint32_t payload_bytes);
  // Appends one packet whose payload is copied behind its headers, so that later changes of the memory do not matter.
  void add_copied(wire::Packet& packet, const std::uint8_t* payload, std::uint32_t payload_bytes);
  // Appends one data packet.
  void add_data(wire::DataHeaders& headers, const std::uint8_t* payload, std::uint32_t payload_bytes);
  // Appends one ACK.
  void add_ack(wire::AckHeaders& headers);
  // Appends the packet that is `index` behind the first one of a run, which the latest packet belongs to.
  void add_to_run(const wire::RunHeaders& run, std::uint32_t index, const std::uint8_t* payload);

 private:
  TxPacket& open(wire::Bth& bth, const std::uint8_t* payload, std::uint32_t payload_bytes);

  TxBurst& burst_;
};

// Common case: a burst from one QP to its peer.
BurstBuilder burst_to_peer(TxBurst& burst, const QpContext& context, PortId port, std::uint32_t ev,
                           TrafficClass traffic_class);

// BTH of a packet from this QP to its peer.
wire::Bth bth_to_peer(const QpContext& context, wire::Opcode opcode, std::uint32_t psn);

}  // namespace openmrc
