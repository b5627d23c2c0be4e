// Transit times of one plane at the receiver, for comparisons with those of other planes.
//
// A transit time is the arrival less the departure, on clocks that differ by a constant, in units of the sender's
// timestamps. Of each only the lower 16 bits are known.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class PlaneTransit {
 public:
  // Adds the transit time of a packet. `unit`: of the timestamps. `near`: the latest transit time of any plane, which
  // resolves the first one and that after a long silence.
  void add(TimePs now, TimePs unit, std::uint16_t lower, std::int64_t near) {
    const TimePs silence = now - heard_;
    const bool anew = silence > kLife;
    // A queue takes as long to shrink as packets wait in it. Therefore a value is hardly below the one before less the
    // time since, while a burst may have lengthened the queue at once.
    const std::int64_t low = anew ? near - kRange / 2 : std::max(least(), latest_ - silence / unit) - kRange / 4;
    latest_ = low + static_cast<std::uint16_t>(lower - static_cast<std::uint16_t>(low));
    if (anew) {
      least_before_ = least_ = latest_;
      since_ = now;
    } else if (now - since_ > kLife) {
      least_before_ = least_;
      least_ = latest_;
      since_ = now;
    }
    least_ = std::min(least_, latest_);
    heard_ = now;
  }

  // Takes the multiple of the range that is next to what is known otherwise about the least transit time.
  void resolve(std::int64_t expected) {
    const std::int64_t off = expected - least();
    const std::int64_t shift = (off + (off > 0 ? kRange : -kRange) / 2) / kRange * kRange;
    latest_ += shift;
    least_ += shift;
    least_before_ += shift;
  }

  std::int64_t latest() const { return latest_; }
  // Of ten to twenty seconds.
  std::int64_t least() const { return std::min(least_, least_before_); }
  // True if a packet arrived at `time` or later.
  bool heard_since(TimePs time) const { return heard_ >= time; }

  void rebase(TimePs by) {
    heard_ = rebased(heard_, by);
    since_ = rebased(since_, by);
  }

 private:
  static constexpr TimePs kLife = 10 * kPsPerSecond;
  static constexpr std::int64_t kRange = 1 << 16;

  std::int64_t latest_ = 0, least_ = 0, least_before_ = 0;
  TimePs since_ = 0, heard_ = kLongAgo;
};

}  // namespace openmrc
