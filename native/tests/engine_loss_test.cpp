// Numbered loss cases: one kind of loss each, and the transport's guarantees in spite of it.
#include <set>

#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;
using wire::Opcode;

constexpr std::uint64_t kTarget = 512 * 1024;

TEST_CASE(loss_01_nothing_lost_nothing_repeated) {
  Pair pair;
  pair.connect();
  for (std::uint64_t length : {0ULL, 1ULL, 1023ULL, 1024ULL, 1025ULL, 100'000ULL}) {
    CHECK(pair.write(0, length, length, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(pair.sends[0].size() == 1 && pair.sends[0][0].wr_id == length &&
          pair.sends[0][0].status == WcStatus::kSuccess);
    CHECK(pair.sends[0][0].bytes == length);
    CHECK(pair.landed(0, length, kTarget));
    pair.sends[0].clear();
  }
  CHECK(pair.stats(0).retransmitted_packets == 0);
  CHECK(pair.stats(1).duplicate_packets == 0);
  CHECK(pair.stats(0).in_flight_packets == 0);
}

TEST_CASE(loss_02_third_sack) {
  Pair pair;
  pair.connect();
  int sacks = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    return from == 1 && packet.bth.opcode == Opcode::kSack && ++sacks == 3 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(sacks >= 3);
  CHECK(pair.landed(0, 200'000, kTarget));
  // Later SACKs repeat the content of the lost one.
  CHECK(pair.stats(0).retransmitted_packets == 0);
}

TEST_CASE(loss_03_only_the_last_packet) {
  Pair pair;
  pair.connect();
  int last = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    return from == 0 && packet.bth.opcode == Opcode::kWriteLast && ++last == 1 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 50'000, kTarget));
  CHECK(last == 2);
  CHECK(pair.stats(0).retransmitted_packets == 1);
}

// proves A.9.1, A.9.3
TEST_CASE(loss_04_only_the_first_packet_on_another_ev) {
  Pair pair;
  pair.connect();
  std::set<std::uint16_t> evs;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from != 0 || packet.bth.opcode != Opcode::kWriteFirst) return Fate::kPass;
    evs.insert(flying.fields.source_port);
    CHECK(packet.bth.rtx == (evs.size() > 1));
    return evs.size() == 1 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 50'000, kTarget));
  CHECK(evs.size() == 2);
  CHECK(pair.stats(0).retransmitted_packets == 1);
}

TEST_CASE(loss_05_every_third_packet_both_ways) {
  PairOptions options;
  options.timeout_exponent = 6;
  Pair pair(options);
  pair.connect();
  int count = 0;
  pair.filter = [&](int, const wire::Packet&, Flying&) { return ++count % 3 == 0 ? Fate::kDrop : Fate::kPass; };
  for (std::uint64_t i = 0; i < 10; ++i) CHECK(pair.write(0, i, 20'000, kTarget + i * 20'000) == Status::kOk);
  CHECK(pair.run_until_sends(0, 10));
  for (std::uint64_t i = 0; i < pair.sends[0].size(); ++i) {
    CHECK(pair.sends[0][i].wr_id == i && pair.sends[0][i].status == WcStatus::kSuccess);
    CHECK(pair.landed(0, 20'000, kTarget + i * 20'000));
  }
}

// proves A.8.5
TEST_CASE(loss_06_psn_wraps_inside_a_message) {
  PairOptions options;
  options.psn = {kPsnSpace - 10, kPsnSpace - 1};
  Pair pair(options);
  pair.connect();
  std::set<std::uint32_t> dropped;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    const bool edge = packet.bth.psn == kPsnSpace - 1 || packet.bth.psn == 0;
    return from == 0 && wire::is_data(packet.bth.opcode) && edge && dropped.insert(packet.bth.psn).second ? Fate::kDrop
                                                                                                          : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 40'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(dropped.size() == 2);
  CHECK(pair.landed(0, 40'000, kTarget));
  CHECK(pair.stats(0).retransmitted_packets == 2);
}

// proves A.8.3
TEST_CASE(loss_07_everything_twice) {
  Pair pair;
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kTwice; };
  for (std::uint64_t i = 0; i < 20; ++i)
    CHECK(pair.write_imm(0, i, 5'000, kTarget + i * 5'000, 0x100 + static_cast<std::uint32_t>(i)) == Status::kOk);
  CHECK(pair.run_until_sends(0, 20));
  pair.run_for(10 * kPsPerMs);
  CHECK(pair.sends[0].size() == 20);
  CHECK(pair.recvs[1].size() == 20);
  for (std::uint64_t i = 0; i < pair.recvs[1].size(); ++i)
    CHECK(pair.recvs[1][i].immediate == 0x100 + i && pair.recvs[1][i].wr_id == i);
  CHECK(pair.stats(1).duplicate_packets >= 100);
}

TEST_CASE(loss_08_a_packet_overtaken_by_more_than_the_bitmap) {
  Pair pair;
  pair.connect();
  pair.filter = [](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && packet.bth.opcode == Opcode::kWriteFirst && !packet.bth.rtx) flying.arrival += kPsPerMs;
    return Fate::kPass;
  };
  CHECK(pair.write_imm(0, 1, 300'000, kTarget, 7) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 300'000, kTarget));
  pair.run_for(5 * kPsPerMs);
  CHECK(pair.recvs[1].size() == 1);
  CHECK(pair.sends[0].size() == 1);
}

// proves A.6.1, A.6.2
TEST_CASE(loss_09_trimmed_packets_come_again_without_a_timeout) {
  Pair pair;
  pair.connect();
  int trimmed = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && !packet.bth.rtx && packet.bth.psn % 5 == 0) {
      CHECK(flying.traffic_class == TrafficClass::kTrimmable);
      flying.bytes.resize(24);
      flying.traffic_class = trimmed++ % 2 == 0 ? TrafficClass::kTrimmed : TrafficClass::kTrimmedLastHop;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 100'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 100'000, kTarget));
  CHECK(trimmed > 10);
  CHECK(pair.stats(0).trims_received == static_cast<std::uint64_t>(trimmed));
  CHECK(pair.stats(0).retransmitted_packets == static_cast<std::uint64_t>(trimmed));
  CHECK(pair.stats(0).losses_inferred == 0);
  CHECK(pair.stats(0).timeouts == 0);
}

// proves A.10.2
TEST_CASE(loss_16_a_repeated_packet_gives_a_round_trip_sample) {
  Pair pair;
  pair.connect();
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && !packet.bth.rtx) {
      flying.bytes.resize(24);
      flying.traffic_class = TrafficClass::kTrimmedLastHop;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.stats(0).retransmitted_packets == 20);
  CHECK(pair.stats(0).last_rtt >= 2 * pair.options.delay);
  CHECK(pair.stats(0).last_rtt < 3 * pair.options.delay);
}

// proves A.10.2
TEST_CASE(loss_17_a_late_first_copy_gives_no_sample_of_the_second) {
  PairOptions options;
  options.sack_bytes = 1;  // the first copy causes a SACK of its own
  Pair pair(options);
  pair.connect();
  TimePs first_sent = 0;
  int repeated = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from != 0 || !wire::is_data(packet.bth.opcode) || packet.bth.psn != 100) return Fate::kPass;
    if (packet.bth.rtx) {
      ++repeated;
      return Fate::kDrop;
    }
    first_sent = pair.now;
    flying.arrival += 100 * kPsPerUs;  // less than the retry timer, more than the wait of loss detection
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(first_sent > 0 && repeated >= 1);
  // A round trip measured from the second copy would be shorter than any possible one.
  CHECK(pair.stats(0).last_rtt >= 2 * pair.options.delay);
  CHECK(pair.stats(0).last_rtt < 4 * pair.options.delay);
}

