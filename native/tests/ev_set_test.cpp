// The EV state machine, row by row (A.11), the draw of the active set, replacement, floor and probes.
#include "tests/ev_set_fixture.hpp"

#include <algorithm>
#include <set>

#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr EvFeedback kAllFeedback[] = {EvFeedback::kDelivered, EvFeedback::kSkipOnce, EvFeedback::kAlwaysSkip,
                                       EvFeedback::kTrimmed,   EvFeedback::kLost,     EvFeedback::kTimeout};

// proves A.11.1
TEST_CASE(ev_set_draws_the_same_number_on_each_port) {
  std::vector<Ev> universe = universe_of(4, 20);
  universe.resize(4 * 20 - 13);  // port 3 has seven
  const EvSetFixture f(universe, {.active_per_port = 16});
  CHECK(f.set.size() == 67);
  CHECK(f.set.active_count() == 28);
  CHECK(f.set.position_count() == 28);
  for (PortId port = 0; port < 4; ++port) CHECK(f.active_on(port) == 7);
}

TEST_CASE(ev_set_draw_depends_on_the_seed_only) {
  const auto universe = universe_of(4, 64);
  const EvSetConfig config{.active_per_port = 16};
  const auto first = EvSetFixture(universe, config, "mrc", 5).active();
  CHECK(first == EvSetFixture(universe, config, "mrc", 5).active());
  CHECK(first != EvSetFixture(universe, config, "mrc", 6).active());
}

// proves A.11.1
TEST_CASE(ev_set_draw_reaches_every_ev) {
  std::set<EvIndex> seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const EvIndex ev : EvSetFixture(universe_of(2, 16), {.active_per_port = 4}, "mrc", seed).active())
      seen.insert(ev);
  }
  CHECK(seen.size() == 32);
}

TEST_CASE(ev_set_with_an_empty_universe_offers_nothing) {
  EvSetFixture f({});
  CHECK(f.next() == kNoEv);
  CHECK(f.set.find(0) == kNoEv);
  CHECK(f.set.next_probe(1) == kNoEv);
  CHECK(f.set.next_probe_time() == kNever);
}

TEST_CASE(ev_set_refuses_universes_the_wire_cannot_tell_apart) {
  CHECK(EvSet::valid_universe(universe_of(4, 256)));
  CHECK(!EvSet::valid_universe(universe_of(5, 256)));  // over kEvCountMax
  auto duplicate = universe_of(2, 2);
  duplicate[3].value = duplicate[0].value;
  CHECK(!EvSet::valid_universe(duplicate));
  auto port = universe_of(1, 1);
  port[0].port = kPortCountMax;
  CHECK(!EvSet::valid_universe(port));
}

TEST_CASE(ev_set_finds_every_value_and_nothing_else) {
  const EvSetFixture f(universe_of(8, 64), {});
  for (std::uint32_t i = 0; i < f.set.size(); ++i) {
    CHECK(f.set.find(f.set.ev(static_cast<EvIndex>(i)).value) == i);
  }
  CHECK(f.set.find(64) == kNoEv);
  CHECK(f.set.find(0xFFFFFFFF) == kNoEv);
}

// proves A.11.4, F.2.6
TEST_CASE(ev_state_good_to_skip_on_ecn_and_on_trim) {
  for (const auto& [feedback, cause] :
       {std::pair{EvFeedback::kSkipOnce, EvCause::kEcn}, std::pair{EvFeedback::kTrimmed, EvCause::kTrimmed}}) {
    EvSetFixture f(universe_of(2, 4), {.active_per_port = 2});
    f.now = 99;
    const EvIndex ev = f.active()[0];
    f.feed(ev, feedback);
    CHECK(f.state(ev) == EvState::kSkip);
    CHECK(f.set.is_active(ev));
    CHECK(f.set.stats().to_skip == 1);
    CHECK(f.log.events.size() == 1);
    CHECK(is_state_event(f.log.events[0], f.set.ev(ev).value, EvState::kSkip, cause));
    CHECK(f.log.events[0].time == 99 && f.log.events[0].qp == 7 && f.log.events[0].port == f.set.ev(ev).port);
    f.feed(ev, feedback);  // repeated marks change nothing
    CHECK(f.log.events.size() == 1);
  }
}

