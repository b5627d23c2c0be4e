// PSNs and MSNs are 24 (or 16) bits on the wire and 64 bits inside, so that only the conversion deals with wrap-around
// (A.8.5).
#pragma once

#include <cstdint>

#include "engine/base/limits.hpp"

namespace openmrc {

using Psn = std::uint64_t;

// Far enough above zero that arithmetic below the first PSN stays positive.
inline constexpr Psn kPsnOrigin = 1ULL << 32;

constexpr Psn first_psn(std::uint32_t wire_psn) { return kPsnOrigin + (wire_psn & (kPsnSpace - 1)); }
constexpr std::uint32_t wire_psn(Psn psn) { return static_cast<std::uint32_t>(psn & (kPsnSpace - 1)); }

// The value closest to `reference` whose low 24 bits are `wire`.
constexpr std::uint64_t extend24(std::uint32_t wire, std::uint64_t reference) {
  const std::uint32_t difference = (wire - static_cast<std::uint32_t>(reference)) & (kPsnSpace - 1);
  const std::int64_t step =
      difference < kPsnSpace / 2 ? std::int64_t{difference} : std::int64_t{difference} - std::int64_t{kPsnSpace};
  return reference + static_cast<std::uint64_t>(step);
}

}  // namespace openmrc
