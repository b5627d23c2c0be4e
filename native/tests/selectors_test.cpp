// The registered EV selectors.
#include <algorithm>
#include <numeric>
#include <set>

#include "tests/check.hpp"
#include "tests/ev_set_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

std::vector<std::uint32_t> wrap(EvSelector& selector, std::uint32_t count) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t i = 0; i < count; ++i) positions.push_back(selector.next(count));
  return positions;
}

bool is_permutation_of_all(std::vector<std::uint32_t> positions) {
  std::sort(positions.begin(), positions.end());
  for (std::uint32_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != i) return false;
  }
  return true;
}

TEST_CASE(selectors_are_registered_by_name) {
  const auto names = ev_selector_names();
  for (const std::string_view name : {"mrc", "random", "reps", "round_robin", "single"}) {
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
    CHECK(make_ev_selector(name, Rng(1)) != nullptr);
  }
  CHECK(make_ev_selector("nonsense", Rng(1)) == nullptr);
  CHECK(make_ev_selector("", Rng(1)) == nullptr);
}

TEST_CASE(selectors_stay_in_range) {
  for (const std::string_view name : ev_selector_names()) {
    for (std::uint32_t count = 1; count < 40; ++count) {
      const auto selector = make_ev_selector(name, Rng(count));
      for (int i = 0; i < 200; ++i) CHECK(selector->next(count) < count);
    }
  }
}

// proves A.11.2
TEST_CASE(selector_mrc_wraps_are_permutations_redrawn_each_time) {
  for (const std::uint32_t count : {1U, 2U, 3U, 7U, 12U, 30U, 64U, 96U, 128U, 210U, 256U}) {
    const auto selector = make_ev_selector("mrc", Rng(count));
    std::set<std::vector<std::uint32_t>> different;
    for (int i = 0; i < 24; ++i) {
      const auto positions = wrap(*selector, count);
      CHECK(is_permutation_of_all(positions));
      different.insert(positions);
    }
    if (count >= 12) CHECK(different.size() >= 6);
  }
}

// proves A.11.2
TEST_CASE(selector_mrc_of_two_qps_do_not_synchronise) {
  const auto first = make_ev_selector("mrc", Rng(1));
  const auto second = make_ev_selector("mrc", Rng(2));
  int same = 0;
  for (int i = 0; i < 128 * 64; ++i) same += first->next(128) == second->next(128) ? 1 : 0;
  CHECK(same < 128 * 64 / 8);
}

TEST_CASE(selector_mrc_survives_a_change_of_count) {
  const auto selector = make_ev_selector("mrc", Rng(1));
  for (int i = 0; i < 50; ++i) (void)selector->next(128);
  CHECK(is_permutation_of_all(wrap(*selector, 12)));
}

TEST_CASE(selector_round_robin_goes_in_order) {
  const auto selector = make_ev_selector("round_robin", Rng(1));
  for (int lap = 0; lap < 3; ++lap) {
    for (std::uint32_t i = 0; i < 5; ++i) CHECK(selector->next(5) == i);
  }
}

TEST_CASE(selector_random_reaches_all_about_equally) {
  const auto selector = make_ev_selector("random", Rng(1));
  std::vector<int> hits(64);
  for (int i = 0; i < 64 * 400; ++i) ++hits[selector->next(64)];
  CHECK(*std::min_element(hits.begin(), hits.end()) > 280);
  CHECK(*std::max_element(hits.begin(), hits.end()) < 520);
}

TEST_CASE(selector_single_keeps_one_path_while_it_works) {
  EvSetFixture f(universe_of(4, 8), {.active_per_port = 8}, "single");
  const EvIndex path = f.next();
  for (int i = 0; i < 50; ++i) CHECK(f.next() == path);
  const PortMask own = PortMask{1} << f.set.ev(path).port;
  CHECK(f.next(~own) == kNoEv);  // its port is busy: it waits, whereas sprayed packets would take another port
  CHECK(f.next() == path);
  f.feed(path, EvFeedback::kSkipOnce);
  CHECK(f.next() == path);
  f.set.set_usable_ports(f.now, ~own);  // its port is down: it moves, and stays there
  const EvIndex moved = f.next();
  CHECK(moved != path && moved != kNoEv);
  f.set.set_usable_ports(f.now, kAllPorts);
  for (int i = 0; i < 50; ++i) CHECK(f.next() == moved);
}

TEST_CASE(selector_single_leaves_a_path_that_was_lost) {
  EvSetFixture f(universe_of(2, 1), {.active_per_port = 1, .min_active = 1}, "single");
  const EvIndex path = f.next();
  f.feed(path, EvFeedback::kTimeout);
  CHECK(f.next() == 1 - path);
}

TEST_CASE(selectors_draw_differs_between_seeds_for_single) {
  std::set<EvIndex> paths;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    paths.insert(EvSetFixture(universe_of(2, 8), {.active_per_port = 8}, "single", seed).next());
  }
  CHECK(paths.size() > 8);
}

}  // namespace
