// A window that is raised for a moment, to find out if a supposed queue is part of a longer path: a queue grows with the
// data in flight, and the rate does not; on a longer path it is the other way round (docs/decisions/0146-raised-windows.md).
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class RaisedWindow {
 public:
  struct State {
    std::int64_t window = 0;  // bytes
    std::int64_t packet = 0;  // bytes
    std::int64_t rate = 0;    // bytes per second
    std::int64_t best = 0;    // the highest of the last seconds
    TimePs round = 0;
    TimePs queue = 0;         // the longest queue of the epochs of the watch
    TimePs high = 0;          // the same of the latest two epochs, of almost all packets
    TimePs varies = 0;        // by how much the queue of an epoch has varied
    std::uint32_t times = 0;  // that the watch has asked for a test, since the queue is the same
  };
  enum class Verdict : std::uint8_t { kUndecided, kQueue, kLonger };

  // True if the window is raised from now on. The more tests have found a queue, the longer it has to be the same before
  // the next one.
  bool begin(const State& state);
  // Call at the end of each epoch while the window is raised. `high`: as in State.
  Verdict judge(TimePs high, std::int64_t rate, bool lossy);
  // Ends a test; the next one may begin at once.
  void clear();

  bool raised() const { return bytes_ > 0; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  std::int64_t rate_wanted_ = 0;
  TimePs high_most_ = 0;
  std::uint32_t epochs_ = 0;
  std::uint32_t apart_ = 1;  // a test after so many times
};

}  // namespace openmrc
