// The RC fallback: one path, in order, go-back-N.
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kTarget = 512 * 1024;

PairOptions rc() {
  PairOptions options;
  options.transport = Transport::kRc;
  return options;
}

TEST_CASE(rc_01_any_size_in_order) {
  Pair pair(rc());
  pair.connect();
  PortId port = 255;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    CHECK(wire::is_rc_data(packet.bth.opcode) || packet.bth.opcode == wire::Opcode::kRcAck);
    if (from == 0 && port == 255) port = flying.port;
    CHECK(from != 0 || flying.port == port);
    return Fate::kPass;
  };
  std::uint64_t id = 0;
  for (std::uint64_t length : {0ULL, 1ULL, 1023ULL, 1024ULL, 1025ULL, 100'000ULL}) {
    CHECK(pair.write_imm(0, id, length, kTarget, static_cast<std::uint32_t>(id)) == Status::kOk);
    CHECK(pair.run_until_sends(0, ++id));
    CHECK(pair.landed(0, length, kTarget));
  }
  CHECK(pair.recvs[1].size() == id);
  CHECK(pair.stats(0).retransmitted_packets == 0);
}

// proves X.8.1
TEST_CASE(rc_02_one_loss_repeats_everything_behind_it) {
  Pair pair(rc());
  pair.connect();
  bool dropped = false;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 0 && packet.bth.psn == 110 && !dropped) {
      dropped = true;
      return Fate::kDrop;
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 60'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 60'000, kTarget));
  CHECK(pair.stats(0).retransmitted_packets > 5);
  CHECK(pair.stats(0).timeouts == 0);
}

TEST_CASE(rc_03_lost_last_packet_waits_for_the_timer) {
  Pair pair(rc());
  pair.connect();
  int last = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    return from == 0 && packet.bth.opcode == wire::Opcode::kRcWriteLast && ++last == 1 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 20'000, kTarget));
  CHECK(pair.stats(0).timeouts == 1);
}

TEST_CASE(rc_04_everything_twice_and_psn_wrap) {
  PairOptions options = rc();
  options.psn = {kPsnSpace - 7, 5};
  Pair pair(options);
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kTwice; };
  for (std::uint64_t i = 0; i < 10; ++i)
    CHECK(pair.write_imm(0, i, 3000, kTarget + i * 3000, static_cast<std::uint32_t>(i)) == Status::kOk);
  CHECK(pair.run_until_sends(0, 10));
  pair.run_for(5 * kPsPerMs);
  CHECK(pair.recvs[1].size() == 10);
  for (std::uint64_t i = 0; i < pair.recvs[1].size(); ++i) {
    CHECK(pair.recvs[1][i].immediate == i);
    CHECK(pair.landed(0, 3000, kTarget + i * 3000));
  }
}

TEST_CASE(rc_05_refusal_ends_both_qps) {
  Pair pair(rc());
  pair.connect();
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  SendWr bad = pair.work(2, 100, kTarget);
  bad.rkey = 1;
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], bad) == Status::kOk);
  CHECK(pair.write(0, 3, 10, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 3));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess);
  CHECK(pair.sends[0][1].status == WcStatus::kRemoteAccess);
  CHECK(pair.sends[0][2].status == WcStatus::kFlushed);
  CHECK(pair.error(1) == QpErrorCause::kAccessViolation);
}

TEST_CASE(rc_06_silence_runs_the_retries_out) {
  PairOptions options = rc();
  options.linear_retries = 1;
  options.exponential_retries = 1;
  Pair pair(options);
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kDrop; };
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRetryExceeded);
}

TEST_CASE(rc_07_the_first_packet_in_rtr_is_an_event) {
  for (const Transport transport : {Transport::kMrc, Transport::kRc}) {
    PairOptions options;
    options.transport = transport;
    Pair pair(options);
    const auto announced = [&pair](int end) {
      const auto& events = pair.events[Pair::at(end)];
      return std::count_if(events.begin(), events.end(),
                           [](const Event& event) { return event.type == EventType::kPeerActive; });
    };
    for (int end = 0; end < 2; ++end) {
      CHECK(pair.engine(end).modify_qp(pair.now, pair.qp[Pair::at(end)], pair.to_init()) == Status::kOk);
      CHECK(pair.engine(end).modify_qp(pair.now, pair.qp[Pair::at(end)], pair.to_rtr(end)) == Status::kOk);
    }
    CHECK(pair.engine(0).modify_qp(pair.now, pair.qp[0], pair.to_rts(0)) == Status::kOk);
    for (std::uint64_t id = 0; id < 2; ++id) {
      CHECK(pair.write(0, id, 5000, kTarget) == Status::kOk);
      CHECK(pair.run_until_sends(0, id + 1));
    }
    CHECK(announced(1) == 1);
    CHECK(pair.engine(1).modify_qp(pair.now, pair.qp[1], pair.to_rts(1)) == Status::kOk);
    CHECK(pair.write(1, 1, 5000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(1, 1));
    CHECK(announced(0) == 0 && announced(1) == 1);
  }
}

}  // namespace