// proves A.11.5
TEST_CASE(ev_state_good_and_skip_to_assumed_bad) {
  for (const auto& [feedback, cause] :
       {std::pair{EvFeedback::kAlwaysSkip, EvCause::kAlwaysSkip}, std::pair{EvFeedback::kLost, EvCause::kLoss},
        std::pair{EvFeedback::kTimeout, EvCause::kTimeout}}) {
    for (const bool from_skip : {false, true}) {
      EvSetFixture f(universe_of(2, 4), {.active_per_port = 2});
      const EvIndex ev = f.active()[0];
      if (from_skip) f.feed(ev, EvFeedback::kSkipOnce);
      f.log.events.clear();
      f.feed(ev, feedback);
      CHECK(f.state(ev) == EvState::kAssumedBad);
      CHECK(!f.set.is_active(ev));
      CHECK(f.set.stats().to_assumed_bad == 1);
      CHECK(is_state_event(f.log.events[0], f.set.ev(ev).value, EvState::kAssumedBad, cause));
    }
  }
}

TEST_CASE(ev_state_delivery_changes_nothing) {
  EvSetFixture f(universe_of(1, 3), {.active_per_port = 3, .min_active = 0});
  f.feed(1, EvFeedback::kSkipOnce);
  f.feed(2, EvFeedback::kLost);
  f.log.events.clear();
  for (EvIndex ev = 0; ev < 3; ++ev) f.feed(ev, EvFeedback::kDelivered);
  CHECK(f.state(0) == EvState::kGood);
  CHECK(f.state(1) == EvState::kSkip);
  CHECK(f.state(2) == EvState::kAssumedBad);
  CHECK(f.log.events.empty());
}

// proves A.11.10
TEST_CASE(ev_state_assumed_bad_and_denied_ignore_feedback) {
  EvSetFixture f(universe_of(1, 4), {.active_per_port = 4, .min_active = 0});
  f.feed(0, EvFeedback::kLost);
  CHECK(f.set.deny(f.now, 1));
  f.log.events.clear();
  for (const EvFeedback feedback : kAllFeedback) {
    f.feed(0, feedback);
    f.feed(1, feedback);
  }
  CHECK(f.state(0) == EvState::kAssumedBad);
  CHECK(f.state(1) == EvState::kDenied);
  CHECK(f.log.events.empty());
}

// proves A.11.14
TEST_CASE(ev_replacement_comes_from_the_same_port) {
  EvSetFixture f(universe_of(4, 8), {.active_per_port = 4});
  const EvIndex ev = f.active()[5];
  const PortId port = f.set.ev(ev).port;
  const auto before = f.active();
  f.feed(ev, EvFeedback::kLost);
  const auto after = f.active();
  CHECK(after.size() == before.size());
  std::vector<EvIndex> joined;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(joined));
  CHECK(joined.size() == 1);
  CHECK(f.set.ev(joined[0]).port == port);
  CHECK(f.log.events.size() == 2);
  const Event& event = f.log.events[1];
  CHECK(event.type == EventType::kEvReplaced && event.ev == f.set.ev(ev).value && event.port == port);
  CHECK(event.value == f.set.ev(joined[0]).value);
  CHECK(f.set.stats().replaced == 1);
}

TEST_CASE(ev_replacement_prefers_good_backups_and_takes_skip_ones) {
  EvSetFixture f(universe_of(1, 3), {.active_per_port = 1, .min_active = 0});
  const EvIndex first = f.active()[0];
  const auto backups = f.active(false);
  f.feed(backups[0], EvFeedback::kSkipOnce);  // a late mark reaches backups too
  f.feed(first, EvFeedback::kLost);
  CHECK(f.set.is_active(backups[1]));
  f.feed(backups[1], EvFeedback::kLost);
  CHECK(f.set.is_active(backups[0]));
  CHECK(f.state(backups[0]) == EvState::kSkip);
  CHECK(f.next() == backups[0]);
  CHECK(f.state(backups[0]) == EvState::kGood);
}

// proves A.11.14
TEST_CASE(ev_vacancies_are_not_chosen_and_are_filled_by_revived_evs) {
  EvSetFixture f(universe_of(2, 2), {.active_per_port = 2});
  f.feed(0, EvFeedback::kLost);
  f.feed(1, EvFeedback::kLost);
  CHECK(f.set.active_count() == 2);
  CHECK(f.set.position_count() == 4);
  for (int i = 0; i < 20; ++i) CHECK(f.set.ev(f.next()).port == 1);
  CHECK(f.next(PortMask{1}) == kNoEv);
  CHECK(f.revive(0) == 3);
  CHECK(f.set.is_active(0));
  CHECK(f.next(PortMask{1}) == 0);
  CHECK(f.set.stats().revived == 1);
}

