// Forecast of whether a thread that spins sees the next datagram, from its latest waits.
//
// Both ends of a connection may have to share a processor, of a busy machine or by the scheduler's choice. What a thread
// waits for then comes only after its spin, which delays each exchange by its full length; asleep, the thread hands the
// processor over at once. A wait that sleeps from the beginning does not show whether a spin would have sufficed, so one
// wait in many spins again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "nic/clock.hpp"

namespace openmrc::nic {

// Threads may race: an update that is lost delays a change by one wait.
class SpinForecast {
 public:
  // In a wait that has had no datagram for `idle`: true: spin, false: sleep.
  bool spins(TimeNs idle) const { return idle < kSpin && sleeps_left_.load(kRelaxed) == 0; }

  // A datagram ended a wait. `spun`: before the thread slept.
  void ended(bool spun) {
    const std::uint32_t left = sleeps_left_.load(kRelaxed);
    if (left > 0) {
      sleeps_left_.store(left - 1, kRelaxed);
      return;
    }
    const std::uint32_t sleeps = sleeps_.load(kRelaxed);
    if (spun) {
      in_vain_.store(0, kRelaxed);
      sleeps_.store(std::max(sleeps / 2, kSleepsMin), kRelaxed);
      return;
    }
    const std::uint32_t in_vain = std::min(in_vain_.load(kRelaxed) + 1, kInVainMin);
    in_vain_.store(in_vain, kRelaxed);
    if (in_vain < kInVainMin) return;
    sleeps_left_.store(sleeps, kRelaxed);
    sleeps_.store(std::min(2 * sleeps, kSleepsMax), kRelaxed);
  }

  static constexpr TimeNs kSpin = 50 * kNsPerUs;
  static constexpr std::uint32_t kInVainMin = 2;   // spins in a row, before waits sleep from the beginning
  static constexpr std::uint32_t kSleepsMin = 16;  // waits until one spins again; doubled by a spin in vain
  static constexpr std::uint32_t kSleepsMax = 32 * kSleepsMin;  // costs 0.1 us per wait

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  std::atomic<std::uint32_t> in_vain_{0}, sleeps_left_{0}, sleeps_{kSleepsMin};
};

}  // namespace openmrc::nic
