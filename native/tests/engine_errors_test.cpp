// Errors caused by a peer, an application or a limit, and their reports at both ends.
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;
using wire::Opcode;

constexpr std::uint64_t kTarget = 512 * 1024;

bool all_flushed(const std::vector<Completion>& completions, std::size_t from) {
  for (std::size_t i = from; i < completions.size(); ++i) {
    if (completions[i].status != WcStatus::kFlushed) return false;
  }
  return true;
}

// proves A.8.6, A.9.6
TEST_CASE(error_01_retries_run_out_and_everything_is_flushed_in_order) {
  PairOptions options;
  options.linear_retries = 2;
  options.exponential_retries = 2;
  Pair pair(options);
  pair.connect(5);
  const TimePs begin = pair.now;
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kDrop; };
  for (std::uint64_t i = 0; i < 6; ++i) CHECK(pair.write(0, i, 3000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 6));
  CHECK(pair.sends[0][0].status == WcStatus::kRetryExceeded);
  CHECK(all_flushed(pair.sends[0], 1));
  for (std::uint64_t i = 0; i < pair.sends[0].size(); ++i) CHECK(pair.sends[0][i].wr_id == i);
  CHECK(pair.state(0) == QpState::kError && pair.error(0) == QpErrorCause::kRetryExceeded);
  // Two linear and two exponential waits, and the expired one after the last retry.
  const TimePs timeout = TimePs{1'024'000} << options.timeout_exponent;
  CHECK(pair.now - begin >= 5 * timeout);
  CHECK(pair.recvs[0].size() == 5 && all_flushed(pair.recvs[0], 0));
  CHECK(pair.write(0, 9, 1, kTarget) == Status::kInvalidState);
  CHECK(pair.state(1) == QpState::kRts);
}

// proves A.8.4
TEST_CASE(error_02_write_imm_without_a_receive) {
  Pair pair;
  pair.connect(1);
  CHECK(pair.write_imm(0, 1, 100, kTarget, 1) == Status::kOk);
  CHECK(pair.write_imm(0, 2, 100, kTarget + 100, 2) == Status::kOk);
  CHECK(pair.write(0, 3, 100, kTarget + 200) == Status::kOk);
  CHECK(pair.run_until_sends(0, 3));
  CHECK(pair.recvs[1].size() == 1 && pair.recvs[1][0].immediate == 1);
  CHECK(pair.error(1) == QpErrorCause::kNoReceivePosted);
  CHECK(pair.error(0) == QpErrorCause::kRemoteOperational);
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess);
  CHECK(pair.sends[0][1].status == WcStatus::kRemoteOperational);
  CHECK(pair.sends[0][2].status == WcStatus::kFlushed);
}

void refused(const SendWr& bad, bool late_naks) {
  Pair pair;
  pair.connect();
  if (late_naks) {
    int naks = 0;
    pair.filter = [naks](int from, const wire::Packet& packet, Flying&) mutable {
      const bool nak =
          from == 1 && packet.bth.opcode == Opcode::kAck && packet.aeth.syndrome != wire::AethSyndrome::kAck;
      return nak && ++naks <= 2 ? Fate::kDrop : Fate::kPass;
    };
  }
  const std::vector<std::uint8_t> before = pair.memory[1];
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], bad) == Status::kOk);
  CHECK(pair.write(0, 3, 10, kTarget + 8000) == Status::kOk);
  CHECK(pair.run_until_sends(0, 3));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess);
  CHECK(pair.landed(0, 5000, kTarget));
  CHECK(pair.sends[0][1].status == WcStatus::kRemoteAccess && pair.sends[0][1].wr_id == 2);
  CHECK(pair.sends[0][2].status == WcStatus::kFlushed);
  CHECK(pair.error(0) == QpErrorCause::kRemoteAccess);
  CHECK(pair.error(1) == QpErrorCause::kAccessViolation);
  CHECK(pair.stats(1).refused_packets >= 1);
  CHECK(std::equal(before.begin(), before.begin() + kTarget, pair.memory[1].begin()));
}

