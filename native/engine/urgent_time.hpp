// The time in which data of ordinary QPs waits, as urgent QPs are at work (X.9).
//
// An urgent operation is a few short messages, each sent after the arrival of the previous one. Beside a stream each waits in
// the queues that the stream fills, and for the processors that it uses. While the stream pauses, both are free. The time of
// pauses is bounded by a budget, which grows while the stream flows.
#pragma once

#include <algorithm>

#include "engine/base/time.hpp"

namespace openmrc {

class UrgentTime {
 public:
  // An urgent QP has sent or received data, while ordinary data waits to be sent.
  void note(TimePs now) {
    account(now);
    if (saved_ < kQuiet) resting_ = true;
    if (resting_ && saved_ < kResume) return;
    resting_ = false;
    end_ = now + kQuiet;
  }
  bool holds(TimePs now) const { return now < end_; }
  TimePs end() const { return end_; }
  void rebase(TimePs by) {
    for (TimePs* time : {&accounted_, &end_}) *time = rebased(*time, by);
  }

 private:
  // After the latest packet: the peer needs a moment for its answer.
  static constexpr TimePs kQuiet = 4 * kPsPerMs;
  static constexpr TimePs kSavedMax = 40 * kPsPerMs;
  static constexpr TimePs kResume = kSavedMax / 2;
  static constexpr TimePs kSavedPerFree = 4;  // data flows for a fifth of the time at least (X.9.2)

  void account(TimePs now) {
    const TimePs held = std::clamp<TimePs>(end_ - accounted_, 0, now - accounted_);
    const TimePs free = now - accounted_ - held;
    const TimePs earned = kSavedPerFree * std::min(free, kSavedMax);
    saved_ = std::clamp<TimePs>(saved_ - held + earned, 0, kSavedMax);
    accounted_ = now;
  }

  TimePs accounted_ = 0;
  TimePs saved_ = kSavedMax;
  TimePs end_ = 0;
  bool resting_ = false;  // until enough is saved again for some messages
};

}  // namespace openmrc
