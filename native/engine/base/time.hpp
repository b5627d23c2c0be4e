// Time and rate units. The engine never reads a clock: every input carries `now`.
#pragma once

#include <cstdint>

namespace openmrc {

// Signed 64-bit picoseconds on the driver's monotonic clock (106 days of range).
using TimePs = std::int64_t;

inline constexpr TimePs kPsPerNs = 1'000;
inline constexpr TimePs kPsPerUs = 1'000'000;
inline constexpr TimePs kPsPerMs = 1'000'000'000;
inline constexpr TimePs kPsPerSecond = 1'000'000'000'000;

// "No timer armed": later than any instant a driver can name.
inline constexpr TimePs kNever = INT64_MAX;

}  // namespace openmrc
