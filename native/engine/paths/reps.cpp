#include "engine/paths/reps.hpp"

#include <bit>

namespace openmrc {
namespace {

constexpr std::uint32_t kNone = 0xFFFF'FFFF;

}  // namespace

Reps::Reps(Rng rng) : rotation_(rng) { ring_.fill(kEmpty); }

void Reps::on_feedback(TimePs now, std::uint32_t position, EvFeedback feedback) {
  thaw(now);
  switch (feedback) {
    case EvFeedback::kDelivered:
      keep(position);
      return;
    case EvFeedback::kSkipOnce:
    case EvFeedback::kTrimmed:
      return;
    case EvFeedback::kAlwaysSkip:
    case EvFeedback::kLost:
      forget(position);
      return;
    case EvFeedback::kTimeout:
      forget(position);
      suspect(now);
      return;
  }
}

std::uint32_t Reps::next(std::uint32_t position_count) {
  position_count_ = position_count;
  if (explore_left_ > 0) {
    --explore_left_;
    return rotation_.next(position_count);
  }
  std::uint32_t position = take_fresh();
  if (position == kNone && frozen_) position = take_used();
  return position < position_count ? position : rotation_.next(position_count);
}

void Reps::keep(std::uint32_t position) {
  ring_[write_] = static_cast<std::uint16_t>(position);
  fresh_ = static_cast<std::uint8_t>(fresh_ | 1U << write_);
  write_ = static_cast<std::uint8_t>((write_ + 1U) % kRingSize);
}

void Reps::forget(std::uint32_t position) {
  for (std::uint32_t i = 0; i < kRingSize; ++i) {
    if (ring_[i] != position) continue;
    ring_[i] = kEmpty;
    fresh_ = static_cast<std::uint8_t>(fresh_ & ~(1U << i));
  }
}

// Timeouts of exploration itself do not freeze again: the selector would never find the paths that recover.
void Reps::suspect(TimePs now) {
  if (frozen_ || explore_left_ > 0) return;
  frozen_ = true;
  thaws_at_ = now + kFreezingTimeout;
}

void Reps::thaw(TimePs now) {
  if (!frozen_ || now < thaws_at_) return;
  frozen_ = false;
  explore_left_ = position_count_;
}

// Oldest first: from `write_` on, with wrap-around, the bits are ordered by age.
std::uint32_t Reps::take_fresh() {
  if (fresh_ == 0) return kNone;
  const int oldest = std::countr_zero(std::rotr(fresh_, write_));
  const std::uint32_t index = (write_ + static_cast<std::uint32_t>(oldest)) % kRingSize;
  fresh_ = static_cast<std::uint8_t>(fresh_ & ~(1U << index));
  return ring_[index];
}

std::uint32_t Reps::take_used() {
  for (std::uint32_t tries = 0; tries < kRingSize; ++tries) {
    const std::uint16_t position = ring_[cursor_];
    cursor_ = static_cast<std::uint8_t>((cursor_ + 1U) % kRingSize);
    if (position != kEmpty) return position;
  }
  return kNone;
}

}  // namespace openmrc
