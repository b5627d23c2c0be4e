// What the receiving half sends, and in how many bursts.
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

// What four small WRITEs are answered with when nothing is acknowledged before the last has come.
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

}  // namespace
