// SEND and receives of RC: scatter and gather lists, receivers that are not ready, messages that do not fit.
#include "engine/qp/rnr_time.hpp"
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kTarget = 512 * 1024;
constexpr std::uint32_t kKey = Pair::kKey;

PairOptions rc() {
  PairOptions options;
  options.transport = Transport::kRc;
  return options;
}

wire::Packet request(wire::Opcode opcode, std::uint32_t psn) {
  wire::Packet packet;
  packet.bth.opcode = opcode;
  packet.bth.psn = psn;
  packet.bth.ack_request = true;
  return packet;
}

// proves X.8.3
TEST_CASE(rc_send_01_any_size_lands_in_the_receives_in_order) {
  Pair pair(rc());
  pair.connect(0);
  std::uint64_t id = 0, target = kTarget;
  for (std::uint64_t length : {0ULL, 1ULL, 1023ULL, 1024ULL, 1025ULL, 100'000ULL}) {
    CHECK(pair.receive(1, 50 + id, {{target, 100'000, kKey}}) == Status::kOk);
    CHECK(pair.send(0, id, length) == Status::kOk);
    CHECK(pair.run_until_sends(0, ++id));
    CHECK(pair.sends[0].back().opcode == WcOpcode::kSend && pair.sends[0].back().status == WcStatus::kSuccess);
    const Completion& received = pair.recvs[1].back();
    CHECK(received.wr_id == 49 + id && received.bytes == length && received.opcode == WcOpcode::kRecv);
    CHECK(pair.landed(0, length, target));
    target += 1024;
  }
  CHECK(pair.recvs[1].size() == id);
  CHECK(pair.stats(0).retransmitted_packets == 0);
}

// proves X.8.2, X.8.3
TEST_CASE(rc_send_02_gathers_and_scatters) {
  Pair pair(rc());
  pair.connect(0);
  const std::vector<Sge> from{
      {0, 700, kKey}, {5000, 3000, kKey}, {9000, 0, kKey}, {20'000, 1, kKey}, {30'000, 2048, kKey}};
  const std::vector<Sge> to{{kTarget, 10, kKey}, {kTarget + 100, 5000, kKey}, {kTarget + 8000, 5000, kKey}};
  std::vector<std::uint8_t> message;
  for (const Sge& sge : from) {
    const auto at = pair.memory[0].begin() + static_cast<std::ptrdiff_t>(sge.address);
    message.insert(message.end(), at, at + static_cast<std::ptrdiff_t>(sge.length_bytes));
  }
  CHECK(pair.receive(1, 7, to) == Status::kOk);
  SendWr wr;
  wr.opcode = WrOpcode::kSendImm;
  wr.immediate = 0xABCD;
  wr.solicited = true;
  wr.sges = from;
  int dropped = 0;
  pair.filter = [&](int end, const wire::Packet&, Flying&) {
    return end == 0 && ++dropped == 2 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.post(0, wr) == Status::kOk);
  CHECK(pair.engine(0).deregister_memory(kKey) == Status::kBusy);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].bytes == message.size());
  CHECK(pair.recvs[1].size() == 1);
  const Completion& received = pair.recvs[1][0];
  CHECK(received.bytes == message.size() && received.opcode == WcOpcode::kRecvImm);
  CHECK(received.immediate == 0xABCD && received.solicited);
  std::size_t done = 0;
  for (const Sge& sge : to) {
    for (std::uint64_t i = 0; i < sge.length_bytes && done < message.size(); ++i) {
      CHECK(pair.memory[1][sge.address + i] == message[done++]);
    }
  }
  CHECK(done == message.size());
  CHECK(pair.engine(0).deregister_memory(kKey) == Status::kOk);
}

TEST_CASE(rc_send_03_inline_bytes_are_free_at_once) {
  Pair pair(rc());
  pair.connect(0);
  CHECK(pair.receive(1, 7, {{kTarget, 64, kKey}}) == Status::kOk);
  std::vector<std::uint8_t> bytes{1, 2, 3, 4, 5};
  const std::vector<Sge> parts{{}, {reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0}, {}};
  SendWr wr;
  wr.opcode = WrOpcode::kSend;
  wr.inline_data = true;
  wr.sges = parts;
  CHECK(pair.post(0, wr) == Status::kOk);
  bytes.assign(5, 0);
  CHECK(pair.run_until_sends(0, 1));
  for (std::uint8_t i = 0; i < 5; ++i) CHECK(pair.memory[1][kTarget + i] == i + 1);
  const Sge long_one{0, kInlineBytesMax + 1, 0};
  wr.sges = {&long_one, 1};
  CHECK(pair.post(0, wr) == Status::kLimit);
}

// proves X.8.4
TEST_CASE(rc_send_04_waits_for_a_receive) {
  for (const bool write : {false, true}) {
    Pair pair(rc());
    pair.connect(0);
    CHECK((write ? pair.write_imm(0, 1, 5000, kTarget, 3) : pair.send(0, 1, 5000)) == Status::kOk);
    CHECK(pair.send(0, 2, 10) == Status::kOk);
    pair.run_for(3 * kPsPerMs);
    CHECK(pair.sends[0].empty() && pair.recvs[1].empty());
    CHECK(pair.stats(1).rnr_naks_sent >= 4 && pair.stats(1).rnr_naks_sent <= 5);
    CHECK(pair.stats(0).rnr_naks_received >= 4 && pair.stats(0).timeouts == 0);
    CHECK(pair.receive(1, 8, {{kTarget, 5000, kKey}}) == Status::kOk);
    CHECK(pair.receive(1, 9, {{kTarget + 6000, 5000, kKey}}) == Status::kOk);
    CHECK(pair.run_until_sends(0, 2));
    CHECK(pair.landed(0, 5000, kTarget) && pair.landed(0, 10, kTarget + 6000));
    CHECK(pair.recvs[1].size() == 2 && pair.recvs[1][0].wr_id == 8 && pair.recvs[1][1].wr_id == 9);
  }
}

// proves X.8.4
TEST_CASE(rc_send_05_gives_up_on_a_receiver_that_is_never_ready) {
  PairOptions options = rc();
  options.rc_rnr_retries = 2;
  options.rc_rnr_timer = 1;
  Pair pair(options);
  pair.connect(0);
  CHECK(pair.send(0, 1, 10) == Status::kOk);
  CHECK(pair.send(0, 2, 10) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][0].status == WcStatus::kRnrRetryExceeded);
  CHECK(pair.sends[0][1].status == WcStatus::kFlushed);
  CHECK(pair.error(0) == QpErrorCause::kRnrRetryExceeded);
  CHECK(pair.stats(0).rnr_naks_received == 3);
  CHECK(pair.state(1) == QpState::kRts);
}

TEST_CASE(rc_send_06_lost_reports_of_a_missing_receive) {
  Pair pair(rc());
  pair.connect(0);
  int lost = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    const bool rnr = from == 1 && packet.aeth.syndrome == wire::AethSyndrome::kRnrNak;
    if (rnr) CHECK(packet.aeth.rnr_timer == 12);
    return rnr && ++lost <= 3 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.send(0, 1, 10) == Status::kOk);
  CHECK(pair.run_until([&] { return lost > 4; }));
  CHECK(pair.receive(1, 8, {{kTarget, 5000, kKey}}) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess && pair.recvs[1].size() == 1);
}

TEST_CASE(rc_send_21_the_timer_of_a_missing_receive_may_change) {
  Pair pair(rc());
  pair.connect(0);
  CHECK(pair.engine(1).set_rnr_timer(pair.qp[1], kRnrTimerMax + 1) == Status::kInvalidArgument);
  CHECK(pair.engine(1).set_rnr_timer(pair.qp[1] + 100, 1) == Status::kNotFound);
  CHECK(pair.engine(1).set_rnr_timer(pair.qp[1], 1) == Status::kOk);
  std::uint8_t announced = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 1 && packet.aeth.syndrome == wire::AethSyndrome::kRnrNak) announced = packet.aeth.rnr_timer;
    return Fate::kPass;
  };
  CHECK(pair.send(0, 1, 10) == Status::kOk);
  CHECK(pair.run_until([&] { return announced == 1; }));
}

