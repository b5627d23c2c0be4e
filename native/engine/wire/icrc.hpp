// RoCEv2's invariant CRC: CRC-32 (Ethernet polynomial) over a masked pseudo header, the IP and UDP headers with their
// variant fields masked, the BTH with its reserved byte masked, and everything after it (IB spec annex A17).
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/address.hpp"

namespace openmrc::wire {

// The invariant fields of the IP and UDP headers, as the two ends know them. IPv4 identification counts as 0 with
// "don't fragment" set, which is what an unconnected UDP socket with IP_PMTUDISC_DO sends; IPv6 has no extension
// headers.
struct Flow {
  Address source;
  Address destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// CRC of the datagram `headers | payload | pad`, to be appended least significant byte first.
std::uint32_t icrc(const Flow& flow, std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                   std::uint8_t pad_bytes);

// True when the last four bytes of `datagram` (the UDP payload) are the ICRC of the rest.
bool icrc_matches(const Flow& flow, std::span<const std::uint8_t> datagram);

}  // namespace openmrc::wire
