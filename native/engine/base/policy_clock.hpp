// Time for custom policies. Their state is opaque, so the instants in it cannot be moved when the engine's clock is set
// back.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class PolicyClock {
 public:
  // Continues where the engine's clock is set back. Wraps after 213 days; 64-bit differences stay correct.
  std::int64_t policy_time(TimePs now) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(now) + rebased_);
  }
  void rebase(TimePs by) { rebased_ += static_cast<std::uint64_t>(by); }

 private:
  std::uint64_t rebased_ = 0;
};

}  // namespace openmrc