TEST_CASE(ev_revived_after_replacement_goes_to_the_backup_set) {
  EvSetFixture f(universe_of(1, 2), {.active_per_port = 1});
  const EvIndex first = f.active()[0];
  f.feed(first, EvFeedback::kLost);
  CHECK(f.revive(first) == 3);
  CHECK(f.state(first) == EvState::kGood);
  CHECK(!f.set.is_active(first));
  f.feed(f.active()[0], EvFeedback::kLost);
  CHECK(f.active()[0] == first);  // and is available when needed
}

// proves A.11.15
TEST_CASE(ev_floor_keeps_the_last_usable_evs) {
  EvSetFixture f(universe_of(2, 3), {.active_per_port = 2, .min_active = 2});
  for (int round = 0; round < 3; ++round) {
    for (EvIndex ev = 0; ev < 6; ++ev) f.feed(ev, EvFeedback::kLost);
  }
  CHECK(f.set.active_count() == 2);
  CHECK(f.set.stats().to_assumed_bad == 4);
  CHECK(f.set.stats().floor_held == 6);  // the two remaining ones, in each round
  CHECK(f.next() != kNoEv);
}

TEST_CASE(ev_that_the_floor_holds_is_not_trusted_until_something_arrives_by_it) {
  for (const EvFeedback arrival : {EvFeedback::kDelivered, EvFeedback::kSkipOnce, EvFeedback::kTrimmed}) {
    EvSetFixture f(universe_of(1, 2), {.active_per_port = 2});
    CHECK(f.set.trusted(0) && f.set.trusted(1));
    f.feed(0, EvFeedback::kLost);
    CHECK(!f.set.trusted(0) && f.set.trusted(1));
    for (int round = 0; round < 2; ++round) f.feed(1, EvFeedback::kTimeout);
    CHECK(f.state(1) == EvState::kGood && f.set.is_active(1));
    CHECK(!f.set.trusted(1));
    f.feed(1, arrival);
    CHECK(f.set.trusted(1));
  }
}

TEST_CASE(ev_that_the_floor_held_is_trusted_again_after_its_own_probes) {
  EvSetFixture f(universe_of(1, 2), {.active_per_port = 2});
  f.feed(0, EvFeedback::kLost);
  f.feed(1, EvFeedback::kLost);
  CHECK(f.revive(0) == 3);
  CHECK(f.set.trusted(0) && !f.set.trusted(1));
  f.feed(1, EvFeedback::kLost);  // no longer needed
  CHECK(f.state(1) == EvState::kAssumedBad);
  CHECK(f.revive(1) == 3);
  CHECK(f.set.trusted(1));
  f.feed(0, EvFeedback::kLost);
  f.feed(1, EvFeedback::kLost);
  CHECK(f.set.deny(f.now, f.set.ev(1).value) && !f.set.trusted(1));
  CHECK(f.set.enable(f.now, f.set.ev(1).value) && f.set.trusted(1));
}

// proves X.6.1
TEST_CASE(ev_that_the_floor_holds_is_probed_until_something_arrives_by_it) {
  EvSetFixture f(universe_of(1, 2), {.active_per_port = 2, .min_active = 2, .probe_interval = 5 * kPsPerMs});
  CHECK(f.set.next_probe_time() == kNever);
  f.feed(0, EvFeedback::kLost);
  f.feed(1, EvFeedback::kTimeout);
  f.feed(1, EvFeedback::kTimeout);  // held already
  f.now = 5 * kPsPerMs;
  CHECK(f.set.next_probe(f.now) == 0 && f.set.next_probe(f.now) == 1 && f.set.next_probe(f.now) == kNoEv);
  f.set.on_probe_answer(f.now, 0, false);
  f.feed(1, EvFeedback::kDelivered);
  CHECK(f.set.trusted(0) && f.set.trusted(1));
  CHECK(f.set.next_probe_time() == kNever);
  f.feed(0, EvFeedback::kLost);
  CHECK(f.set.deny(f.now, f.set.ev(0).value));
  CHECK(f.set.next_probe_time() == kNever);
  CHECK(f.set.stats().revived == 0 && f.set.stats().to_assumed_bad == 0);
}

