// Control packets of the receiving half, and the number of bursts that carry them.
#include <array>

#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;
using wire::Opcode;

struct Answer {
  Opcode opcode;
  std::uint16_t ev;
};

// Responses to four small WRITEs if nothing is acknowledged before the last has arrived.
std::vector<Answer> answers(std::uint32_t burst_max) {
  PairOptions options;
  options.planes = 1;
  options.burst_max = burst_max;
  Pair pair(options);
  pair.connect();
  std::vector<Answer> found;
  pair.filter = [&](int from, const wire::Packet& packet, const Flying& flying) {
    if (from == 1) found.push_back({packet.bth.opcode, flying.fields.source_port});
    return Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(pair.write(0, i, 8, 512 * 1024) == Status::kOk);
  CHECK(pair.run_until_sends(0, 4));
  return found;
}

TEST_CASE(control_01_the_transport_ack_leaves_in_the_burst_of_the_sack) {
  const std::vector<Answer> found = answers(8);
  CHECK(found.size() >= 2 && found[found.size() - 2].opcode == Opcode::kSack && found.back().opcode == Opcode::kAck);
  CHECK(found[found.size() - 2].ev == found.back().ev);
}

TEST_CASE(control_02_one_by_one_they_take_turns_on_the_reverse_paths) {
  const std::vector<Answer> found = answers(1);
  CHECK(found.size() >= 2 && found[found.size() - 2].opcode == Opcode::kSack && found.back().opcode == Opcode::kAck);
  CHECK(found[found.size() - 2].ev != found.back().ev);
}

// True if an idle QP gets an answer to a question now, with another path for each of `questions`.
bool answered(Pair& pair, int questions) {
  const TimePs asked = pair.now;
  for (int i = 0; i < questions; ++i) {
    CHECK(pair.engine(0).ask_peer(pair.qp[0]) == Status::kOk);
    pair.run_for(kPsPerMs);
  }
  return pair.engine(0).qp_answered(pair.qp[0]) >= asked;
}

// proves X.6.3
TEST_CASE(control_03_an_idle_qp_answers_a_question_and_a_dead_one_does_not) {
  Pair pair;
  CHECK(pair.engine(0).ask_peer(pair.qp[0]) == Status::kInvalidState);
  pair.connect();
  CHECK(answered(pair, 1));
  CHECK(pair.engine(0).qp_heard(pair.qp[0]) > pair.engine(0).qp_answered(pair.qp[0]));
  pair.filter = [](int, const wire::Packet&, const Flying& flying) {
    return flying.port == 2 ? Fate::kPass : Fate::kDrop;
  };
  CHECK(answered(pair, 16));  // one plane of four is enough
  pair.filter = [](int, const wire::Packet&, const Flying&) { return Fate::kDrop; };
  CHECK(!answered(pair, 100));
  CHECK(pair.state(0) == QpState::kRts);  // questions alone cost no retries
}

// proves A.12.1
TEST_CASE(control_04_an_answer_that_comes_after_the_next_questions_counts) {
  PairOptions options;
  options.delay = 30 * kPsPerMs;
  Pair pair(options);
  pair.connect();
  CHECK(answered(pair, 80));
}

TEST_CASE(control_05_a_question_finds_out_what_a_peer_lacks_that_was_away) {
  PairOptions options;
  options.timeout_exponent = 20;  // a second: a retry does not help in time
  Pair pair(options);
  pair.connect();
  CHECK(pair.write(0, 1, 100'000, 0) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));  // the round trip is known
  pair.filter = [](int, const wire::Packet&, const Flying&) { return Fate::kDrop; };
  CHECK(pair.write(0, 2, 100'000, 0) == Status::kOk);
  pair.run_for(500 * kPsPerMs);
  pair.filter = nullptr;
  pair.run_for(100 * kPsPerMs);
  CHECK(pair.sends[0].size() == 1);  // no timer is due
  CHECK(pair.engine(0).ask_peer(pair.qp[0]) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2, 100 * kPsPerMs));
}

TEST_CASE(control_06_the_rc_fallback_has_no_questions) {
  PairOptions options;
  options.transport = Transport::kRc;
  Pair pair(options);
  pair.connect();
  CHECK(pair.engine(0).ask_peer(pair.qp[0]) == Status::kInvalidState);
}

// An empty mask means a SACK without a port status. A mask that excludes the port of its own arrival is an error of the
// peer: it is counted, and the other ports stay in use.
// proves X.1.1
TEST_CASE(control_07_a_port_status_that_contradicts_its_own_sack_is_counted_and_ignored) {
  PairOptions options;
  options.planes = 2;
  Pair pair(options);
  pair.connect();
  wire::Packet sack;
  sack.bth.opcode = Opcode::kSack;
  sack.seth.source_context = static_cast<std::uint16_t>(pair.qp[1] ^ (pair.qp[1] >> 8));
  sack.seth.destination_context = static_cast<std::uint16_t>(pair.qp[0] ^ (pair.qp[0] >> 8));
  sack.seth.cack_psn = (options.psn[0] - 1) & 0xFFFFFFU;
  std::uint64_t contradictory = 0;
  for (const std::uint8_t mask : std::array<std::uint8_t, 3>{0x00, 0x02, 0xFE}) {
    sack.seth.port_status = mask;
    pair.deliver(pair.forge(1, sack));
    if (mask != 0) ++contradictory;
    CHECK(pair.stats(0).contradictory_port_status == contradictory);
    CHECK(pair.engine(0).peer_ports_up(pair.peer(0)) == 3);
  }
  CHECK(pair.stats(0).sacks_received == 3 && pair.engine(0).qp_totals().sacks_received == 3);
  sack.seth.port_status = 0x01;
  pair.deliver(pair.forge(1, sack));
  CHECK(pair.engine(0).peer_ports_up(pair.peer(0)) == 1);
}

}  // namespace
