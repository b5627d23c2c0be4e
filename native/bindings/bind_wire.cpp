// openmrc._native.wire: packets as Python objects, for tests and tools. Packets of connections do not pass here.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "engine/base/limits.hpp"
#include "engine/wire/crc32.hpp"
#include "engine/wire/icrc.hpp"
#include "engine/wire/names.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc::bindings {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::span<const std::uint8_t> view(const nb::bytes& bytes) {
  return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

nb::bytes to_bytes(std::span<const std::uint8_t> bytes) { return nb::bytes(bytes.data(), bytes.size()); }

wire::Packet parse(const nb::bytes& datagram, bool trimmed) {
  wire::Packet packet;
  const auto extent = trimmed ? wire::Extent::kTrimmed : wire::Extent::kWhole;
  const wire::ParseError error = wire::parse(view(datagram), extent, packet);
  if (error != wire::ParseError::kNone) throw nb::value_error(wire::name_of(error));
  return packet;
}

nb::bytes encode_headers(const wire::Packet& packet) {
  if (!wire::is_known(packet.bth.opcode)) throw nb::value_error("bth.opcode is not set");
  std::array<std::uint8_t, kHeaderBytesMax> out;
  return to_bytes(std::span(out).first(wire::encode_headers(packet, out)));
}

Address address(const nb::bytes& packed) {
  Address result;
  if (packed.size() != 4 && packed.size() != 16) throw nb::value_error("an address is 4 or 16 bytes");
  result.family = packed.size() == 4 ? AddressFamily::kIpv4 : AddressFamily::kIpv6;
  const auto bytes = view(packed);
  std::copy(bytes.begin(), bytes.end(), result.bytes.begin());
  return result;
}

wire::Flow flow(const nb::bytes& source, const nb::bytes& destination, std::uint16_t source_port,
                std::uint16_t destination_port) {
  if (source.size() != destination.size()) throw nb::value_error("source and destination differ in family");
  return {address(source), address(destination), source_port, destination_port};
}

std::uint32_t icrc(const nb::bytes& source, const nb::bytes& destination, std::uint16_t source_port,
                   std::uint16_t destination_port, const nb::bytes& headers, const nb::bytes& payload,
                   std::uint8_t pad_bytes) {
  if (headers.size() < wire::kBthBytes || headers.size() > kHeaderBytesMax) {
    throw nb::value_error("headers are 12 to 64 bytes");
  }
  if (pad_bytes > 3) throw nb::value_error("pad_bytes is 0 to 3");
  if (headers.size() + payload.size() + pad_bytes + wire::kIcrcBytes > wire::kDatagramBytesMax) {
    throw nb::value_error("a datagram has at most 65535 bytes, its ICRC included");
  }
  return wire::icrc(flow(source, destination, source_port, destination_port), view(headers), view(payload), pad_bytes);
}

bool icrc_matches(const nb::bytes& source, const nb::bytes& destination, std::uint16_t source_port,
                  std::uint16_t destination_port, const nb::bytes& datagram) {
  return wire::icrc_matches(flow(source, destination, source_port, destination_port), view(datagram));
}

std::vector<std::string> crc32_engines() {
  std::array<wire::Crc32Engine, wire::kCrc32EnginesMax> engines;
  const std::size_t count = wire::crc32_engines(engines);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.emplace_back(engines[i].name);
  return names;
}

