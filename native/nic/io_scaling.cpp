#include "nic/io_scaling.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::nic {
namespace {

constexpr TimeNs kPermille = 1000;
constexpr TimeNs kSaturated = 900;  // awake, of the span
constexpr TimeNs kServed = 850;     // share of processor time in the time awake; below it, no processor was free
constexpr std::uint32_t kSaturatedWindows = 8;  // consecutive windows before the next thread is tried
constexpr TimeNs kSpare = 600;                  // fewer threads suffice at this load of each
constexpr TimeNs kSample = 50 * kNsPerMs;       // span of a rate measurement
constexpr TimeNs kTrial = 120 * kNsPerMs;       // two samples
constexpr std::uint64_t kGainPermille = 1050;
constexpr TimeNs kStale = 100 * kNsPerMs;  // a thread without a report for this long has slept
constexpr TimeNs kPatienceMin = kNsPerSecond;
constexpr TimeNs kPatienceMax = 60 * kNsPerSecond;

}  // namespace

std::uint32_t IoScaling::update(TimeNs now, std::uint32_t thread, const Load& load, std::uint64_t moved_bytes) {
  MRC_ASSERT(thread < latest_.size() && load.span > 0);
  Latest& latest = latest_[thread];
  const bool saturated =
      load.awake * kPermille >= kSaturated * load.span && load.cpu * kPermille >= kServed * load.awake;
  latest.time = now;
  latest.busy_permille = load.cpu * kPermille / load.span;
  latest.saturated = saturated ? latest.saturated + 1 : 0;
  sample(now, moved_bytes);
  if (now - changed_ < kTrial) return threads_;
  if (on_trial_ && rate_ * kPermille < before_ * kGainPermille) {
    patience_ = std::clamp(2 * patience_, kPatienceMin, kPatienceMax);
    next_trial_ = now + patience_;
    change(now, threads_ - 1, moved_bytes);
  } else if (threads_ > 1 && busy_permille(now) < kSpare * (threads_ - 1)) {
    change(now, threads_ - 1, moved_bytes);
  } else if (threads_ < threads_max_ && latest.saturated >= kSaturatedWindows && now >= next_trial_) {
    if (on_trial_) patience_ = 0;  // it was worth it
    before_ = rate_;
    change(now, threads_ + 1, moved_bytes);
    on_trial_ = true;
  }
  return threads_;
}

void IoScaling::sample(TimeNs now, std::uint64_t moved_bytes) {
  const TimeNs span = now - sampled_;
  if (span < kSample) return;
  rate_ = (moved_bytes - sampled_bytes_) * static_cast<std::uint64_t>(kNsPerMs) / static_cast<std::uint64_t>(span);
  sampled_ = now;
  sampled_bytes_ = moved_bytes;
}

void IoScaling::change(TimeNs now, std::uint32_t threads, std::uint64_t moved_bytes) {
  threads_ = threads;
  changed_ = sampled_ = now;
  sampled_bytes_ = moved_bytes;
  on_trial_ = false;
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
