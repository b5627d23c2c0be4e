// Limits how often a measuring loop asks for an interruption.
#pragma once

#include <cstdint>
#include <functional>

#include "nic/clock.hpp"

namespace openmrc::nic {

using Interrupted = std::function<bool()>;

// A spinning loop can call it in every iteration.
class Asker {
 public:
  static constexpr std::int64_t kInterval = 50'000'000;  // ns

  explicit Asker(const Interrupted& interrupted) : interrupted_(interrupted), next_(now_ns() + kInterval) {}

  bool operator()(std::int64_t now) {
    if (now < next_) return false;
    next_ = now + kInterval;
    return interrupted_ && interrupted_();
  }

 private:
  const Interrupted& interrupted_;
  std::int64_t next_;
};

}  // namespace openmrc::nic
