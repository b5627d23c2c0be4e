// The one clock of the live driver.
#pragma once

#include <ctime>

#include "engine/base/time.hpp"

namespace openmrc::nic {

inline TimePs now_ps() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimePs>(now.tv_sec) * kPsPerSecond + static_cast<TimePs>(now.tv_nsec) * kPsPerNs;
}

}  // namespace openmrc::nic
