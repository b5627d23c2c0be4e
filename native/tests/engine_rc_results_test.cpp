// READ and atomics of RC: every size, lost packets of each kind, duplicates, limits, refusals, fences.
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

// True if the first bytes of the peer have arrived at `target` of end 0.
bool fetched(const Pair& pair, std::uint64_t length, std::uint64_t target) {
  return std::equal(pair.memory[1].begin(), pair.memory[1].begin() + static_cast<std::ptrdiff_t>(length),
                    pair.memory[0].begin() + static_cast<std::ptrdiff_t>(target));
}

// proves X.8.6
TEST_CASE(rc_read_01_any_size) {
  Pair pair(rc());
  pair.connect(0);
  std::uint64_t id = 0;
  for (std::uint64_t length : {0ULL, 1ULL, 48ULL, 1023ULL, 1024ULL, 1025ULL, 100'000ULL}) {
    CHECK(pair.read(0, id, length, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, ++id));
    CHECK(pair.sends[0].back().opcode == WcOpcode::kRead && pair.sends[0].back().status == WcStatus::kSuccess);
    CHECK(pair.sends[0].back().bytes == length);
    CHECK(fetched(pair, length, kTarget));
  }
  CHECK(pair.stats(0).retransmitted_packets == 0 && pair.stats(0).timeouts == 0);
  CHECK(pair.recvs[1].empty());
}

// proves X.8.6
TEST_CASE(rc_read_02_requests_stay_within_both_limits) {
  PairOptions options = rc();
  options.rc_reads_max = options.rc_reads_max_dest = 2;
  options.rc_window_packets = 16;
  Pair pair(options);
  pair.connect(0);
  std::uint32_t asked = 0, answered = 0, most = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 0 && packet.bth.opcode == wire::Opcode::kRcReadRequest) asked += packet.reth.dma_length / 1024;
    if (from == 1 && wire::is_rc_read_response(packet.bth.opcode)) ++answered;
    most = std::max(most, asked - answered);
    return Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(pair.read(0, i, 64 * 1024, kTarget + i * 64 * 1024) == Status::kOk);
  CHECK(pair.run_until_sends(0, 4));
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(fetched(pair, 64 * 1024, kTarget + i * 64 * 1024));
  CHECK(most == 16 && pair.stats(0).timeouts == 0);
}

// proves X.8.7
TEST_CASE(rc_read_03_lost_answer_is_asked_for_again_from_there) {
  for (const int lost : {1, 5, 30}) {
    Pair pair(rc());
    pair.connect(0);
    int answers = 0;
    std::vector<std::uint32_t> asked;
    pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
      if (from == 0) asked.push_back(packet.reth.dma_length);
      return from == 1 && ++answers == lost ? Fate::kDrop : Fate::kPass;
    };
    CHECK(pair.read(0, 1, 40 * 1024, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(fetched(pair, 40 * 1024, kTarget));
    CHECK(pair.stats(0).timeouts == 0);
    CHECK(asked.size() == 2 && asked[1] == (40U - static_cast<std::uint32_t>(lost) + 1) * 1024);
  }
}

// proves X.8.7
TEST_CASE(rc_read_04_acknowledgement_behind_a_lost_answer) {
  Pair pair(rc());
  pair.connect(1);
  bool lost = false;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 0 || packet.bth.opcode != wire::Opcode::kRcReadResponseOnly || lost) return Fate::kPass;
    lost = true;
    return Fate::kDrop;
  };
  CHECK(pair.read(0, 1, 500, kTarget) == Status::kOk);
  CHECK(pair.write_imm(0, 2, 100, kTarget, 5) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][0].wr_id == 1 && pair.sends[0][1].wr_id == 2);
  CHECK(fetched(pair, 500, kTarget) && pair.recvs[1].size() == 1);
  CHECK(pair.stats(0).timeouts == 0);
}