// proves X.8.5
TEST_CASE(rc_send_07_longer_than_its_receive) {
  Pair pair(rc());
  pair.connect(0);
  CHECK(pair.receive(1, 1, {{kTarget, 100, kKey}, {kTarget + 200, 1900, kKey}}) == Status::kOk);
  CHECK(pair.receive(1, 2, {}) == Status::kOk);
  CHECK(pair.send(0, 1, 2001) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRemoteInvalidRequest);
  CHECK(pair.error(1) == QpErrorCause::kReceiveTooSmall);
  CHECK(pair.recvs[1].size() == 2);
  CHECK(pair.recvs[1][0].wr_id == 1 && pair.recvs[1][0].status == WcStatus::kLocalLength);
  CHECK(pair.recvs[1][1].wr_id == 2 && pair.recvs[1][1].status == WcStatus::kFlushed);
  CHECK(pair.stats(1).refused_packets == 1);
}

// proves X.8.5
TEST_CASE(rc_send_08_region_of_the_receive_is_gone) {
  Pair pair(rc());
  pair.connect(0);
  CHECK(pair.engine(1).register_memory({pair.memory[1].data(), 0, 1000, 5, kLocalWrite}) == Status::kOk);
  CHECK(pair.receive(1, 1, {{0, 1000, 5}}) == Status::kOk);
  CHECK(pair.engine(1).deregister_memory(5) == Status::kOk);
  pair.filter = [](int from, const wire::Packet& packet, Flying&) {
    return from == 1 && wire::is_rc_data(packet.bth.opcode) ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(1, 9, 100, kTarget) == Status::kOk);
  CHECK(pair.send(0, 1, 100) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRemoteOperational);
  CHECK(pair.recvs[1].size() == 1 && pair.recvs[1][0].status == WcStatus::kLocalProtection);
  CHECK(pair.sends[1].size() == 1 && pair.sends[1][0].status == WcStatus::kFlushed);
}

