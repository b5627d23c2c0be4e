// How many I/O threads of a device are at work. One, while it keeps up: each further one costs wake-ups, and batches become
// smaller. A thread that is busy all the time gets help from the next one where processors are free.
//
// Processors are taken to be free while the busy threads get processor time whenever they are awake: a thread that has to
// wait for its processor, or for a lock, gains nothing by another thread beside it.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/limits.hpp"
#include "nic/clock.hpp"

namespace openmrc::nic {

class IoScaling {
 public:
  static constexpr TimeNs kWindow = 10 * kNsPerMs;  // that a thread's load is measured over

  // Some milliseconds of one thread.
  struct Load {
    TimeNs span = 0;
    TimeNs awake = 0;  // of these: not asleep
    TimeNs cpu = 0;    // processor time
  };

  explicit IoScaling(std::uint32_t threads_max) : threads_max_(threads_max) {}

  // The threads that should be at work now that `thread`, one of them, had this load.
  std::uint32_t update(TimeNs now, std::uint32_t thread, const Load& load);
  // There cannot be more than so many.
  void limit(std::uint32_t threads) { threads_ = threads_max_ = threads; }
  std::uint32_t threads_max() const { return threads_max_; }

 private:
  struct Latest {
    TimeNs time = 0;
    TimeNs busy_permille = 0;
    std::uint32_t saturated = 0;  // windows in a row
  };

  void change(TimeNs now, std::uint32_t threads);
  TimeNs busy_permille(TimeNs now) const;  // of all threads together

  std::uint32_t threads_max_;
  std::uint32_t threads_ = 1;
  std::array<Latest, kPortCountMax> latest_{};
  TimeNs changed_ = 0;
  TimeNs next_try_ = 0;  // after a try that gained nothing
  TimeNs patience_ = 0;
};

}  // namespace openmrc::nic