// proves A.8.2, A.8.7
TEST_CASE(error_03_wrong_key) {
  Pair pair;
  SendWr wr = pair.work(2, 2000, kTarget + 5000);
  wr.rkey = 0x1234;
  refused(wr, false);
  refused(wr, true);
}

// proves A.8.2
TEST_CASE(error_04_out_of_bounds) {
  Pair pair;
  refused(pair.work(2, 2000, pair.options.memory_bytes - 1999), false);
  refused(pair.work(2, 1, pair.options.memory_bytes), false);
  refused(pair.work(2, 5000, UINT64_MAX - 100), false);
}

TEST_CASE(error_05_deregistered_under_a_writer) {
  Pair pair;
  pair.connect();
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.engine(1).deregister_memory(Pair::kKey) == Status::kOk);
  CHECK(pair.write(0, 2, 5000, kTarget) == Status::kOk);
  // The sender's own memory is now in use.
  CHECK(pair.engine(0).deregister_memory(Pair::kKey) == Status::kBusy);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][1].status == WcStatus::kRemoteAccess);
  CHECK(pair.engine(0).deregister_memory(Pair::kKey) == Status::kOk);
}

// proves A.8.2
TEST_CASE(error_06_no_permission_to_write) {
  Pair pair;
  std::vector<std::uint8_t> secret(1000, 1);
  CHECK(pair.engine(1).register_memory({secret.data(), 1ULL << 40, secret.size(), 0x99, kLocalRead}) == Status::kOk);
  pair.connect();
  SendWr wr = pair.work(1, 100, 1ULL << 40);
  wr.rkey = 0x99;
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], wr) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRemoteAccess);
  CHECK(secret == std::vector<std::uint8_t>(1000, 1));
}

