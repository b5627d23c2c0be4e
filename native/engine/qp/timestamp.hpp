// The 16-bit transmit timestamps of TSETH, PETH and ERTH.
#pragma once

#include "engine/base/time.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc {

constexpr TimePs timestamp_unit(wire::TimestampResolution resolution) {
  return resolution == wire::TimestampResolution::k128Ns ? 128 * kPsPerNs : kPsPerUs;
}

// After this long a timestamp repeats.
constexpr TimePs timestamp_range(wire::TimestampResolution resolution) {
  return (TimePs{UINT16_MAX} + 1) * timestamp_unit(resolution);
}

constexpr std::uint16_t timestamp_at(TimePs now, wire::TimestampResolution resolution) {
  return static_cast<std::uint16_t>(now / timestamp_unit(resolution));
}

// Transit times of SACKs have a bit less.
inline constexpr std::uint16_t kTransitMask = 0x7FFF;
constexpr TimePs transit_range(wire::TimestampResolution resolution) {
  return (TimePs{kTransitMask} + 1) * timestamp_unit(resolution);
}

}  // namespace openmrc
