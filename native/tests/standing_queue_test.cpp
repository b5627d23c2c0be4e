#include "engine/planes/standing_queue.hpp"

#include <cstdint>

#include "tests/check.hpp"

namespace {

using openmrc::kNever;
using openmrc::kPsPerMs;
using openmrc::StandingQueue;
using openmrc::TimePs;
using Verdict = StandingQueue::Verdict;

StandingQueue::Epoch epoch(TimePs queue, std::int64_t window, std::int64_t rate) {
  return {.queue = queue, .usual = kPsPerMs, .window = window, .rate = rate, .carried = rate, .shrinkable = true};
}

// Ends after 16 epochs with the same queue at a lower rate.
void come_to_rest(StandingQueue& standing) {
  CHECK(standing.watch(epoch(8 * kPsPerMs, 100'000, 1'000)) == Verdict::kQueue);
  for (int i = 0; i < 14; ++i) CHECK(standing.watch(epoch(8 * kPsPerMs, 70'000, 600)) == Verdict::kQueue);
  CHECK(standing.watch(epoch(8 * kPsPerMs, 70'000, 600)) == Verdict::kUndecided);
  standing.begin_test();
}

}  // namespace

TEST_CASE(standing_queue_is_a_longer_path_once_the_window_has_halved) {
  StandingQueue standing;
  std::int64_t window = 100'000;
  for (int i = 0; i < 5; ++i, window = window * 8 / 10) {
    CHECK(standing.watch(epoch(8 * kPsPerMs, window, 1'000)) == Verdict::kQueue);
  }
  CHECK(standing.watch(epoch(8 * kPsPerMs, window, 400)) == Verdict::kLonger);
  CHECK(standing.length() == 8 * kPsPerMs && standing.rate_before() == 1'000);
}

TEST_CASE(standing_queue_that_varies_is_a_queue) {
  StandingQueue standing;
  std::int64_t window = 100'000;
  for (int i = 0; i < 40; ++i, window = window * 8 / 10) {
    CHECK(standing.watch(epoch((8 + i % 2) * kPsPerMs, window, 1'000)) == Verdict::kQueue);
  }
}

TEST_CASE(standing_queue_may_vary_where_acknowledgements_meet_data) {
  for (const TimePs most : {9 * kPsPerMs, 11 * kPsPerMs}) {
    StandingQueue standing;
    std::int64_t window = 100'000;
    bool longer = false;
    for (int i = 0; i < 20 && !longer; ++i, window = window * 8 / 10) {
      StandingQueue::Epoch one = epoch(i % 2 == 0 ? 8 * kPsPerMs : most, window, 1'000);
      one.varies = true;
      longer = standing.watch(one) == Verdict::kLonger;
    }
    CHECK(longer == (most == 9 * kPsPerMs));
    CHECK(!longer || standing.length() == 8 * kPsPerMs);
  }
}

TEST_CASE(standing_queue_is_forgotten_after_losses_and_growth) {
  for (const bool lossy : {false, true}) {
    StandingQueue standing;
    for (int i = 0; i < 5; ++i) standing.watch(epoch(8 * kPsPerMs, 100'000, 1'000));
    StandingQueue::Epoch ended = epoch(8 * kPsPerMs, lossy ? 100'000 : 120'000, 1'000);
    ended.lossy = lossy;
    CHECK(standing.watch(ended) == Verdict::kQueue);
    CHECK(standing.watch(epoch(8 * kPsPerMs, 40'000, 400)) == Verdict::kQueue);
  }
}

TEST_CASE(standing_queue_that_a_drain_leaves_is_none) {
  StandingQueue standing;
  come_to_rest(standing);
  CHECK(standing.judge_test(8 * kPsPerMs, /*draining=*/true) == 0);
  CHECK(standing.judge_test(8 * kPsPerMs, /*draining=*/false) == 0);  // its last samples come in the next epoch
  CHECK(standing.judge_test(8 * kPsPerMs, /*draining=*/false) == 8 * kPsPerMs);
  CHECK(standing.judge_test(8 * kPsPerMs, /*draining=*/false) == 0);
}

TEST_CASE(standing_queue_that_a_drain_shortens_is_a_queue) {
  StandingQueue standing;
  come_to_rest(standing);
  CHECK(standing.judge_test(kNever, /*draining=*/true) == 0);
  CHECK(standing.judge_test(7 * kPsPerMs, /*draining=*/false) == 0);
  CHECK(standing.judge_test(8 * kPsPerMs, /*draining=*/false) == 0);
}
