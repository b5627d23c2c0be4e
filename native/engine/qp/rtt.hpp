// Round trip times of one QP: the smoothed value for statistics, and the decaying maximum for loss detection.
#pragma once

#include <algorithm>

#include "engine/base/time.hpp"

namespace openmrc {

class RttEstimator {
 public:
  // `patience`: time that a packet may take before its path counts as dead, regardless of earlier samples.
  void start(TimePs configured, TimePs patience) {
    high_ = configured;
    patience_ = patience;
  }

  void add(TimePs sample) {
    last_ = sample;
    smoothed_ = smoothed_ == 0 ? sample : smoothed_ + (sample - smoothed_) / 8;
    if (!seen_ || sample > high_) {
      high_ = sample;
    } else {
      // One sample in a thousand may come from the slowest of many paths, so the maximum decays slowly.
      high_ -= (high_ - sample) >> 10;
    }
    seen_ = true;
  }

  // A packet was declared lost too early: its path takes this long.
  void add_late(TimePs sample) { high_ = std::max(high_, sample); }

  // A packet was acknowledged this long after its sending, alone or with others. Missing packets are compared with this
  // value: a SACK reports a packet only after its own trigger, so the round trips of triggers alone are too short.
  // Limited, since a silent return path delays reports without any path being slow.
  void add_acknowledged(TimePs sample) { high_ = std::max(high_, std::min(sample, 2 * smoothed_)); }

  TimePs last() const { return last_; }
  TimePs smoothed() const { return smoothed_; }
  TimePs high() const { return high_; }
  // Time after sending at which an overtaken packet counts as lost.
  TimePs loss_delay() const { return high_ + high_ / 4; }
  // The same if there is no other evidence against its path.
  TimePs dead_path_delay() const { return std::max(loss_delay(), patience_); }

 private:
  TimePs last_ = 0;
  TimePs smoothed_ = 0;
  TimePs high_ = 0;
  TimePs patience_ = 0;
  bool seen_ = false;
};

}  // namespace openmrc