// proves X.5.2
TEST_CASE(loss_18_a_short_packet_that_is_faster_is_no_sign_of_queues) {
  PairOptions options;
  options.controller = "nscc";
  options.cc.base_rtt = 100 * kPsPerUs;
  options.sack_bytes = 1;
  Pair pair(options);
  pair.connect();
  pair.filter = [](int, const wire::Packet& packet, Flying& flying) {
    if (wire::is_data(packet.bth.opcode)) flying.arrival += 5 * static_cast<TimePs>(flying.bytes.size()) * kPsPerNs;
    return Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 50; ++i) {
    CHECK(pair.write(0, i, 10 * 1024 + 100, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, i + 1));
  }
  CcStats stats;
  CHECK(pair.engine(0).cc_stats(pair.qp[0], stats));
  CHECK(stats.base_rtt < 2 * pair.options.delay + 3 * kPsPerUs);  // of a short packet
  CHECK(stats.average_delay < kPsPerUs);
}

TEST_CASE(loss_10_no_control_packet_for_a_while) {
  Pair pair;
  pair.connect();
  const TimePs until = pair.now + 3 * kPsPerMs;
  pair.filter = [&](int from, const wire::Packet&, Flying&) {
    return from == 1 && pair.now < until ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 30'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.now >= until);
  CHECK(pair.landed(0, 30'000, kTarget));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess);
}

TEST_CASE(loss_11_silent_plane_is_left_and_taken_again) {
  Pair pair;
  pair.connect();
  bool dead = true;
  std::uint64_t on_plane_2 = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (flying.port != 2) return Fate::kPass;
    if (from == 0 && wire::is_data(packet.bth.opcode)) ++on_plane_2;
    return dead ? Fate::kDrop : Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(pair.write(0, i, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 20));
  const EvSet* set = pair.engine(0).ev_set(pair.qp[0]);
  CHECK(set != nullptr);
  std::uint32_t bad = 0;
  for (std::uint32_t i = 0; i < set->size(); ++i) {
    const auto index = static_cast<EvIndex>(i);
    if (set->ev(index).port == 2 && set->state(index) == EvState::kAssumedBad) ++bad;
  }
  CHECK(bad > 0);
  on_plane_2 = 0;
  CHECK(pair.write(0, 20, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 21));
  CHECK(on_plane_2 <= 8 - bad);
  dead = false;
  pair.run_for(100 * kPsPerMs);
  for (std::uint32_t i = 0; i < set->size(); ++i) CHECK(set->state(static_cast<EvIndex>(i)) == EvState::kGood);
  CHECK(pair.write(0, 21, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 22));
  CHECK(on_plane_2 > 20);
}

// proves A.11.4
TEST_CASE(loss_12_a_mark_moves_load_and_loses_nothing) {
  Pair pair;
  pair.connect();
  pair.filter = [](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && flying.fields.source_port == 0xC101) {
      CHECK(flying.ecn == Ecn::kEct0 || flying.ecn == Ecn::kEct1);
      flying.ecn = Ecn::kCe;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.stats(0).ecn_marks_received > 0);
  CHECK(pair.engine(0).ev_set(pair.qp[0])->stats().to_skip > 0);
  CHECK(pair.engine(0).ev_set(pair.qp[0])->stats().to_assumed_bad == 0);
  CHECK(pair.stats(0).retransmitted_packets == 0);
}

// proves A.3.8
TEST_CASE(loss_13_corruption_is_loss) {
  Pair pair;
  pair.connect();
  int broken = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && !packet.bth.rtx && packet.bth.psn % 7 == 0) {
      flying.bytes[flying.bytes.size() / 2] ^= 1;
      ++broken;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 100'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 100'000, kTarget));
  CHECK(pair.engine(1).drops().bad_icrc == static_cast<std::uint64_t>(broken));
}

// proves A.8.1, A.8.3
TEST_CASE(loss_14_write_imm_waits_for_earlier_writes) {
  Pair pair;
  pair.connect();
  bool hold = true;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    return hold && from == 0 && wire::is_data(packet.bth.opcode) && packet.meth.msn == 0 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 1000, kTarget) == Status::kOk);
  CHECK(pair.write_imm(0, 2, 1000, kTarget + 1000, 42) == Status::kOk);
  pair.run_for(kPsPerMs);
  CHECK(pair.landed(0, 1000, kTarget + 1000));
  CHECK(pair.recvs[1].empty());
  CHECK(pair.sends[0].empty());
  hold = false;
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.landed(0, 1000, kTarget));
  CHECK(pair.recvs[1].size() == 1 && pair.recvs[1][0].immediate == 42 && pair.recvs[1][0].bytes == 1000);
}

