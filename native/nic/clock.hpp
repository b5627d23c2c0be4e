// The clock of the live driver, and its conversion to the clock of a device's engine.
//
// The driver counts nanoseconds of CLOCK_MONOTONIC, enough for 292 years. The engine counts picoseconds, enough for 106
// days: its clock starts with the device and is set back while the device lives.
#pragma once

#include <cstdint>
#include <ctime>

#include "engine/base/time.hpp"

namespace openmrc::nic {

using TimeNs = std::int64_t;

inline constexpr TimeNs kNsPerUs = 1'000;
inline constexpr TimeNs kNsPerMs = 1'000'000;
inline constexpr TimeNs kNsPerSecond = 1'000'000'000;
inline constexpr TimeNs kNeverNs = INT64_MAX;

inline TimeNs to_ns(const timespec& time) {
  return static_cast<TimeNs>(time.tv_sec) * kNsPerSecond + static_cast<TimeNs>(time.tv_nsec);
}

inline TimeNs now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return to_ns(now);
}

class EngineClock {
 public:
  // The first rebase comes after a second, so that every device that lives longer exercises it.
  static constexpr TimeNs kFirstRebaseAfter = kNsPerSecond;

  explicit EngineClock(TimeNs start) : zero_(start - (kEngineTimeMax / kPsPerNs - kFirstRebaseAfter)) {}

  TimePs engine_time(TimeNs time) const { return (time - zero_) * kPsPerNs; }
  // Rounded up, so that a timer due at `time` has expired. kNever becomes kNeverNs.
  TimeNs monotonic(TimePs time) const {
    return time == kNever ? kNeverNs : zero_ + time / kPsPerNs + (time % kPsPerNs > 0 ? 1 : 0);
  }
  // True while the engine's clock has to be set back by kClockRebase, by `rebase` here and in the engine.
  bool rebase_due(TimeNs now) const { return now - zero_ >= kEngineTimeMax / kPsPerNs; }
  void rebase() { zero_ += kClockRebase / kPsPerNs; }

 private:
  TimeNs zero_;
};

}  // namespace openmrc::nic
