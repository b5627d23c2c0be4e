// Unit tests of the table of operations, their order, and the forecast of waits.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "collectives/inbox.hpp"
#include "collectives/precedence.hpp"
#include "collectives/wait_forecast.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;

constexpr std::uint64_t kSequence = 1ULL << kSequenceBits;

// Copies the first half of a buffer of eight bytes into the second one.
std::shared_ptr<const Plan> copy_plan(bool fence = false) {
  Step step;
  step.kind = StepKind::kCopy;
  step.bytes = 4;
  step.into_offset = 4;
  PlanConfig config;
  config.ranks = 2;
  config.buffer_bytes = {8};
  config.steps = {step};
  config.fence = fence;
  return std::make_shared<const Plan>(std::move(config));
}

struct Table {
  std::shared_ptr<Operation> start(std::uint64_t key, std::uint8_t* base, bool fence = false) {
    const Memory buffer{base, 8};
    std::shared_ptr<Operation> op = operations.make(0, std::span(&buffer, 1));
    op->key = key;
    const std::shared_ptr<const Plan> plan = copy_plan(fence);
    precedence.order(*op, *plan);
    if (op->earlier == 0) operations.begin(*op, plan, key, /*near=*/false);
    return op;
  }
  void end(Operation& op, OpState state) {
    operations.end(op, state, kNobody, "");
    precedence.ended(op);
  }

  Operations operations{2, 1};
  Precedence precedence{operations};
  std::array<std::uint8_t, 16> memory{};
};

}  // namespace

TEST_CASE(collectives_operations_have_ids_of_their_own_in_slots_used_again) {
  Table table;
  const OpId first = table.start(7, table.memory.data())->id;
  CHECK(table.operations.by_key(7) == table.operations.find(first) && table.operations.oldest(0) == first);
  table.end(*table.operations.find(first), OpState::kDone);
  CHECK(table.operations.by_key(7) == nullptr && table.operations.oldest(0) == 0);
  table.operations.forget(*table.operations.find(first));
  CHECK(table.operations.find(first) == nullptr);
  const std::shared_ptr<Operation> second = table.start(8, table.memory.data());
  CHECK(second->slot == (first & 0xFFFF) && second->id != first);
  CHECK(table.operations.at(second->slot, first) == nullptr &&
        table.operations.at(second->slot, second->id) != nullptr);
  CHECK(table.operations.running() == 1 && table.operations.made() == 2);
}

TEST_CASE(collectives_operations_that_failed_keep_their_keys_until_these_are_used_again) {
  Table table;
  const std::shared_ptr<Operation> failed = table.start(7, table.memory.data());
  table.end(*failed, OpState::kFailed);
  CHECK(table.operations.by_key(7) == failed.get() && !table.operations.dead(7));
  table.operations.forget(*failed);
  CHECK(table.operations.by_key(7) == nullptr && table.operations.dead(7));
  table.start(7, table.memory.data());
  CHECK(!table.operations.dead(7));
}

TEST_CASE(collectives_operations_on_one_buffer_follow_each_other) {
  Table table;
  std::array<std::uint8_t, 8> beyond{};
  const std::shared_ptr<Operation> first = table.start(1, table.memory.data());
  const std::shared_ptr<Operation> second = table.start(2, table.memory.data() + 4);
  const std::shared_ptr<Operation> beside = table.start(3, beyond.data());
  CHECK(second->earlier == 1 && table.precedence.next_due() == nullptr);
  CHECK(table.precedence.user_of(table.memory.data(), 1, true) == first->id);
  table.end(*first, OpState::kFailed);
  CHECK(table.precedence.next_due() == second && table.precedence.next_due() == nullptr);
  CHECK(table.precedence.user_of(table.memory.data(), 1, true) == 0);
  CHECK(beside->state == OpState::kRunning);
}

TEST_CASE(collectives_fences_wait_for_the_operations_of_their_sequence_alone) {
  Table table;
  std::array<std::uint8_t, 8> other{}, fence{};
  const std::shared_ptr<Operation> same = table.start(kSequence + 1, table.memory.data());
  table.start(2 * kSequence + 1, other.data());
  const std::shared_ptr<Operation> barrier = table.start(kSequence + 2, fence.data(), /*fence=*/true);
  CHECK(barrier->earlier == 1);
  table.end(*same, OpState::kDone);
  CHECK(table.precedence.next_due() == barrier);
}

TEST_CASE(collectives_waits_are_expected_after_many_prompt_ones_until_one_is_missed) {
  WaitForecast forecast;
  nic::TimeNs now = nic::kNsPerSecond;
  std::uint64_t operations = 0;
  const auto wait_after = [&](nic::TimeNs delay) {
    forecast.submitted(now);
    ++operations;
    return forecast.waited(now += delay);
  };
  int prompt = 1;
  while (!wait_after(nic::kNsPerUs)) ++prompt;
  CHECK(prompt > 1 && forecast.waits_expected());
  forecast.doubt(now, operations, /*missed=*/false);
  CHECK(forecast.waits_expected());
  forecast.doubt(now, operations, /*missed=*/false);  // no operation since
  CHECK(!forecast.waits_expected());
  while (!wait_after(nic::kNsPerUs)) {
  }
  CHECK(!wait_after(nic::kNsPerMs) && !forecast.waits_expected());
  while (!wait_after(nic::kNsPerUs)) {
  }
  forecast.submitted(now);
  forecast.doubt(now + nic::kNsPerMs, ++operations, /*missed=*/true);
  CHECK(!forecast.waits_expected());
}