// proves F.1.6
TEST_CASE(rc_send_09_posting_checks_lists) {
  Pair pair(rc());
  pair.connect(0);
  CHECK(pair.engine(1).register_memory({pair.memory[1].data(), 0, 1000, 5, kRemoteWrite}) == Status::kOk);
  CHECK(pair.engine(1).register_memory({pair.memory[1].data(), 0, 1000, 6, kLocalWrite, 1}) == Status::kOk);
  CHECK(pair.receive(1, 1, {{0, 1000, 4}}) == Status::kNotFound);
  CHECK(pair.receive(1, 1, {{0, 1000, 5}}) == Status::kInvalidArgument);  // not for receives
  CHECK(pair.receive(1, 1, {{0, 1000, 6}}) == Status::kInvalidArgument);  // of another domain
  CHECK(pair.receive(1, 1, {{0, 10, kKey}, {pair.options.memory_bytes - 9, 10, kKey}}) == Status::kInvalidArgument);
  CHECK(pair.receive(1, 1, std::vector<Sge>(kSgesMax + 1)) == Status::kLimit);
  CHECK(pair.receive(1, 1, {{0, kMessageBytesMax + 1, kKey}}) == Status::kLimit);
  const std::vector<Sge> bad{{0, 10, kKey}, {0, 10, 99}};
  SendWr wr;
  wr.opcode = WrOpcode::kSend;
  wr.sges = bad;
  CHECK(pair.post(0, wr) == Status::kNotFound);
  CHECK(pair.engine(0).deregister_memory(kKey) == Status::kOk);  // a refused request holds nothing
}

