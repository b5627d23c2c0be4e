// Infers from drains if one sender or two fill a plane: the queue of many others stays while one drains its part.
#pragma once

#include <algorithm>
#include <optional>

#include "engine/base/time.hpp"
#include "engine/planes/drain_least.hpp"

namespace openmrc {

class FewSenders {
 public:
  // A drain begins with this queue.
  void begin(TimePs queue) {
    queue_ = queue;
    drain_.begin();
  }
  // Call at the end of each epoch, with its least queue.
  void end_epoch(TimePs least, bool draining) {
    const std::optional<TimePs> left = drain_.end_epoch(least, draining);
    if (left && *left != kNever) few_ = *left < std::max(kShort, queue_ / 8 * 5);
  }
  // According to the latest drain.
  bool few() const { return few_; }

 private:
  static constexpr TimePs kShort = 300 * kPsPerUs;  // a queue that no other sender keeps

  DrainLeast drain_;
  TimePs queue_ = 0;
  bool few_ = false;
};

}  // namespace openmrc
