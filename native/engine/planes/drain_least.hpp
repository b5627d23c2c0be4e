// Least queue of a drain, and of the epoch after it, in which its last samples come.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/time.hpp"

namespace openmrc {

class DrainLeast {
 public:
  void begin() {
    running_ = true;
    drained_ = false;
    least_ = kNever;
  }
  void clear() { running_ = false; }
  bool running() const { return running_; }
  // Call at the end of each epoch, with its least queue. The result, once; kNever: there were no samples.
  std::optional<TimePs> end_epoch(TimePs least, bool draining) {
    if (!running_) return {};
    least_ = std::min(least_, least);
    if (draining || !std::exchange(drained_, true)) return {};
    running_ = false;
    return least_;
  }

 private:
  bool running_ = false;
  bool drained_ = false;
  TimePs least_ = kNever;
};

}  // namespace openmrc
