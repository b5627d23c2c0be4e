// Number of active I/O threads of a device. One while it keeps up, since each further one costs wake-ups and makes
// batches smaller. If a thread is always busy the next one is tried, and kept if the device then moves more bytes.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/limits.hpp"
#include "nic/clock.hpp"

namespace openmrc::nic {

class IoScaling {
 public:
  static constexpr TimeNs kWindow = 10 * kNsPerMs;  // span of a thread's load measurement

  // Load of one thread over some milliseconds.
  struct Load {
    TimeNs span = 0;
    TimeNs awake = 0;  // share of the span in which it was not asleep
    TimeNs cpu = 0;    // processor time
  };

  explicit IoScaling(std::uint32_t threads_max) : threads_max_(threads_max) {}

  // Number of threads that should be active after `thread`, one of them, had this load. `moved_bytes`: total sent and
  // received by the device since it was opened.
  std::uint32_t update(TimeNs now, std::uint32_t thread, const Load& load, std::uint64_t moved_bytes);
  // Limits the number of threads.
  void limit(std::uint32_t threads) { threads_ = threads_max_ = threads; }
  std::uint32_t threads_max() const { return threads_max_; }

 private:
  struct Latest {
    TimeNs time = 0;
    TimeNs busy_permille = 0;
    std::uint32_t saturated = 0;  // windows in a row
  };

  void sample(TimeNs now, std::uint64_t moved_bytes);
  void change(TimeNs now, std::uint32_t threads, std::uint64_t moved_bytes);
  TimeNs busy_permille(TimeNs now) const;  // sum over all threads

  std::uint32_t threads_max_;
  std::uint32_t threads_ = 1;
  std::array<Latest, kPortCountMax> latest_{};
  TimeNs changed_ = 0;
  bool on_trial_ = false;     // the latest thread has not yet shown a gain
  std::uint64_t before_ = 0;  // bytes per millisecond before it started
  std::uint64_t rate_ = 0;    // the same of late
  TimeNs sampled_ = 0;
  std::uint64_t sampled_bytes_ = 0;
  TimeNs next_trial_ = 0;
  TimeNs patience_ = 0;
};

}  // namespace openmrc::nic
