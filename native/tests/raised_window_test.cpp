#include "engine/planes/raised_window.hpp"

#include <cstdint>

#include "tests/check.hpp"

namespace {

using openmrc::kPsPerMs;
using openmrc::kPsPerUs;
using openmrc::RaisedWindow;
using Verdict = RaisedWindow::Verdict;

// Two packets of 1,500 bytes in 8 ms on a plane that has carried 3 MB/s, with a supposed queue of 4 ms.
RaisedWindow::State state() {
  return {.window = 3'000,
          .packet = 1'500,
          .rate = 375'000,
          .best = 3'000'000,
          .round = 8 * kPsPerMs,
          .queue = 4 * kPsPerMs,
          .high = 4 * kPsPerMs,
          .varies = 50 * kPsPerUs,
          .times = 1};
}

}  // namespace

TEST_CASE(raised_window_finds_a_longer_path_by_the_rate) {
  for (const std::int64_t rate : {1'500'000, 600'000}) {
    RaisedWindow raised;
    CHECK(raised.begin(state()));
    CHECK(raised.raised() && raised.bytes() == 15'000);
    CHECK(raised.judge(4 * kPsPerMs, 400'000, false) == Verdict::kUndecided);
    CHECK(raised.judge(4 * kPsPerMs, rate, false) == Verdict::kUndecided);
    CHECK(raised.judge(4 * kPsPerMs, rate, false) == (rate > 1'000'000 ? Verdict::kLonger : Verdict::kQueue));
    CHECK(!raised.raised());
  }
}

TEST_CASE(raised_window_whose_queue_grows_or_loses_packets_is_lowered_at_once) {
  for (const bool lossy : {false, true}) {
    RaisedWindow raised;
    CHECK(raised.begin(state()));
    CHECK(raised.judge(lossy ? 4 * kPsPerMs : 5 * kPsPerMs, 1'500'000, lossy) == Verdict::kQueue);
    CHECK(!raised.raised());
  }
}

TEST_CASE(raised_window_is_not_tried_where_it_would_show_nothing) {
  RaisedWindow raised;
  RaisedWindow::State varying = state();
  varying.varies = 4 * kPsPerMs;  // as long as the queue of all that the path holds
  CHECK(!raised.begin(varying));
  RaisedWindow::State full = state();
  full.window = 20'000;
  CHECK(!raised.begin(full));
  CHECK(!raised.raised());
}

TEST_CASE(raised_window_is_tried_less_often_after_each_queue) {
  RaisedWindow raised;
  RaisedWindow::State one = state();
  std::uint32_t tests = 0;
  for (one.times = 1; one.times <= 64; ++one.times) {
    if (!raised.begin(one)) continue;
    ++tests;
    CHECK(raised.judge(6 * kPsPerMs, 400'000, false) == Verdict::kQueue);
  }
  CHECK(tests == 8);  // after 1, 2, 4, 8, and then 16, 32, 48 and 64 times
  raised.clear();
  one.times = 1;
  CHECK(raised.begin(one));
}
