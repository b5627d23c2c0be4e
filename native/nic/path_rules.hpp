// How a packet's destination address is made from the peer's own address and the EV's selector (EV format SRV6).
//
// A rule serves the peers in its prefix: from its base, which says what all paths to them have in common, by copying
// bits of the selector (which uplinks) and of the peer's address (which T0, which port). So a NIC needs a handful of
// rules, however many peers and paths there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/address.hpp"

namespace openmrc::nic {

// `bits` bits from bit `at` of the source to bit `to` of the destination address. Bit 0 is the top one.
struct PathCopy {
  bool from_peer = false;  // else from the selector, which has 16 bits
  std::uint8_t at = 0, bits = 0, to = 0;
};

struct PathRule {
  Address prefix;
  std::uint8_t prefix_bits = 0;
  Address base;
  std::vector<PathCopy> copies;
};

// The destination address of a packet (C.2.1).
class PathRules {
 public:
  static constexpr std::size_t kCopiesMax = 8;
  static constexpr unsigned kAddressBits = 128, kSelectorBits = 16;

  PathRules() = default;
  // Throws std::invalid_argument: not IPv6, bits outside of what they are copied from or to, more than kCopiesMax
  // copies, the same prefix twice.
  explicit PathRules(const std::vector<PathRule>& rules);

  bool empty() const { return rules_.empty(); }
  // By the most specific rule that knows the peer. False: none does.
  bool destination(const Address& peer, std::uint16_t selector, Address& out) const;

 private:
  __extension__ using Bits = unsigned __int128;  // an address, its first byte on top
  struct Copy {
    bool from_peer = false;
    std::uint8_t right = 0;  // shift that brings the bits to the low end
    std::uint8_t left = 0;   // and from there to where they go
    Bits mask = 0;           // of the bits at the low end
  };
  struct Rule {
    Bits prefix = 0, prefix_mask = 0, base = 0;
    std::vector<Copy> copies;
  };

  static Bits bits_of(const Address& address);
  static Rule compiled(const PathRule& rule);

  std::vector<Rule> rules_;  // most specific first
};

}  // namespace openmrc::nic
