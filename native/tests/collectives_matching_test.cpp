// Receives and the messages that wait for them: matching, early messages, and the steps of an operation.
#include "collectives/matching.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;

constexpr std::uint64_t kFirst = 1ULL << kSequenceBits, kSecond = 2ULL << kSequenceBits;

std::shared_ptr<const Plan> receive_plan(std::uint16_t peer) {
  PlanConfig config;
  config.ranks = 3;
  config.buffer_bytes = {4};
  config.steps = {{.kind = StepKind::kReceive, .peer = peer, .bytes = 4}};
  return std::make_shared<const Plan>(std::move(config));
}

// An inbox for what ranks 1 and 2 send to rank 0.
struct Desk {
  Desk() {
    for (int i = 0; i < 3; ++i) ranks.push_back(std::make_unique<RemoteRank>());
    const std::array<std::pair<std::uint16_t, std::uint64_t>, 2> sources{{{1, kFirst}, {2, kSecond}}};
    inbox = std::make_shared<Inbox>(sources);
  }
  std::shared_ptr<Operation> post(int source) {
    std::shared_ptr<Operation> op = operations.make(0, {});
    matching.post(*inbox, *op, source, receive_plan(1));
    return op;
  }
  void arrive(std::uint16_t rank, std::uint64_t key, MessageHead::Kind kind = MessageHead::kData) {
    const std::array<std::uint8_t, 4> data{};
    ranks[rank]->early.hold({.key = key, .kind = static_cast<std::uint32_t>(kind), .bytes = 4}, data.data());
  }

  Operations operations{3, 1};
  RemoteRanks ranks;
  Matching matching{operations, ranks};
  std::shared_ptr<Inbox> inbox;
};

}  // namespace

TEST_CASE(collectives_matching_numbers_the_messages_of_a_source) {
  Desk desk;
  const std::shared_ptr<Operation> first = desk.post(2), second = desk.post(2);
  const std::optional<Match> one = desk.matching.next(*desk.inbox), two = desk.matching.next(*desk.inbox);
  CHECK(one && one->op == first && one->key == kSecond && one->plan->talks_to(2) && first->source == 2);
  CHECK(two && two->op == second && two->key == kSecond + 1);
  CHECK(!desk.matching.next(*desk.inbox));
}

TEST_CASE(collectives_matching_any_source_takes_what_is_there_in_turn_and_holds_up_the_others) {
  Desk desk;
  for (int i = 0; i < 3; ++i) desk.post(kAnySource);
  const std::shared_ptr<Operation> behind = desk.post(1);
  CHECK(!desk.matching.next(*desk.inbox));
  desk.arrive(1, kFirst);
  desk.arrive(1, kFirst + 1);
  desk.arrive(2, kSecond);
  std::vector<int> sources;
  while (const std::optional<Match> match = desk.matching.next(*desk.inbox)) {
    sources.push_back(match->op->source);
    if (match->op == behind) break;
  }
  CHECK(sources == std::vector<int>({1, 2, 1, 1}));
}

TEST_CASE(collectives_matching_gives_up_when_nobody_is_left_or_the_group_was_closed) {
  Desk desk;
  desk.post(kAnySource);
  desk.ranks[1]->failed = true;
  desk.arrive(1, kFirst, MessageHead::kOffer);  // of a rank that is gone
  CHECK(!desk.matching.next(*desk.inbox));
  desk.ranks[2]->failed = true;
  const std::optional<Match> nobody = desk.matching.next(*desk.inbox);
  CHECK(nobody && nobody->plan == nullptr);

  Desk closed;
  closed.post(kAnySource);
  closed.matching.enlist(closed.inbox);
  CHECK(closed.matching.listed() == 1 && !closed.matching.next(*closed.inbox));
  closed.matching.close();
  const std::optional<Match> last = closed.matching.next(*closed.inbox);
  closed.matching.drop_empty();
  CHECK(last && last->plan == nullptr && closed.matching.listed() == 0);
}

TEST_CASE(collectives_matching_passes_over_receives_that_have_ended_and_waits_for_memory) {
  Desk desk;
  const std::shared_ptr<Operation> ended = desk.post(1), waits = desk.post(1);
  desk.operations.end(*ended, OpState::kFailed, kNobody, "");
  waits->earlier = 1;
  CHECK(!desk.matching.next(*desk.inbox));
  waits->earlier = 0;
  const std::optional<Match> match = desk.matching.next(*desk.inbox);
  CHECK(match && match->op == waits && match->key == kFirst);
}

TEST_CASE(collectives_early_messages_count_what_they_hold) {
  EarlyMessages early;
  const std::vector<std::uint8_t> data(kEagerBytesMax);
  const MessageHead head{.key = 7, .kind = MessageHead::kData, .bytes = static_cast<std::uint32_t>(data.size())};
  while (!early.crowded()) early.hold(head, data.data());
  CHECK(early.bytes() > EarlyMessages::kBytesMax && !early.overrun(true));
  while (!early.overrun(/*in_bytes=*/true)) early.hold(head, data.data());
  CHECK(!early.overrun(/*in_bytes=*/false) && early.contains(7) && early.first(8) == nullptr);
  const std::size_t count = early.count();
  CHECK(early.take(7).size() == count && early.count() == 0 && early.bytes() == 0 && early.take(7).empty());
}

TEST_CASE(collectives_steps_follow_those_that_they_wait_for) {
  PlanConfig config;
  config.ranks = 2;
  config.buffer_bytes = {8, 8};
  config.scratch_buffer = 1;
  config.steps = {{.kind = StepKind::kReceive, .into_buffer = 1, .peer = 1, .bytes = 8},
                  {.kind = StepKind::kReduce, .from_buffer = 1, .into_buffer = 0, .bytes = 8},
                  {.kind = StepKind::kSend, .peer = 1, .bytes = 8}};
  config.waits = {{1, 0}, {2, 1}};
  std::array<std::uint8_t, 8> own{1, 2, 3, 4, 5, 6, 7, 8}, scratch{};
  const std::array<Memory, 2> buffers{Memory{own.data(), 8}, Memory{scratch.data(), 8}};
  Operations operations(2, 1);
  const std::shared_ptr<Operation> op = operations.make(0, buffers);
  operations.begin(*op, std::make_shared<const Plan>(std::move(config)), 7, /*near=*/false);
  Steps steps;
  steps.begin(*op);
  CHECK(steps.empty());
  const std::array<std::uint8_t, 8> message{1, 1, 1, 1, 1, 1, 1, 1};
  const bool reduced = steps.place(*op, 0, message.data());
  CHECK(reduced && own[0] == 2 && own[7] == 9 && !steps.finish_receive(*op, 0, reduced));
  CHECK(!steps.empty() && steps.pop().step == 2 && steps.empty() && steps.finish(*op, 2));
  ExecutorStats stats;
  steps.add_to(stats);
  CHECK(stats.reduced_bytes == 8 && stats.copied_bytes == 0);
}
