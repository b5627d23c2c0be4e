#include "nic/moderation.hpp"

#include <algorithm>

namespace openmrc::nic {
namespace {

constexpr TimeNs kPauseMax = 400 * kNsPerUs;
constexpr TimeNs kPauseHurried = 200 * kNsPerUs;  // while the application waits for an acknowledgement
constexpr TimeNs kPauseMin = 40 * kNsPerUs;       // a shorter one costs as much as it saves
// At a high rate a pause ends after the first amount; if that comes sooner than kPauseQuick, then or after the second
// amount. A stream at such rates is limited by processors, and each wake-up costs both ends.
constexpr TimeNs kPauseBytes = 65'536, kPauseBytesMax = 262'144;
constexpr TimeNs kPauseQuick = 100 * kNsPerUs;
constexpr TimeNs kGap = kNsPerMs;           // beyond the pause: ends a stream
constexpr TimeNs kSpan = 20 * kNsPerMs;     // span of a rate measurement
constexpr std::uint64_t kDataBytes = 1024;  // smaller reads hold acknowledgements and the like
constexpr std::uint32_t kLooksMax = 4096;

}  // namespace

TimeNs Moderation::pause(const Look& look, TimeNs patience) {
  const bool data = look.bytes > kDataBytes;
  TimeNs wanted = 0;
  if (data) {
    wanted = std::min(for_data(look), patience > 0 ? patience : kPauseHurried);
  } else if (patience != kNeverNs) {
    wanted = std::min(patience, kPauseMax);
  }
  if (wanted < kPauseMin || look.more) wanted = 0;
  paused_ = data ? wanted : 0;
  open_ = data && look.message_open;
  return wanted;
}

TimeNs Moderation::for_data(const Look& look) {
  if (look.now - latest_ > kPauseMax + kGap) {
    since_ = look.now;
    bytes_ = datagrams_ = 0;
    looks_ = 0;
  } else {
    judge(look);
    bytes_ += static_cast<TimeNs>(look.bytes);
    datagrams_ += look.datagrams;
    ++looks_;
  }
  latest_ = look.now;
  if (look.now - since_ > kSpan) {
    since_ += (look.now - since_) / 2;
    bytes_ /= 2;
    datagrams_ /= 2;
  }
  if (looks_ <= looks_first_ || bytes_ == 0) return 0;
  const auto time_for = [&](TimeNs bytes) { return bytes * (look.now - since_) / bytes_; };
  return std::min(kPauseMax, std::max(time_for(kPauseBytes), std::min(time_for(kPauseBytesMax), kPauseQuick)));
}

// A pause that outlasted the arrival of the last data delayed the end of a message. Without arrival times from the
// kernel, far less data than the rate promised is the indication. In the middle of a message the sender has paused, too.
void Moderation::judge(const Look& look) {
  if (paused_ == 0) return;
  const TimeNs span = std::max<TimeNs>(look.now - since_, 1);
  const TimeNs interval = span / std::max<TimeNs>(datagrams_, 1);
  const bool idle = look.waited != kNeverNs && look.waited > std::max(paused_ / 2, 2 * interval);
  // A read that stopped at its limit has not come to the last data.
  const bool failed = !look.more && (idle || 2 * static_cast<TimeNs>(look.bytes) < bytes_ * paused_ / span);
  if (failed && open_ && look.message_open) return;
  if (failed) {
    looks_ = 0;
    looks_first_ = std::min(2 * looks_first_, kLooksMax);
  } else {
    looks_first_ = std::max(looks_first_ - looks_first_ / 8, kLooksMin);
  }
}

}  // namespace openmrc::nic
