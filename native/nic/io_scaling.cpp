#include "nic/io_scaling.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::nic {
namespace {

constexpr TimeNs kPermille = 1000;
constexpr TimeNs kSaturated = 900;               // awake, of the span
constexpr TimeNs kServed = 850;                  // processor time, of the time awake: a processor was free
constexpr TimeNs kStarved = 700;                 // less than that: there are more threads than processors
constexpr std::uint32_t kSaturatedWindows = 3;   // in a row, before the next thread is called
constexpr TimeNs kSpare = 600;                   // fewer threads would do at this load of each
constexpr TimeNs kSettle = 100 * kNsPerMs;       // after a change
constexpr TimeNs kStale = 100 * kNsPerMs;        // a thread that did not report since has slept
constexpr TimeNs kPatienceMin = 500 * kNsPerMs;  // after a thread that gained nothing
constexpr TimeNs kPatienceMax = 10 * kNsPerSecond;

}  // namespace

std::uint32_t IoScaling::update(TimeNs now, std::uint32_t thread, const Load& load) {
  MRC_ASSERT(thread < latest_.size() && load.span > 0);
  Latest& latest = latest_[thread];
  const bool served = load.cpu * kPermille >= kServed * load.awake;
  const bool starved = load.cpu * kPermille < kStarved * load.awake;
  const bool saturated = load.awake * kPermille >= kSaturated * load.span;
  latest.time = now;
  latest.busy_permille = load.cpu * kPermille / load.span;
  latest.saturated = saturated && served ? latest.saturated + 1 : 0;
  const bool settled = now - changed_ >= kSettle;
  if (threads_ > 1 && saturated && starved && settled) {
    patience_ = std::clamp(2 * patience_, kPatienceMin, kPatienceMax);
    next_try_ = now + patience_;
    change(now, threads_ - 1);
  } else if (threads_ > 1 && settled && busy_permille(now) < kSpare * (threads_ - 1)) {
    patience_ = 0;
    change(now, threads_ - 1);
  } else if (threads_ < threads_max_ && latest.saturated >= kSaturatedWindows && now >= next_try_ &&
             (threads_ == 1 || settled)) {
    change(now, threads_ + 1);
  }
  return threads_;
}

void IoScaling::change(TimeNs now, std::uint32_t threads) {
  threads_ = threads;
  changed_ = now;
  for (Latest& latest : latest_) latest.saturated = 0;
}

TimeNs IoScaling::busy_permille(TimeNs now) const {
  TimeNs sum = 0;
  for (const Latest& latest : latest_) {
    if (now - latest.time < kStale) sum += latest.busy_permille;
  }
  return sum;
}

}  // namespace openmrc::nic
