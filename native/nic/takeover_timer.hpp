// Timer that wakes the first I/O thread when polling threads are overdue. They set it anew while they poll, so that the
// thread sleeps for as long as they do: each look of its own would take a processor from somebody.
#pragma once

#include <sys/timerfd.h>

#include <cstdint>
#include <ctime>

#include "nic/clock.hpp"
#include "nic/file_descriptor.hpp"
#include "nic/uncancelled.hpp"

namespace openmrc::nic {

class TakeoverTimer {
 public:
  int fd() const { return fd_.get(); }

  // Makes the descriptor readable at this time, and not before. False: a sandbox forbids it. Thread safe.
  bool set(TimeNs at) {
    itimerspec timer{};
    timer.it_value = {static_cast<time_t>(at / kNsPerSecond), static_cast<long>(at % kNsPerSecond)};
    return fd_.valid() && ::timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &timer, nullptr) == 0;
  }
  void clear() {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t bytes = uncancelled::read(fd_.get(), expirations);
  }
  void reset() { fd_.reset(); }

 private:
  FileDescriptor fd_{::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
};

}  // namespace openmrc::nic
