// A token bucket in one word: so many grants at once, then one an interval.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class Budget {
 public:
  // Whether one more is within the limit. Interval 0: there is none.
  bool has(TimePs now, TimePs interval, std::uint32_t burst) const {
    return interval == 0 || empty_until_ - now <= interval * (TimePs{burst} - 1);
  }
  void rebase(TimePs by) { empty_until_ = rebased(empty_until_, by); }
  void take(TimePs now, TimePs interval) { empty_until_ = std::max(empty_until_, now) + interval; }

 private:
  TimePs empty_until_ = 0;  // when all that was granted will have been paid back
};

}  // namespace openmrc
