#include "engine/planes/raised_window.hpp"

#include <algorithm>

#include "engine/planes/ratio.hpp"

namespace openmrc {
namespace {

constexpr std::uint32_t kEpochs = 3;  // the first one has samples from before, too
constexpr std::uint32_t kApartMax = 16;
constexpr TimePs kVariationMin = 100 * kPsPerUs;

}  // namespace

// So much more data that the queue it would be is clearly longer than the queue varies by itself: by a packet at least,
// as packets leave in twos. No more than the path has held.
bool RaisedWindow::begin(const State& state) {
  if (state.times % apart_ != 0) return false;
  const TimePs variation = std::max({state.varies, kVariationMin, time_for(state.packet, state.best) * 9 / 8});
  const std::int64_t distinct = bytes_in(state.best, 2 * variation), held = bytes_in(state.best, state.round);
  const std::int64_t more =
      std::min(std::max({state.window / 2, distinct, held / 2}), held + state.packet - state.window);
  if (more < std::max(distinct, state.window / 2)) return false;
  bytes_ = state.window + more;
  rate_wanted_ = state.rate + scaled(state.rate, 3 * more, 4 * state.window);
  high_most_ = std::min(state.high, state.queue + variation / 2) + variation;
  epochs_ = 0;
  return true;
}

RaisedWindow::Verdict RaisedWindow::judge(TimePs high, std::int64_t rate, bool lossy) {
  const bool longer = !lossy && high <= high_most_;
  if (longer && ++epochs_ < kEpochs) return Verdict::kUndecided;
  bytes_ = 0;
  if (longer && rate >= rate_wanted_) return Verdict::kLonger;
  apart_ = std::min(2 * apart_, kApartMax);
  return Verdict::kQueue;
}

void RaisedWindow::clear() {
  bytes_ = 0;
  apart_ = 1;
}

}  // namespace openmrc