// proves A.11.15
TEST_CASE(ev_floor_counts_only_ports_that_are_up) {
  EvSetFixture f(universe_of(2, 2), {.active_per_port = 2, .min_active = 1});
  f.set.set_usable_ports(f.now, 0b01);
  f.feed(0, EvFeedback::kTimeout);
  f.feed(1, EvFeedback::kTimeout);  // the last one that can carry data, although port 1 has two GOOD ones
  CHECK(f.state(1) == EvState::kGood);
  CHECK(f.next() == 1);
  f.feed(2, EvFeedback::kTimeout);  // on the port that is down: no effect on the floor
  CHECK(f.state(2) == EvState::kAssumedBad);
}

// proves A.11.11
TEST_CASE(ev_probe_schedule_and_success_count) {
  EvSetFixture f(universe_of(1, 3),
                 {.active_per_port = 3, .min_active = 0, .probe_successes = 2, .probe_interval = 5 * kPsPerMs});
  CHECK(f.set.next_probe_time() == kNever);
  f.now = kPsPerMs;
  f.feed(0, EvFeedback::kLost);
  f.now = 2 * kPsPerMs;
  f.feed(1, EvFeedback::kLost);
  CHECK(f.set.next_probe_time() == 6 * kPsPerMs);
  CHECK(f.set.next_probe(6 * kPsPerMs - 1) == kNoEv);
  CHECK(f.set.next_probe(6 * kPsPerMs) == 0);
  CHECK(f.set.next_probe(6 * kPsPerMs) == kNoEv);
  CHECK(f.set.next_probe_time() == 7 * kPsPerMs);
  f.feed(2, EvFeedback::kDelivered);  // the peer is there
  CHECK(f.set.next_probe(20 * kPsPerMs) == 1);
  CHECK(f.set.next_probe(20 * kPsPerMs) == 0);
  CHECK(f.set.next_probe(20 * kPsPerMs) == kNoEv);
  CHECK(f.set.next_probe_time() == 25 * kPsPerMs);
  CHECK(f.set.stats().probes == 3);

  f.set.on_probe_answer(f.now, 0, false);
  CHECK(f.state(0) == EvState::kAssumedBad);
  f.set.on_probe_timeout(f.now, 0);  // the count restarts
  f.set.on_probe_answer(f.now, 0, false);
  CHECK(f.state(0) == EvState::kAssumedBad);
  f.set.on_probe_answer(f.now, 0, false);
  CHECK(f.state(0) == EvState::kGood);
  CHECK(is_state_event(f.log.events.back(), 0, EvState::kGood, EvCause::kProbe));
  CHECK(f.set.next_probe(25 * kPsPerMs) == 1);
  CHECK(f.set.next_probe(25 * kPsPerMs) == kNoEv);  // the revived one is no longer probed
}

// proves X.6.2
TEST_CASE(ev_unanswered_probes_are_limited) {
  EvSetFixture f(universe_of(1, 64), {.active_per_port = 64, .min_active = 0, .probe_successes = 1});
  for (EvIndex ev = 0; ev < 64; ++ev) f.feed(ev, EvFeedback::kTimeout);
  std::vector<EvIndex> probed;
  const auto probe_all = [&] {
    const std::size_t before = probed.size();
    for (EvIndex ev = f.set.next_probe(f.now); ev != kNoEv; ev = f.set.next_probe(f.now)) probed.push_back(ev);
    return probed.size() - before;
  };
  for (std::uint32_t round = 1; round <= 64 / kProbesUnansweredMax; ++round) {
    f.now = f.set.next_probe_time();
    CHECK(f.now == round * 10 * kPsPerMs);
    CHECK(probe_all() == kProbesUnansweredMax);
    f.feed(0, EvFeedback::kDelivered);  // data sent before still arrives
  }
  std::sort(probed.begin(), probed.end());
  CHECK(std::unique(probed.begin(), probed.end()) == probed.end());  // each had its turn

  // The path works again: every answer frees a slot, so all are revived within one interval.
  f.now = f.set.next_probe_time();
  probed.clear();
  probe_all();
  for (std::size_t answered = 0; answered < probed.size(); ++answered) {
    f.set.on_probe_answer(f.now, probed[answered], false);
    probe_all();
  }
  CHECK(probed.size() >= 60);
}

