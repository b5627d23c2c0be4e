#include "engine/planes/competition.hpp"

#include <algorithm>
#include <optional>

#include "engine/planes/ratio.hpp"

namespace openmrc {
namespace {

// Tests.
// Window that may be one beside a full buffer; two packets always may.
constexpr std::int64_t kSmallBytes = 12'000;
constexpr std::int64_t kRaise = 4;  // factor of the window
constexpr TimePs kRoundPart = 4;    // of the round trip: it grows by less where others have far more in flight
constexpr std::uint32_t kTestEpochs = 3;
constexpr TimePs kCalm = 4;  // factor of the wait on a plane that may just be slow
constexpr TimePs kPatienceMax = 64 * kPsPerSecond;

// Growth.
constexpr std::int64_t kGrowthPart = 16;    // of the window, in addition to a packet, before the first loss
constexpr std::int64_t kSharePercent = 40;  // of the plane, for all QPs that are counted together: less than half, so
                                            // that the queue empties when the others have gone
constexpr std::int64_t kKeptTenths = 7;     // of the window, after a loss

// Ends.
constexpr TimePs kDrainInterval = 2 * kPsPerSecond;
constexpr TimePs kMeasurable = 100 * kPsPerUs;
constexpr TimePs kFlatPart = 4;    // of the expected effect of a drain
constexpr TimePs kLeastPart = 20;  // of the round trip, for all QPs: with a smaller share, there are too many others
constexpr std::uint32_t kWeakDrains = 4;  // in a row
constexpr TimePs kPatienceGivenUp = 16 * kPsPerSecond;
constexpr std::uint32_t kEmptyEpochs = 16;
constexpr TimePs kShortQueue = 300 * kPsPerUs;  // one that no other sender keeps

}  // namespace

bool Competition::watch(const Epoch& epoch) {
  const bool small = epoch.window <= std::max(kSmallBytes, 2 * epoch.packet);
  if (!small) small_for_ = 0;
  if (!small || !epoch.used) return false;
  small_for_ += epoch.span;
  if (small_for_ < patience_ * (epoch.slower ? 1 : kCalm) || epoch.lossy) return false;
  small_for_ = 0;
  raised_ = kRaise * epoch.window;
  round_before_ = epoch.round;
  epochs_ = 0;
  return true;
}

void Competition::judge(const Epoch& epoch) {
  const bool lengthens = epoch.round >= round_before_ + round_before_ / kRoundPart;
  if (!lengthens && !epoch.lossy && ++epochs_ < kTestEpochs) return;
  const bool far_more = !lengthens && !epoch.lossy && epoch.used;
  raised_ = 0;
  if (lengthens) patience_ = std::min(2 * patience_, kPatienceMax);
  active_ = far_more;
  reduced_ = filled_ = false;
  empty_epochs_ = weak_drains_ = 0;
  plane_rate_ = 0;
  since_drain_ = 0;
  drained_window_ = epoch.window;
}

std::int64_t Competition::next_window(const Epoch& epoch) {
  // The idle round trip may be unknown, but beside full buffers all are long.
  const bool shorter = epoch.idle + epoch.queue < round_before_ / 2;
  empty_epochs_ = shorter && epoch.queue < std::max(kShortQueue, round_before_ / 16) ? empty_epochs_ + 1 : 0;
  if (empty_epochs_ >= kEmptyEpochs) stop();
  std::int64_t window = epoch.window;
  // Losses in two epochs in a row have one cause.
  const bool reduce = epoch.lossy && !reduced_;
  reduced_ = reduce;
  filled_ = filled_ || epoch.lossy;
  if (reduce) {
    window = window / 10 * kKeptTenths;
  } else if (!epoch.lossy && epoch.used) {
    window += epoch.packet + (filled_ ? 0 : window / kGrowthPart);
  }
  if (plane_rate_ > 0) {
    const std::int64_t all = bytes_in(plane_rate_, epoch.round) / 100 * kSharePercent;
    window = std::min(window, all / epoch.sharers);
  }
  return std::max(window, 2 * epoch.packet);
}

bool Competition::drain_due(const Epoch& epoch, std::int64_t left_bytes) {
  since_drain_ += epoch.span;
  const bool doubled = epoch.window > 2 * std::max(drained_window_, 4 * epoch.packet);
  if (drain_.running() || (since_drain_ < kDrainInterval && !doubled)) return false;
  since_drain_ = 0;
  drained_window_ = epoch.window;
  sharers_ = epoch.sharers;
  drain_.begin();
  drain_round_ = epoch.idle + epoch.queue;
  drain_bytes_ = epoch.window - left_bytes;
  return true;
}

bool Competition::end_drain(TimePs round, bool draining) {
  const std::optional<TimePs> left = drain_.end_epoch(round, draining);
  if (!left || *left == kNever) return false;
  const TimePs shorter = drain_round_ - *left;
  // Without a queue, the round trip does not depend on the window.
  const TimePs expected = plane_rate_ > 0 ? time_for(drain_bytes_, plane_rate_) : 0;
  const bool flat = expected > kFlatPart * kMeasurable && shorter < expected / kFlatPart;
  const bool alone = flat || *left < drain_round_ / 4;
  const bool weak = filled_ && shorter < drain_round_ / (kLeastPart * sharers_);
  weak_drains_ = weak ? weak_drains_ + 1 : 0;
  if (!alone && weak_drains_ < kWeakDrains) {
    plane_rate_ = shorter > kMeasurable ? rate_of(drain_bytes_, shorter) : 0;
    return false;
  }
  if (!alone) patience_ = std::min(std::max(4 * patience_, kPatienceGivenUp), kPatienceMax);
  stop();
  return true;
}

void Competition::stop() {
  active_ = false;
  small_for_ = 0;
  drain_.clear();
}

void Competition::clear() { *this = {}; }

}  // namespace openmrc
