// Processors of the ranks of one host. While ranks wait for each other they yield and never sleep, so the kernel seldom
// moves one: ranks that begin on one processor share it for long, beside idle ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nic/clock.hpp"

namespace openmrc::collectives {

// The processor to which the rank `own` should move: one of `allowed` with at least two ranks fewer. -1: stay. Of the
// ranks of a processor the last one moves. `processors`: of all ranks in order; negative: not known.
int better_processor(std::span<const int> processors, std::size_t own, std::span<const int> allowed);

class RankPlacement {
 public:
  // The processor of the calling thread.
  static int current();
  // True for some calls only, as looking at all ranks takes longer than an operation.
  bool due() { return ++calls_ % interval_ == 0; }
  // The same for operations that last longer than a look.
  bool due(nic::TimeNs now) {
    if (now < next_) return false;
    next_ = now + kLook;
    return true;
  }
  // Moves the calling thread, without binding it, if another processor is better. True: moved.
  bool improve(std::span<const int> processors, std::size_t own);
  // After a move during small operations, so that a kernel that knows better prevails.
  void look_less_often() { interval_ = std::min(2 * interval_, kIntervalMax); }

 private:
  static constexpr std::uint32_t kIntervalMin = 32, kIntervalMax = 1U << 16;
  static constexpr nic::TimeNs kLook = 4 * nic::kNsPerMs;

  std::uint32_t calls_ = 0, interval_ = kIntervalMin;
  nic::TimeNs next_ = 0;
};

}  // namespace openmrc::collectives