// proves A.1.1
TEST_CASE(rc_send_10_mrc_has_no_send) {
  Pair pair;
  pair.connect();
  CHECK(pair.send(0, 1, 10) == Status::kInvalidArgument);
  CHECK(pair.receive(1, 99, {{kTarget, 100, kKey}}) == Status::kOk);
  const std::vector<Sge> from{{0, 700, kKey}, {5000, 3000, kKey}};
  SendWr wr = pair.work(2, 0, kTarget);
  wr.sges = from;
  CHECK(pair.post(0, wr) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  for (std::size_t i = 0; i < 3000; ++i) CHECK(pair.memory[1][kTarget + 700 + i] == pair.memory[0][5000 + i]);
}

// proves X.8.5
TEST_CASE(rc_send_11_broken_messages) {
  using enum wire::Opcode;
  const auto refused = [](std::vector<std::pair<wire::Opcode, std::size_t>> packets) {
    Pair pair(rc());
    pair.connect(4);
    std::uint32_t psn = pair.options.psn[0];
    for (const auto& [opcode, bytes] : packets) {
      wire::Packet packet = request(opcode, psn++);
      packet.reth = {kTarget, kKey, 3000};
      pair.deliver(pair.forge(0, packet, std::vector<std::uint8_t>(bytes)));
    }
    pair.pump();
    return pair.error(1);
  };
  constexpr std::uint32_t kMtu = 1024;
  CHECK(refused({{kRcSendMiddle, kMtu}}) == QpErrorCause::kProtocol);
  CHECK(refused({{kRcSendLast, 1}}) == QpErrorCause::kProtocol);
  CHECK(refused({{kRcSendFirst, kMtu - 1}}) == QpErrorCause::kProtocol);
  CHECK(refused({{kRcSendOnly, kMtu + 1}}) == QpErrorCause::kProtocol);
  CHECK(refused({{kRcSendFirst, kMtu}}) == QpErrorCause::kReceiveTooSmall);  // receives without memory
  CHECK(refused({{kRcWriteFirst, kMtu}, {kRcSendMiddle, kMtu}}) == QpErrorCause::kProtocol);
  CHECK(refused({{kRcWriteFirst, kMtu}, {kRcSendOnly, 0}}) == QpErrorCause::kProtocol);
  CHECK(refused({{kRcWriteFirst, kMtu}, {kRcWriteMiddle, kMtu}, {kRcWriteLastImm, 3000 - 2 * kMtu}}) ==
        QpErrorCause::kNone);
}

TEST_CASE(rc_send_12_flush_covers_the_message_under_way) {
  Pair pair(rc());
  pair.connect(0);
  CHECK(pair.receive(1, 1, {{kTarget, 5000, kKey}}) == Status::kOk);
  CHECK(pair.receive(1, 2, {}) == Status::kOk);
  pair.deliver(
      pair.forge(0, request(wire::Opcode::kRcSendFirst, pair.options.psn[0]), std::vector<std::uint8_t>(1024)));
  CHECK(pair.engine(1).move_to_error(pair.now, pair.qp[1]) == Status::kOk);
  pair.pump();
  CHECK(pair.recvs[1].size() == 2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    CHECK(pair.recvs[1][i].wr_id == i + 1 && pair.recvs[1][i].status == WcStatus::kFlushed);
  }
}

TEST_CASE(rc_send_13_times_of_the_codes) {
  CHECK(rnr_time(0) == 655'360 * kPsPerUs);
  CHECK(rnr_time(1) == 10 * kPsPerUs);
  CHECK(rnr_time(12) == 640 * kPsPerUs);
  CHECK(rnr_time(31) == 491'520 * kPsPerUs);
}

// A driver seals packets when it sends them: other bytes in their place would arrive as valid ones.
TEST_CASE(rc_send_14_staged_bytes_outlive_an_error) {
  Pair pair(rc());
  pair.connect(0);
  Engine& engine = pair.engine(0);
  const auto post = [&](std::uint32_t qp, std::uint8_t value) {
    const std::vector<std::uint8_t> bytes(64, value);
    const Sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), 0};
    SendWr wr;
    wr.opcode = WrOpcode::kSend;
    wr.inline_data = true;
    wr.sges = {&sge, 1};
    CHECK(engine.post_send(pair.now, qp, wr) == Status::kOk);
  };
  post(pair.qp[0], 1);
  TxBurst waiting;
  CHECK(engine.poll_transmit(pair.now, ~PortMask{0}, 1, waiting));
  CHECK(engine.move_to_error(pair.now, pair.qp[0]) == Status::kOk);
  std::uint32_t other = 0;
  CHECK(engine.create_qp({Transport::kRc, pair.send_cq[0], pair.recv_cq[0]}, other) == Status::kOk);
  CHECK(engine.modify_qp(pair.now, other, pair.to_init()) == Status::kOk);
  CHECK(engine.modify_qp(pair.now, other, pair.to_rtr(0)) == Status::kOk);
  CHECK(engine.modify_qp(pair.now, other, pair.to_rts(0)) == Status::kOk);
  post(other, 2);
  CHECK(waiting.packets[0].payload_bytes == 64 && waiting.packets[0].payload[0] == 1);
}

TEST_CASE(rc_send_20_two_qps_share_receives) {
  Pair pair(rc());
  pair.connect(0);
  Engine& engine = pair.engine(1);
  QpInitAttributes attributes{Transport::kMrc, pair.send_cq[1], pair.recv_cq[1], 8, 8};
  attributes.receives_of = pair.qp[1] ^ 1U;
  std::uint32_t companion = 0;
  CHECK(engine.create_qp(attributes, companion) == Status::kNotFound);
  attributes.receives_of = pair.qp[1];
  attributes.number = pair.qp[1];
  CHECK(engine.create_qp(attributes, companion) == Status::kBusy);
  attributes.number = kQpNumberMin - 1;
  CHECK(engine.create_qp(attributes, companion) == Status::kInvalidArgument);
  attributes.number = pair.qp[1] ^ 1U;
  CHECK(engine.create_qp(attributes, companion) == Status::kOk && companion == attributes.number);
  CHECK(engine.modify_qp(pair.now, companion, pair.to_init()) == Status::kOk);
  CHECK(pair.receive(1, 5, {{kTarget, 100, kKey}}) == Status::kOk);
  CHECK(pair.receive(1, 6, {{kTarget, 100, kKey}}) == Status::kOk);
  CHECK(pair.send(0, 1, 100) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.recvs[1].size() == 1 && pair.recvs[1][0].wr_id == 5 && pair.recvs[1][0].qp == pair.qp[1]);
  CHECK(engine.move_to_error(pair.now, companion) == Status::kOk);
  std::array<Completion, 2> flushed;
  CHECK(engine.poll_completions(pair.recv_cq[1], flushed) == 1);
  CHECK(flushed[0].wr_id == 6 && flushed[0].qp == companion && flushed[0].status == WcStatus::kFlushed);
}

}  // namespace
