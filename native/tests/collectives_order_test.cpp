// Operations that share memory with earlier ones, and fences.
#include <algorithm>

#include "collectives/memory_claims.hpp"
#include "tests/collectives_fixture.hpp"

namespace openmrc::collectives::test {
namespace {

// Adds a buffer to another one, without waiting for a peer.
std::shared_ptr<Plan> addition(std::uint64_t bytes) {
  PlanConfig config;
  config.ranks = 2;
  config.buffer_bytes = {bytes, bytes};
  config.steps.push_back({StepKind::kReduce, false, 1, 0, 0, 0, 0, bytes});
  return std::make_shared<Plan>(config);
}

std::shared_ptr<Plan> fence() {
  PlanConfig config;
  config.ranks = 2;
  config.fence = true;
  return std::make_shared<Plan>(config);
}

std::vector<std::uint64_t> conflicts(const MemoryClaims& claims, const char* base, std::uint64_t bytes, bool writes) {
  std::vector<std::uint64_t> found;
  claims.find_conflicts(base, bytes, writes, [&](std::uint64_t op) { found.push_back(op); });
  return found;
}

using Ids = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE(collectives_claims_conflict_where_one_writes) {
  const std::array<char, 100> memory{};
  const char* at = memory.data();
  MemoryClaims claims;
  claims.add(1, at, 10, false);
  claims.add(2, at + 5, 10, false);
  claims.add(3, at + 20, 10, true);
  claims.add(4, at + 40, 0, true);
  CHECK(conflicts(claims, at, 100, false) == Ids{3});
  CHECK((conflicts(claims, at, 100, true) == Ids{1, 2, 3}));
  CHECK(conflicts(claims, at + 10, 5, true) == Ids{2});
  CHECK(conflicts(claims, at + 15, 5, true).empty() && conflicts(claims, at + 30, 5, false).empty());
  CHECK(conflicts(claims, at + 25, 0, true).empty() && conflicts(claims, at + 35, 20, true).empty());
  claims.add(5, at, 15, true);  // overlaps 1 and 2
  CHECK(conflicts(claims, at, 20, true) == Ids{5});
  claims.remove(5);
  claims.remove(3);
  CHECK(conflicts(claims, at, 100, true).empty());
}

TEST_CASE(collectives_executor_delays_operations_that_share_memory) {
  World world(2);
  std::vector<std::uint8_t> sum(100), one(100, 1), ten(100, 10), other(100);
  const OpId received = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 100), 1, sum);
  const std::array<Memory, 2> into_sum{memory_of(sum), memory_of(one)}, from_sum{memory_of(other), memory_of(sum)};
  const std::array<Memory, 2> apart{memory_of(ten), memory_of(one)};
  const OpId added = world[0].submit(addition(100), 2, 0, into_sum);
  const OpId read = world[0].submit(addition(100), 3, 1, from_sum);
  const OpId separate = world[0].submit(addition(100), 4, 0, apart);
  CHECK(world[0].state(separate) == OpState::kDone && ten == std::vector<std::uint8_t>(100, 11));
  CHECK(world[0].delayed(added) && world[0].delayed(read) && !world[0].delayed(received));
  CHECK(world[0].stats().delayed_ops == 2);
  const OpId sent = submit(world[1], messages(2, 0, StepKind::kSend, 1, 100), 1, ten);
  CHECK(world[0].wait(read, kPatienceNs) == OpState::kDone && world[0].state(added) == OpState::kDone);
  CHECK(sum == std::vector<std::uint8_t>(100, 12) && other == sum && !world[0].delayed(read));
  CHECK(world[1].wait(sent, kPatienceNs) == OpState::kDone);
}

TEST_CASE(collectives_executor_runs_a_long_chain_without_a_deep_stack) {
  constexpr std::uint32_t kLinks = 20'000;
  World world(2);
  std::vector<std::uint8_t> sum(4), one(4, 1);
  submit(world[0], messages(2, 1, StepKind::kReceive, 1, 4), 1, sum);
  const std::array<Memory, 2> buffers{memory_of(sum), memory_of(one)};
  const auto plan = addition(4);
  OpId last = 0;
  for (std::uint32_t i = 0; i < kLinks; ++i) last = world[0].submit(plan, 2 + i, 0, buffers);
  CHECK(world[0].delayed(last));
  std::vector<std::uint8_t> zero(4);
  submit(world[1], messages(2, 0, StepKind::kSend, 1, 4), 1, zero);
  CHECK(world[0].wait(last, kPatienceNs) == OpState::kDone);
  CHECK(sum == std::vector<std::uint8_t>(4, static_cast<std::uint8_t>(kLinks)));
}

TEST_CASE(collectives_executor_fences_end_after_their_group) {
  World world(2);
  constexpr std::uint64_t kGroup = 5ULL << kSequenceBits, kOther = 6ULL << kSequenceBits;
  std::vector<std::uint8_t> into(8), late(8), from(8, 3);
  const OpId mine = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 8), kGroup, into);
  const OpId others = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 8), kOther, late);
  const OpId barrier = world[0].submit(fence(), kGroup + 1, 1, {});
  const OpId next = world[0].submit(fence(), kGroup + 2, 0, {});
  CHECK(world[0].delayed(barrier) && world[0].delayed(next));
  submit(world[1], messages(2, 0, StepKind::kSend, 1, 8), kGroup, from);
  CHECK(world[0].wait(next, kPatienceNs) == OpState::kDone && world[0].state(barrier) == OpState::kDone);
  CHECK(world[0].state(mine) == OpState::kDone && world[0].state(others) == OpState::kRunning);
  submit(world[1], messages(2, 0, StepKind::kSend, 1, 8), kOther, from);
  CHECK(world[0].wait(others, kPatienceNs) == OpState::kDone);
}

TEST_CASE(collectives_executor_ends_delayed_operations_when_it_closes_or_a_peer_fails) {
  World world(2);
  std::vector<std::uint8_t> sum(8), one(8, 1), again(8);
  const std::array<Memory, 2> buffers{memory_of(sum), memory_of(one)};
  const OpId received = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 8), 1, sum);
  const OpId added = world[0].submit(addition(8), 2, 0, buffers);
  world[0].fail_peer(1, "gone");
  CHECK(world[0].wait(received, kPatienceNs) == OpState::kFailed);
  CHECK(world[0].wait(added, kPatienceNs) == OpState::kDone);  // independent of the peer
  const OpId waiting = submit(world[1], messages(2, 0, StepKind::kReceive, 1, 8), 3, again);
  const std::array<Memory, 2> more{memory_of(again), memory_of(one)};
  const OpId behind = world[1].submit(addition(8), 4, 0, more);
  CHECK(world[1].delayed(behind));
  world[1].close();
  CHECK(world[1].state(waiting) == OpState::kFailed && world[1].state(behind) == OpState::kFailed);
  CHECK(world[1].release(behind));
}

}  // namespace openmrc::collectives::test