// proves X.8.5
TEST_CASE(rc_read_05_refusals) {
  const auto refused = [](SendWr wr, std::uint8_t access) {
    Pair pair(rc());
    pair.connect(0);
    CHECK(pair.engine(1).register_memory({pair.memory[1].data(), 0, 1000, 5, access}) == Status::kOk);
    wr.lkey = kKey;
    wr.rkey = 5;
    CHECK(pair.post(0, wr) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(pair.state(1) == QpState::kError || pair.sends[0][0].status == WcStatus::kSuccess);
    return pair.sends[0][0].status;
  };
  const SendWr read{.opcode = WrOpcode::kRead, .length_bytes = 100};
  const SendWr add{.opcode = WrOpcode::kFetchAdd, .length_bytes = 8};
  CHECK(refused(read, kRemoteRead) == WcStatus::kSuccess);
  CHECK(refused(read, kRemoteWrite | kRemoteAtomic) == WcStatus::kRemoteAccess);
  SendWr far_away = read;
  far_away.remote_address = 901;
  CHECK(refused(far_away, kRemoteRead) == WcStatus::kRemoteAccess);
  CHECK(refused(add, kRemoteAtomic) == WcStatus::kSuccess);
  CHECK(refused(add, kRemoteWrite | kRemoteRead) == WcStatus::kRemoteAccess);
  SendWr unaligned = add;
  unaligned.remote_address = 4;
  CHECK(refused(unaligned, kRemoteAtomic) == WcStatus::kRemoteInvalidRequest);
}

// proves X.8.8
TEST_CASE(rc_atomic_01_values) {
  Pair pair(rc());
  pair.connect(0);
  const std::uint64_t start = pair.value(1, 64);
  CHECK(pair.fetch_add(0, 1, 64, 5, kTarget) == Status::kOk);
  SendWr swap = pair.work(2, kAtomicBytes, 64);
  swap.opcode = WrOpcode::kCompareSwap;
  swap.local_address = kTarget + 8;
  swap.compare = start + 5;
  swap.swap_add = 77;
  CHECK(pair.post(0, swap) == Status::kOk);
  swap.wr_id = 3;
  swap.local_address = kTarget + 16;
  CHECK(pair.post(0, swap) == Status::kOk);
  CHECK(pair.run_until_sends(0, 3));
  CHECK(pair.value(0, kTarget) == start && pair.value(0, kTarget + 8) == start + 5);
  CHECK(pair.value(0, kTarget + 16) == 77 && pair.value(1, 64) == 77);
  CHECK(pair.sends[0][0].opcode == WcOpcode::kFetchAdd && pair.sends[0][1].opcode == WcOpcode::kCompareSwap);
  swap.length_bytes = 4;
  CHECK(pair.post(0, swap) == Status::kInvalidArgument);
}

// proves X.8.8
TEST_CASE(rc_atomic_02_executed_once_whatever_is_lost_or_repeated) {
  for (const bool twice : {false, true}) {
    Pair pair(rc());
    pair.connect(0);
    const std::uint64_t start = pair.value(1, 64);
    int packets = 0;
    pair.filter = [&](int, const wire::Packet&, Flying&) {
      if (twice) return Fate::kTwice;
      return ++packets % 3 == 0 ? Fate::kDrop : Fate::kPass;
    };
    for (std::uint64_t i = 0; i < 30; ++i) {
      CHECK(pair.fetch_add(0, i, 64, i + 1, kTarget + 8 * i) == Status::kOk);
      CHECK(pair.run_until_sends(0, i + 1));
    }
    std::uint64_t expected = start;
    for (std::uint64_t i = 0; i < 30; ++i) {
      CHECK(pair.value(0, kTarget + 8 * i) == expected);
      expected += i + 1;
    }
    CHECK(pair.value(1, 64) == expected);
  }
}

// proves X.8.6
TEST_CASE(rc_read_06_more_requests_than_allowed) {
  PairOptions options = rc();
  options.rc_reads_max_dest = 2;
  Pair pair(options);
  pair.connect(0);
  pair.busy_ports = ~PortMask{0};  // no answer can leave
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(pair.error(1) == QpErrorCause::kNone);
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::kRcReadRequest;
    packet.bth.psn = pair.options.psn[0] + i;
    packet.reth = {0, kKey, 100};
    pair.deliver(pair.forge(0, packet));
  }
  CHECK(pair.error(1) == QpErrorCause::kProtocol);
}

// proves X.8.7
TEST_CASE(rc_read_07_answer_of_the_wrong_size) {
  Pair pair(rc());
  pair.connect(0);
  pair.filter = [](int from, const wire::Packet&, Flying&) { return from == 1 ? Fate::kDrop : Fate::kPass; };
  CHECK(pair.read(0, 1, 1000, kTarget) == Status::kOk);
  pair.run_for(20 * kPsPerUs);
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::kRcReadResponseOnly;
  packet.bth.psn = pair.options.psn[0];
  pair.deliver(pair.forge(1, packet, std::vector<std::uint8_t>(1001)));
  pair.pump();
  CHECK(pair.sends[0].size() == 1 && pair.sends[0][0].status == WcStatus::kBadResponse);
}

