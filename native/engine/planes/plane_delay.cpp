#include "engine/planes/plane_delay.hpp"

#include <algorithm>

namespace openmrc {
namespace {

constexpr std::uint32_t kStrangeWaysMax = 8;
constexpr std::uint32_t kHighSamples = 4;
constexpr std::uint32_t kManySamples = 16;
constexpr TimePs kNoiseMax = kPsPerMs;
constexpr TimePs kStop = 2 * kPsPerMs;
constexpr TimePs kLargeLife = kPsPerSecond;

constexpr TimePs distance(TimePs a, TimePs b) { return a > b ? a - b : b - a; }

}  // namespace

// Acknowledgements mostly come back over one plane. A round trip with another return path carries no information about
// the queue.
bool PlaneDelay::usual_way(TimePs now, TimePs rtt, Transit transit, PortId via) {
  if (via == via_) {
    strange_ways_ = 0;
    return true;
  }
  const bool first = via_ == kPortCountMax;
  if (!first && ++strange_ways_ < kStrangeWaysMax) return false;
  if (!first) {
    // Includes the queue on the return path, or any queue if transit times are unknown. The result is too long rather
    // than too short: a short drain corrects an overestimate, whereas an underestimate would starve the plane.
    base_ = rtt - std::clamp<TimePs>(above_transit_base(transit), 0, rtt - 1);
    idle_ = kNever;
    base_before_ = kNever;
    base_since_ = now;
    way_changed_ = true;
  }
  if (via != idle_via_) idle_ = kNever;
  via_ = via;
  strange_ways_ = 0;
  return true;
}

// A short packet passes switches sooner than a full one; compared with it, full packets would look delayed.
bool PlaneDelay::comparable(TimePs now, std::uint32_t packet_bytes) {
  if (packet_bytes >= large_bytes_ || now - large_seen_ > kLargeLife) {
    large_bytes_ = packet_bytes;
    large_seen_ = now;
  }
  return 2 * packet_bytes >= large_bytes_;
}

// Negative: below the known base. Values are compared modulo the range.
TimePs PlaneDelay::above_transit_base(Transit transit) const {
  if (transit.range == 0 || transit_base_ == kNever) return 0;
  const TimePs above = (transit.time - transit_base_) % transit.range;
  if (above > transit.range / 2) return above - transit.range;
  return above < -transit.range / 2 ? above + transit.range : above;
}

// Share of a round trip's delay that lies on the forward path. Transit times repeat: of the values that fit into the
// delay, the one next to the sample before it, or the largest if that sample is too long ago.
TimePs PlaneDelay::queue_of(TimePs now, TimePs rtt, Transit transit) {
  const TimePs delay = std::max<TimePs>(rtt - base(), 0);
  if (transit.range == 0) return delay;
  // Our own first packets cause the delay of the first sample, rather than others on the return path. On a long path
  // a queue that was there before is the larger part.
  if (transit_base_ == kNever) transit_base_ = long_path() ? transit.time : transit.time - delay;
  TimePs queue = (transit.time - transit_base_) % transit.range;
  if (queue < 0) queue += transit.range;
  const bool below = queue > delay && transit.range - queue < queue - delay;
  if (below) queue -= transit.range;
  if (queue < delay) {
    const TimePs most = (delay - queue) / transit.range;
    const TimePs next = std::max<TimePs>(queue_ + transit.range / 2 - queue, 0) / transit.range;
    queue += (now - queue_seen_ < transit.range ? std::min(next, most) : most) * transit.range;
  }
  const TimePs bounded = std::clamp<TimePs>(queue, 0, delay);
  transit_base_ = (transit_base_ + queue - bounded) % transit.range;
  queue_ = bounded;
  queue_seen_ = now;
  return bounded;
}

// Adds the part of a round trip that is no queue on the forward path. A host that had stopped counts only as somewhat
// late, so that the time of one stop is not taken for a longer path.
void PlaneDelay::add_rest(TimePs rest) {
  if (unqueued_ == 0) {
    unqueued_ = rest;
    return;
  }
  const TimePs most = 2 * unqueued_ + kStop;
  epoch_stopped_ = epoch_stopped_ || rest > most;
  rest = std::min(rest, most);
  return_deviation_ += (distance(rest, unqueued_) - return_deviation_) / 20;
  unqueued_ += (rest - unqueued_) / 10;
}

bool PlaneDelay::add(TimePs now, TimePs rtt, Transit transit, std::uint32_t packet_bytes, PortId via) {
  if (!comparable(now, packet_bytes) || !usual_way(now, rtt, transit, via)) return false;
  if (smoothed_ == 0) {
    smoothed_ = rtt;
    deviation_ = rtt / 4;
  } else {
    deviation_ += (distance(rtt, smoothed_) - deviation_) / 8;
    smoothed_ += (rtt - smoothed_) / 10;
  }
  if (now - base_since_ > kBaseLife) {
    base_before_ = base_;
    base_ = kNever;
    base_since_ = now;
    if (now - idle_since_ > kIdleLife) idle_ = kNever;
  }
  base_ = std::min(base_, rtt);
  const TimePs queue = queue_of(now, rtt, transit);
  add_rest(rtt - queue);
  queues_[count_++ % kRecent] = queue;
  epoch_least_ = std::min(epoch_least_, queue);
  if (transit.range > 0) epoch_peak_ = std::max(epoch_peak_, queue);
  ++epoch_samples_;
  if (settled()) {
    noise_ += (std::min(queue - least_of(kRecent), kNoiseMax) - noise_) / 50;
    epoch_high_ = std::max(epoch_high_, least_of(kHighSamples));
  }
  return true;
}

void PlaneDelay::set_idle(TimePs now, TimePs rtt, PortId via) {
  if (via_ != kPortCountMax && via != via_) return;
  idle_ = now - idle_since_ > kIdleLife || via != idle_via_ ? rtt : std::min(idle_, rtt);
  idle_since_ = now;
  idle_via_ = via;
}

void PlaneDelay::restart() {
  count_ = 0;
  begin_epoch();
  begin_epoch();
}

// Transit times determine by how much on the forward path. The rest is on the return path, like a queue there.
void PlaneDelay::lengthen(TimePs now, TimePs by) {
  base_ = base() + by;
  base_before_ = idle_ = kNever;
  base_since_ = now;
  if (transit_base_ != kNever) transit_base_ += by;
  restart();
}

void PlaneDelay::begin_epoch() {
  epoch_high_before_ = epoch_high_;
  epoch_high_ = 0;
  epoch_peak_before_ = epoch_peak_;
  epoch_peak_ = 0;
  epoch_least_ = kNever;
  epoch_samples_ = 0;
  epoch_stopped_ = false;
}

void PlaneDelay::rebase(TimePs by) {
  base_since_ = rebased(base_since_, by);
  large_seen_ = rebased(large_seen_, by);
  queue_seen_ = rebased(queue_seen_, by);
  idle_since_ = rebased(idle_since_, by);
}

TimePs PlaneDelay::base() const {
  const TimePs base = std::min({base_, base_before_, idle_ == kNever ? kNever : idle_ + full_packet_});
  return base == kNever ? 0 : base;
}

TimePs PlaneDelay::smoothed_forward() const {
  return smoothed_ == 0 ? 0 : std::max<TimePs>(smoothed_ + base() - unqueued(), 1);
}

TimePs PlaneDelay::least_of(std::uint32_t samples) const {
  TimePs least = kNever;
  for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(samples, count_); ++back) {
    least = std::min(least, queues_[(count_ - back) % kRecent]);
  }
  return least == kNever ? 0 : least;
}

TimePs PlaneDelay::epoch_queue() const {
  const TimePs least = epoch_least_ == kNever ? 0 : epoch_least_;
  return epoch_samples_ >= kManySamples ? std::max(least, least_of(kRecent)) : least;
}

TimePs PlaneDelay::high() const { return std::max(epoch_high_, epoch_high_before_); }

bool PlaneDelay::take_way_changed() {
  const bool changed = way_changed_;
  way_changed_ = false;
  return changed;
}

}  // namespace openmrc
