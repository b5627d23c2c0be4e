// Tells from drains if one sender or two fill a plane: the queue of many others stays while one drains its part.
#pragma once

#include <algorithm>
#include <utility>

#include "engine/base/time.hpp"

namespace openmrc {

class FewSenders {
 public:
  // A drain begins with this queue.
  void begin(TimePs queue) {
    queue_ = queue;
    least_ = kNever;
    draining_ = true;
    drained_ = false;
  }
  // Call at the end of each epoch, with its least queue.
  void end_epoch(TimePs least, bool draining) {
    if (!draining_) return;
    least_ = std::min(least_, least);
    if (draining || !std::exchange(drained_, true)) return;
    draining_ = false;
    if (least_ != kNever) few_ = least_ < std::max(kShort, queue_ / 8 * 5);
  }
  // According to the latest drain.
  bool few() const { return few_; }

 private:
  static constexpr TimePs kShort = 300 * kPsPerUs;  // a queue that no other sender keeps

  TimePs queue_ = 0, least_ = kNever;
  bool draining_ = false, few_ = false;
  bool drained_ = false;  // the drain has ended; its last samples come in the next epoch
};

}  // namespace openmrc
