// Time as custom policies see it: their state is opaque, so it cannot be moved when the engine's clock is set back.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class PolicyClock {
 public:
  // Goes on where the engine's clock goes back. Wraps after 213 days, so that differences of 64 bits stay right.
  std::int64_t policy_time(TimePs now) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(now) + rebased_);
  }
  void rebase(TimePs by) { rebased_ += static_cast<std::uint64_t>(by); }

 private:
  std::uint64_t rebased_ = 0;
};

}  // namespace openmrc
