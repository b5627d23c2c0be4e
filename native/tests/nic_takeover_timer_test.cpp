#include "nic/takeover_timer.hpp"

#include <poll.h>

#include "nic/clock.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;

bool readable(const nic::TakeoverTimer& timer, int timeout_ms) {
  pollfd wait{timer.fd(), POLLIN, 0};
  return ::poll(&wait, 1, timeout_ms) == 1;
}

TEST_CASE(nic_takeover_timer_counts_from_the_latest_setting) {
  nic::TakeoverTimer timer;
  const nic::TimeNs now = nic::now_ns(), later = now + 3600 * nic::kNsPerSecond;
  CHECK(timer.set(now + nic::kNsPerMs) && timer.set(later));
  CHECK(!readable(timer, 20));
  CHECK(timer.set(now + 21 * nic::kNsPerMs) && readable(timer, 20'000));
  CHECK(timer.set(later) && !readable(timer, 0));
  CHECK(timer.set(1) && readable(timer, 20'000));
  timer.clear();
  CHECK(!readable(timer, 0));
  timer.reset();
  CHECK(!timer.set(later));
}

}  // namespace
