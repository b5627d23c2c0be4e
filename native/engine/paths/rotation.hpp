// A pseudo-random walk that visits every position once per wrap and is redrawn at each wrap.
#pragma once

#include <cstdint>
#include <numeric>

#include "engine/base/assert.hpp"
#include "engine/base/rng.hpp"

namespace openmrc {

// Index XOR a random value if the count is a power of two, else a walk with a random start and a random stride coprime
// to the count. Ports alternate by position, and both walks preserve that: any aligned group of as many steps as there
// are ports visits every port once.
class Rotation {
 public:
  explicit Rotation(Rng rng) : rng_(rng) {}

  std::uint32_t next(std::uint32_t position_count) {
    if (step_ >= count_ || position_count != count_) [[unlikely]]
      redraw(position_count);
    const std::uint32_t step = step_++;
    if (stride_ == 0) return step ^ offset_;
    const std::uint32_t position = offset_;
    offset_ += stride_;
    if (offset_ >= count_) offset_ -= count_;
    return position;
  }

 private:
  void redraw(std::uint32_t position_count) {
    MRC_ASSERT(position_count != 0);
    count_ = position_count;
    step_ = 0;
    offset_ = static_cast<std::uint32_t>(rng_.below(count_));
    stride_ = 0;
    if ((count_ & (count_ - 1)) == 0) return;
    // Terminates: the stride 1 always qualifies.
    do {
      stride_ = 1 + static_cast<std::uint32_t>(rng_.below(count_ - 1));
    } while (std::gcd(stride_, count_) != 1);
  }

  Rng rng_;
  std::uint32_t count_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t offset_ = 0;  // XOR value, or the position of the next step
  std::uint32_t stride_ = 0;  // 0: XOR
};

}  // namespace openmrc
