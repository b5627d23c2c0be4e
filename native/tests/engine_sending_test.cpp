// Packets of a requester and their times: classes, limits, repairs, timers, and the presumed causes of losses.
#include <set>

#include "engine/base/traffic.hpp"
#include "engine/qp/retry_timer.hpp"
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;
using wire::Opcode;

constexpr std::uint64_t kTarget = 512 * 1024;

void trim(Flying& flying, TrafficClass as) {
  flying.bytes.resize(24);
  flying.traffic_class = as;
}

// --- traffic classes

// proves A.4.4
TEST_CASE(classes_have_these_dscp_values_and_unknown_ones_are_not_trimmed) {
  const std::array<std::uint8_t, 6> values{0, 4, 8, 12, 16, 46};
  std::size_t index = 0;
  for (const TrafficClass each : {TrafficClass::kNoTrim, TrafficClass::kTrimmable, TrafficClass::kTrimmableRetx,
                                  TrafficClass::kTrimmed, TrafficClass::kTrimmedLastHop, TrafficClass::kControl}) {
    CHECK(dscp_of(each) == values[index++]);
    CHECK(traffic_class_of(dscp_of(each)) == each);
  }
  for (const std::uint8_t unknown : {std::uint8_t{1}, std::uint8_t{10}, std::uint8_t{63}}) {
    CHECK(traffic_class_of(unknown) == TrafficClass::kNoTrim);
  }
}

// Sends a message of which one packet and the first responses are lost, and checks the class of each packet.
void check_classes(const PairOptions& options, TrafficClass data, TrafficClass repair) {
  Pair pair(options);
  pair.connect();
  int repairs = 0, probes = 0, answers = 0;
  const TimePs silent_until = pair.now + 40 * kPsPerUs;
  pair.filter = [&](int from, const wire::Packet& packet, const Flying& flying) {
    if (from == 1) {
      ++answers;
      CHECK(flying.traffic_class == TrafficClass::kControl && flying.ecn == Ecn::kNotEct);
      return pair.now < silent_until ? Fate::kDrop : Fate::kPass;
    }
    probes += packet.bth.opcode == Opcode::kProbe;
    repairs += packet.bth.rtx;
    CHECK(flying.traffic_class == (packet.bth.rtx ? repair : data));
    CHECK(flying.ecn == Ecn::kEct0);
    return !packet.bth.rtx && packet.bth.psn == options.psn[0] ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(repairs > 0 && probes > 0 && answers > 0);
}

// proves A.4.1, A.4.2, A.4.3
TEST_CASE(data_repairs_probes_and_answers_have_their_traffic_classes) {
  check_classes({}, TrafficClass::kTrimmable, TrafficClass::kTrimmableRetx);
  PairOptions options;
  options.trimmable = false;
  check_classes(options, TrafficClass::kNoTrim, TrafficClass::kNoTrim);
}

// proves A.6.8, A.4.1
TEST_CASE(without_trim_nack_nothing_is_trimmable_and_a_trimmed_packet_is_not_answered) {
  PairOptions options;
  options.capabilities.trim_nack = false;
  check_classes(options, TrafficClass::kNoTrim, TrafficClass::kNoTrim);
  Pair pair(options);
  pair.connect();
  pair.filter = [](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode) && !packet.bth.rtx) trim(flying, TrafficClass::kTrimmed);
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 5'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.stats(1).trimmed_packets == 5 && pair.stats(1).nacks_sent == 0);
}

// --- NACKs and their EVs

// proves A.6.1, A.6.3
TEST_CASE(a_trim_in_the_fabric_rests_its_ev_and_one_on_the_last_hop_does_not) {
  for (const TrafficClass where : {TrafficClass::kTrimmed, TrafficClass::kTrimmedLastHop}) {
    Pair pair;
    pair.connect();
    pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
      if (from == 0 && packet.bth.opcode == Opcode::kWriteFirst && !packet.bth.rtx) trim(flying, where);
      return Fate::kPass;
    };
    CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(pair.stats(0).trims_received == 1);
    const EvSetStats& evs = pair.engine(0).ev_set(pair.qp[0])->stats();
    CHECK(evs.to_skip == (where == TrafficClass::kTrimmed ? 1U : 0U) && evs.to_assumed_bad == 0);
  }
}