// proves A.15.1
TEST_CASE(error_07_wrong_partition_key) {
  PairOptions options;
  options.partition_key = {0xFFFF, 0x8001};
  options.linear_retries = 1;
  options.exponential_retries = 1;
  Pair pair(options);
  pair.connect();
  CHECK(pair.write(0, 1, 100, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRetryExceeded);
  CHECK(pair.engine(1).drops().wrong_partition_key > 0);
  CHECK(!pair.landed(0, 100, kTarget));
}

// proves A.15.2
TEST_CASE(error_08_unknown_qp_and_strange_source) {
  Pair pair;
  pair.connect();
  wire::Packet packet;
  packet.bth.opcode = Opcode::kWriteOnly;
  packet.bth.destination_qp = 0xABCDE;
  packet.reth = {kTarget, Pair::kKey, 4};
  pair.deliver(pair.forge(0, packet, {1, 2, 3, 4}));
  CHECK(pair.engine(1).drops().unknown_qp == 1);
  // The right QP, but from an address that is not that of the peer's port.
  packet.bth.destination_qp = 0;
  packet.bth.psn = pair.options.psn[0];
  Flying stranger = pair.forge(0, packet, {1, 2, 3, 4});
  const wire::Flow flow{Pair::address(0, 3), Pair::address(1, 0), stranger.fields.source_port, 4791};
  const std::uint32_t crc = wire::icrc(flow, {stranger.bytes.data(), stranger.bytes.size() - 4}, {}, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    stranger.bytes[stranger.bytes.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  }
  const std::vector<std::uint8_t> before = pair.memory[1];
  RxDatagram rx;
  rx.source = Pair::address(0, 3);
  rx.fields = stranger.fields;
  rx.bytes = stranger.bytes;
  pair.engine(1).handle_datagram(pair.now, rx);
  CHECK(pair.engine(1).drops().wrong_source == 1 && pair.engine(1).drops().bad_icrc == 0);
  CHECK(pair.memory[1] == before);
  CHECK(pair.stats(1).received_packets == 0);
}

// proves F.1.7
TEST_CASE(error_09_cq_overrun) {
  PairOptions options;
  options.cq_capacity = 4;
  Pair pair(options);
  pair.take_receives = false;
  pair.connect();
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(pair.write_imm(0, i, 10, kTarget, i) == Status::kOk);
  CHECK(pair.run_until([&] { return pair.state(0) == QpState::kError; }));
  CHECK(pair.error(1) == QpErrorCause::kCqOverrun);
  CHECK(pair.error(0) == QpErrorCause::kRemoteOperational);
  bool told = false;
  for (const Event& event : pair.events[1]) told |= event.type == EventType::kCqOverrun;
  CHECK(told);
}

// proves A.6.6, A.7.5
TEST_CASE(error_10_rogue_peer_exceeds_the_wimm_limit) {
  PairOptions options;
  options.wimm_max = 2;
  Pair pair(options);
  pair.connect();
  wire::Packet packet;
  packet.bth.opcode = Opcode::kWriteOnlyImm;
  packet.reth = {kTarget, Pair::kKey, 0};
  // The first PSN never arrives, so nothing can be delivered and all of them stay in flight.
  for (std::uint32_t i = 1; i <= 3; ++i) {
    packet.bth.psn = pair.options.psn[0] + i;
    packet.meth = {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(i)};
    CHECK(pair.state(1) == QpState::kRts);
    pair.deliver(pair.forge(0, packet));
  }
  CHECK(pair.state(1) == QpState::kError && pair.error(1) == QpErrorCause::kWimmLimit);
  pair.pump();
  CHECK(pair.recvs[1].size() == 64 && all_flushed(pair.recvs[1], 0));
  // The NACK names a PSN that has been sent by the time it arrives.
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(pair.write(0, i, 10, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 4));
  CHECK(pair.error(0) == QpErrorCause::kUnexpectedEvent);
}

// proves A.13.2
TEST_CASE(error_11_a_port_that_goes_down_is_left_at_both_ends) {
  Pair pair;
  pair.connect();
  CHECK(pair.write(0, 1, 100'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  pair.engine(1).handle_port_state(pair.now, 3, false);
  CHECK(pair.run_until([&] { return (pair.engine(0).peer_ports_up(pair.peer(0)) >> 3 & 1) == 0; }));
  std::uint64_t on_port_3 = 0;
  pair.filter = [&](int, const wire::Packet&, Flying& flying) {
    on_port_3 += flying.port == 3;
    return Fate::kPass;
  };
  CHECK(pair.write(0, 2, 200'000, kTarget) == Status::kOk);
  CHECK(pair.write(1, 3, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.run_until_sends(1, 1));
  CHECK(on_port_3 == 0);
  bool told = false;
  for (const Event& event : pair.events[0])
    told |= event.type == EventType::kPortState && event.port == 3 && event.value == 0 && event.detail == 1;
  CHECK(told);
  pair.engine(1).handle_port_state(pair.now, 3, true);
  CHECK(pair.run_until([&] { return (pair.engine(0).peer_ports_up(pair.peer(0)) >> 3 & 1) == 1; }));
  on_port_3 = 0;
  CHECK(pair.write(0, 4, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 3));
  CHECK(on_port_3 > 20);
}

// proves A.7.3
TEST_CASE(error_12_a_smaller_receive_window_pauses_new_packets) {
  PairOptions options;
  options.mpr_units = 4;
  options.capabilities.dynamic_mpr = true;
  options.sack_bytes = 1;
  Pair pair(options);
  pair.connect();
  CHECK(pair.engine(1).set_receive_window(pair.qp[1], 1) == Status::kOk);
  CHECK(pair.write(0, 1, 10, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  // The sender now knows the smaller window: with all SACKs lost it stops at its end.
  pair.filter = [](int from, const wire::Packet&, Flying&) { return from == 1 ? Fate::kDrop : Fate::kPass; };
  const std::uint64_t before = pair.stats(0).sent_packets;
  CHECK(pair.write(0, 2, 400 * 1024, kTarget) == Status::kOk);
  pair.run_for(50 * kPsPerUs);
  CHECK(pair.stats(0).sent_packets - before <= kMprUnitPsns);
  CHECK(pair.stats(0).sent_packets - before >= kMprUnitPsns - 1);
  pair.filter = nullptr;
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.landed(0, 400 * 1024, kTarget));
  CHECK(pair.engine(1).set_receive_window(pair.qp[1], 5) != Status::kOk);
}

// proves A.14.11
TEST_CASE(error_13_the_receivers_penalty_shrinks_the_window) {
  for (const bool sharers : {false, true}) {  // SACKs by plane carry these, and planes that mark have none
    PairOptions options;
    options.capabilities.sack_sharers = sharers;
    options.controller = "nscc";
    options.cc.link_rate_bps = 100'000'000'000;
    options.cc.base_rtt = 20 * kPsPerUs;
    options.cc.mtu_bytes = options.mtu + 100;
    options.sack_bytes = 1;
    Pair pair(options);
    pair.connect();
    CHECK(pair.write(0, 1, 500'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CcStats before;
    CHECK(pair.engine(0).cc_stats(pair.qp[0], before));
    CHECK(pair.engine(1).set_receive_penalty(pair.qp[1], 64, false) == Status::kOk);
    CHECK(pair.write(0, 2, 500'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 2));
    CcStats after;
    CHECK(pair.engine(0).cc_stats(pair.qp[0], after));
    CHECK(after.window_bytes <= before.window_bytes / 2);
  }
}

// proves F.1.1
TEST_CASE(error_14_states_and_commands) {
  Pair pair;
  const std::uint32_t qp = pair.qp[0];
  Engine& engine = pair.engine(0);
  CHECK(engine.qp_state(qp) == QpState::kReset);
  CHECK(engine.modify_qp(pair.now, qp, pair.to_rtr(0)) == Status::kInvalidState);
  CHECK(engine.modify_qp(pair.now, qp, pair.to_rts(0)) == Status::kInvalidState);
  CHECK(pair.write(0, 1, 1, 0) == Status::kInvalidState);
  QpToInit bad = pair.to_init();
  bad.ev_universe.push_back(bad.ev_universe.front());
  CHECK(engine.modify_qp(pair.now, qp, bad) == Status::kInvalidArgument);
  bad = pair.to_init();
  bad.controller = "telepathy";
  CHECK(engine.modify_qp(pair.now, qp, bad) == Status::kInvalidArgument);
  bad = pair.to_init();
  bad.ev_universe.push_back({1, 9});
  CHECK(engine.modify_qp(pair.now, qp, bad) == Status::kInvalidArgument);
  CHECK(engine.modify_qp(pair.now, qp, pair.to_init()) == Status::kOk);
  CHECK(engine.modify_qp(pair.now, qp, pair.to_init()) == Status::kInvalidState);
  QpToRtr rtr = pair.to_rtr(0);
  for (const std::uint32_t mtu : {0U, 255U, 258U, 8196U}) {
    rtr.payload_mtu = mtu;
    CHECK(engine.modify_qp(pair.now, qp, rtr) == Status::kInvalidArgument);
  }
  CHECK(engine.modify_qp(pair.now, qp, pair.to_rtr(0)) == Status::kOk);
  CHECK(pair.write(0, 1, 1, 0) == Status::kInvalidState);
  QpToRts rts = pair.to_rts(0);
  rts.timeout_exponent = 25;
  CHECK(engine.modify_qp(pair.now, qp, rts) == Status::kInvalidArgument);
  CHECK(engine.modify_qp(pair.now, qp, pair.to_rts(0)) == Status::kOk);
  SendWr wr = pair.work(1, kMessageBytesMax + 1, 0);
  CHECK(engine.post_send(pair.now, qp, wr) == Status::kLimit);
  wr = pair.work(1, 100, 0);
  wr.lkey = 0x1234;
  CHECK(engine.post_send(pair.now, qp, wr) != Status::kOk);
  wr = pair.work(1, 100, 0);
  wr.local_address = pair.options.memory_bytes - 99;
  CHECK(engine.post_send(pair.now, qp, wr) == Status::kInvalidArgument);
  CHECK(engine.destroy_cq(pair.send_cq[0]) == Status::kBusy);
  CHECK(engine.move_to_error(pair.now, qp) == Status::kOk);
  CHECK(engine.reset_qp(pair.now, qp) == Status::kOk);
  CHECK(engine.qp_state(qp) == QpState::kReset);
  CHECK(engine.destroy_qp(pair.now, qp) == Status::kOk);
  CHECK(engine.destroy_qp(pair.now, qp) == Status::kNotFound);
  CHECK(engine.destroy_cq(pair.send_cq[0]) == Status::kOk);
}

TEST_CASE(error_15_the_peer_is_gone_and_comes_back_as_someone_else) {
  PairOptions options;
  options.linear_retries = 1;
  options.exponential_retries = 2;
  Pair pair(options);
  pair.connect();
  CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.engine(1).destroy_qp(pair.now, pair.qp[1]) == Status::kOk);
  CHECK(pair.write(0, 2, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][1].status == WcStatus::kRetryExceeded);
  CHECK(pair.engine(1).drops().unknown_qp > 0);
}

// proves A.11.13
TEST_CASE(error_16_denied_evs_carry_nothing) {
  Pair pair;
  pair.connect();
  for (std::uint32_t ev = 0xC000; ev < 0xC008; ++ev)
    CHECK(pair.engine(0).deny_ev(pair.now, pair.qp[0], ev) == Status::kOk);
  CHECK(pair.engine(0).deny_ev(pair.now, pair.qp[0], 0x1234) == Status::kNotFound);
  std::uint64_t on_plane_0 = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    on_plane_0 += from == 0 && flying.port == 0 && wire::is_data(packet.bth.opcode);
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(on_plane_0 == 0);
  for (std::uint32_t ev = 0xC000; ev < 0xC008; ++ev)
    CHECK(pair.engine(0).enable_ev(pair.now, pair.qp[0], ev) == Status::kOk);
  CHECK(pair.write(0, 2, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(on_plane_0 > 20);
}

// proves A.10.3, A.12.2
TEST_CASE(error_17_ev_probes_are_answered_or_time_out) {
  Pair pair;
  CHECK(pair.engine(0).send_ev_probe(pair.now, pair.peer(0), 1, 0xC101, 7, kPsPerMs) == Status::kOk);
  EndpointResult result;
  CHECK(pair.run_until([&] { return pair.engine(0).poll_endpoint_result(result); }));
  CHECK(result.answered && result.request_id == 7 && result.port == 1 && result.ev == 0xC101);
  CHECK(result.rtt > 0 && result.rtt <= 2 * pair.options.delay);
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kDrop; };
  CHECK(pair.engine(0).send_ev_probe(pair.now, pair.peer(0), 1, 0xC101, 8, kPsPerMs) == Status::kOk);
  CHECK(pair.run_until([&] { return pair.engine(0).poll_endpoint_result(result); }));
  CHECK(!result.answered && result.request_id == 8);
}

// proves A.11.19
TEST_CASE(error_18_control_packets_leave_denied_evs_too) {
  Pair pair;
  pair.connect();
  // The receiver keeps one EV on each plane.
  for (std::uint32_t plane = 0; plane < 4; ++plane) {
    for (std::uint32_t i = 1; i < 8; ++i) {
      CHECK(pair.engine(1).deny_ev(pair.now, pair.qp[1], 0xC000 + plane * 256 + i) == Status::kOk);
    }
  }
  std::uint64_t control = 0, denied = 0;
  pair.filter = [&](int from, const wire::Packet&, Flying& flying) {
    control += from == 1;
    denied += from == 1 && (flying.fields.source_port & 0xFF) != 0;
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 200'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(control > 3);
  CHECK(denied == 0);
}

// proves A.15.3
TEST_CASE(error_19_a_nak_from_before_the_window_ends_nothing) {
  Pair pair;
  pair.connect();
  Flying nak;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 1 && packet.bth.opcode == wire::Opcode::kAck && nak.bytes.empty()) nak = flying;
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 5'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.write(0, 2, 50'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(nak.bytes.size() == wire::kBthBytes + wire::kAethBytes + wire::kIcrcBytes);
  nak.bytes[wire::kBthBytes] = static_cast<std::uint8_t>(wire::AethSyndrome::kNakRemoteAccess);
  const wire::Flow flow{Pair::address(1, nak.port), Pair::address(0, nak.port), nak.fields.source_port, 4791};
  const std::uint32_t crc = wire::icrc(flow, {nak.bytes.data(), nak.bytes.size() - 4}, {}, 0);
  for (std::size_t i = 0; i < 4; ++i) nak.bytes[nak.bytes.size() - 4 + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  RxDatagram datagram{nak.port, flow.source, nak.fields, nak.traffic_class, nak.ecn, nak.bytes, 0};
  const std::uint64_t stale = pair.stats(0).stale_packets;
  pair.engine(0).handle_datagram(pair.now, datagram);
  CHECK(pair.stats(0).stale_packets == stale + 1);
  CHECK(pair.engine(0).qp_state(pair.qp[0]) == QpState::kRts);
}

// Packets that a switch cannot trim have an ICRC in every traffic class.
// proves A.6.9
TEST_CASE(error_20_a_trimmed_class_does_not_save_control_packets_from_the_icrc) {
  for (const Opcode opcode : {Opcode::kAck, Opcode::kSack, Opcode::kNack, Opcode::kProbe}) {
    Pair pair;
    pair.connect();
    CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.psn = pair.options.psn[0] - 1;
    packet.aeth.syndrome = wire::AethSyndrome::kNakRemoteAccess;
    packet.neth.reason = wire::NackReason::kTrimmed;
    Flying forged = pair.forge(1, packet);
    forged.bytes.back() ^= 1;
    for (const TrafficClass trimmed : {TrafficClass::kTrimmed, TrafficClass::kTrimmedLastHop}) {
      forged.traffic_class = trimmed;
      pair.deliver(forged);
    }
    CHECK(pair.engine(0).drops().bad_icrc == 2);
    CHECK(pair.state(0) == QpState::kRts);
  }
}

// proves A.6.6
TEST_CASE(error_21_a_nack_of_nothing_that_was_sent_ends_nothing) {
  Pair pair;
  pair.connect();
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.write(0, 2, 5000, kTarget) == Status::kOk);
  wire::Packet packet;
  packet.bth.opcode = Opcode::kNack;
  packet.neth.reason = wire::NackReason::kUnexpectedEvent;
  packet.neth.source_context = static_cast<std::uint16_t>(pair.qp[1] ^ (pair.qp[1] >> 8));
  packet.neth.destination_context = static_cast<std::uint16_t>(pair.qp[0] ^ (pair.qp[0] >> 8));
  for (const std::uint32_t psn : {0U, pair.options.psn[0], pair.options.psn[0] + 1000, 0xFFFFFFU}) {
    packet.neth.nack_psn = psn;
    pair.deliver(pair.forge(1, packet));
    CHECK(pair.state(0) == QpState::kRts);
  }
  CHECK(pair.stats(0).nacks_received == 4 && pair.stats(0).stale_packets == 4);
  pair.pump();
  wire::Packet sack;
  sack.bth.opcode = Opcode::kSack;
  sack.seth.source_context = packet.neth.source_context;
  sack.seth.destination_context = packet.neth.destination_context;
  sack.seth.cack_psn = pair.options.psn[0] + 4;
  sack.seth.sack_offset = 1;
  sack.seth.bitmap = 0b100;
  pair.deliver(pair.forge(1, sack));
  packet.neth.nack_psn = pair.options.psn[0] + 7;  // already arrived
  pair.deliver(pair.forge(1, packet));
  CHECK(pair.state(0) == QpState::kRts);
  ++packet.neth.nack_psn;
  pair.deliver(pair.forge(1, packet));
  CHECK(pair.state(0) == QpState::kError);
}

// A forged copy of a missing packet is refused once everything before it has arrived; if the genuine packet arrives
// first, the refusal is void, and a later one must still be detected.
// proves A.8.7
TEST_CASE(error_22_a_refusal_that_came_to_nothing_does_not_hide_the_next_one) {
  Pair pair;
  pair.connect();
  // The first packet is lost once, so that the genuine copy of the second one arrives before it.
  bool lost = false;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 1 || lost || packet.bth.psn != pair.options.psn[0]) return Fate::kPass;
    lost = true;
    return Fate::kDrop;
  };
  wire::Packet forged;
  forged.bth.opcode = Opcode::kWriteLast;
  forged.bth.psn = pair.options.psn[0] + 1;
  forged.reth = {kTarget, 0x1234, 2048};
  pair.deliver(pair.forge(0, forged, std::vector<std::uint8_t>(16, 0xEE)));
  CHECK(pair.stats(1).refused_packets == 1);
  CHECK(pair.write(0, 1, 2048, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess && pair.landed(0, 2048, kTarget));
  SendWr wrong = pair.work(2, 100, kTarget);
  wrong.rkey = 0x1234;
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], wrong) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][1].status == WcStatus::kRemoteAccess);
}

TEST_CASE(error_23_qp_numbers_do_not_follow_from_the_seed_of_a_device) {
  const auto numbers = [](std::uint64_t seed, HashKey secret) {
    EngineConfig config;
    config.seed = seed;
    config.secret = secret;
    config.ports.emplace_back().local = Pair::address(0, 0);
    Engine engine(config);
    CqId cq = 0;
    CHECK(engine.create_cq(16, cq) == Status::kOk);
    std::vector<std::uint32_t> found(64);
    for (std::uint32_t& qp : found) CHECK(engine.create_qp({Transport::kMrc, cq, cq, 16, 16}, qp) == Status::kOk);
    return found;
  };
  CHECK(numbers(1, {}) == numbers(1, {}));
  CHECK(numbers(1, {1, 2}) == numbers(2, {1, 2}));
  CHECK(numbers(1, {1, 2}) != numbers(1, {1, 3}));
  CHECK(numbers(1, {1, 2}) != numbers(1, {}));
  for (const std::uint32_t qp : numbers(1, {1, 2})) CHECK(qp >= kQpNumberMin && qp < kPsnSpace);
}

// The published test vectors of SipHash-2-4 for messages of 0 and 8 bytes.
TEST_CASE(error_24_the_keyed_hash_is_siphash) {
  constexpr HashKey kKey{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  static_assert(keyed_hash(kKey, {}) == 0x726fdb47dd0e0e31ULL);
  static_assert(keyed_hash(kKey, {0x0706050403020100ULL}) == 0x93f5f5799a932462ULL);
}

TEST_CASE(error_25_packets_for_a_qp_that_failed_before_it_knew_its_peer) {
  Pair pair;
  CHECK(pair.engine(0).modify_qp(pair.now, pair.qp[0], pair.to_init()) == Status::kOk);
  CHECK(pair.engine(0).modify_qp(pair.now, pair.qp[0], pair.to_rtr(0)) == Status::kOk);
  CHECK(pair.engine(0).modify_qp(pair.now, pair.qp[0], pair.to_rts(0)) == Status::kOk);
  CHECK(pair.engine(1).modify_qp(pair.now, pair.qp[1], pair.to_init()) == Status::kOk);
  CHECK(pair.engine(1).move_to_error(pair.now, pair.qp[1]) == Status::kOk);
  CHECK(pair.write(0, 1, 100, kTarget) == Status::kOk);
  pair.run_for(kPsPerMs);
  CHECK(pair.engine(1).drops().qp_not_ready > 0);
  CHECK(pair.state(1) == QpState::kError);
}

}  // namespace
