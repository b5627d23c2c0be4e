// Processors of the ranks of one host. While ranks wait for each other they yield and never sleep, so the kernel seldom
// moves one: ranks that begin on one processor share it for long, beside idle ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace openmrc::collectives {

// The processor to which the rank `own` should move: one of `allowed` with at least two ranks fewer. -1: stay. Of the
// ranks of a processor the last one moves. `processors`: of all ranks in order; negative: not known.
int better_processor(std::span<const int> processors, std::size_t own, std::span<const int> allowed);

class RankPlacement {
 public:
  // The processor of the calling thread.
  static int current();
  // True for some calls only, as looking at all ranks takes longer than an operation; rarer after each move, so that a
  // kernel that knows better prevails.
  bool due() { return ++calls_ % interval_ == 0; }
  // Moves the calling thread, without binding it, if another processor is better.
  void improve(std::span<const int> processors, std::size_t own);

 private:
  static constexpr std::uint32_t kIntervalMin = 32, kIntervalMax = 1U << 16;

  std::uint32_t calls_ = 0, interval_ = kIntervalMin;
};

}  // namespace openmrc::collectives
