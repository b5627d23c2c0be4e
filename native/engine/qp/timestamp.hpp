// The 16-bit transmit timestamps of TSETH, PETH and ERTH (A.3.4).
#pragma once

#include <algorithm>

#include "engine/base/time.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc {

constexpr TimePs timestamp_unit(wire::TimestampResolution resolution) {
  return resolution == wire::TimestampResolution::k128Ns ? 128 * kPsPerNs : kPsPerUs;
}

// Period after which a timestamp repeats.
constexpr TimePs timestamp_range(wire::TimestampResolution resolution) {
  return (TimePs{UINT16_MAX} + 1) * timestamp_unit(resolution);
}

constexpr std::uint16_t timestamp_at(TimePs now, wire::TimestampResolution resolution) {
  return static_cast<std::uint16_t>(now / timestamp_unit(resolution));
}

// X.4.7. The latest round trip of at most `elapsed` whose remainder modulo `range` is `echoed`.
constexpr TimePs latest_round_trip(TimePs elapsed, TimePs echoed, TimePs range) {
  const TimePs rounding = 2 * kPsPerUs;  // both timestamps are cut off
  return echoed + std::max<TimePs>(elapsed + rounding - echoed, 0) / range * range;
}

// Width of transit times in SACKs.
inline constexpr std::uint16_t kTransitMask = 0x7FFF;
constexpr TimePs transit_range(wire::TimestampResolution resolution) {
  return (TimePs{kTransitMask} + 1) * timestamp_unit(resolution);
}

}  // namespace openmrc
