// Threads of an executor that may sleep until something arrives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace openmrc::collectives {

enum class Sleeper : std::uint8_t {
  kWaiter = 0,  // one that waits for an operation
  kThread = 1,  // the executor's own
};
inline constexpr std::size_t kSleepers = 2;

}  // namespace openmrc::collectives