// proves A.6.4
TEST_CASE(a_packet_refused_for_want_of_resources_is_repeated_and_no_path_is_to_blame) {
  for (const wire::NackReason reason : {wire::NackReason::kNoBitmap, wire::NackReason::kNoPacketBuffer,
                                        wire::NackReason::kNoResource, wire::NackReason::kPsnOutOfWindow}) {
    for (const bool nacked : {true, false}) {
      Pair pair;
      pair.connect();
      wire::Packet nack;
      nack.bth.opcode = Opcode::kNack;
      nack.neth.reason = reason;
      nack.neth.nack_psn = pair.options.psn[0];
      nack.neth.source_context = pair.context(1);
      nack.neth.destination_context = pair.context(0);
      pair.filter = [&](int from, const wire::Packet& packet, const Flying& flying) {
        if (from != 0 || packet.bth.opcode != Opcode::kWriteFirst || packet.bth.rtx) return Fate::kPass;
        nack.neth.entropy = flying.fields.source_port;
        return Fate::kDrop;
      };
      CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
      pair.pump();
      if (nacked) pair.deliver(pair.forge(1, nack));
      CHECK(pair.run_until_sends(0, 1));
      CHECK(pair.landed(0, 20'000, kTarget) && pair.stats(0).retransmitted_packets == 1);
      CHECK(pair.engine(0).ev_set(pair.qp[0])->stats().to_assumed_bad == (nacked ? 0U : 1U));
    }
  }
}

// --- windows

// proves A.7.1
TEST_CASE(no_psn_leaves_that_is_an_mpr_above_the_cumulative_acknowledgement) {
  PairOptions options;
  options.mpr_units = 1;
  Pair pair(options);
  pair.connect();
  std::uint32_t acknowledged = options.psn[0] - 1;
  std::uint32_t highest = 0;
  const TimePs silent_until = pair.now + 100 * kPsPerUs;
  pair.filter = [&](int from, const wire::Packet& packet, const Flying&) {
    if (from == 1) {
      if (pair.now < silent_until) return Fate::kDrop;
      if (packet.bth.opcode == Opcode::kSack) acknowledged = std::max(acknowledged, packet.seth.cack_psn);
    } else if (wire::is_data(packet.bth.opcode)) {
      CHECK(packet.bth.psn < acknowledged + kMprUnitPsns);
      highest = std::max(highest, packet.bth.psn);
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 400 * 1024, kTarget) == Status::kOk);
  pair.run_for(50 * kPsPerUs);
  CHECK(highest == options.psn[0] + kMprUnitPsns - 2);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(highest == options.psn[0] + 399);
}

// proves A.7.4
TEST_CASE(a_requester_keeps_to_the_peers_limit_of_immediates) {
  PairOptions options;
  options.wimm_max = 2;
  Pair pair(options);
  pair.connect();
  std::set<std::uint32_t> started;
  bool silent = true;
  pair.filter = [&](int from, const wire::Packet& packet, const Flying&) {
    if (from == 0 && wire::is_data(packet.bth.opcode)) started.insert(packet.meth.msn);
    return from == 1 && silent ? Fate::kDrop : Fate::kPass;
  };
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(pair.write_imm(0, i, 1500, kTarget, i) == Status::kOk);
  pair.run_for(50 * kPsPerUs);
  CHECK(started == (std::set<std::uint32_t>{0, 1}));
  silent = false;
  CHECK(pair.run_until_sends(0, 6));
  CHECK(pair.state(1) == QpState::kRts && pair.recvs[1].size() == 6);
}

// proves A.9.4, A.14.1
TEST_CASE(new_packets_and_repairs_keep_within_the_congestion_window) {
  for (const std::uint32_t burst_max : {1U, 8U}) {
    PairOptions options;
    options.burst_max = burst_max;
    options.controller = "nscc";
    options.cc = {.mtu_bytes = 1112, .link_rate_bps = 10'000'000'000, .base_rtt = 10 * kPsPerUs, .trimming = true};
    Pair pair(options);
    pair.connect();
    int repairs = 0, fresh = 0;
    pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
      if (from != 0 || !wire::is_data(packet.bth.opcode)) return Fate::kPass;
      ++(packet.bth.rtx ? repairs : fresh);
      CcStats cc;
      CHECK(pair.engine(0).cc_stats(pair.qp[0], cc));
      const QpStats stats = pair.stats(0);
      CHECK(stats.in_flight_packets == 1 || stats.in_flight_bytes <= cc.window_bytes);
      if (!packet.bth.rtx && packet.bth.psn % 4 != 0) trim(flying, TrafficClass::kTrimmedLastHop);
      return Fate::kPass;
    };
    CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(repairs > 100 && fresh == 196);
  }
}

// proves A.9.2
TEST_CASE(lost_packets_are_repeated_lowest_first_and_before_new_ones) {
  PairOptions options;
  options.planes = 1;
  options.mpr_units = 1;
  Pair pair(options);
  pair.connect();
  std::vector<std::uint32_t> repairs;
  std::uint32_t highest = 0, highest_at_last_repair = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from != 0 || !wire::is_data(packet.bth.opcode)) return Fate::kPass;
    const std::uint32_t offset = packet.bth.psn - options.psn[0];
    if (packet.bth.rtx) {
      highest_at_last_repair = highest;
      repairs.push_back(offset);
      return Fate::kPass;
    }
    highest = std::max(highest, offset);
    if (offset == 30 || offset == 10 || offset == 20) trim(flying, TrafficClass::kTrimmedLastHop);
    // Reports of the highest one arrive first.
    if (offset == 10) flying.arrival += 2 * kPsPerUs;
    if (offset == 20) flying.arrival += kPsPerUs;
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 400 * 1024, kTarget) == Status::kOk);
  pair.run_for(8 * kPsPerUs);
  pair.busy_ports = 1;  // until all three count as lost
  pair.run_for(20 * kPsPerUs);
  const std::uint32_t highest_before = highest;
  pair.busy_ports = 0;
  CHECK(pair.run_until_sends(0, 1));
  CHECK(repairs == (std::vector<std::uint32_t>{10, 20, 30}));
  CHECK(highest_at_last_repair == highest_before && highest > highest_before);
}

