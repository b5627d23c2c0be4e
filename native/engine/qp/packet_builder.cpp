#include "engine/qp/packet_builder.hpp"

#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc {

BurstBuilder::BurstBuilder(TxBurst& burst, const EngineConfig& config, const Address& destination,
                           std::uint16_t destination_port, PortId port, std::uint32_t ev, TrafficClass traffic_class,
                           std::uint32_t qp)
    : burst_(burst) {
  burst.port = port;
  burst.traffic_class = traffic_class;
  // Control packets are not ECN capable (A.4.3): a mark on them would carry no information about a data path.
  burst.ecn = traffic_class == TrafficClass::kControl ? Ecn::kNotEct : Ecn::kEct0;
  burst.destination = destination;
  burst.destination_port = destination_port;
  burst.ev = ev;
  burst.fields = wire::fields_of_ev(ev, config.ev_format);
  burst.qp = qp;
  burst.count = 0;
  burst.has_icrc = true;
  burst.joined = false;
}

TxPacket& BurstBuilder::open(wire::Bth& bth, const std::uint8_t* payload, std::uint32_t payload_bytes) {
  MRC_ASSERT(burst_.count < kBurstPacketsMax);
  TxPacket& out = burst_.packets[burst_.count++];
  bth.pad_bytes = static_cast<std::uint8_t>((4 - payload_bytes % 4) % 4);
  out.payload = payload;
  out.payload_bytes = static_cast<std::uint16_t>(payload_bytes);
  out.trailer_bytes = static_cast<std::uint8_t>(bth.pad_bytes + wire::kIcrcBytes);
  out.trailer.fill(0);
  return out;
}

void BurstBuilder::add(wire::Packet& packet, const std::uint8_t* payload, std::uint32_t payload_bytes) {
  TxPacket& out = open(packet.bth, payload, payload_bytes);
  out.header_bytes = static_cast<std::uint16_t>(wire::encode_headers(packet, out.headers));
}

void BurstBuilder::add_copied(wire::Packet& packet, const std::uint8_t* payload, std::uint32_t payload_bytes) {
  TxPacket& out = open(packet.bth, nullptr, payload_bytes);
  const std::size_t headers = wire::encode_headers(packet, out.headers);
  MRC_ASSERT(headers + payload_bytes <= out.headers.size());
  std::memcpy(out.headers.data() + headers, payload, payload_bytes);
  out.header_bytes = static_cast<std::uint16_t>(headers + payload_bytes);
  out.payload_bytes = 0;
}

void BurstBuilder::add_data(wire::DataHeaders& headers, const std::uint8_t* payload, std::uint32_t payload_bytes) {
  TxPacket& out = open(headers.bth, payload, payload_bytes);
  out.header_bytes = static_cast<std::uint16_t>(wire::encode_data_headers(headers, out.headers));
}

void BurstBuilder::add_ack(wire::AckHeaders& headers) {
  TxPacket& out = open(headers.bth, nullptr, 0);
  out.header_bytes = static_cast<std::uint16_t>(wire::encode_ack_headers(headers, out.headers));
}

void BurstBuilder::add_to_run(const wire::RunHeaders& run, std::uint32_t index, const std::uint8_t* payload) {
  MRC_ASSERT(burst_.count > 0 && burst_.count < kBurstPacketsMax);
  const TxPacket& before = burst_.packets[burst_.count - 1];
  TxPacket& out = burst_.packets[burst_.count++];
  out.payload = payload;
  out.header_bytes = before.header_bytes;
  out.payload_bytes = before.payload_bytes;
  out.trailer_bytes = before.trailer_bytes;
  out.trailer.fill(0);
  run.write(index, out.headers.data());
}

BurstBuilder burst_to_peer(TxBurst& burst, const QpContext& context, PortId port, std::uint32_t ev,
                           TrafficClass traffic_class) {
  BurstBuilder builder(burst, context.services.config, context.peer->ports[port], context.peer->udp_port, port, ev,
                       traffic_class, context.qpn);
  burst.has_icrc = !context.omits_icrc;
  return builder;
}

wire::Bth bth_to_peer(const QpContext& context, wire::Opcode opcode, std::uint32_t psn) {
  wire::Bth bth;
  bth.opcode = opcode;
  bth.partition_key = context.services.config.partition_key;
  bth.destination_qp = context.destination_qp;
  bth.psn = psn;
  bth.no_icrc = context.omits_icrc;
  return bth;
}

}  // namespace openmrc