void bind_enums(nb::module_& m) {
  nb::enum_<wire::Opcode>(m, "Opcode", nb::is_arithmetic())
      .value("RC_SEND_FIRST", wire::Opcode::kRcSendFirst)
      .value("RC_SEND_MIDDLE", wire::Opcode::kRcSendMiddle)
      .value("RC_SEND_LAST", wire::Opcode::kRcSendLast)
      .value("RC_SEND_LAST_IMM", wire::Opcode::kRcSendLastImm)
      .value("RC_SEND_ONLY", wire::Opcode::kRcSendOnly)
      .value("RC_SEND_ONLY_IMM", wire::Opcode::kRcSendOnlyImm)
      .value("RC_WRITE_FIRST", wire::Opcode::kRcWriteFirst)
      .value("RC_WRITE_MIDDLE", wire::Opcode::kRcWriteMiddle)
      .value("RC_WRITE_LAST", wire::Opcode::kRcWriteLast)
      .value("RC_WRITE_LAST_IMM", wire::Opcode::kRcWriteLastImm)
      .value("RC_WRITE_ONLY", wire::Opcode::kRcWriteOnly)
      .value("RC_WRITE_ONLY_IMM", wire::Opcode::kRcWriteOnlyImm)
      .value("RC_READ_REQUEST", wire::Opcode::kRcReadRequest)
      .value("RC_READ_RESPONSE_FIRST", wire::Opcode::kRcReadResponseFirst)
      .value("RC_READ_RESPONSE_MIDDLE", wire::Opcode::kRcReadResponseMiddle)
      .value("RC_READ_RESPONSE_LAST", wire::Opcode::kRcReadResponseLast)
      .value("RC_READ_RESPONSE_ONLY", wire::Opcode::kRcReadResponseOnly)
      .value("RC_ACK", wire::Opcode::kRcAck)
      .value("RC_ATOMIC_ACK", wire::Opcode::kRcAtomicAck)
      .value("RC_COMPARE_SWAP", wire::Opcode::kRcCompareSwap)
      .value("RC_FETCH_ADD", wire::Opcode::kRcFetchAdd)
      .value("WRITE_FIRST", wire::Opcode::kWriteFirst)
      .value("WRITE_MIDDLE", wire::Opcode::kWriteMiddle)
      .value("WRITE_LAST", wire::Opcode::kWriteLast)
      .value("WRITE_LAST_IMM", wire::Opcode::kWriteLastImm)
      .value("WRITE_ONLY", wire::Opcode::kWriteOnly)
      .value("WRITE_ONLY_IMM", wire::Opcode::kWriteOnlyImm)
      .value("ACK", wire::Opcode::kAck)
      .value("ENDPOINT_REQUEST", wire::Opcode::kEndpointRequest)
      .value("ENDPOINT_RESPONSE", wire::Opcode::kEndpointResponse)
      .value("SACK", wire::Opcode::kSack)
      .value("NACK", wire::Opcode::kNack)
      .value("PROBE", wire::Opcode::kProbe);
  nb::enum_<wire::TimestampResolution>(m, "TimestampResolution", nb::is_arithmetic())
      .value("NS_128", wire::TimestampResolution::k128Ns)
      .value("US_1", wire::TimestampResolution::k1Us);
  nb::enum_<wire::SackMark>(m, "SackMark", nb::is_arithmetic())
      .value("NONE", wire::SackMark::kNone)
      .value("SKIP_ONCE", wire::SackMark::kSkipOnce)
      .value("ALWAYS_SKIP", wire::SackMark::kAlwaysSkip);
  nb::enum_<wire::NackReason>(m, "NackReason", nb::is_arithmetic())
      .value("TRIMMED", wire::NackReason::kTrimmed)
      .value("TRIMMED_LASTHOP", wire::NackReason::kTrimmedLastHop)
      .value("NO_BITMAP", wire::NackReason::kNoBitmap)
      .value("NO_PKT_BUFFER", wire::NackReason::kNoPacketBuffer)
      .value("NO_RESOURCE", wire::NackReason::kNoResource)
      .value("PSN_OOR_WINDOW", wire::NackReason::kPsnOutOfWindow)
      .value("UNEXP_EVENT", wire::NackReason::kUnexpectedEvent);
  nb::enum_<wire::EndpointOp>(m, "EndpointOp", nb::is_arithmetic())
      .value("PORT_STATUS_UPDATE", wire::EndpointOp::kPortStatusUpdate)
      .value("EV_PROBE", wire::EndpointOp::kEvProbe)
      .value("KERNEL_CHECK", wire::EndpointOp::kKernelCheck);
  nb::enum_<wire::AethSyndrome>(m, "AethSyndrome", nb::is_arithmetic())
      .value("ACK", wire::AethSyndrome::kAck)
      .value("RNR_NAK", wire::AethSyndrome::kRnrNak)
      .value("NAK_PSN_SEQUENCE", wire::AethSyndrome::kNakPsnSequence)
      .value("NAK_INVALID_REQUEST", wire::AethSyndrome::kNakInvalidRequest)
      .value("NAK_REMOTE_ACCESS", wire::AethSyndrome::kNakRemoteAccess)
      .value("NAK_REMOTE_OPERATIONAL", wire::AethSyndrome::kNakRemoteOperational);
}

