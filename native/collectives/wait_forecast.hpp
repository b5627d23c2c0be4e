// Whether somebody will wait for the next operation at once, and drive the device while waiting. Programs that do so have
// no need of the executor's thread, and to have it watch costs more than a short operation.
#pragma once

#include <cstdint>
#include <utility>

#include "nic/clock.hpp"

namespace openmrc::collectives {

class WaitForecast {
 public:
  bool waits_expected() const { return expected_; }
  void submitted(nic::TimeNs now) { submitted_ = now; }

  // Somebody waits. True: from now on waits are expected.
  bool waited(nic::TimeNs now) {
    if (now - submitted_ > kPrompt) {
      prompt_waits_ = 0;
      expected_ = false;
      return false;
    }
    if (expected_ || ++prompt_waits_ < kPromptWaits) return false;
    return expected_ = true;
  }

  // After a nap of the thread. `operations`: since the beginning; `missed`: one runs, and nobody waits.
  void doubt(nic::TimeNs now, std::uint64_t operations, bool missed) {
    const bool idle = std::exchange(operations_, operations) == operations;
    if (!idle && !(missed && now - submitted_ > kPrompt)) return;
    prompt_waits_ = 0;
    expected_ = false;
  }

 private:
  // So soon after the call, so many times in a row, makes the next waits likely.
  static constexpr nic::TimeNs kPrompt = 100 * nic::kNsPerUs;
  static constexpr std::uint32_t kPromptWaits = 16;

  nic::TimeNs submitted_ = 0;       // the last operation
  std::uint32_t prompt_waits_ = 0;  // in a row
  bool expected_ = false;
  std::uint64_t operations_ = 0;  // before the last nap
};

}  // namespace openmrc::collectives