// proves X.6.2
TEST_CASE(ev_probes_of_a_silent_peer_become_rare) {
  EvSetFixture f(universe_of(1, 64), {.active_per_port = 64, .min_active = 0, .probe_successes = 1});
  for (EvIndex ev = 0; ev < 64; ++ev) f.feed(ev, EvFeedback::kTimeout);
  EvIndex last = kNoEv;
  const auto probe_all = [&] {
    std::size_t count = 0;
    const auto next = [&] { return f.set.next_probe(f.now, ~PortMask{0}, kPsPerMs); };
    for (EvIndex ev = next(); ev != kNoEv; ev = next(), ++count) last = ev;
    return count;
  };
  f.now = f.set.next_probe_time();
  CHECK(probe_all() == kProbesUnansweredMax);
  for (const TimePs wait : {10, 20, 40, 80, 160, 160, 160}) {
    CHECK(f.set.next_probe_time() == f.now + wait * kPsPerMs);
    f.now += wait * kPsPerMs;
    CHECK(probe_all() == 1);
  }

  f.now += 5 * kPsPerMs;
  f.set.on_probe_answer(f.now, last, false);  // the first answer restores the pace
  CHECK(f.set.next_probe_time() <= f.now);
  CHECK(probe_all() == kProbesUnansweredMax);

  // On a path that is long, two round trips without anything are silence.
  f.now += 40 * kPsPerMs;
  CHECK(f.set.next_probe(f.now, ~PortMask{0}, 30 * kPsPerMs) != kNoEv);
  CHECK(f.set.next_probe(f.now, ~PortMask{0}, 30 * kPsPerMs) != kNoEv);
  f.now += 20 * kPsPerMs;
  CHECK(f.set.next_probe(f.now, ~PortMask{0}, 30 * kPsPerMs) != kNoEv);
  CHECK(f.set.next_probe(f.now, ~PortMask{0}, 30 * kPsPerMs) == kNoEv);
}

// proves A.11.12
TEST_CASE(ev_marked_probe_answer_revives_to_skip_or_good_by_configuration) {
  for (const bool to_good : {false, true}) {
    EvSetFixture f(universe_of(1, 2), {.active_per_port = 2, .marked_probe_revives_to_good = to_good});
    f.feed(0, EvFeedback::kLost);
    CHECK(f.revive(0, true) == 3);
    CHECK(f.state(0) == (to_good ? EvState::kGood : EvState::kSkip));
    CHECK(f.set.is_active(0));
  }
}

TEST_CASE(ev_probe_answers_mean_nothing_to_other_states) {
  EvSetFixture f(universe_of(1, 3), {.active_per_port = 3});
  f.feed(1, EvFeedback::kSkipOnce);
  CHECK(f.set.deny(f.now, 2));
  f.log.events.clear();
  for (EvIndex ev = 0; ev < 3; ++ev) {
    for (int i = 0; i < 5; ++i) f.set.on_probe_answer(f.now, ev, false);
  }
  CHECK(f.log.events.empty());
}

// proves A.11.11
TEST_CASE(ev_probe_successes_count_from_the_demotion) {
  EvSetFixture f(universe_of(1, 2), {.active_per_port = 2, .probe_successes = 3});
  for (int i = 0; i < 2; ++i) f.set.on_probe_answer(f.now, 0, false);  // while GOOD
  f.feed(0, EvFeedback::kLost);
  CHECK(f.revive(0) == 3);
  f.feed(0, EvFeedback::kLost);
  CHECK(f.revive(0) == 3);
}

TEST_CASE(ev_probes_wait_for_ports_that_are_down) {
  EvSetFixture f(universe_of(2, 2), {.active_per_port = 2, .probe_interval = 10});
  f.feed(0, EvFeedback::kLost);
  f.now = 5;
  f.feed(2, EvFeedback::kLost);
  const TimePs interval = kPsPerUs;  // the least there is
  CHECK(f.set.next_probe_time() == interval);
  f.set.set_usable_ports(f.now, 0b10);
  CHECK(f.set.next_probe_time() == 5 + interval);
  CHECK(f.set.next_probe(100 * interval) == 2);
  CHECK(f.set.next_probe(100 * interval) == kNoEv);
  f.set.set_usable_ports(f.now, 0b00);
  CHECK(f.set.next_probe_time() == kNever);
  CHECK(f.set.next_probe(200 * interval) == kNoEv);
  f.set.set_usable_ports(f.now, 0b11);
  CHECK(f.set.next_probe_time() == interval);  // overdue: probed at once
  CHECK(f.set.next_probe(200 * interval) == 0);
}

