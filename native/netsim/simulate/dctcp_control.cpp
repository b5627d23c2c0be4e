#include "netsim/simulate/dctcp_control.hpp"

#include <algorithm>

namespace openmrc::netsim {

DctcpControl::DctcpControl(const DctcpSettings& settings) : window_(std::max(1U, settings.initial_window)) {}

void DctcpControl::on_ack(const DctcpSettings& settings, const DctcpSample& sample) {
  delivered_ += sample.delivered;
  if (sample.echo) marked_ += sample.delivered;
  if (sample.acknowledged >= window_end_) update_alpha(settings, sample);
  if (sample.repairing || sample.acknowledged < cut_end_) return;
  if (sample.echo) {
    const std::uint64_t cut = window_ * alpha_ / (2 * std::uint64_t{kAlphaOne});
    window_ = std::max<std::uint64_t>(window_ - cut, settings.min_window);
    threshold_ = window_;
    credit_ = 0;
    cut_end_ = sample.next;
    return;
  }
  if (sample.window_limited) grow(sample.delivered);
}

void DctcpControl::update_alpha(const DctcpSettings& settings, const DctcpSample& sample) {
  const std::uint32_t decay = alpha_ >> settings.gain_shift;
  alpha_ = decay == 0 ? 0 : alpha_ - decay;
  if (delivered_ > 0) {
    alpha_ += static_cast<std::uint32_t>((marked_ * kAlphaOne / delivered_) >> settings.gain_shift);
  }
  alpha_ = std::min(alpha_, kAlphaOne);
  delivered_ = marked_ = 0;
  window_end_ = sample.next;
}

void DctcpControl::grow(std::uint64_t delivered) {
  if (window_ < threshold_) {
    const std::uint64_t step = std::min(delivered, threshold_ - window_);
    window_ += step;
    delivered -= step;
  }
  credit_ += delivered;
  while (credit_ >= window_) {
    credit_ -= window_;
    ++window_;
  }
}

void DctcpControl::on_loss(const DctcpSettings& settings) {
  window_ = threshold_ = std::max<std::uint64_t>(window_ / 2, settings.min_window);
  credit_ = 0;
}

void DctcpControl::on_timeout(const DctcpSettings& settings, bool again) {
  if (!again) threshold_ = std::max<std::uint64_t>(window_ / 2, settings.min_window);
  window_ = 1;
  credit_ = 0;
}

}  // namespace openmrc::netsim