// proves X.8.9
TEST_CASE(rc_read_08_fence_waits_for_earlier_results) {
  Pair pair(rc());
  pair.connect(0);
  bool read_done = false;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 0 && packet.bth.opcode == wire::Opcode::kRcWriteOnly) CHECK(read_done);
    if (packet.bth.opcode == wire::Opcode::kRcReadResponseLast) read_done = true;
    return Fate::kPass;
  };
  CHECK(pair.read(0, 1, 5000, kTarget) == Status::kOk);
  SendWr wr = pair.work(2, 100, 0);
  wr.fence = true;
  CHECK(pair.post(0, wr) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
}

TEST_CASE(rc_read_09_region_of_the_answer_or_the_result_is_gone) {
  for (const int end : {0, 1}) {
    Pair pair(rc());
    pair.connect(0);
    CHECK(pair.engine(end).register_memory({pair.memory[Pair::at(end)].data(), 0, 50'000, 5, Pair::kAllAccess}) ==
          Status::kOk);
    SendWr wr = pair.work(1, 50'000, 0);
    wr.opcode = WrOpcode::kRead;
    (end == 0 ? wr.lkey : wr.rkey) = 5;
    CHECK(pair.post(0, wr) == Status::kOk);
    if (end == 1) pair.busy_ports = 0;
    pair.filter = [&](int from, const wire::Packet&, Flying&) {
      if (from == 0) CHECK(pair.engine(end).deregister_memory(5) == Status::kOk);
      return Fate::kPass;
    };
    CHECK(pair.run_until_sends(0, 1));
    CHECK(pair.sends[0][0].status == (end == 0 ? WcStatus::kLocalProtection : WcStatus::kRemoteAccess));
  }
}

// proves X.8.7
TEST_CASE(rc_read_10_repetition_replaces_the_rest_of_its_answer) {
  PairOptions options = rc();
  options.rc_reads_max_dest = 1;
  Pair pair(options);
  pair.connect(0);
  const std::uint32_t first = pair.options.psn[0], end = first + 40;
  wire::Packet request;
  request.bth.opcode = wire::Opcode::kRcReadRequest;
  request.bth.psn = first;
  request.reth = {0, kKey, 40 * 1024};
  pair.deliver(pair.forge(0, request));
  TxBurst burst;
  CHECK(pair.engine(1).poll_transmit(pair.now, ~PortMask{0}, 2, burst) && burst.count > 0);
  pair.deliver(pair.forge(0, request));
  bool answered = false;
  while (!answered && pair.engine(1).poll_transmit(pair.now, ~PortMask{0}, 8, burst)) {
    for (std::uint32_t i = 0; i < burst.count; ++i) {
      wire::Packet answer;
      const TxPacket& sent = burst.packets[i];
      std::vector<std::uint8_t> bytes(sent.headers.begin(), sent.headers.begin() + sent.header_bytes);
      bytes.resize(bytes.size() + sent.payload_bytes + sent.trailer_bytes);
      CHECK(wire::parse(bytes, wire::Extent::kWhole, answer) == wire::ParseError::kNone);
      answered = answered || answer.bth.psn + 1 == end;
    }
  }
  CHECK(answered);
  request.bth.psn = end;
  pair.deliver(pair.forge(0, request));
  CHECK(pair.error(1) == QpErrorCause::kNone);
}

TEST_CASE(rc_read_11_answers_leave_room_for_requests) {
  Pair pair(rc());
  pair.connect(0);
  int before = 0;
  bool written = false;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 1 && packet.bth.opcode == wire::Opcode::kRcWriteOnly) written = true;
    if (from == 1 && !written) ++before;
    return Fate::kPass;
  };
  wire::Packet request;
  request.bth.opcode = wire::Opcode::kRcReadRequest;
  request.bth.psn = pair.options.psn[0];
  request.reth = {0, kKey, 60 * 1024};
  pair.deliver(pair.forge(0, request));
  CHECK(pair.write(1, 1, 100, kTarget) == Status::kOk);
  pair.pump();
  CHECK(written && before <= static_cast<int>(pair.options.burst_max));
  CHECK(pair.sent(1, wire::Opcode::kRcReadResponseLast) == 1);
}

// proves X.8.7
TEST_CASE(rc_read_12_late_duplicate_after_its_region_is_gone) {
  for (const bool waiting : {false, true}) {
    Pair pair(rc());
    pair.connect(0);
    CHECK(pair.engine(1).register_memory({pair.memory[1].data(), 0, 5000, 5, Pair::kAllAccess}) == Status::kOk);
    SendWr wr = pair.work(1, 5000, 0);
    wr.opcode = WrOpcode::kRead;
    wr.local_address = kTarget;
    wr.rkey = 5;
    CHECK(pair.post(0, wr) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    wire::Packet request;
    request.bth.opcode = wire::Opcode::kRcReadRequest;
    request.bth.psn = pair.options.psn[0];
    request.reth = {0, 5, 5000};
    if (waiting) pair.deliver(pair.forge(0, request));
    CHECK(pair.engine(1).deregister_memory(5) == Status::kOk);
    if (!waiting) pair.deliver(pair.forge(0, request));
    CHECK(pair.write(0, 2, 100, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 2));
    CHECK(pair.sends[0][1].status == WcStatus::kSuccess && pair.error(1) == QpErrorCause::kNone);
  }
}

// proves X.8.5
TEST_CASE(rc_read_13_refusal_of_an_answer_leaves_at_once) {
  for (const std::uint32_t answers : {0U, 1U}) {
    Pair pair(rc());
    pair.connect(0);
    CHECK(pair.engine(1).register_memory({pair.memory[1].data(), 0, 5000, 5, Pair::kAllAccess}) == Status::kOk);
    wire::Packet request;
    request.bth.opcode = wire::Opcode::kRcReadRequest;
    request.bth.psn = pair.options.psn[0];
    request.reth = {0, 5, 5000};
    pair.deliver(pair.forge(0, request));
    TxBurst burst;
    for (std::uint32_t i = 0; i < answers; ++i) {
      CHECK(pair.engine(1).poll_transmit(pair.now, ~PortMask{0}, 1, burst));
    }
    CHECK(pair.engine(1).deregister_memory(5) == Status::kOk);
    int naks = 0;
    pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
      if (from == 1 && packet.aeth.syndrome == wire::AethSyndrome::kNakRemoteAccess) ++naks;
      return Fate::kPass;
    };
    pair.pump();
    CHECK(naks == 1 && pair.error(1) == QpErrorCause::kAccessViolation);
  }
}

}  // namespace

