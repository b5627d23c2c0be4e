// Choice of a packet's EV: the SKIP rule of section 11.2.2, `avoid`, port masks, missed turns, evenness.
#include <algorithm>
#include <map>

#include "tests/check.hpp"
#include "tests/ev_set_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

// Round robin over one port: positions are tried in a known order, so every choice is predictable.
struct Ring : EvSetFixture {
  explicit Ring(std::uint32_t count, const EvSetConfig& config = {.active_per_port = 64, .min_active = 0})
      : EvSetFixture(universe_of(1, count), config, "round_robin") {
    for (std::uint32_t i = 0; i < count; ++i) order.push_back(next());  // one lap: position i carried order[i]
  }
  void skip(std::uint32_t position) { feed(order[position], EvFeedback::kSkipOnce); }
  EvState at(std::uint32_t position) const { return state(order[position]); }

  std::vector<EvIndex> order;
};

// proves A.11.7
TEST_CASE(ev_search_resets_the_first_skip_it_passes_and_uses_the_next_good) {
  Ring f(4);
  f.skip(0);
  f.log.events.clear();
  CHECK(f.next() == f.order[1]);
  CHECK(f.at(0) == EvState::kGood);
  CHECK(is_state_event(f.log.events.at(0), f.set.ev(f.order[0]).value, EvState::kGood, EvCause::kCursor));
  CHECK(f.next() == f.order[2]);
  CHECK(f.next() == f.order[3]);
  CHECK(f.next() == f.order[0]);  // back in turn one lap later
}

// proves A.11.7
TEST_CASE(ev_search_resets_at_most_one_skip_a_packet) {
  Ring f(5);
  f.skip(0);
  f.skip(1);
  f.skip(2);
  CHECK(f.next() == f.order[3]);
  CHECK(f.at(0) == EvState::kGood);
  CHECK(f.at(1) == EvState::kSkip);
  CHECK(f.at(2) == EvState::kSkip);
  CHECK(f.next() == f.order[4]);
  CHECK(f.next() == f.order[0]);
  CHECK(f.next() == f.order[3]);  // passes 1 (reset) and 2 (not)
  CHECK(f.at(1) == EvState::kGood);
  CHECK(f.at(2) == EvState::kSkip);
}

// proves A.11.8
TEST_CASE(ev_search_uses_the_ev_it_reset_when_all_are_skip) {
  Ring f(4);
  for (std::uint32_t i = 0; i < 4; ++i) f.skip(i);
  CHECK(f.next() == f.order[0]);
  CHECK(f.at(0) == EvState::kGood);
  for (std::uint32_t i = 1; i < 4; ++i) CHECK(f.at(i) == EvState::kSkip);
}

TEST_CASE(ev_search_with_a_single_ev_always_progresses) {
  Ring f(1);
  for (int i = 0; i < 3; ++i) {
    f.skip(0);
    CHECK(f.next() == f.order[0]);
    CHECK(f.at(0) == EvState::kGood);
  }
  CHECK(f.next(kAllPorts, f.order[0]) == f.order[0]);
}

// proves A.11.6
TEST_CASE(ev_search_repeated_marks_do_not_extend_the_penalty) {
  Ring f(3);
  f.skip(0);
  f.skip(0);
  f.skip(0);
  CHECK(f.next() == f.order[1]);
  CHECK(f.next() == f.order[2]);
  CHECK(f.next() == f.order[0]);
}

// proves A.11.6, A.11.9
TEST_CASE(ev_search_skip_lapses_by_time_when_configured) {
  Ring f(3, {.active_per_port = 3, .skip_lapse = 100});
  f.now = 1000;
  f.skip(0);
  f.skip(1);
  f.now = 1050;
  f.skip(1);  // does not extend
  f.now = 1099;
  CHECK(f.next() == f.order[2]);  // not yet: 0 reset by the cursor, 1 still SKIP
  CHECK(f.at(1) == EvState::kSkip);
  CHECK(f.next() == f.order[0]);
  f.now = 1100;
  f.log.events.clear();
  CHECK(f.next() == f.order[1]);
  CHECK(is_state_event(f.log.events.at(0), f.set.ev(f.order[1]).value, EvState::kGood, EvCause::kLapsed));
}

TEST_CASE(ev_search_avoids_while_there_is_anything_else) {
  Ring f(3);
  CHECK(f.next(kAllPorts, f.order[0]) == f.order[1]);
  CHECK(f.next(kAllPorts, f.order[2]) == f.order[0]);
  f.feed(f.order[0], EvFeedback::kLost);
  f.skip(1);
  CHECK(f.next(kAllPorts, f.order[2]) == f.order[1]);  // prefers the SKIP one just reset to the one to avoid
  CHECK(f.at(1) == EvState::kGood);
  f.feed(f.order[1], EvFeedback::kLost);
  CHECK(f.next(kAllPorts, f.order[2]) == f.order[2]);
  f.skip(2);
  CHECK(f.next(kAllPorts, f.order[2]) == f.order[2]);
  CHECK(f.at(2) == EvState::kGood);
}

TEST_CASE(ev_search_avoiding_a_skip_ev_leaves_the_reset_to_another) {
  Ring f(4);
  f.skip(0);
  f.skip(1);
  CHECK(f.next(kAllPorts, f.order[0]) == f.order[2]);
  CHECK(f.at(0) == EvState::kSkip);
  CHECK(f.at(1) == EvState::kGood);
}

