// Tests of small windows, and windows beside senders that fill the buffer (X.4.14).
#include <algorithm>

#include "engine/planes/plane_window.hpp"
#include "engine/planes/ratio.hpp"

namespace openmrc {
namespace {

// X.4.13. More QPs of one host or to one receiver are a crowd: even windows of two packets may fill the buffer.
constexpr std::uint32_t kCompetingMax = 6;

}  // namespace

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
  // A round trip until all has left, and one of the queue without it.
  begin_drain(now, 2 * delay_.smoothed() + kEpoch, least);
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