// proves X.8.7
TEST_CASE(rc_read_14_refusal_behind_a_lost_answer) {
  for (const bool atomic : {false, true}) {
    Pair pair(rc());
    pair.connect(0);
    bool lost = false;
    pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
      if (from == 0 || lost || packet.bth.opcode == wire::Opcode::kRcAck) return Fate::kPass;
      lost = true;
      return Fate::kDrop;
    };
    CHECK((atomic ? pair.fetch_add(0, 1, 64, 5, kTarget) : pair.read(0, 1, 3000, kTarget)) == Status::kOk);
    SendWr wr = pair.work(2, 100, 0);
    wr.rkey = kKey + 1;
    CHECK(pair.post(0, wr) == Status::kOk);
    CHECK(pair.run_until_sends(0, 2));
    CHECK(lost && pair.sends[0][0].wr_id == 1 && pair.sends[0][0].status == WcStatus::kSuccess);
    CHECK(pair.sends[0][1].wr_id == 2 && pair.sends[0][1].status == WcStatus::kRemoteAccess);
    CHECK(atomic || fetched(pair, 3000, kTarget));
  }
}

// proves X.8.8
TEST_CASE(rc_atomic_03_more_in_flight_than_results_are_saved) {
  PairOptions options = rc();
  options.rc_reads_max = 8;
  options.rc_reads_max_dest = 2;
  options.burst_max = 1;
  Pair pair(options);
  pair.connect(0);
  int requests = 0, answers = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0) flying.arrival += ++requests * 10 * kPsPerUs;  // so that each answer leaves before the next request
    return packet.bth.opcode == wire::Opcode::kRcAtomicAck && ++answers <= 8 ? Fate::kDrop : Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(pair.fetch_add(0, i, 64, 1, kTarget + 8 * i) == Status::kOk);
  const std::uint64_t start = pair.value(1, 64);
  CHECK(pair.run_until_sends(0, 8));
  CHECK(pair.sends[0][0].status == WcStatus::kRemoteInvalidRequest);
  CHECK(pair.value(1, 64) == start + 8 && pair.error(1) == QpErrorCause::kNone);
}

