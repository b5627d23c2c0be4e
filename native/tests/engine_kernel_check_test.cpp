// Checks whether both ends of a connection run on one kernel, and packets without an ICRC from then on (X.4.12).
#include "engine/qp/context.hpp"
#include "tests/crowd.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;
using wire::EndpointOp;
using wire::Opcode;

constexpr std::uint16_t kUdp = 4791;
constexpr HashKey kHere{1, 2}, kElsewhere{1, 3};

struct Seen {
  std::size_t with_icrc = 0, without = 0, requests = 0, responses = 0;
};

wire::Packet parsed(const Crowd::Datagram& datagram) {
  wire::Packet packet;
  CHECK(wire::parse(datagram.bytes, wire::Extent::kWhole, packet) == wire::ParseError::kNone);
  return packet;
}

struct Pair : Crowd {
  // `asks`: of each end.
  explicit Pair(HashKey first = kHere, HashKey second = kHere, std::array<bool, 2> asks = {true, true}) {
    EngineConfig config;
    config.kernel = first;
    add(1, kUdp, config);
    config.kernel = second;
    add(2, kUdp, config);
    link = {{0, 1}, {create(0), create(1)}, {100, 200}};
    for (std::size_t end = 0; end < 2; ++end) {
      capabilities.kernel_check = asks[end];
      to_rts(end, link.qps[end], know(end, 1 - end), link.qps[1 - end], link.psns[end], link.psns[1 - end]);
    }
  }

  bool lost(const Crowd::Datagram& datagram) {
    const wire::Packet packet = parsed(datagram);
    if (packet.bth.opcode == Opcode::kEndpointRequest) {
      if (packet.erth.op != EndpointOp::kKernelCheck) return false;
      ++seen.requests;
      return requests_to_lose > 0 && requests_to_lose-- > 0;
    }
    if (packet.bth.opcode == Opcode::kEndpointResponse) {
      if (packet.eeth.op != EndpointOp::kKernelCheck) return false;
      ++seen.responses;
      return responses_to_lose > 0 && responses_to_lose-- > 0;
    }
    ++(packet.bth.no_icrc ? seen.without : seen.with_icrc);
    return false;
  }

  // A WRITE in each direction, and all that follows within a second. Returns what was sent.
  Seen talk() {
    seen = {};
    for (std::size_t end = 0; end < 2; ++end) CHECK(write(link, end, 64, 0) == Status::kOk);
    const TimePs until = now + kPsPerSecond;
    while (now < until) {
      for (std::size_t nic = 0; nic < nics.size(); ++nic) transmit(nic);
      std::deque<Datagram> arriving;
      arriving.swap(flying);
      for (const Datagram& datagram : arriving) {
        if (!lost(datagram)) deliver(datagram);
      }
      if (!arriving.empty()) continue;
      now += kPsPerMs;
      for (const Nic& nic : nics) {
        if (nic.engine->next_timer() <= now) nic.engine->handle_timer(now);
      }
    }
    std::array<Completion, 8> done{};
    for (std::size_t end = 0; end < 2; ++end) {
      CHECK(engine(end).poll_completions(nics[end].cq, done) == 1 && done[0].status == WcStatus::kSuccess);
      CHECK(engine(end).drops().missing_icrc == 0 && engine(end).drops().bad_icrc == 0);
    }
    return seen;
  }

  Link link;
  Seen seen;
  int requests_to_lose = 0, responses_to_lose = 0;
};

}  // namespace

// proves X.4.12
TEST_CASE(kernel_check_01_ends_on_one_kernel_omit_the_icrc_after_the_first_packets) {
  Pair pair;
  const Seen first = pair.talk();
  CHECK(first.with_icrc > 0 && first.requests == 2 && first.responses == 2);
  const Seen later = pair.talk();
  CHECK(later.with_icrc == 0 && later.without > 0 && later.requests == 0);
}

// proves X.4.12
TEST_CASE(kernel_check_02_ends_on_two_kernels_keep_it) {
  for (const auto& [first, second] : {std::pair{kHere, kElsewhere}, {kHere, HashKey{}}, {HashKey{}, HashKey{}}}) {
    Pair pair(first, second);
    const Seen before = pair.talk();
    const std::size_t asking = (first == HashKey{} ? 0U : 1U) + (second == HashKey{} ? 0U : 1U);
    CHECK(before.without == 0 && before.requests == asking && before.responses == asking);
    const Seen later = pair.talk();
    CHECK(later.without == 0 && later.with_icrc > 0 && later.requests == 0);
  }
}

// proves X.4.12
TEST_CASE(kernel_check_03_an_end_without_the_capability_keeps_it_in_both_directions) {
  Pair pair(kHere, kHere, {true, false});
  CHECK(pair.talk().requests == 1);
  CHECK(pair.talk().without == 0);
}

// proves X.4.12
TEST_CASE(kernel_check_04_lost_questions_and_answers_are_repeated) {
  Pair pair;
  pair.requests_to_lose = 3;
  pair.responses_to_lose = 3;
  const Seen first = pair.talk();
  CHECK(first.requests == 8 && first.responses == 5);
  CHECK(pair.talk().with_icrc == 0);
}

// proves X.4.12
TEST_CASE(kernel_check_05_without_any_answer_the_icrc_stays) {
  Pair pair;
  pair.responses_to_lose = 1000;
  const Seen first = pair.talk();
  CHECK(first.without == 0 && first.requests == 18);  // nine of each end
  const Seen later = pair.talk();
  CHECK(later.without == 0 && later.requests == 0);
}

// proves X.4.12
TEST_CASE(kernel_check_06_wrong_nonces_and_proofs_change_nothing) {
  Pair pair(kHere, kElsewhere);
  pair.talk();
  wire::Packet question = Pair::request(EndpointOp::kKernelCheck, kUdp, 5, 300, 77);
  pair.deliver(pair.forge(2, 0, 0, question));
  CHECK(pair.engine(0).drops().wrong_nonce == 1);
  question.erth.nonce = QpContext::connection_nonce(pair.link.qps[1], pair.link.qps[0], pair.link.psns[1]);
  pair.deliver(pair.forge(2, 0, 0, question));
  pair.deliver(pair.forge(9, 0, 0, question));  // no peer has this address
  CHECK(pair.engine(0).drops().wrong_nonce == 1 && pair.engine(0).drops().unknown_peer == 1);
  wire::Packet data;
  data.bth.opcode = Opcode::kAck;
  data.bth.destination_qp = pair.link.qps[0];
  data.bth.no_icrc = true;
  pair.deliver(pair.forge(2, 0, 0, data));
  CHECK(pair.engine(0).drops().missing_icrc == 1);
  wire::Packet answer;
  answer.bth.opcode = Opcode::kEndpointResponse;
  answer.bth.destination_qp = kEndpointQp;
  answer.bth.psn = 1;
  answer.eeth.op = EndpointOp::kKernelCheck;
  answer.eeth.port_status_mask = 1;
  answer.eeth.nonce = QpContext::connection_nonce(pair.link.qps[0], pair.link.qps[1], pair.link.psns[0]);
  pair.deliver(pair.forge(2, 0, 0, answer));  // nothing is open
  pair.exchange();
  CHECK(pair.write(pair.link, 0, 64, 0) == Status::kOk);
  CHECK(pair.transmit(0) && !parsed(pair.flying.front()).bth.no_icrc);
}
