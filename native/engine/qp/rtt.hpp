// Round trip times of one QP: the smoothed value for people, the decaying maximum that loss detection waits for.
#pragma once

#include <algorithm>

#include "engine/base/time.hpp"

namespace openmrc {

class RttEstimator {
 public:
  // `patience`: how long a packet may take before its path counts as dead, whatever has been seen so far.
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
      // One sample in a thousand may come from the slowest of many paths: forget slowly.
      high_ -= (high_ - sample) >> 10;
    }
    seen_ = true;
  }

  // A packet was taken for lost too early: its path is as slow as this.
  void add_late(TimePs sample) { high_ = std::max(high_, sample); }

  // A packet was acknowledged this long after its sending, for itself or among others. What is still missing is compared
  // with that: a SACK tells of a packet only when its own trigger comes, so the round trips of triggers alone are too
  // short. Up to a limit, since a silent return path delays news without any path being slow.
  void add_acknowledged(TimePs sample) { high_ = std::max(high_, std::min(sample, 2 * smoothed_)); }

  TimePs last() const { return last_; }
  TimePs smoothed() const { return smoothed_; }
  TimePs high() const { return high_; }
  // How long after its sending a packet that others have overtaken counts as lost.
  TimePs loss_delay() const { return high_ + high_ / 4; }
  // And how long where nothing else speaks against its path.
  TimePs dead_path_delay() const { return std::max(loss_delay(), patience_); }

 private:
  TimePs last_ = 0;
  TimePs smoothed_ = 0;
  TimePs high_ = 0;
  TimePs patience_ = 0;
  bool seen_ = false;
};

}  // namespace openmrc