// proves X.8.8
TEST_CASE(rc_atomic_04_late_duplicate_of_a_forgotten_one_is_harmless) {
  for (const std::uint32_t first_psn : {100U, 0U}) {
    PairOptions options = rc();
    options.rc_reads_max = options.rc_reads_max_dest = 1;
    options.psn[0] = first_psn;
    Pair pair(options);
    pair.connect(0);
    int refusals = 0;
    pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
      const bool refuses = packet.aeth.syndrome == wire::AethSyndrome::kNakInvalidRequest;
      if (from == 1 && packet.bth.opcode == wire::Opcode::kRcAck && refuses) ++refusals;
      return Fate::kPass;
    };
    for (std::uint64_t i = 0; i < 2; ++i) CHECK(pair.fetch_add(0, i, 64, 1, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 2));
    wire::Packet request;
    request.bth.opcode = wire::Opcode::kRcFetchAdd;
    request.bth.psn = first_psn;
    request.atomic = {64, kKey, 1, 0};
    pair.deliver(pair.forge(0, request));
    CHECK(pair.write(0, 2, 100, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 3));
    CHECK(refusals == 1);
    CHECK(pair.sends[0][2].status == WcStatus::kSuccess && pair.error(0) == QpErrorCause::kNone);
  }
}

// proves X.8.4
TEST_CASE(rc_rnr_wait_outlasts_the_answers_of_earlier_work) {
  Pair pair(rc());
  pair.connect(0);
  int sends = 0;
  TimePs first = 0, second = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && packet.bth.opcode == wire::Opcode::kRcSendOnly) (++sends == 1 ? first : second) = pair.now;
    if (wire::is_rc_read_response(packet.bth.opcode)) flying.arrival += 100 * kPsPerUs;
    return Fate::kPass;
  };
  CHECK(pair.read(0, 1, 100, kTarget) == Status::kOk);
  SendWr wr = pair.work(2, 100, 0);
  wr.opcode = WrOpcode::kSend;
  CHECK(pair.post(0, wr) == Status::kOk);
  while (sends < 2) pair.run_for(kPsPerUs);
  CHECK(second - first > rnr_time(12));
}

// proves X.8.5
TEST_CASE(operations_that_the_qp_does_not_permit) {
  const auto status_of = [](Transport transport, WrOpcode opcode, std::uint8_t access) {
    PairOptions options;
    options.transport = transport;
    Pair pair(options);
    pair.connect(1);
    CHECK(pair.engine(1).set_remote_access(pair.qp[1], access) == Status::kOk);
    const bool takes_receive = opcode == WrOpcode::kWriteImm || opcode == WrOpcode::kSend;  // one without memory
    SendWr wr = pair.work(1, takes_receive ? 0 : kAtomicBytes, 0);
    wr.opcode = opcode;
    wr.local_address = kTarget;
    CHECK(pair.post(0, wr) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    const bool refused = pair.sends[0][0].status != WcStatus::kSuccess;
    CHECK(refused == (pair.error(1) == QpErrorCause::kAccessViolation) &&
          refused == (pair.stats(1).refused_packets == 1));
    return pair.sends[0][0].status;
  };
  constexpr std::uint8_t kAll = kRemoteWrite | kRemoteRead | kRemoteAtomic;
  for (const auto& [opcode, needed] : {std::pair{WrOpcode::kWrite, kRemoteWrite},
                                       {WrOpcode::kWriteImm, kRemoteWrite},
                                       {WrOpcode::kRead, kRemoteRead},
                                       {WrOpcode::kFetchAdd, kRemoteAtomic},
                                       {WrOpcode::kCompareSwap, kRemoteAtomic}}) {
    for (const Transport transport : {Transport::kMrc, Transport::kRc}) {
      if (transport == Transport::kMrc && opcode > WrOpcode::kWriteImm) continue;
      CHECK(status_of(transport, opcode, needed) == WcStatus::kSuccess);
      CHECK(status_of(transport, opcode, kAll & ~needed) == WcStatus::kRemoteInvalidRequest);
    }
  }
  CHECK(status_of(Transport::kRc, WrOpcode::kSend, 0) == WcStatus::kSuccess);
}