TEST_CASE(ev_search_avoiding_an_inactive_ev_is_harmless) {
  Ring f(2);
  f.feed(f.order[0], EvFeedback::kLost);
  CHECK(f.next(kAllPorts, f.order[0]) == f.order[1]);
}

// proves A.11.3
TEST_CASE(ev_search_offers_only_free_and_usable_ports) {
  EvSetFixture f(universe_of(4, 8), {.active_per_port = 8});
  for (PortId port = 0; port < 4; ++port) {
    for (int i = 0; i < 20; ++i) CHECK(f.set.ev(f.next(PortMask{1} << port)).port == port);
  }
  CHECK(f.next(0) == kNoEv);
  CHECK(f.next(PortMask{1} << 9) == kNoEv);
  f.set.set_usable_ports(f.now, 0b0110);
  CHECK(f.set.usable_ports() == 0b0110);
  CHECK(f.next(0b1001) == kNoEv);
  for (int i = 0; i < 50; ++i) {
    const PortId port = f.set.ev(f.next()).port;
    CHECK(port == 1 || port == 2);
  }
  f.set.set_usable_ports(f.now, kAllPorts);
  CHECK(f.next(0b1000) != kNoEv);
}

TEST_CASE(ev_search_leaves_skip_evs_of_busy_ports_alone) {
  EvSetFixture f(universe_of(2, 4), {.active_per_port = 4}, "round_robin");
  for (const EvIndex ev : f.active()) f.feed(ev, EvFeedback::kSkipOnce);
  for (int i = 0; i < 40; ++i) CHECK(f.set.ev(f.next(0b01)).port == 0);
  for (const EvIndex ev : f.active()) {
    if (f.set.ev(ev).port == 1) CHECK(f.state(ev) == EvState::kSkip);
  }
}

using Uses = std::map<EvIndex, int>;

int spread(const Uses& uses) {
  int least = 1 << 30;
  int most = 0;
  for (const auto& [ev, count] : uses) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  return most - least;
}

TEST_CASE(ev_search_a_wrap_uses_every_active_ev_once) {
  for (const std::uint32_t ports : {1U, 2U, 3U, 4U, 5U, 8U}) {
    EvSetFixture f(universe_of(ports, 16), {.active_per_port = 12});
    Uses uses;
    const int packets = static_cast<int>(10 * f.set.position_count());
    for (int i = 0; i < packets; ++i) ++uses[f.next()];
    CHECK(uses.size() == f.set.position_count());
    CHECK(spread(uses) == 0);
  }
}

TEST_CASE(ev_search_consecutive_packets_go_to_different_ports) {
  for (const std::uint32_t ports : {2U, 3U, 4U, 6U, 8U}) {
    EvSetFixture f(universe_of(ports, 16), {.active_per_port = 16});
    for (int group = 0; group < 64; ++group) {
      PortMask seen = 0;
      for (std::uint32_t i = 0; i < ports; ++i) seen |= PortMask{1} << f.set.ev(f.next()).port;
      CHECK(seen == (PortMask{1} << ports) - 1);
    }
  }
}

TEST_CASE(ev_search_is_even_over_the_ports_that_are_left) {
  EvSetFixture f(universe_of(8, 16), {.active_per_port = 16});
  f.set.set_usable_ports(f.now, 0b01101011);
  Uses uses;
  for (std::uint32_t i = 0; i < 10 * 5 * 16; ++i) ++uses[f.next()];
  CHECK(uses.size() == 5 * 16);
  CHECK(spread(uses) == 0);
}

// A driver that offers a port whenever its link falls idle asks for one port at a time. Turns that the others miss
// meanwhile are made up for; otherwise the EVs of a port would be used at random instead of in rotation.
TEST_CASE(ev_search_stays_even_when_ports_fall_free_one_by_one) {
  EvSetFixture f(universe_of(4, 16), {.active_per_port = 16});
  Uses uses;
  for (int i = 0; i < 64 * 50; ++i) ++uses[f.next(PortMask{1} << (i % 4))];
  CHECK(uses.size() == 64);
  CHECK(spread(uses) <= 2);
}

TEST_CASE(ev_search_busy_ports_do_not_hold_up_the_others) {
  EvSetFixture f(universe_of(4, 16), {.active_per_port = 16});
  Uses uses;
  for (int i = 0; i < 48 * 50; ++i) ++uses[f.next(0b0111)];
  CHECK(uses.size() == 48);
  CHECK(spread(uses) == 0);
  for (int i = 0; i < 64; ++i) CHECK(f.next() != kNoEv);  // port 3 is back, a few missed turns first
}

TEST_CASE(ev_search_finds_the_last_usable_ev_with_every_selector) {
  for (const std::string_view selector : ev_selector_names()) {
    EvSetFixture f(universe_of(4, 24), {.active_per_port = 24, .min_active = 1}, selector);
    for (EvIndex ev = 0; ev < 96; ++ev) {
      if (ev != 57) f.feed(ev, EvFeedback::kTimeout);
    }
    CHECK(f.set.active_count() == 1);
    for (int i = 0; i < 10; ++i) CHECK(f.next() == 57);
    f.feed(57, EvFeedback::kSkipOnce);
    CHECK(f.next(kAllPorts, 57) == 57);
  }
}

}  // namespace
