// The UEC alternative to skipping: marks on more than half of the paths carry no information about paths.
#include <map>

#include "tests/check.hpp"
#include "tests/ev_set_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

EvSetFixture marked_fixture(bool rule, EvIndex marked) {
  EvSetFixture f(universe_of(2, 8), {.active_per_port = 8, .half_marked_rule = rule}, "round_robin");
  for (EvIndex ev = 0; ev < marked; ++ev) f.feed(ev, EvFeedback::kSkipOnce);
  return f;
}

std::map<EvIndex, int> uses(EvSetFixture& f, int packets) {
  std::map<EvIndex, int> count;
  for (int i = 0; i < packets; ++i) ++count[f.next()];
  return count;
}

int marked_used(const std::map<EvIndex, int>& count, EvIndex marked) {
  int used = 0;
  for (const auto& [ev, times] : count) used += ev < marked ? times : 0;
  return used;
}

// proves A.11.16
TEST_CASE(half_marked_rule_passes_over_nothing_above_half) {
  EvSetFixture with = marked_fixture(true, 16);
  // Each position is used in its turn until at most half are marked.
  const auto count = uses(with, 8);
  CHECK(count.size() == 8);
  CHECK(marked_used(count, 16) == 8);
}

// proves A.11.16
TEST_CASE(half_marked_rule_ends_where_half_are_marked) {
  EvSetFixture with = marked_fixture(true, 8);
  EvSetFixture without = marked_fixture(false, 8);
  for (int i = 0; i < 200; ++i) {
    CHECK(with.next() == without.next());
    with.feed(static_cast<EvIndex>(i % 4), EvFeedback::kSkipOnce);
    without.feed(static_cast<EvIndex>(i % 4), EvFeedback::kSkipOnce);
  }
}

TEST_CASE(half_marked_rule_off_skips_as_ever) {
  EvSetFixture with = marked_fixture(true, 12);
  EvSetFixture without = marked_fixture(false, 12);
  const int used_with = marked_used(uses(with, 4), 12);
  const int used_without = marked_used(uses(without, 4), 12);
  CHECK(used_with > used_without);
}

TEST_CASE(half_marked_rule_counts_active_evs_only) {
  EvSetFixture f(universe_of(1, 16), {.active_per_port = 8, .half_marked_rule = true}, "round_robin");
  for (const EvIndex ev : f.active(false)) f.feed(ev, EvFeedback::kSkipOnce);  // backups: no position
  const auto active = f.active();
  f.feed(active[0], EvFeedback::kSkipOnce);
  CHECK(f.state(active[0]) == EvState::kSkip);
  const auto count = uses(f, 7);
  CHECK(count.size() == 7 && !count.contains(active[0]));
}

TEST_CASE(half_marked_rule_count_survives_loss_and_revival) {
  EvSetFixture f(universe_of(1, 4), {.active_per_port = 4, .half_marked_rule = true}, "round_robin");
  for (EvIndex ev = 0; ev < 3; ++ev) f.feed(ev, EvFeedback::kSkipOnce);
  f.feed(0, EvFeedback::kTimeout);
  f.feed(1, EvFeedback::kTimeout);
  CHECK(f.set.active_count() == 2);
  // One of two is marked, which is not more than half, so it misses its turn.
  CHECK(f.next() == 3);
  CHECK(f.revive(0) > 0 && f.revive(1) > 0);
  CHECK(f.set.active_count() == 4);
}

}  // namespace
