// RoCEv2's invariant CRC: CRC-32 (Ethernet polynomial) over a masked pseudo header, the IP and UDP headers with their
// variant fields masked, the BTH with its reserved byte masked, and everything after it (IB spec annex A17).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/address.hpp"

namespace openmrc::wire {

// The invariant fields of the IP and UDP headers, as known to both ends. IPv4 identification counts as 0 with "don't
// fragment" set, as an unconnected UDP socket with IP_PMTUDISC_DO sends it; IPv6 has no extension headers.
struct Flow {
  Address source;
  Address destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// ICRCs of successive packets. The pseudo header up to the IP header is the same for all packets between two addresses
// that have the same length, whatever their entropy, so the register after it is cached; for two lengths, since short
// data and its ACK alternate.
class FlowIcrc {
 public:
  FlowIcrc() = default;
  explicit FlowIcrc(const Flow& flow) : flow_(flow) {}

  // Field by field: a comparison with a newly built value would have to wait until that value leaves the processor's
  // store buffer, which on receive is full of the previous payload.
  void set_flow(const Address& source, const Address& destination, std::uint16_t source_port,
                std::uint16_t destination_port) {
    flow_.source_port = source_port;
    flow_.destination_port = destination_port;
    if (source == flow_.source && destination == flow_.destination) return;
    flow_.source = source;
    flow_.destination = destination;
    prefixes_ = {};
  }
  std::uint32_t operator()(std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                           std::uint8_t pad_bytes);
  bool matches(std::span<const std::uint8_t> datagram);

 private:
  struct Prefix {
    std::size_t datagram_bytes = 0;  // 0: none
    std::uint32_t state = 0;         // register after the IP header
  };
  std::uint32_t prefix(std::size_t datagram_bytes);
  // Register after the BTH.
  std::uint32_t after_bth(std::span<const std::uint8_t> headers, std::size_t datagram_bytes);

  Flow flow_;
  std::array<Prefix, 2> prefixes_;
  std::size_t replaced_ = 0;  // latest one computed
};

// CRC of the datagram `headers | payload | pad`, to be appended least significant byte first. The total is at most
// kDatagramBytesMax bytes, CRC included.
std::uint32_t icrc(const Flow& flow, std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                   std::uint8_t pad_bytes);

// True when the last four bytes of `datagram` (the UDP payload) are the ICRC of the rest.
bool icrc_matches(const Flow& flow, std::span<const std::uint8_t> datagram);

}  // namespace openmrc::wire
