// Mean window of a stream between two pauses.
//
// At the end of its work a stream may have a path alone that it shares again after the pause. Streams that begin again
// together would overfill the path with the windows that each had while the others paused.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class UsualWindow {
 public:
  // Counts the window of an epoch.
  void add(std::int64_t window) {
    sum_ += window;
    ++epochs_;
  }
  // Notes that data is sent. True if this ends a pause of more than a round trip.
  bool ends_pause(TimePs now, bool nothing_in_flight, TimePs round) {
    const bool ends = nothing_in_flight && now - sent_ > round;
    sent_ = now;
    return ends;
  }
  // `window`, or the mean since the last call if that is smaller and has enough epochs.
  std::int64_t bound(std::int64_t window) {
    if (epochs_ < kEpochsMin) return window;
    const std::int64_t mean = sum_ / epochs_;
    forget();
    return std::min(window, mean);
  }
  // After a change of the path.
  void forget() { sum_ = epochs_ = 0; }
  void rebase(TimePs by) { sent_ = rebased(sent_, by); }

 private:
  static constexpr std::int64_t kEpochsMin = 5;

  std::int64_t sum_ = 0, epochs_ = 0;
  TimePs sent_ = 0;  // latest packet
};

}  // namespace openmrc
