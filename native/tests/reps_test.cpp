// REPS: positions without marks are used again, timeouts freeze the selector, and the EV states apply as for any
// selector.
#include <set>
#include <vector>

#include "engine/paths/reps.hpp"
#include "tests/check.hpp"
#include "tests/ev_set_fixture.hpp"
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr std::uint32_t kPositions = 64;

struct RepsFixture {
  std::uint32_t next() { return reps.next(kPositions); }
  void feed(std::uint32_t position, EvFeedback feedback) { reps.on_feedback(now, position, feedback); }
  void deliver(const std::vector<std::uint32_t>& positions) {
    for (const std::uint32_t position : positions) feed(position, EvFeedback::kDelivered);
  }
  std::vector<std::uint32_t> take(int count) {
    std::vector<std::uint32_t> taken;
    for (int i = 0; i < count; ++i) taken.push_back(next());
    return taken;
  }

  Reps reps{Rng(1)};
  TimePs now = 0;
};

using Positions = std::vector<std::uint32_t>;

TEST_CASE(reps_explores_every_position_while_nothing_came_back) {
  RepsFixture f;
  const Positions taken = f.take(kPositions);
  CHECK(std::set<std::uint32_t>(taken.begin(), taken.end()).size() == kPositions);
}

TEST_CASE(reps_recycles_oldest_first_and_each_once) {
  RepsFixture f;
  f.deliver({3, 9, 5});
  CHECK(f.take(3) == (Positions{3, 9, 5}));
  const Positions explored = f.take(kPositions);
  CHECK(std::set<std::uint32_t>(explored.begin(), explored.end()).size() == kPositions);
  f.deliver({7});
  CHECK(f.next() == 7);
}

TEST_CASE(reps_keeps_the_last_eight) {
  RepsFixture f;
  f.deliver({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(f.take(8) == (Positions{3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST_CASE(reps_does_not_recycle_marked_or_trimmed_positions) {
  RepsFixture marked, untouched;
  marked.feed(3, EvFeedback::kSkipOnce);
  marked.feed(4, EvFeedback::kTrimmed);
  CHECK(marked.take(200) == untouched.take(200));
  CHECK(!marked.reps.frozen());
}

TEST_CASE(reps_freezes_on_a_timeout_and_repeats_known_good_positions) {
  RepsFixture f;
  f.deliver({3, 9, 5});
  f.feed(9, EvFeedback::kTimeout);
  CHECK(f.reps.frozen());
  CHECK(f.take(6) == (Positions{3, 5, 3, 5, 3, 5}));
  f.deliver({11});
  CHECK(f.next() == 11);  // fresh ones go first
  const Positions round = f.take(6);
  CHECK((std::set<std::uint32_t>(round.begin(), round.end()) == std::set<std::uint32_t>{3, 5, 11}));
}

TEST_CASE(reps_forgets_lost_and_unwanted_positions_without_freezing) {
  for (const EvFeedback feedback : {EvFeedback::kLost, EvFeedback::kAlwaysSkip}) {
    RepsFixture f;
    f.deliver({3, 9});
    f.feed(3, feedback);
    CHECK(!f.reps.frozen());
    CHECK(f.next() == 9);
  }
}

TEST_CASE(reps_frozen_with_nothing_known_explores) {
  RepsFixture f;
  f.feed(3, EvFeedback::kTimeout);
  CHECK(f.reps.frozen());
  const Positions taken = f.take(kPositions);
  CHECK(std::set<std::uint32_t>(taken.begin(), taken.end()).size() == kPositions);
}

TEST_CASE(reps_thaws_after_the_timeout_and_explores_one_rotation) {
  RepsFixture f;
  (void)f.next();
  f.deliver({3, 5});
  f.feed(9, EvFeedback::kTimeout);
  f.now = Reps::kFreezingTimeout - 1;
  f.deliver({6});
  CHECK(f.reps.frozen());
  f.now = Reps::kFreezingTimeout;
  f.deliver({7});
  CHECK(!f.reps.frozen());
  const Positions explored = f.take(kPositions - 10);
  CHECK(std::set<std::uint32_t>(explored.begin(), explored.end()).size() > 30);
  f.feed(20, EvFeedback::kTimeout);  // timeouts of exploration do not freeze again
  CHECK(!f.reps.frozen());
  (void)f.take(10);
  CHECK(f.take(4) == (Positions{3, 5, 6, 7}));
  f.feed(20, EvFeedback::kTimeout);
  CHECK(f.reps.frozen());
}

TEST_CASE(reps_in_an_ev_set_moves_load_off_marked_paths) {
  // Half of the paths mark all their packets. Recycling moves the traffic to the other half.
  for (const bool recycles : {true, false}) {
    EvSetFixture f(universe_of(4, 16), {.active_per_port = 16}, recycles ? "reps" : "random");
    int on_marking = 0;
    std::vector<EvIndex> in_flight;
    for (int i = 0; i < 6400; ++i) {
      const EvIndex ev = f.next();
      const bool marking = f.set.ev(ev).value % 2 == 1;
      on_marking += marking ? 1 : 0;
      in_flight.push_back(ev);
      if (in_flight.size() < 16) continue;
      const EvIndex back = in_flight.front();
      in_flight.erase(in_flight.begin());
      const bool marked = f.set.ev(back).value % 2 == 1;
      f.feed(back, marked ? EvFeedback::kSkipOnce : EvFeedback::kDelivered);
    }
    CHECK(recycles ? on_marking < 160 : on_marking > 1200);
  }
}

TEST_CASE(reps_in_an_ev_set_forgets_a_position_when_its_ev_is_replaced) {
  EvSetFixture f(universe_of(1, 8), {.active_per_port = 4}, "reps");
  const EvIndex lost = f.next();
  f.feed(lost, EvFeedback::kDelivered);
  f.feed(lost, EvFeedback::kTimeout);
  CHECK(f.state(lost) == EvState::kAssumedBad);
  f.feed(lost, EvFeedback::kDelivered);  // late feedback for an EV without a position must not bring the position back
  std::set<EvIndex> used;
  for (int i = 0; i < 7; ++i) used.insert(f.next());  // the rest of one rotation and all of the next
  CHECK(used.size() == 4 && !used.contains(lost));
}

TEST_CASE(reps_carries_messages_past_a_plane_that_dies) {
  PairOptions options;
  options.selector = "reps";
  options.controller = "nscc";
  Pair pair(options);
  int packets = 0;
  pair.filter = [&packets](int, const wire::Packet&, const Flying& flying) {
    return ++packets > 100 && flying.port == 2 ? Fate::kDrop : Fate::kPass;
  };
  pair.connect();
  for (std::uint64_t message = 0; message < 20; ++message) {
    CHECK(pair.write(0, message, 100'000, 500'000) == Status::kOk);
    CHECK(pair.run_until_sends(0, message + 1));
    CHECK(pair.landed(0, 100'000, 500'000));
  }
  CHECK(pair.stats(0).losses_inferred + pair.stats(0).timeouts > 0);
  // Once the dead plane is known, hardly anything is sent there: 20 messages are about 2,000 packets.
  CHECK(pair.stats(0).retransmitted_packets < 200);
}

}  // namespace
