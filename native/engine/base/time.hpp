// Time and rate units. The engine never reads a clock: every input carries `now`.
#pragma once

#include <algorithm>
#include <cstdint>

namespace openmrc {

// Signed 64-bit picoseconds: 106 days of range. A driver that runs for longer rebases its engine's clock.
using TimePs = std::int64_t;

inline constexpr TimePs kPsPerNs = 1'000;
inline constexpr TimePs kPsPerUs = 1'000'000;
inline constexpr TimePs kPsPerMs = 1'000'000'000;
inline constexpr TimePs kPsPerSecond = 1'000'000'000'000;

// "No timer armed": later than any instant that a driver can pass.
inline constexpr TimePs kNever = INT64_MAX;
// "Not yet": ten hours before any instant, longer than any timeout; the span from it to an instant does not overflow.
inline constexpr TimePs kLongAgo = -(TimePs{1} << 55);

// Amount by which the clock may be set back: the period of the 16-bit wire timestamps, for both of their units, times a
// power of two (12.7 days). Timestamps in flight stay valid.
inline constexpr TimePs kClockRebase = (TimePs{1 << 16} * 16 * kPsPerUs) << 20;
inline constexpr TimePs kEngineTimeMax = 2 * kClockRebase;
static_assert(kEngineTimeMax < INT64_MAX / 4, "sums and differences of instants have to fit, too");

// `time` after the clock was set back by `by`. Instants before the new zero become zero; the values that are no
// instants (kNever, and zero or less for "long ago") stay.
constexpr TimePs rebased(TimePs time, TimePs by) {
  return time == kNever || time <= 0 ? time : std::max<TimePs>(time - by, 0);
}

}  // namespace openmrc
