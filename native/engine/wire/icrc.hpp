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

// ICRCs of one flow after the other. The pseudo header is the same for all datagrams of a flow that have the same length, as
// those of a burst do: the register behind it is kept.
class FlowIcrc {
 public:
  FlowIcrc() = default;
  explicit FlowIcrc(const Flow& flow) : flow_(flow) {}

  // By field: a value just put together would have to leave the processor's store buffer before it could be compared, and
  // on receive that is full of the payload before.
  void set_flow(const Address& source, const Address& destination, std::uint16_t source_port,
                std::uint16_t destination_port) {
    if (source_port == flow_.source_port && destination_port == flow_.destination_port && source == flow_.source &&
        destination == flow_.destination)
      return;
    flow_ = {source, destination, source_port, destination_port};
    datagram_bytes_ = 0;
  }
  std::uint32_t operator()(std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                           std::uint8_t pad_bytes);
  bool matches(std::span<const std::uint8_t> datagram);

 private:
  // The register behind the BTH.
  std::uint32_t after_bth(std::span<const std::uint8_t> headers, std::size_t datagram_bytes);

  Flow flow_;
  std::size_t datagram_bytes_ = 0;  // that `prefix_` is for; 0: none
  std::uint32_t prefix_ = 0;
};

// CRC of the datagram `headers | payload | pad`, to be appended least significant byte first. At most kDatagramBytesMax bytes
// with it.
std::uint32_t icrc(const Flow& flow, std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                   std::uint8_t pad_bytes);

// True when the last four bytes of `datagram` (the UDP payload) are the ICRC of the rest.
bool icrc_matches(const Flow& flow, std::span<const std::uint8_t> datagram);

}  // namespace openmrc::wire
