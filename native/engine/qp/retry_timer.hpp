// The mandatory retransmission timer: a number of constant timeouts, then exponential back-off, then the QP fails
// (A.9.6).
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/types.hpp"

namespace openmrc {

// Extra time while a busy local port delays the next packet and the peer owes nothing: a port that never accepts a
// packet still has to end the QP.
inline constexpr TimePs kPortPatience = 250 * kPsPerMs;

class RetryTimer {
 public:
  static constexpr std::uint8_t kForEver = 25;

  void start(const QpToRts& attributes) {
    base_ = (1'024 * kPsPerNs) << attributes.timeout_exponent;
    linear_ = attributes.linear_retries;
    exponential_ = attributes.exponential_retries;
  }

  // Wait before the next timeout. At least the longest recent round trip, since a path longer than the base timer must
  // not time out all its packets (A.9.8).
  TimePs wait(TimePs rtt_high) const {
    const TimePs base = std::max(base_, rtt_high + rtt_high / 2);
    if (consecutive_ < linear_) return base;
    const std::uint32_t doublings = std::min<std::uint32_t>(consecutive_ - linear_, kDoublingsMax);
    return std::min(base << doublings, std::max(base, kWaitMax));
  }

  // False: the retries are exhausted.
  bool expired() {
    if (consecutive_ < UINT16_MAX) ++consecutive_;
    return exponential_ >= kForEver || consecutive_ <= linear_ + exponential_;
  }
  // The next expiry exhausts the retries.
  bool last() const { return exponential_ < kForEver && consecutive_ >= linear_ + exponential_; }
  void progress() { consecutive_ = 0; }
  std::uint32_t consecutive() const { return consecutive_; }
  TimePs base() const { return base_; }

 private:
  static constexpr std::uint32_t kDoublingsMax = 24;
  // The largest base timer (exponent 24) also bounds the back-off.
  static constexpr TimePs kWaitMax = (1'024 * kPsPerNs) << 24;

  TimePs base_ = 0;
  std::uint16_t consecutive_ = 0;
  std::uint8_t linear_ = 0;
  std::uint8_t exponential_ = 0;
};

}  // namespace openmrc
