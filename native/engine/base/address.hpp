// IP addresses in the form that enters the ICRC and identifies a peer's port.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace openmrc {

enum class AddressFamily : std::uint8_t { kNone = 0, kIpv4 = 4, kIpv6 = 6 };

// IPv4 addresses occupy the first four bytes; the rest stays zero.
struct Address {
  std::array<std::uint8_t, 16> bytes{};
  AddressFamily family = AddressFamily::kNone;

  friend bool operator==(const Address& a, const Address& b) {
    using Words = std::array<std::uint64_t, 2>;  // in registers, not by a call of memcmp
    return std::bit_cast<Words>(a.bytes) == std::bit_cast<Words>(b.bytes) && a.family == b.family;
  }
};

using PortId = std::uint8_t;     // 0-based port (= plane) of a NIC
using PortMask = std::uint32_t;  // bit p stands for port p

}  // namespace openmrc