void bind_data_headers(nb::module_& m) {
  nb::class_<wire::Bth>(m, "Bth")
      .def(nb::init<>())
      .def_rw("opcode", &wire::Bth::opcode)
      .def_rw("solicited_event", &wire::Bth::solicited_event)
      .def_rw("m", &wire::Bth::m)
      .def_rw("pad_bytes", &wire::Bth::pad_bytes)
      .def_rw("partition_key", &wire::Bth::partition_key)
      .def_rw("destination_qp", &wire::Bth::destination_qp)
      .def_rw("ack_request", &wire::Bth::ack_request)
      .def_rw("rtx", &wire::Bth::rtx)
      .def_rw("ts", &wire::Bth::ts)
      .def_rw("joined", &wire::Bth::joined)
      .def_rw("accepts_joined", &wire::Bth::accepts_joined)
      .def_rw("no_icrc", &wire::Bth::no_icrc)
      .def_rw("psn", &wire::Bth::psn);
  nb::class_<wire::Meth>(m, "Meth")
      .def(nb::init<>())
      .def_rw("rqmsn", &wire::Meth::rqmsn)
      .def_rw("msn", &wire::Meth::msn);
  nb::class_<wire::Tseth>(m, "Tseth")
      .def(nb::init<>())
      .def_rw("timestamp", &wire::Tseth::timestamp)
      .def_rw("resolution", &wire::Tseth::resolution);
  nb::class_<wire::Reth>(m, "Reth")
      .def(nb::init<>())
      .def_rw("virtual_address", &wire::Reth::virtual_address)
      .def_rw("rkey", &wire::Reth::rkey)
      .def_rw("dma_length", &wire::Reth::dma_length);
  nb::class_<wire::ImmDt>(m, "ImmDt").def(nb::init<>()).def_rw("immediate", &wire::ImmDt::immediate);
  nb::class_<wire::Aeth>(m, "Aeth")
      .def(nb::init<>())
      .def_rw("syndrome", &wire::Aeth::syndrome)
      .def_rw("msn", &wire::Aeth::msn)
      .def_rw("rnr_timer", &wire::Aeth::rnr_timer);
  nb::class_<wire::AtomicEth>(m, "AtomicEth")
      .def(nb::init<>())
      .def_rw("virtual_address", &wire::AtomicEth::virtual_address)
      .def_rw("rkey", &wire::AtomicEth::rkey)
      .def_rw("swap_add", &wire::AtomicEth::swap_add)
      .def_rw("compare", &wire::AtomicEth::compare);
  nb::class_<wire::AtomicAckEth>(m, "AtomicAckEth").def(nb::init<>()).def_rw("original", &wire::AtomicAckEth::original);
}

void bind_reliability_headers(nb::module_& m) {
  nb::class_<wire::Seth>(m, "Seth")
      .def(nb::init<>())
      .def_rw("mark", &wire::Seth::mark)
      .def_rw("probe_response", &wire::Seth::probe_response)
      .def_rw("ack_psn_offset", &wire::Seth::ack_psn_offset)
      .def_rw("entropy", &wire::Seth::entropy)
      .def_rw("source_context", &wire::Seth::source_context)
      .def_rw("destination_context", &wire::Seth::destination_context)
      .def_rw("port_status", &wire::Seth::port_status)
      .def_rw("cack_psn", &wire::Seth::cack_psn)
      .def_rw("mpr_units", &wire::Seth::mpr_units)
      .def_rw("sack_offset", &wire::Seth::sack_offset)
      .def_rw("bitmap", &wire::Seth::bitmap);
  nb::class_<wire::CcState>(m, "CcState")
      .def(nb::init<>())
      .def_rw("timestamp", &wire::CcState::timestamp)
      .def_rw("ooo_count", &wire::CcState::ooo_count)
      .def_rw("restore_cwnd", &wire::CcState::restore_cwnd)
      .def_rw("rcv_cwnd_pen", &wire::CcState::rcv_cwnd_pen)
      .def_rw("rcvd_256_bytes", &wire::CcState::rcvd_256_bytes);
  nb::class_<wire::Neth>(m, "Neth")
      .def(nb::init<>())
      .def_rw("reason", &wire::Neth::reason)
      .def_rw("vendor", &wire::Neth::vendor)
      .def_rw("entropy", &wire::Neth::entropy)
      .def_rw("source_context", &wire::Neth::source_context)
      .def_rw("destination_context", &wire::Neth::destination_context)
      .def_rw("nack_psn", &wire::Neth::nack_psn)
      .def_rw("timestamp", &wire::Neth::timestamp);
  nb::class_<wire::Peth>(m, "Peth")
      .def(nb::init<>())
      .def_rw("vendor", &wire::Peth::vendor)
      .def_rw("probe_id", &wire::Peth::probe_id)
      .def_rw("source_context", &wire::Peth::source_context)
      .def_rw("destination_context", &wire::Peth::destination_context)
      .def_rw("timestamp", &wire::Peth::timestamp)
      .def_rw("resolution", &wire::Peth::resolution);
}

