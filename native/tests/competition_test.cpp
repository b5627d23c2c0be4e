#include "engine/planes/competition.hpp"

#include "engine/planes/plane_traffic.hpp"
#include "tests/check.hpp"

namespace openmrc {
namespace {

constexpr std::int64_t kPacket = 1500;
constexpr TimePs kRound = 10 * kPsPerMs;

Competition::Epoch epoch(std::int64_t packets, TimePs round = kRound) {
  return {.span = kRound,
          .queue = round - kPsPerMs,
          .idle = kPsPerMs,
          .round = round,
          .window = packets * kPacket,
          .packet = kPacket,
          .sharers = 1,
          .slower = true,
          .used = true};
}

// Epochs until a test begins.
int wait_for_test(Competition& competition, const Competition::Epoch& each) {
  int epochs = 1;
  while (!competition.watch(each)) ++epochs;
  return epochs;
}

Competition active() {
  Competition competition;
  wait_for_test(competition, epoch(2));
  for (int i = 0; i < 3; ++i) competition.judge(epoch(2));
  return competition;
}

// A drain of two epochs and the one after it, in which the least round trip is `round`.
bool drained(Competition& competition, TimePs round) {
  CHECK(!competition.end_drain(round, /*draining=*/true));
  CHECK(!competition.end_drain(round, /*draining=*/false));
  return competition.end_drain(round, /*draining=*/false);
}

// proves X.4.14
TEST_CASE(a_raised_window_that_hardly_lengthens_the_round_trip_is_one_beside_a_full_buffer) {
  Competition competition;
  CHECK(wait_for_test(competition, epoch(2)) == 100);
  CHECK(competition.raised_bytes() == 8 * kPacket);
  for (int i = 0; i < 3; ++i) {
    CHECK(competition.testing());
    CHECK(!competition.active());
    competition.judge(epoch(2, kRound + kRound / 5));
  }
  CHECK(!competition.testing());
  CHECK(competition.active());
}

TEST_CASE(a_raised_window_that_lengthens_the_round_trip_or_loses_packets_ends_the_test) {
  Competition competition;
  wait_for_test(competition, epoch(2));
  competition.judge(epoch(2, kRound + kRound / 3));
  CHECK(!competition.testing() && !competition.active());
  CHECK(wait_for_test(competition, epoch(2)) == 200);  // the wait has doubled
  Competition::Epoch lossy = epoch(2);
  lossy.lossy = true;
  competition.judge(lossy);
  CHECK(!competition.testing() && !competition.active());
  CHECK(wait_for_test(competition, epoch(2)) == 200);
}

TEST_CASE(a_raised_window_that_is_not_used_proves_nothing) {
  Competition competition;
  wait_for_test(competition, epoch(2));
  Competition::Epoch unused = epoch(2);
  unused.used = false;
  for (int i = 0; i < 3; ++i) competition.judge(unused);
  CHECK(!competition.testing() && !competition.active());
}

TEST_CASE(large_and_unused_windows_are_not_tested_and_those_of_slow_planes_later) {
  Competition competition;
  Competition::Epoch unused = epoch(2);
  unused.used = false;
  for (int i = 0; i < 1000; ++i) CHECK(!competition.watch(epoch(9)) && !competition.watch(unused));
  Competition::Epoch slow = epoch(2);
  slow.slower = false;
  CHECK(wait_for_test(competition, slow) == 400);
}

TEST_CASE(losses_shrink_the_window_once_and_its_growth_for_good) {
  Competition competition = active();
  CHECK(competition.next_window(epoch(32)) == 32 * kPacket + kPacket + 2 * kPacket);
  Competition::Epoch lossy = epoch(100);
  lossy.lossy = true;
  CHECK(competition.next_window(lossy) == 70 * kPacket);
  CHECK(competition.next_window(lossy) == 100 * kPacket);  // the same loss
  CHECK(competition.next_window(lossy) == 70 * kPacket);
  CHECK(competition.next_window(epoch(32)) == 33 * kPacket);
  lossy.window = 2 * kPacket;
  competition.next_window(epoch(2));
  CHECK(competition.next_window(lossy) == 2 * kPacket);
}

TEST_CASE(drains_measure_the_plane_and_bound_the_window) {
  Competition competition = active();
  CHECK(!competition.drain_due(epoch(4), 2 * kPacket));
  CHECK(competition.drain_due(epoch(52), 2 * kPacket));  // the window has doubled
  CHECK(!drained(competition, kRound - 5 * kPsPerMs));   // 50 packets take 5 ms
  CHECK(competition.next_window(epoch(52)) == 40 * kPacket);
  Competition::Epoch one_of_two = epoch(52);
  one_of_two.sharers = 2;
  CHECK(competition.next_window(one_of_two) == 20 * kPacket);
}

// Without a queue the round trip does not depend on the window.
TEST_CASE(a_competition_ends_when_a_drain_has_no_effect_any_more) {
  Competition competition = active();
  CHECK(competition.drain_due(epoch(52), 2 * kPacket));
  CHECK(!drained(competition, kRound - 5 * kPsPerMs));
  while (!competition.drain_due(epoch(42), 2 * kPacket)) continue;
  CHECK(drained(competition, kRound - kPsPerMs / 2));
  CHECK(!competition.active());
}

TEST_CASE(a_competition_ends_when_the_others_have_gone) {
  Competition competition = active();
  CHECK(competition.drain_due(epoch(52), 2 * kPacket));
  CHECK(drained(competition, kRound / 5));
  CHECK(!competition.active());

  competition = active();
  for (int i = 0; i < 16; ++i) {
    CHECK(competition.active());
    competition.next_window(epoch(10, kPsPerMs + 100 * kPsPerUs));
  }
  CHECK(!competition.active());
}

// With so small a share there is a crowd, of which each sender has as little.
TEST_CASE(a_competition_without_effect_is_given_up_for_a_while) {
  Competition competition = active();
  Competition::Epoch lossy = epoch(20);
  lossy.lossy = true;
  competition.next_window(lossy);
  for (int i = 0; i < 4; ++i) {
    CHECK(competition.active());
    while (!competition.drain_due(epoch(20), 2 * kPacket)) continue;
    CHECK(drained(competition, kRound - kRound / 30) == (i == 3));
  }
  CHECK(!competition.active());
  CHECK(wait_for_test(competition, epoch(2)) == 1600);
}

// proves X.4.13
TEST_CASE(qps_count_as_receiving_over_a_plane_for_a_quarter_of_a_second_at_least) {
  PlaneTraffic traffic;
  std::uint32_t first = 0, second = 0, elsewhere = 0;
  TimePs now = kPsPerSecond;
  CHECK(traffic.receiving_qps(now, 0) == 1);
  traffic.received_for_qp(now, 0, first);
  traffic.received_for_qp(now, 0, first);
  traffic.received_for_qp(now, 0, second);
  traffic.received_for_qp(now, 1, elsewhere);
  CHECK(traffic.receiving_qps(now, 0) == 2);
  now += 250 * kPsPerMs;
  traffic.received_for_qp(now, 0, first);
  CHECK(traffic.receiving_qps(now, 0) == 2);
  now += 250 * kPsPerMs;
  CHECK(traffic.receiving_qps(now, 0) == 1);
  for (int i = 0; i < 200; ++i) {
    std::uint32_t period = 0;
    traffic.received_for_qp(now, 0, period);
  }
  CHECK(traffic.receiving_qps(now, 0) == PlaneTraffic::kQpsMax);
}

}  // namespace
}  // namespace openmrc
