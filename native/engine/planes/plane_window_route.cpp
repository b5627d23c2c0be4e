// The idle round trip of a plane may be longer than it seems: queues that never empty hide it, and longer paths look like
// queues.
#include <algorithm>

#include "engine/planes/plane_window.hpp"
#include "engine/planes/ratio.hpp"

namespace openmrc {
namespace {

constexpr TimePs kNoiseTested = 100 * kPsPerUs;  // a queue below this is indistinguishable from jitter even by a test

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
  if (!test && now <= drain_due_) return;
  if (test) standing_.begin_test();
  if (!test && !delay_.long_path()) senders_.begin(queue);
  std::int64_t window = kWindowPacketsMin * packet_bytes_;
  if (delay_.long_path()) {
    const TimePs idle = delay_.unqueued();
    const std::int64_t part = test ? window_ / 2 : window_ / 4 * 3;
    window = std::max(scaled(part, idle, idle + queue), window);
  }
  begin_drain(now, delay_.smoothed() + std::max(delay_.smoothed() / 2, kEpoch), window);
}

void PlaneWindow::begin_drain(TimePs now, TimePs span, std::int64_t window) {
  drain_due_ = now + kDrainInterval;
  drain_base_ = delay_.base();
  drain_end_ = now + span;
  drain_window_ = window;
}

}  // namespace openmrc
