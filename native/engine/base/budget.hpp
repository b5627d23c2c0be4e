// A token bucket in one word: a burst of grants, then one per interval.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class Budget {
 public:
  // True if another grant is within the limit. Interval 0: no limit.
  bool has(TimePs now, TimePs interval, std::uint32_t burst) const {
    return interval == 0 || empty_until_ - now <= interval * (TimePs{burst} - 1);
  }
  void rebase(TimePs by) { empty_until_ = rebased(empty_until_, by); }
  void take(TimePs now, TimePs interval) { empty_until_ = std::max(empty_until_, now) + interval; }

 private:
  TimePs empty_until_ = 0;  // instant at which all grants so far are paid back
};

}  // namespace openmrc
