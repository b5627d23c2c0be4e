// Sender of one TCP stream with CUBIC (RFC 9438), in packets: window, losses and time-outs, without contents. Nothing
// reorders its packets, so that an acknowledgement shows that all earlier packets without any are lost.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <utility>

#include "engine/base/time.hpp"

namespace openmrc::test {

class TcpStream {
 public:
  bool may_send() const { return static_cast<double>(outstanding_.size()) < window_; }
  // Number of the packet that leaves now.
  std::uint64_t send(TimePs now) {
    if (outstanding_.empty()) heard_ = now;
    outstanding_.emplace_back(next_, now);
    return next_++;
  }

  void acknowledge(TimePs now, std::uint64_t number) {
    bool lost = false;
    while (!outstanding_.empty() && outstanding_.front().first < number) {
      lost = lost || outstanding_.front().first >= recovered_;
      outstanding_.pop_front();
    }
    if (outstanding_.empty() || outstanding_.front().first != number) return;
    round_ = static_cast<double>(now - outstanding_.front().second) / static_cast<double>(kPsPerSecond);
    outstanding_.pop_front();
    heard_ = now;
    if (lost) {
      reduce(now);
    } else {
      grow(now);
    }
  }

  // Call at intervals.
  void check(TimePs now) {
    if (outstanding_.empty() || now - heard_ < kSilence) return;
    outstanding_.clear();
    threshold_ = std::max(window_ / 2, kWindowMin);
    window_ = kWindowMin;
    most_ = 0;
    heard_ = now;
  }

  double window() const { return window_; }

 private:
  static constexpr double kScale = 0.4, kKept = 0.7, kWindowMin = 2;
  static constexpr TimePs kSilence = 300 * kPsPerMs;

  void reduce(TimePs now) {
    most_ = window_ < most_ ? window_ * (1 + kKept) / 2 : window_;  // fast convergence
    window_ = threshold_ = std::max(window_ * kKept, kWindowMin);
    like_reno_ = window_;
    began_ = now;
    recovered_ = next_;
  }

  void grow(TimePs now) {
    if (window_ < threshold_) {
      window_ += 1;
      return;
    }
    if (most_ == 0) {
      most_ = like_reno_ = window_;
      began_ = now;
    }
    const double top = std::cbrt(most_ * (1 - kKept) / kScale);
    const double since = static_cast<double>(now - began_) / static_cast<double>(kPsPerSecond) + round_;
    const double cubic = kScale * std::pow(since - top, 3) + most_;
    like_reno_ += 3 * (1 - kKept) / (1 + kKept) / window_;
    const double wanted = std::clamp(std::max(cubic, like_reno_), window_, 1.5 * window_);
    window_ += (wanted - window_) / window_;
  }

  double window_ = 10, threshold_ = 1e9;
  double most_ = 0, like_reno_ = 0;
  double round_ = 0;  // seconds
  TimePs began_ = 0, heard_ = 0;
  std::uint64_t next_ = 0, recovered_ = 0;
  std::deque<std::pair<std::uint64_t, TimePs>> outstanding_;
};

}  // namespace openmrc::test