// --- timers

// proves A.9.6, A.9.8
TEST_CASE(retry_timer_waits_linearly_then_doubles_then_gives_up) {
  QpToRts attributes;
  attributes.timeout_exponent = 7;
  attributes.linear_retries = 2;
  attributes.exponential_retries = 3;
  RetryTimer timer;
  timer.start(attributes);
  const TimePs base = 128 * 1024 * kPsPerNs;
  for (const TimePs wait : {base, base, base, 2 * base, 4 * base}) {
    CHECK(timer.wait(0) == wait);
    CHECK(timer.expired());
  }
  CHECK(timer.wait(0) == 8 * base);
  CHECK(!timer.expired());
  timer.progress();
  CHECK(timer.wait(0) == base);
  CHECK(timer.wait(10 * base) == 15 * base);
}

// proves A.9.6
TEST_CASE(twenty_five_exponential_retries_never_end) {
  QpToRts attributes;
  attributes.linear_retries = 0;
  attributes.exponential_retries = 25;
  RetryTimer timer;
  timer.start(attributes);
  for (int i = 0; i < 100'000; ++i) CHECK(timer.expired());
  CHECK(timer.wait(0) == (1024 * kPsPerNs) << 24);
}

// proves A.9.7
TEST_CASE(every_message_that_arrives_gives_all_retries_back) {
  PairOptions options;
  options.linear_retries = 1;
  options.exponential_retries = 0;
  Pair pair(options);
  pair.connect();
  for (std::uint64_t i = 1; i <= 4; ++i) {
    pair.filter = [&](int from, const wire::Packet&, const Flying&) {
      return from == 0 && pair.stats(0).timeouts < i ? Fate::kDrop : Fate::kPass;
    };
    CHECK(pair.write(0, i, 100, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, i));
    CHECK(pair.stats(0).timeouts == i && pair.state(0) == QpState::kRts);
  }
}

// --- paths

// proves A.13.1
TEST_CASE(packets_in_flight_on_a_failed_port_are_repeated_without_blame_for_their_paths) {
  Pair pair;
  pair.connect();
  bool down = false;
  std::uint64_t swallowed = 0;
  pair.filter = [&](int from, const wire::Packet&, const Flying& flying) {
    if (flying.port != 1) return Fate::kPass;
    CHECK(!down || from == 1);
    swallowed += from == 0;
    return Fate::kDrop;
  };
  const TimePs start = pair.now;
  CHECK(pair.write(0, 1, 400'000, kTarget) == Status::kOk);
  pair.run_for(2 * kPsPerUs);
  CHECK(swallowed > 50);
  down = true;
  pair.engine(0).handle_port_state(pair.now, 1, false);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 400'000, kTarget));
  CHECK(pair.now - start < 100 * kPsPerUs && pair.stats(0).timeouts == 0);
  CHECK(pair.engine(0).ev_set(pair.qp[0])->stats().to_assumed_bad == 0);
}

// proves A.11.18
TEST_CASE(reverse_paths_are_probed_while_traffic_is_inbound_alone) {
  for (const bool both_ways : {false, true}) {
    Pair pair;
    pair.connect();
    for (std::uint64_t i = 1; i <= 200; ++i) {
      CHECK(pair.write(0, i, 20'000, kTarget) == Status::kOk);
      if (both_ways) CHECK(pair.write(1, i, 20'000, kTarget) == Status::kOk);
      CHECK(pair.run_until_sends(0, i));
      CHECK(!both_ways || pair.run_until_sends(1, i));
      pair.run_for(kPsPerMs);
    }
    CHECK(pair.sent(0, Opcode::kEndpointRequest) == 0);
    CHECK((pair.sent(1, Opcode::kEndpointRequest) > 0) == !both_ways);
  }
}

// proves A.3.10, A.12.2
TEST_CASE(endpoint_operations_go_to_qp_2_with_their_id) {
  Pair pair;
  std::vector<std::uint32_t> requests, responses;
  pair.filter = [&](int, const wire::Packet& packet, const Flying& flying) {
    CHECK(packet.bth.destination_qp == 0x2 && flying.fields.source_port == 0xC101);
    (packet.bth.opcode == Opcode::kEndpointRequest ? requests : responses).push_back(packet.bth.psn);
    return Fate::kPass;
  };
  for (std::uint16_t request = 0; request < 3; ++request) {
    CHECK(pair.engine(0).send_ev_probe(pair.now, pair.peer(0), 1, 0xC101, request, kPsPerMs) == Status::kOk);
  }
  pair.run_for(kPsPerMs);
  CHECK(requests == responses);
  CHECK((std::set<std::uint32_t>{requests.begin(), requests.end()}.size() == 3));
}

// proves A.10.3
TEST_CASE(an_ev_probe_reports_its_round_trip_without_the_time_for_which_it_was_held) {
  Pair pair;
  CHECK(pair.engine(0).send_ev_probe(pair.now, pair.peer(0), 1, 0xC101, 7, kPsPerMs) == Status::kOk);
  pair.pump();
  pair.busy_ports = 0xF;
  pair.run_for(60 * kPsPerUs);
  pair.busy_ports = 0;
  EndpointResult result;
  CHECK(pair.run_until([&] { return pair.engine(0).poll_endpoint_result(result); }));
  CHECK(result.answered && result.service_time_removed);
  CHECK(result.rtt >= 2 * pair.options.delay - kPsPerUs && result.rtt <= 2 * pair.options.delay + kPsPerUs);
}

TEST_CASE(posted_work_has_a_deadline_and_a_destroyed_qp_has_none) {
  Pair pair;
  pair.connect();
  Engine& engine = pair.engine(0);
  CHECK(engine.post_send(pair.now, pair.qp[0], pair.work(1, 100, 0)) == Status::kOk);
  CHECK(engine.next_timer() < kNever && engine.patience() == 0);
  CHECK(engine.post_send(pair.now, pair.qp[0], pair.work(2, 100, 0)) == Status::kOk);
  CHECK(engine.destroy_qp(pair.now, pair.qp[0]) == Status::kOk);
  CHECK(engine.patience() == kNever);
  for (int i = 0; i < 4 && engine.next_timer() < kNever; ++i) engine.handle_timer(engine.next_timer());
  CHECK(engine.next_timer() == kNever);
}

}  // namespace
