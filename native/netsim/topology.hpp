// One plane of a two-tier Clos, by arithmetic: who hangs where, and which link comes next.
//
// Links are directed. Of one plane, in this order: host h up to its T0, T0 down to host h, T0 i up to T1 j, T1 j down to
// T0 i. The EV decides the T1; traffic between hosts of one T0 turns there.
#pragma once

#include <cstdint>

#include "engine/base/assert.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

enum class LinkKind : std::uint8_t { kNicUp = 0, kNicDown = 1, kT0Up = 2, kT1Down = 3 };
inline constexpr int kLinkKinds = 4;

// How an EV becomes a T1: structured fabrics use ev modulo T1s, so that a host can name its path; ECMP hashes.
enum class EvMapping : std::uint8_t { kModulo = 0, kHash = 1 };

struct ClosShape {
  std::uint32_t planes = 1;
  std::uint32_t hosts = 2;
  std::uint32_t hosts_per_t0 = 1;
  std::uint32_t t1s = 1;  // per plane
  EvMapping ev_mapping = EvMapping::kModulo;

  std::uint32_t t0s() const { return (hosts + hosts_per_t0 - 1) / hosts_per_t0; }
  std::uint32_t t0_of(std::uint32_t host) const { return host / hosts_per_t0; }
  std::uint32_t links_per_plane() const { return 2 * hosts + 2 * t0s() * t1s; }

  LinkId nic_up(std::uint32_t host) const { return host; }
  LinkId nic_down(std::uint32_t host) const { return hosts + host; }
  LinkId t0_up(std::uint32_t t0, std::uint32_t t1) const { return 2 * hosts + t0 * t1s + t1; }
  LinkId t1_down(std::uint32_t t1, std::uint32_t t0) const { return 2 * hosts + t0s() * t1s + t1 * t0s() + t0; }

  LinkKind kind_of(LinkId link) const {
    if (link < hosts) return LinkKind::kNicUp;
    if (link < 2 * hosts) return LinkKind::kNicDown;
    if (link < 2 * hosts + t0s() * t1s) return LinkKind::kT0Up;
    return LinkKind::kT1Down;
  }
};

// The two ends of a link, in the words of the fault language; kAnywhere where the word does not apply.
inline constexpr std::uint32_t kAnywhere = ~std::uint32_t{0};

struct LinkEnds {
  LinkKind kind{};
  std::uint32_t host = kAnywhere;
  std::uint32_t t0 = kAnywhere;
  std::uint32_t t1 = kAnywhere;
};

LinkEnds ends_of(const ClosShape& shape, LinkId link);

std::uint32_t t1_of_ev(const ClosShape& shape, const Packet& packet);

// The link after `packet.link`; kDelivered when that one ends at a host.
inline constexpr LinkId kDelivered = ~LinkId{0};
inline constexpr LinkId kEntering = kDelivered - 1;  // not on any link yet
LinkId next_link(const ClosShape& shape, const Packet& packet);

}  // namespace openmrc::netsim
