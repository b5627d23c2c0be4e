#include "engine/planes/path_jitter.hpp"

#include <algorithm>

#include "engine/planes/ratio.hpp"

namespace openmrc {
namespace {

constexpr TimePs kDecay = 256;  // epochs

}  // namespace

void PathJitter::add(TimePs sent, TimePs delay) {
  if (!sampled_ || delay >= peak_ - (sent - peak_sent_) * 7 / 8) {
    peak_ = delay;
    peak_sent_ = sent;
    sampled_ = true;
  } else {
    drop_ = std::max(drop_, peak_ - delay);
  }
}

// A window that shrinks lets the queue shrink at full speed, too, by what is no longer in flight.
void PathJitter::end_epoch(const Epoch& epoch) {
  if (epoch.paused) {
    sampled_ = false;
  } else {
    const std::int64_t less = std::max({window_before_, window_earlier_, epoch.window}) - epoch.window;
    const TimePs explained = epoch.usual + time_for(less, epoch.rate);
    jitter_ = std::max(jitter_ - jitter_ / kDecay, drop_ - explained);
  }
  window_earlier_ = window_before_;
  window_before_ = epoch.window;
  drop_ = 0;
}

}  // namespace openmrc
