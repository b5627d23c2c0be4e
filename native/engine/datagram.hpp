// Datagrams between driver and engine: received ones, and bursts of packets to send.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"
#include "engine/base/traffic.hpp"
#include "engine/wire/ev.hpp"

namespace openmrc {

struct RxDatagram {
  PortId port = 0;
  Address source;
  wire::EvFields fields;  // source port and flow label as received
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
  std::span<const std::uint8_t> bytes;
  std::uint32_t phantom_bytes = 0;  // payload not carried (simulator); needs icrc = false
  TimePs waited = 0;                // from its arrival at the port until now, where the driver knows
  bool checked = false;             // the driver found the ICRC right, or none announced
};

// One datagram to send: gather headers, payload, trailer.
struct TxPacket {
  // Ends with the trailer of the previous packet of the burst, directly before the headers: a driver that sends the
  // burst in one piece gathers both as one.
  std::array<std::uint8_t, kTrailerBytesMax> seam;
  std::array<std::uint8_t, kHeaderBytesMax> headers;
  const std::uint8_t* payload;  // in registered memory; nullptr when the region is phantom
  std::uint16_t header_bytes;
  std::uint16_t payload_bytes;
  std::uint8_t trailer_bytes;  // pad + ICRC
  std::array<std::uint8_t, kTrailerBytesMax> trailer;

  std::uint32_t datagram_bytes() const { return std::uint32_t{header_bytes} + payload_bytes + trailer_bytes; }
};

static_assert(offsetof(TxPacket, headers) == kTrailerBytesMax);

// Packets of one QP for one EV. All have the size of the first, only the last may be shorter (UDP_SEGMENT).
struct TxBurst {
  PortId port = 0;
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
  Address destination;
  std::uint16_t destination_port = 0;
  std::uint32_t ev = 0;
  wire::EvFields fields;
  std::uint32_t qp = 0;  // 0: endpoint operation
  std::uint32_t count = 0;
  bool has_icrc = true;  // false: both ends agreed on zeros instead (X.4.10)
  bool joined = false;   // its two packets form one datagram (X.4.9); only with Outgoing::kDataWithAcks
  std::array<TxPacket, kBurstPacketsMax> packets;
};

// Kinds of packets that a driver requests.
enum class Outgoing : std::uint8_t {
  kEverything,    // control first, then retransmissions and data of the QPs in turn
  kDataOnly,      // acknowledgements wait, and merge, until the driver requests everything
  kDataWithAcks,  // the same, but an ACK that is due follows a lone small packet of its QP in one burst, or datagram
};

}  // namespace openmrc
