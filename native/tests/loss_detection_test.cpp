// Loss detection: slow paths, dead reverse paths, and unreported arrivals.
#include <set>

#include "engine/paths/ev_set.hpp"
#include "engine/qp/reverse_paths.hpp"
#include "engine/qp/rtt.hpp"
#include "tests/ev_set_fixture.hpp"
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kTarget = 512 * 1024;
constexpr std::uint16_t kSomeEv = 0xC003;

// One plane of 10 Gb/s and 10 us that trims, packet by packet under NSCC: a window is 17 packets.
PairOptions trimming_plane() {
  PairOptions options;
  options.planes = 1;
  options.burst_max = 1;
  options.controller = "nscc";
  options.cc = {.mtu_bytes = 1112, .link_rate_bps = 10'000'000'000, .base_rtt = 10 * kPsPerUs, .trimming = true};
  options.timeout_exponent = 10;  // 1 ms
  return options;
}

// proves A.5.2, A.9.5
TEST_CASE(a_path_that_turns_slow_is_not_taken_for_dead) {
  Pair pair(trimming_plane());
  pair.connect();
  const TimePs slow_from = pair.now + 50 * kPsPerUs;
  std::uint64_t slowed = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && flying.fields.source_port == kSomeEv && pair.now > slow_from) {
      flying.arrival += 15 * kPsPerUs;
      ++slowed;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(slowed > 5);
  CHECK(pair.stats(0).losses_inferred == 0);
  CHECK(pair.stats(1).duplicate_packets == 0);
  CHECK(pair.landed(0, 200'000, kTarget));
}

// Without trims, an overtaken packet counts as lost after 1.25 of the largest round trip, not at once.
// proves A.5.2, A.9.5
TEST_CASE(an_overtaken_packet_is_waited_for_as_long_as_the_slowest_path_takes) {
  for (const TimePs late : {2 * kPsPerUs, 60 * kPsPerUs}) {
    PairOptions options;
    options.sack_bytes = 1;
    Pair pair(options);
    pair.connect();
    CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
      if (from == 0 && packet.bth.opcode == wire::Opcode::kWriteFirst && !packet.bth.rtx) flying.arrival += late;
      return Fate::kPass;
    };
    CHECK(pair.write(0, 2, 20'000, kTarget) == Status::kOk);
    pair.run_for(kPsPerUs);
    CHECK(pair.write(0, 3, 1000, kTarget + 30'000) == Status::kOk);
    CHECK(pair.run_until_sends(0, 3));
    CHECK(pair.stats(0).losses_inferred == (late == 2 * kPsPerUs ? 0U : 1U));
    CHECK(pair.stats(0).timeouts == 0);
  }
}

// proves A.9.5
TEST_CASE(a_later_arrival_on_the_same_path_proves_a_loss_at_once) {
  Pair pair(trimming_plane());
  pair.connect();
  TimePs dropped = 0;
  TimePs repaired = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from != 0 || !wire::is_data(packet.bth.opcode)) return Fate::kPass;
    if (packet.bth.rtx && repaired == 0) repaired = pair.now;
    if (packet.bth.psn != 150 || packet.bth.rtx) return Fate::kPass;
    dropped = pair.now;
    return Fate::kDrop;
  };
  CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(dropped > 0 && repaired > dropped);
  // A path without further arrivals is given up after three base RTTs.
  CHECK(repaired - dropped < 30 * kPsPerUs);
  CHECK(pair.stats(0).retransmitted_packets == 1);
}

// proves A.9.5
TEST_CASE(a_dead_path_is_left_after_three_base_rtts) {
  Pair pair(trimming_plane());
  pair.connect();
  const TimePs dead_from = pair.now + 50 * kPsPerUs;
  std::uint64_t lost = 0;
  pair.filter = [&](int from, const wire::Packet&, Flying& flying) {
    const bool dead = from == 0 && flying.fields.source_port == kSomeEv && pair.now > dead_from;
    if (dead) ++lost;
    return dead ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 400'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  const EvSet* set = pair.engine(0).ev_set(pair.qp[0]);
  CHECK(set->state(set->find(kSomeEv)) == EvState::kAssumedBad);
  CHECK(lost > 0 && lost < 20);
  CHECK(pair.stats(0).timeouts == 0);
}

// proves A.9.9
TEST_CASE(arrivals_that_shut_the_window_untold_are_asked_for_before_the_retry_timer) {
  PairOptions options = trimming_plane();
  options.sack_bytes = 65'536;
  Pair pair(options);
  pair.connect();
  const TimePs start = pair.now;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    const bool first_window = from == 0 && wire::is_data(packet.bth.opcode) && pair.now == start;
    if (first_window && packet.bth.psn >= 102) {
      flying.bytes.resize(24);
      flying.traffic_class = TrafficClass::kTrimmedLastHop;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.stats(0).trims_received > 10);
  CHECK(pair.stats(0).timeouts == 0);
  CHECK(pair.now - start < 500 * kPsPerUs);
  CHECK(pair.landed(0, 50'000, kTarget));
}

// proves A.5.7
TEST_CASE(the_last_packet_that_a_window_has_room_for_asks_for_a_sack) {
  PairOptions options = trimming_plane();
  options.sack_bytes = 65'536;
  options.cc.max_cwnd_bytes = 8 * 1112 + 1090;  // room for the payload and half of the headers of a ninth
  Pair pair(options);
  pair.connect();
  CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.stats(0).probes_sent == 0);
  CHECK(pair.landed(0, 50'000, kTarget));
}

TEST_CASE(one_dead_reverse_path_does_not_silence_a_receiver) {
  int timed_out = 0;
  for (std::uint16_t dead = 0xC000; dead < 0xC008; ++dead) {
    Pair pair(trimming_plane());
    pair.connect();
    pair.filter = [&](int from, const wire::Packet&, Flying& flying) {
      return from == 1 && flying.fields.source_port == dead ? Fate::kDrop : Fate::kPass;
    };
    CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    timed_out += pair.stats(0).timeouts > 0 ? 1 : 0;
  }
  // Three questions in a row may take the dead path; a single reverse path would have timed out whenever it is the dead
  // one.
  CHECK(timed_out <= 1);
}

// proves A.1.2
TEST_CASE(a_lost_transport_ack_is_asked_for_more_than_once) {
  Pair pair(trimming_plane());
  pair.connect();
  int acks = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    return from == 1 && packet.bth.opcode == wire::Opcode::kAck && ++acks <= 2 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(acks == 3);
  CHECK(pair.stats(0).timeouts == 0);
}

// --- the parts

TEST_CASE(rtt_high_follows_acknowledgements_up_to_twice_the_smoothed_round_trip) {
  RttEstimator rtt;
  rtt.start(10 * kPsPerUs, 0);
  rtt.add(10 * kPsPerUs);
  rtt.add_acknowledged(14 * kPsPerUs);
  CHECK(rtt.high() == 14 * kPsPerUs);
  rtt.add_acknowledged(kPsPerMs);
  CHECK(rtt.high() == 20 * kPsPerUs);
  CHECK(rtt.loss_delay() == 25 * kPsPerUs);
  CHECK(rtt.dead_path_delay() == 25 * kPsPerUs);
}

// proves A.11.17
TEST_CASE(reverse_paths_take_turns_and_a_proven_ev_replaces_the_random_ones) {
  test::EvSetFixture fixture(test::universe_of(1, 16));
  ReversePaths paths;
  paths.start(fixture.set, 1, Rng(3));
  std::set<std::uint32_t> used;
  Ev ev;
  for (int i = 0; i < 16; ++i) {
    CHECK(paths.choose(fixture.set, 1, 1, 0, ev));
    used.insert(ev.value);
  }
  CHECK(used.size() > 1 && used.size() <= 4);
  paths.confirm(0, fixture.set, fixture.set.find(7));
  for (int i = 0; i < 4; ++i) CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && ev.value == 7);
  for (std::uint32_t value : {1U, 2U, 3U, 4U}) paths.confirm(0, fixture.set, fixture.set.find(value));
  used.clear();
  for (int i = 0; i < 8; ++i) {
    CHECK(paths.choose(fixture.set, 1, 1, 0, ev));
    used.insert(ev.value);
  }
  CHECK(used == (std::set<std::uint32_t>{1, 2, 3, 4}));
  paths.on_probe_result(0, fixture.set, {2, 0}, 0);
  for (int i = 0; i < 8; ++i) CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && ev.value != 2);
}

TEST_CASE(reverse_paths_learn_how_long_a_probe_takes) {
  test::EvSetFixture fixture(test::universe_of(2, 4));
  ReversePaths paths;
  paths.start(fixture.set, 2, Rng(3));
  constexpr TimePs kInterval = 50 * kPsPerMs;
  CHECK(paths.patience(0, kInterval) == kInterval);
  paths.on_probe_result(0, fixture.set, {1, 0}, 0);
  CHECK(paths.patience(0, kInterval) == 100 * kPsPerMs);
  for (int i = 0; i < 10; ++i) paths.on_probe_result(0, fixture.set, {1, 0}, 0);
  CHECK(paths.patience(0, kInterval) == kPsPerSecond);
  CHECK(paths.patience(1, kInterval) == kInterval);
  paths.suspect(fixture.set, 0);
  CHECK(paths.patience(0, kInterval) == kPsPerSecond);
  paths.on_probe_result(0, fixture.set, {2, 0}, 60 * kPsPerMs);
  CHECK(paths.patience(0, kInterval) == 180 * kPsPerMs);
}

// proves A.11.17
TEST_CASE(reverse_paths_pass_over_one_that_own_data_finds_dead_later) {
  test::EvSetFixture fixture(test::universe_of(1, 4), {.active_per_port = 4});
  ReversePaths paths;
  paths.start(fixture.set, 1, Rng(5));
  Ev dead;
  CHECK(paths.choose(fixture.set, 1, 1, 0, dead));
  fixture.feed(fixture.set.find(dead.value), EvFeedback::kLost);
  Ev ev;
  for (int i = 0; i < 8; ++i) CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && ev.value != dead.value);
}

// proves A.11.17
TEST_CASE(reverse_paths_avoid_paths_that_own_data_found_dead) {
  test::EvSetFixture fixture(test::universe_of(1, 4), {.active_per_port = 4});
  for (std::uint32_t value : {0U, 1U, 3U}) fixture.feed(fixture.set.find(value), EvFeedback::kLost);
  ReversePaths paths;
  paths.start(fixture.set, 1, Rng(5));
  Ev ev;
  for (int i = 0; i < 8; ++i) CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && ev.value == 2);
  fixture.set.deny(0, 2);
  paths.suspect(fixture.set, 0);
  CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && ev.value != 2);
}

// proves A.11.19
TEST_CASE(reverse_paths_leave_denied_evs) {
  test::EvSetFixture fixture(test::universe_of(1, 16));
  ReversePaths paths;
  paths.start(fixture.set, 1, Rng(3));
  std::set<std::uint32_t> used;
  Ev ev;
  for (int i = 0; i < 16; ++i) {
    CHECK(paths.choose(fixture.set, 1, 1, 0, ev));
    used.insert(ev.value);
  }
  for (const std::uint32_t value : used) CHECK(fixture.set.deny(0, value));
  paths.leave_denied(fixture.set);
  for (int i = 0; i < 16; ++i) CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && !used.contains(ev.value));
}

// proves A.11.18
TEST_CASE(reverse_paths_take_the_ev_whose_probe_was_answered) {
  test::EvSetFixture fixture(test::universe_of(1, 16));
  ReversePaths paths;
  paths.start(fixture.set, 1, Rng(3));
  paths.on_probe_result(0, fixture.set, {9, 0}, kPsPerUs);
  Ev ev;
  for (int i = 0; i < 8; ++i) CHECK(paths.choose(fixture.set, 1, 1, 0, ev) && ev.value == 9);
}

}  // namespace
