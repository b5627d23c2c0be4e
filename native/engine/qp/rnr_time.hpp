// Times that the timer field of an RNR NAK stands for (IB spec 9.7.5.2.8).
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

inline constexpr std::uint8_t kRnrRetriesForEver = 7;
inline constexpr std::uint8_t kRnrTimerMax = 31;

constexpr TimePs rnr_time(std::uint8_t code) {
  constexpr std::array<std::int64_t, 32> kTensOfUs = {
      65'536, 1,   2,   3,   4,     6,     8,     12,    16,    24,    32,    48,     64,     96,     128,    192,
      256,    384, 512, 768, 1'024, 1'536, 2'048, 3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768, 49'152};
  return kTensOfUs[code & 0x1F] * 10 * kPsPerUs;
}

}  // namespace openmrc
