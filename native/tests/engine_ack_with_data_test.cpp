// ACKs that follow a reply in one burst.
#include <vector>

#include "tests/pair.hpp"

namespace openmrc::test {
namespace {

constexpr std::uint64_t kTarget = 500'000;
constexpr TimePs kTrip = 20 * kPsPerUs;  // more than a packet takes, less than any timer

PairOptions planes_of(PathSignal signal) {
  PairOptions options;
  options.path_signal = signal;
  return options;
}

// End 1 holds acknowledgements back until it replies.
void reply_at_end_1(Pair& pair) {
  pair.connect();
  pair.run_for(10 * kPsPerMs);  // the first probes of the planes are answered
  pair.outgoing = {Outgoing::kEverything, Outgoing::kDataWithAcks};
}

}  // namespace

// proves X.4.8
TEST_CASE(ack_with_data_leaves_behind_a_short_reply) {
  Pair pair(planes_of(PathSignal::kDelay));
  reply_at_end_1(pair);
  std::vector<Flying> left;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 1 && packet.bth.opcode != wire::Opcode::kProbe) left.push_back(flying);
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 8, kTarget) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.landed(0, 8, kTarget));
  CHECK(left.empty());
  CHECK(pair.write(1, 2, 8, kTarget + 64) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(left.size() == 2);
  CHECK(left[1].bytes.size() < left[0].bytes.size());
  CHECK(left[1].port == left[0].port && left[1].fields.source_port == left[0].fields.source_port);
  CHECK(pair.sent(1, wire::Opcode::kAck) == 1);
  CHECK(pair.sends[0].size() == 1);
  // One ACK reports a message once.
  CHECK(pair.write(1, 3, 8, kTarget + 128) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.sent(1, wire::Opcode::kAck) == 1);
}

TEST_CASE(ack_with_data_waits_beside_long_replies) {
  Pair pair(planes_of(PathSignal::kDelay));
  reply_at_end_1(pair);
  CHECK(pair.write(0, 1, 8, kTarget) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.write(1, 2, 20'000, kTarget + 64) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.sent(1, wire::Opcode::kAck) == 0);
  pair.outgoing[1] = Outgoing::kEverything;
  pair.run_for(kTrip);
  CHECK(pair.sent(1, wire::Opcode::kAck) == 1);
}

// proves A.4.3
TEST_CASE(ack_with_data_keeps_its_class_on_planes_that_mark) {
  Pair pair(planes_of(PathSignal::kMarks));
  reply_at_end_1(pair);
  CHECK(pair.write(0, 1, 8, kTarget) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.write(1, 2, 8, kTarget + 64) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.sent(1, wire::Opcode::kWriteOnly) == 1);
  CHECK(pair.sent(1, wire::Opcode::kAck) == 0);
}

// Each loss of a reply loses its ACK, too.
TEST_CASE(ack_with_data_is_lost_and_repeated) {
  PairOptions options = planes_of(PathSignal::kDelay);
  options.timeout_exponent = 9;
  Pair pair(options);
  reply_at_end_1(pair);
  int count = 0;
  pair.filter = [&](int from, const wire::Packet&, Flying&) {
    return from == 1 && count++ % 4 < 2 ? Fate::kDrop : Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 50; ++i) {
    pair.outgoing[1] = Outgoing::kDataWithAcks;
    CHECK(pair.write(0, i, 8, kTarget) == Status::kOk);
    pair.run_for(kTrip);
    CHECK(pair.write(1, i, 8, kTarget + 64) == Status::kOk);
    pair.run_for(kTrip);
    pair.outgoing[1] = Outgoing::kEverything;
    CHECK(pair.run_until_sends(0, i + 1));
    CHECK(pair.run_until_sends(1, i + 1));
  }
  for (int end = 0; end < 2; ++end) {
    for (const Completion& done : pair.sends[Pair::at(end)]) CHECK(done.status == WcStatus::kSuccess);
  }
}

TEST_CASE(ack_with_data_follows_an_rc_send) {
  PairOptions options;
  options.transport = Transport::kRc;
  Pair pair(options);
  reply_at_end_1(pair);
  CHECK(pair.write(0, 1, 8, kTarget) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.sends[0].empty());
  CHECK(pair.write(1, 2, 8, kTarget + 64) == Status::kOk);
  pair.run_for(kTrip);
  CHECK(pair.sent(1, wire::Opcode::kRcAck) == 1);
  CHECK(pair.sends[0].size() == 1);
}

}  // namespace openmrc::test
