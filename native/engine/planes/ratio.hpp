// Products of sizes, rates and times that exceed 64 bits before their division.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

__extension__ using Int128 = __int128;

constexpr std::int64_t scaled(std::int64_t value, std::int64_t numerator, std::int64_t denominator) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(value, numerator, &product)) return product / denominator;  // without a library call
  return static_cast<std::int64_t>(Int128{value} * numerator / denominator);
}

// Rates are in bytes per second.
constexpr std::int64_t bytes_in(std::int64_t rate, TimePs time) { return scaled(rate, time, kPsPerSecond); }
constexpr TimePs time_for(std::int64_t bytes, std::int64_t rate) { return scaled(bytes, kPsPerSecond, rate); }
constexpr std::int64_t rate_of(std::int64_t bytes, TimePs time) { return scaled(bytes, kPsPerSecond, time); }

inline constexpr std::int64_t kPpm = 1'000'000;

}  // namespace openmrc