TEST_CASE(loss_15_paths_come_back_although_the_round_trip_is_longer_than_the_probe_interval) {
  PairOptions options;
  options.delay = 3 * kPsPerMs;
  options.probe_interval = kPsPerMs;
  options.timeout_exponent = 14;  // 16.8 ms
  Pair pair(options);
  pair.connect();
  bool dead = true;
  pair.filter = [&](int from, const wire::Packet&, Flying& flying) {
    return dead && from == 0 && flying.port == 1 ? Fate::kDrop : Fate::kPass;
  };
  for (std::uint64_t i = 1; i <= 4; ++i) CHECK(pair.write(0, i, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 4));
  const EvSet& set = *pair.engine(0).ev_set(pair.qp[0]);
  const auto bad = [&] {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < set.size(); ++i) count += set.state(static_cast<EvIndex>(i)) == EvState::kAssumedBad;
    return count;
  };
  CHECK(bad() > 0);
  dead = false;
  CHECK(pair.run_until([&] { return bad() == 0; }));
}

// If the repeat takes the same path, the EV does not distinguish the copies: the timestamp does.
// proves A.6.7
TEST_CASE(loss_19_a_nack_that_comes_again_repeats_nothing) {
  PairOptions options;
  options.planes = 1;
  options.selector = "single";
  Pair pair(options);
  pair.connect();
  std::vector<Flying> nacks;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && !packet.bth.rtx) {
      flying.bytes.resize(24);
      flying.traffic_class = TrafficClass::kTrimmed;
    }
    if (packet.bth.opcode == Opcode::kNack) nacks.push_back(flying);
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 8'000, kTarget) == Status::kOk);
  CHECK(pair.run_until([&] { return pair.stats(0).retransmitted_packets == 8; }));
  CHECK(nacks.size() == 8);
  for (const Flying& nack : nacks) pair.deliver(nack);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 8'000, kTarget));
  CHECK(pair.stats(0).trims_received == 8);
  CHECK(pair.stats(0).retransmitted_packets == 8);
  CHECK(pair.stats(0).stale_packets == 8);
  CHECK(pair.stats(0).timeouts == 0);
}

