// Square roots of integers.
#pragma once

#include <cstdint>

namespace openmrc {

// Rounded down, for values from 0 on.
constexpr std::int64_t square_root(std::int64_t value) {
  std::int64_t root = 0;
  for (std::int64_t bit = std::int64_t{1} << 31; bit > 0; bit >>= 1) {
    if (root + bit <= value / (root + bit)) root += bit;
  }
  return root;
}

}  // namespace openmrc
