// Position of an entropy value (EV) in a datagram; no other file depends on it (A.3.6, F.2).
#pragma once

#include <cstdint>

#include "engine/generated/enums.hpp"

namespace openmrc::wire {

using EvFormat = EvFormatMode;

struct EvFields {
  std::uint16_t source_port = 0;
  std::uint16_t flow_label = 0;  // low 16 of the 20 bits; 0 with IPv4

  friend bool operator==(const EvFields&, const EvFields&) = default;
};

// EV -> fields: low half is the source port, high half the flow label (Known conflicts, "32-bit EV layout").
constexpr EvFields fields_of_ev(std::uint32_t ev, EvFormat format) {
  EvFields fields{static_cast<std::uint16_t>(ev & 0xFFFFU), 0};
  if (format != EvFormat::kUdp) fields.flow_label = static_cast<std::uint16_t>(ev >> 16);
  return fields;
}

// Fields -> EV, missing bits zero.
constexpr std::uint32_t ev_of_fields(EvFields fields, EvFormat format) {
  const std::uint32_t low = fields.source_port;
  if (format == EvFormat::kUdp) return low;
  return low | (static_cast<std::uint32_t>(fields.flow_label) << 16);
}

}  // namespace openmrc::wire