void bind_endpoint_headers(nb::module_& m) {
  nb::class_<wire::Erth>(m, "Erth")
      .def(nb::init<>())
      .def_rw("op", &wire::Erth::op)
      .def_rw("udp_port", &wire::Erth::udp_port)
      .def_rw("port_status_mask", &wire::Erth::port_status_mask)
      .def_rw("nonce", &wire::Erth::nonce)
      .def_rw("timestamp", &wire::Erth::timestamp)
      .def_rw("resolution", &wire::Erth::resolution);
  nb::class_<wire::Eeth>(m, "Eeth")
      .def(nb::init<>())
      .def_rw("op", &wire::Eeth::op)
      .def_rw("port_status_mask", &wire::Eeth::port_status_mask)
      .def_rw("entropy", &wire::Eeth::entropy)
      .def_rw("nonce", &wire::Eeth::nonce)
      .def_rw("timestamp", &wire::Eeth::timestamp)
      .def_rw("service_time_removed", &wire::Eeth::service_time_removed)
      .def_rw("marked", &wire::Eeth::marked);
}

void bind_packet(nb::module_& m) {
  nb::class_<wire::Packet>(m, "Packet", "All headers; those that bth.opcode calls for count.")
      .def(nb::init<>())
      .def_rw("bth", &wire::Packet::bth)
      .def_rw("meth", &wire::Packet::meth)
      .def_rw("tseth", &wire::Packet::tseth)
      .def_rw("reth", &wire::Packet::reth)
      .def_rw("immdt", &wire::Packet::immdt)
      .def_rw("seth", &wire::Packet::seth)
      .def_rw("cc_state", &wire::Packet::cc_state)
      .def_rw("neth", &wire::Packet::neth)
      .def_rw("peth", &wire::Packet::peth)
      .def_rw("erth", &wire::Packet::erth)
      .def_rw("eeth", &wire::Packet::eeth)
      .def_rw("aeth", &wire::Packet::aeth)
      .def_rw("atomic", &wire::Packet::atomic)
      .def_rw("atomic_ack", &wire::Packet::atomic_ack)
      .def_ro("header_bytes", &wire::Packet::header_bytes)
      .def_ro("payload_bytes", &wire::Packet::payload_bytes);
}

}  // namespace

void bind_wire(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("wire", "Packets: bytes to values and back, and the ICRC.");
  bind_enums(m);
  bind_data_headers(m);
  bind_reliability_headers(m);
  bind_endpoint_headers(m);
  bind_packet(m);
  m.def("parse", &parse, "datagram"_a, "trimmed"_a = false,
        "Packet of a UDP payload (with ICRC, unless trimmed). ValueError names what is wrong with the bytes.");
  m.def("encode_headers", &encode_headers, "packet"_a, "Header stack of the packet; payload, pad and ICRC follow it.");
  m.def("icrc", &icrc, "source"_a, "destination"_a, "source_port"_a, "destination_port"_a, "headers"_a, "payload"_a,
        "pad_bytes"_a = 0, "ICRC, to be appended least significant byte first. Addresses are packed, 4 or 16 bytes.");
  m.def("icrc_matches", &icrc_matches, "source"_a, "destination"_a, "source_port"_a, "destination_port"_a, "datagram"_a,
        "True when the last four bytes of the UDP payload are the ICRC of the rest.");
  m.def("crc32_engines", &crc32_engines, "Names of the CRC-32 engines this processor runs, the one in use first.");
}

}  // namespace openmrc::bindings
