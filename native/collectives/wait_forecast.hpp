// Forecast that the next operation will be waited for at once, by a thread that drives the device. Programs with this
// pattern do not need the executor's thread, whose watch would cost more than a short operation.
#pragma once

#include <cstdint>
#include <utility>

#include "nic/clock.hpp"

namespace openmrc::collectives {

class WaitForecast {
 public:
  bool waits_expected() const { return expected_; }
  void submitted(nic::TimeNs now) { submitted_ = now; }

  // Records a wait. True: from now on waits are expected.
  bool waited(nic::TimeNs now) {
    if (now - submitted_ > kPrompt) {
      prompt_waits_ = 0;
      expected_ = false;
      return false;
    }
    if (expected_ || ++prompt_waits_ < kPromptWaits) return false;
    return expected_ = true;
  }

  // Called after a nap of the thread. `operations`: since the beginning; `missed`: one runs, and nobody waits.
  void doubt(nic::TimeNs now, std::uint64_t operations, bool missed) {
    const bool idle = std::exchange(operations_, operations) == operations;
    if (!idle && !(missed && now - submitted_ > kPrompt)) return;
    prompt_waits_ = 0;
    expected_ = false;
  }

 private:
  // This many waits in a row this soon after the call make further ones likely.
  static constexpr nic::TimeNs kPrompt = 100 * nic::kNsPerUs;
  static constexpr std::uint32_t kPromptWaits = 16;

  nic::TimeNs submitted_ = 0;       // the last operation
  std::uint32_t prompt_waits_ = 0;  // in a row
  bool expected_ = false;
  std::uint64_t operations_ = 0;  // before the last nap
};

}  // namespace openmrc::collectives
