// The idle round trip of a plane may be longer than it seems: queues that never empty hide it, and longer paths look like
// queues.
#include <algorithm>

#include "engine/planes/plane_window.hpp"
#include "engine/planes/ratio.hpp"

namespace openmrc {
namespace {

constexpr TimePs kNoiseTested = 100 * kPsPerUs;  // a queue below this is indistinguishable from jitter even by a test

// X.4.13. More QPs of one host or to one receiver are a crowd: even windows of two packets may fill the buffer.
constexpr std::uint32_t kCompetingMax = 6;

}  // namespace

// A plane that few senders fill carries this sender's best rate, or about twice that. By that rate, queues that would be
// usual at a lower one are watched, too.
StandingQueue::Verdict PlaneWindow::watch_queue(TimePs queue, bool lossy) {
  const std::int64_t rate = std::max(last_rate_, delivered_rate_), best = best_.get();
  const bool shrinkable = window_ >= 4 * kWindowPacketsMin * packet_bytes_;
  const bool by_best = senders_.few() && !shrinkable;
  TimePs usual = std::max(target() * 9 / 8, visible());
  if (by_best) {
    usual = std::min(usual, std::max(target_at(short_target_at(best)) * 9 / 8, visible_at(best, kNoiseTested)));
  }
  return standing_.watch({.queue = queue,
                          .usual = usual,
                          .window = window_,
                          .rate = rate,
                          .carried = std::max({rate, rate_before_, by_best ? best : 0}),
                          .packet_time = senders_.few() ? time_for(packet_bytes_, best) : 0,
                          .lossy = lossy,
                          .shrinkable = shrinkable,
                          .varies = follows_return()});
}

void PlaneWindow::pace_for(std::int64_t window) {
  pace_ = std::max<std::int64_t>(headroom(rate_of(window, std::max<TimePs>(delay_.smoothed(), 1))), 1);
  size_burst();
}

void PlaneWindow::raise() {
  if (!senders_.few() || drain_end_ > 0) return;
  const bool begun = raised_.begin({.window = window_,
                                    .packet = packet_bytes_,
                                    .rate = delivered_rate_,
                                    .best = best_.get(),
                                    .round = delay_.smoothed(),
                                    .queue = standing_.most(),
                                    .high = delay_.high(),
                                    .varies = standing_.most() - standing_.length(),
                                    .times = standing_.tests()});
  if (begun) pace_for(raised_.bytes());
}

void PlaneWindow::judge_raised(TimePs now, std::int64_t rate) {
  const bool lossy = epoch_lost_ > 1 && scaled(epoch_lost_, kPpm, epoch_lost_ + epoch_acked_) > kManyLostPpm;
  const RaisedWindow::Verdict verdict = raised_.judge(delay_.high(), rate, lossy);
  if (verdict == RaisedWindow::Verdict::kQueue) {
    pace_for(window_);
  } else if (verdict == RaisedWindow::Verdict::kLonger) {
    lengthen(now, standing_.length());
  }
}

// The longer path may carry the rate of the shorter one.
void PlaneWindow::lengthen(TimePs now, TimePs by) {
  delay_.lengthen(now, by);
  jitter_.forget_delays();
  window_ = std::max(window_, bytes_in(standing_.rate_before(), delay_.unqueued() + target()));
  pace_ = std::max<std::int64_t>(headroom(standing_.rate_before()), 1);
  undelayed_epochs_ = 0;
  usual_.forget();
  standing_.clear();
  raised_.clear();
}

void PlaneWindow::end_drain(TimePs now) {
  if (now <= drain_end_) return;
  // The old value was too long: measure again.
  if (delay_.base() < drain_base_ - target() / 2) drain_due_ = now + 100 * kPsPerMs;
  drain_end_ = 0;
}

// A queue that never empties hides the idle round trip. `test`: of a queue that may be none.
void PlaneWindow::drain(TimePs now, TimePs queue, bool test) {
  const TimePs base = std::max<TimePs>(delay_.base(), 1);
  if (!test && now <= drain_due_) return;
  if (test) standing_.begin_test();
  if (!test && !delay_.long_path()) senders_.begin(queue);
  drain_due_ = now + kDrainInterval;
  drain_base_ = base;
  drain_end_ = now + delay_.smoothed() + std::max(delay_.smoothed() / 2, kEpoch);
  drain_window_ = kWindowPacketsMin * packet_bytes_;
  if (delay_.long_path()) {
    const TimePs idle = delay_.unqueued();
    const std::int64_t part = test ? window_ / 2 : window_ / 4 * 3;
    drain_window_ = std::max(scaled(part, idle, idle + queue), drain_window_);
  }
}

// --- competition

Competition::Epoch PlaneWindow::competing_epoch(TimePs queue, TimePs span) const {
  const std::int64_t usual = scaled(2 * background_ppm_, epoch_lost_ + epoch_acked_, kPpm);
  Competition::Epoch epoch;
  epoch.span = span;
  epoch.queue = queue;
  epoch.idle = delay_.unqueued();
  epoch.round = delay_.unqueued() + delay_.high();
  epoch.window = window_;
  epoch.packet = packet_bytes_;
  epoch.sharers = std::max<std::uint32_t>(receiving_, sharers_);
  epoch.slower = delivered_rate_ < best_.get() / 2;
  epoch.used = fills(competition_.testing() ? competition_.raised_bytes() : window_);
  epoch.lossy = epoch_lost_ > usual;
  return epoch;
}

// The test of a plane that is slow, not full, holds up the data of faster ones.
void PlaneWindow::watch_competition(TimePs queue, TimePs span) {
  if (receiving_ == 0 || drain_end_ > 0 || raised_.raised() || ceiling_ > 0) return;
  const Competition::Epoch epoch = competing_epoch(queue, span);
  if (epoch.sharers > kCompetingMax || (faster_ && !epoch.slower)) return;
  if (competition_.watch(epoch)) pace_for(competition_.raised_bytes());
}

void PlaneWindow::compete(TimePs now, const PlaneProgress& progress, TimePs queue, TimePs span) {
  const Competition::Epoch epoch = competing_epoch(queue, span);
  const std::int64_t rate = rate_of(epoch_acked_bytes_, span);
  if (drain_end_ == 0) {
    delivered_rate_ += (rate - delivered_rate_) * 3 / 10;
    window_ = competition_.next_window(epoch);
    bound_window();
    pace_for(window_);
  }
  if (!competition_.active()) return end_competition(progress);
  const std::int64_t least = kWindowPacketsMin * packet_bytes_;
  if (drain_end_ > 0 || !competition_.drain_due(epoch, least)) return;
  drain_due_ = now + kDrainInterval;
  drain_base_ = delay_.base();
  // A round trip until all has left, and one of the queue without it.
  drain_end_ = now + 2 * delay_.smoothed() + kEpoch;
  drain_window_ = least;
}

// The losses were those of a buffer that others had filled. They say nothing about the plane.
void PlaneWindow::end_competition(const PlaneProgress& progress) {
  block_ = {};
  block_after_ = progress.next_order;
  lost_early_ = lost_late_ = 0;
  burst_cap_bytes_ = std::max(kBurstBytesMax, packet_bytes_);
  standing_.clear();
}

}  // namespace openmrc