// The port is busy with other QPs for longer than all retries take, which is not the peer's fault.
TEST_CASE(loss_20_waiting_for_a_busy_port_spends_no_retries) {
  for (const Transport transport : {Transport::kMrc, Transport::kRc}) {
    for (const PathSignal signal : {PathSignal::kMarks, PathSignal::kDelay}) {
      PairOptions options;
      options.planes = 1;
      options.transport = transport;
      options.path_signal = signal;
      options.timeout_exponent = 5;  // 33 us
      options.linear_retries = 2;
      options.exponential_retries = 0;
      Pair pair(options);
      pair.connect();
      for (std::uint64_t i = 1; i <= 2; ++i) {
        pair.busy_ports = 1;
        CHECK(pair.write(0, i, 10'000, kTarget) == Status::kOk);
        pair.run_for(5 * kPsPerMs);
        CHECK(pair.state(0) == QpState::kRts);
        CHECK(pair.stats(0).timeouts == 0 && pair.stats(0).sent_packets == 10 * (i - 1));
        pair.busy_ports = 0;
        CHECK(pair.run_until_sends(0, i));
        CHECK(pair.stats(0).timeouts == 0);
      }
      CHECK(pair.landed(0, 10'000, kTarget));
      pair.filter = [](int, const wire::Packet&, const Flying&) { return Fate::kDrop; };
      CHECK(pair.write(0, 3, 10'000, kTarget) == Status::kOk);
      CHECK(pair.run_until(
          [&] { return pair.state(0) == QpState::kError; }));  // a silent peer still exhausts the retries
    }
  }
}

}  // namespace
