// Computation of a packet's destination address from the peer's own address and the EV's selector (EV format SRV6).
//
// A rule serves the peers in its prefix: it takes its base, the common part of all paths to them, and copies bits of
// the selector (the uplinks) and of the peer's address (the T0 and the port) into it. A NIC thus needs a handful of
// rules, for any number of peers and paths.
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
  // Throws std::invalid_argument for an address that is not IPv6, bits outside their source or destination, more than
  // kCopiesMax copies, or a repeated prefix.
  explicit PathRules(const std::vector<PathRule>& rules);

  bool empty() const { return rules_.empty(); }
  // Applies the most specific rule for the peer. False: no rule covers it.
  bool destination(const Address& peer, std::uint16_t selector, Address& out) const;

 private:
  __extension__ using Bits = unsigned __int128;  // an address, its first byte on top
  struct Copy {
    bool from_peer = false;
    std::uint8_t right = 0;  // shift that brings the bits to the low end
    std::uint8_t left = 0;   // shift from there to the destination
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
