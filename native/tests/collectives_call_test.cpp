// Ranks that call different operations: each error names the other rank and the difference.
#include "collectives/call.hpp"

#include "tests/collectives_fixture.hpp"

using namespace openmrc;
using namespace openmrc::collectives;
using namespace openmrc::collectives::test;

namespace {

constexpr std::uint8_t kAllReduce = 1, kBroadcast = 4, kAllToAll = 8, kDirect = 0, kRing = 1, kFloat64 = 0,
                       kFloat32 = 1, kMax = 3;

std::shared_ptr<Plan> with_call(const std::shared_ptr<Plan>& plan, const Call& call) {
  PlanConfig config = plan->config();
  config.call = call;
  return std::make_shared<Plan>(config);
}

// Rank 0 sends `sent` bytes to rank 1, which waits for `awaited`, each in its own call; returns both results.
std::pair<std::string, std::string> ends(std::uint64_t sent, const Call& sender, std::uint64_t awaited,
                                         const Call& receiver) {
  World world(2);
  std::vector<std::uint8_t> from(sent), into(awaited);
  const OpId sending = submit(world[0], with_call(messages(2, 1, StepKind::kSend, 1, sent), sender), 7, from);
  const OpId waiting = submit(world[1], with_call(messages(2, 0, StepKind::kReceive, 1, awaited), receiver), 7, into);
  const auto end = [&world](std::size_t rank, OpId op) -> std::string {
    if (world[rank].wait(op, kPatienceNs) != OpState::kFailed) return "done";
    const auto [culprit, reason] = world[rank].failure(op);
    CHECK(culprit == static_cast<int>(1 - rank));
    CHECK(world[rank].faulty(static_cast<std::uint16_t>(1 - rank)));
    world[rank].fail_peer(static_cast<std::uint16_t>(1 - rank), "it is gone");  // as would happen soon
    CHECK(world[rank].faulty(static_cast<std::uint16_t>(1 - rank)) && world[rank].failure(op).second == reason);
    return reason;
  };
  return {end(0, sending), end(1, waiting)};
}

}  // namespace

TEST_CASE(collectives_call_differences_are_named) {
  const Call call{400, 0, kAllReduce, kRing, kFloat32, 0};
  const std::string end = "; make the same call at all ranks";
  CHECK(difference(call, call).empty());
  CHECK(difference({}, call).empty() && difference(call, {}).empty());
  Call other = call;
  other.kind = kBroadcast;
  other.bytes = 8;  // of another operation: no conflict
  CHECK(difference(other, call) == "its call of broadcast differs in operation (broadcast, here all_reduce)" + end);
  other = call;
  other.bytes = 800;
  other.algorithm = kDirect;  // chosen by size
  CHECK(difference(other, call) == "its call of all_reduce differs in size (800 bytes, here 400 bytes)" + end);
  other.type = kFloat64;
  other.reduction = kMax;
  CHECK(difference(other, call) ==
        "its call of all_reduce differs in size (800 bytes, here 400 bytes) and element type (float64, here float32) "
        "and reduction (max, here sum)" +
            end);
  other = call;
  other.root = 3;
  CHECK(difference(other, call) == "its call of all_reduce differs in root (3, here 0)" + end);
  other = call;
  other.algorithm = kDirect;
  CHECK(difference(other, call) == "its call of all_reduce differs in algorithm (direct, here ring)" + end);
}

TEST_CASE(collectives_call_of_a_peer_may_be_anything) {
  Call strange{400, 0, 255, 255, 255, 255};
  CHECK(difference(strange, {400, 0, kAllReduce}) ==
        "its call of unknown differs in operation (unknown, here all_reduce); make the same call at all ranks");
  strange.kind = kAllReduce;
  CHECK(difference(strange, {400, 0, kAllReduce}).find("element type (unknown, here float64)") != std::string::npos);
}

TEST_CASE(collectives_call_that_differs_fails_at_both_ranks) {
  const Call reduce{8, 0, kAllReduce}, broadcast{8, 1, kBroadcast};
  {  // a small message leaves before the receiver sees it
    const auto [sender, receiver] = ends(8, reduce, 8, broadcast);
    CHECK(sender == "done");
    CHECK(receiver.find("differs in operation (all_reduce, here broadcast)") != std::string::npos);
  }
  {  // a large one waits for the buffers, so its sender sees the other call first
    const auto [sender, receiver] = ends(100'000, {100'000, 0, kBroadcast}, 100'000, {100'000, 2, kBroadcast});
    CHECK(sender.find("differs in root (2, here 0)") != std::string::npos);
    CHECK(receiver.find("differs in root (0, here 2)") != std::string::npos);
  }
  {  // sizes that only the two ranks of the message know
    const auto [sender, receiver] = ends(8, {0, 0, kAllToAll}, 16, {0, 0, kAllToAll});
    CHECK(sender == "done");
    CHECK(receiver ==
          "its call of all_to_all differs in size of a message (8 bytes, here 16 bytes); make the same call at all "
          "ranks");
  }
  {  // written straight into the receiver's buffer; the memory key refuses what is larger than that
    const auto [sender, receiver] = ends(100'000, {0, 0, kAllToAll}, 200'000, {0, 0, kAllToAll});
    CHECK(sender == "done");
    CHECK(receiver.find("size of a message (100000 bytes, here 200000 bytes)") != std::string::npos);
  }
  {  // small at one side, large at the other
    const auto [sender, receiver] = ends(8, {8, 0, kBroadcast}, 100'000, {100'000, 0, kBroadcast});
    CHECK(sender == "done");
    CHECK(receiver.find("differs in size (8 bytes, here 100000 bytes)") != std::string::npos);
  }
  {
    const auto [sender, receiver] = ends(100'000, {100'000, 0, kBroadcast}, 8, {8, 0, kBroadcast});
    CHECK(receiver.find("differs in size (100000 bytes, here 8 bytes)") != std::string::npos);
    CHECK(sender.find("differs in size (8 bytes, here 100000 bytes)") != std::string::npos);
  }
}
