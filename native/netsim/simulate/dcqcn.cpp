#include "netsim/simulate/dcqcn.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {

namespace {

constexpr std::uint64_t kPortShare = 1000;  // default steps and floor: 1/1000 of the port's rate
constexpr std::uint64_t kHyperRatio = 10;

}  // namespace

Dcqcn::Dcqcn(const DcqcnSettings& settings, std::uint64_t line_rate_bps)
    : settings_(&settings), line_rate_(line_rate_bps), rate_(line_rate_bps), target_(line_rate_bps) {
  // Otherwise the timers would never catch up with the current time.
  MRC_ASSERT(settings.alpha_timer > 0 && settings.increase_timer > 0 && settings.increase_bytes > 0);
  MRC_ASSERT(settings.gain_shift < 20 && line_rate_bps > 0);
}

std::uint64_t Dcqcn::floor_bps() const {
  const std::uint64_t floor = settings_->rate_min_bps != 0 ? settings_->rate_min_bps : line_rate_ / kPortShare;
  return std::clamp<std::uint64_t>(floor, 1, line_rate_);
}

void Dcqcn::on_cnp(TimePs now) {
  advance(now);
  if (settings_->clamp_target || timer_steps_ + byte_steps_ > 0) target_ = rate_;
  __extension__ using Wide = unsigned __int128;
  const auto cut = static_cast<std::uint64_t>(static_cast<Wide>(rate_) * alpha_ / (2 * std::uint64_t{kAlphaOne}));
  rate_ = std::max(rate_ - cut, floor_bps());
  alpha_ = alpha_ - (alpha_ >> settings_->gain_shift) + (kAlphaOne >> settings_->gain_shift);
  limited_ = rate_ < line_rate_;
  bytes_ = 0;
  timer_steps_ = byte_steps_ = 0;
  next_decay_ = now + settings_->alpha_timer;
  next_increase_ = now + settings_->increase_timer;
}

void Dcqcn::on_sent(TimePs now, std::uint64_t wire_bytes) {
  if (!limited_) return;
  advance(now);
  bytes_ += wire_bytes;
  while (limited_ && bytes_ >= settings_->increase_bytes) {
    bytes_ -= settings_->increase_bytes;
    ++byte_steps_;
    increase();
  }
}

std::uint64_t Dcqcn::rate_bps(TimePs now) {
  advance(now);
  return rate_;
}

void Dcqcn::advance(TimePs now) {
  while (next_decay_ <= now) {
    const std::uint32_t step = alpha_ >> settings_->gain_shift;
    alpha_ = step == 0 ? 0 : alpha_ - step;
    next_decay_ = alpha_ == 0 ? kNever : next_decay_ + settings_->alpha_timer;
  }
  while (limited_ && next_increase_ <= now) {
    ++timer_steps_;
    next_increase_ += settings_->increase_timer;
    increase();
  }
}

// Fast recovery halves the distance to the target; then the target rises too, fast once both clocks allow it.
void Dcqcn::increase() {
  const std::uint64_t additive = settings_->rate_ai_bps != 0 ? settings_->rate_ai_bps : line_rate_ / kPortShare;
  const std::uint64_t hyper = settings_->rate_hai_bps != 0 ? settings_->rate_hai_bps : kHyperRatio * additive;
  if (std::min(timer_steps_, byte_steps_) > settings_->recovery_stages) {
    target_ += hyper;
  } else if (std::max(timer_steps_, byte_steps_) >= settings_->recovery_stages) {
    target_ += additive;
  }
  target_ = std::min(target_, line_rate_);
  rate_ = (rate_ + target_ + 1) / 2;  // rounded up, so that the line rate is reached
  limited_ = rate_ < line_rate_;
}

}  // namespace openmrc::netsim