// proves A.11.13
TEST_CASE(ev_deny_from_any_state_and_only_enable_leads_back) {
  for (int from = 0; from < 4; ++from) {
    EvSetFixture f(universe_of(1, 4), {.active_per_port = 2, .min_active = 0});
    const EvIndex ev = from == 3 ? f.active(false)[0] : f.active()[0];
    const std::uint32_t value = f.set.ev(ev).value;
    if (from == 1) f.feed(ev, EvFeedback::kSkipOnce);
    if (from == 2) f.feed(ev, EvFeedback::kLost);
    f.log.events.clear();
    CHECK(f.set.deny(f.now, value));
    CHECK(f.state(ev) == EvState::kDenied);
    CHECK(!f.set.is_active(ev));
    CHECK(is_state_event(f.log.events[0], value, EvState::kDenied, EvCause::kController));
    CHECK(f.set.active_count() == 2);  // replaced if it was active
    CHECK(f.set.next_probe_time() == kNever);
    const std::size_t logged = f.log.events.size();
    CHECK(f.set.deny(f.now, value));  // again: nothing new
    CHECK(f.log.events.size() == logged);
    for (int i = 0; i < 50; ++i) CHECK(f.next() != ev);
    CHECK(f.set.enable(f.now, value));
    CHECK(f.state(ev) == EvState::kGood);
    CHECK(is_state_event(f.log.events.back(), value, EvState::kGood, EvCause::kController));
  }
}

TEST_CASE(ev_deny_and_enable_name_only_evs_of_the_universe) {
  EvSetFixture f(universe_of(1, 4), {});
  CHECK(!f.set.deny(f.now, 77));
  CHECK(!f.set.enable(f.now, 77));
  CHECK(f.set.enable(f.now, 2));  // not denied: no effect
  CHECK(f.log.events.empty());
}

TEST_CASE(ev_deny_goes_below_the_floor_and_enable_fills_the_vacancy) {
  EvSetFixture f(universe_of(1, 2), {.active_per_port = 2, .min_active = 2});
  CHECK(f.set.deny(f.now, 0));
  CHECK(f.set.deny(f.now, 1));
  CHECK(f.next() == kNoEv);
  CHECK(f.set.enable(f.now, 1));
  CHECK(f.next() == 1);
  CHECK(f.set.active_count() == 1);
}

// Reference result by a scan of all EVs.
EvSet::OfPort scan_for_port(const EvSet& set, PortId port, std::uint32_t start) {
  EvSet::OfPort found;
  for (std::uint32_t step = 0; step < set.size(); ++step) {
    const auto index = static_cast<EvIndex>((start + step) % set.size());
    if (set.ev(index).port != port || set.state(index) == EvState::kDenied) continue;
    if (set.trusted(index)) return {.trusted = index};
    EvIndex& first = set.state(index) == EvState::kAssumedBad ? found.bad : found.held;
    if (first == kNoEv) first = index;
  }
  return found;
}

TEST_CASE(ev_of_a_port_is_found_as_by_a_look_at_all_of_them) {
  Rng rng(23);
  for (int round = 0; round < 60; ++round) {
    std::vector<Ev> universe = universe_of(4, 6);
    std::erase_if(universe, [](const Ev& ev) { return ev.port == 2; });
    if (round % 2 == 1) {
      for (std::size_t i = universe.size(); i > 1; --i) std::swap(universe[i - 1], universe[rng.below(i)]);
    }
    EvSetFixture f(universe, {.active_per_port = 3, .min_active = 0});
    for (EvIndex ev = 0; ev < universe.size(); ++ev) {
      const auto fate = rng.below(4 + static_cast<std::uint64_t>(round % 3));
      if (fate < 2) f.feed(ev, EvFeedback::kTimeout);
      if (fate == 2) CHECK(f.set.deny(f.now, universe[ev].value));
      if (fate == 3) f.feed(ev, EvFeedback::kSkipOnce);
    }
    for (PortId port = 0; port < 5; ++port) {
      for (EvIndex start = 0; start < universe.size(); ++start) {
        CHECK(f.set.find_of_port(port, start) == scan_for_port(f.set, port, start));
      }
    }
  }
  CHECK(EvSetFixture({}).set.find_of_port(0, 0) == EvSet::OfPort{});
}

TEST_CASE(ev_set_of_128_active_and_128_backups_takes_a_few_kilobytes) {
  const EvSetFixture f(universe_of(8, 32), {.active_per_port = 16});
  CHECK(f.set.memory_bytes() < 6 * 1024);
}

}  // namespace
