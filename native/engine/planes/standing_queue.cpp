#include "engine/planes/standing_queue.hpp"

#include <algorithm>
#include <optional>

namespace openmrc {
namespace {

constexpr std::uint32_t kSameEpochs = 6;
// Variation of a queue that counts as the same.
constexpr TimePs kSamePart = 16, kSamePartVarying = 4, kSameMin = 100 * kPsPerUs;

}  // namespace

TimePs StandingQueue::tolerated() const { return least_ / (varies_ ? kSamePartVarying : kSamePart); }

StandingQueue::Verdict StandingQueue::watch(const Epoch& epoch) {
  const TimePs queue = epoch.queue;
  if (epoch.lossy || epoch.window > window_before_ || queue < standing_ / 4 * 3) standing_ = 0;
  if (standing_ == 0) {
    if (epoch.lossy || queue <= epoch.usual) return Verdict::kQueue;
    window_before_ = epoch.window;
    rate_before_ = epoch.carried;
    standing_ = queue;
    same_epochs_ = 0;
  }
  // A single long one may come from a late host.
  if (queue > standing_) standing_ += (queue - standing_) / 4;
  varies_ = epoch.varies;
  least_ = std::min(least_, queue);
  most_ = std::max(most_, queue);
  if (same_epochs_ == 0 || most_ - least_ > std::max({tolerated(), kSameMin, epoch.packet_time})) {
    same_epochs_ = 1;
    least_ = most_ = queue;
    same_window_ = epoch.window;
    return Verdict::kQueue;
  }
  ++same_epochs_;
  if (same_epochs_ >= kSameEpochs && epoch.window <= same_window_ / 2) return Verdict::kLonger;
  const bool slower = 3 * epoch.rate < 2 * rate_before_;
  const bool due = same_epochs_ % kTestEpochs == 0 && !test_.running();
  if (!slower || !due) return Verdict::kQueue;
  return epoch.shrinkable ? Verdict::kUndecided : Verdict::kSmall;
}

TimePs StandingQueue::judge_test(TimePs least, bool draining) {
  const std::optional<TimePs> left = test_.end_epoch(least, draining);
  if (!left || *left == kNever || standing_ == 0) return 0;
  return *left >= least_ - tolerated() ? *left : 0;
}

}  // namespace openmrc
