// Plans: refused input, and the order and pairing of steps.
#include <stdexcept>

#include "collectives/plan.hpp"
#include "tests/check.hpp"

namespace openmrc::collectives {
namespace {

Step step(StepKind kind, std::uint64_t bytes, std::uint16_t peer = 0, std::uint64_t offset = 0) {
  Step made;
  made.kind = kind;
  made.bytes = bytes;
  made.peer = peer;
  made.from_offset = made.into_offset = offset;
  return made;
}

PlanConfig config(std::vector<Step> steps) {
  PlanConfig made;
  made.ranks = 3;
  made.steps = std::move(steps);
  made.buffer_bytes = {64};
  made.type = ElementType::kInt32;
  return made;
}

bool refused(const PlanConfig& wrong) {
  try {
    const Plan plan(wrong);
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

TEST_CASE(a_plan_refuses_what_would_touch_foreign_memory) {
  CHECK(!refused(config({step(StepKind::kSend, 64, 1)})));
  CHECK(refused(config({step(StepKind::kSend, 65, 1)})));
  CHECK(refused(config({step(StepKind::kReceive, 8, 1, 60)})));
  CHECK(refused(config({step(StepKind::kReceive, 8, 1, ~0ULL)})));
  CHECK(refused(config({step(StepKind::kSend, 8, 3)})));
  CHECK(refused(config({step(StepKind::kReduce, 6)})));
  PlanConfig floats = config({step(StepKind::kReduce, 8)});
  floats.type = ElementType::kFloat32;
  floats.op = ReduceOp::kXor;
  CHECK(refused(floats));
  PlanConfig nothing = config({step(StepKind::kDivide, 8)});
  nothing.divisor = 0;
  CHECK(refused(nothing));
  PlanConfig shifted = config({step(StepKind::kCopy, 8)});
  shifted.shifts = {1};
  CHECK(refused(shifted));
}

TEST_CASE(steps_wait_for_earlier_ones_only_and_receives_for_none) {
  PlanConfig made = config({step(StepKind::kCopy, 4), step(StepKind::kSend, 4, 1)});
  made.waits = {{1, 0}};
  CHECK(!refused(made));
  made.waits = {{0, 1}};
  CHECK(refused(made));
  made.waits = {{1, 1}};
  CHECK(refused(made));
  made = config({step(StepKind::kCopy, 4), step(StepKind::kReceive, 4, 1)});
  made.waits = {{1, 0}};
  CHECK(refused(made));
}

TEST_CASE(sends_and_receives_pair_up_in_order) {
  const Plan plan(config({step(StepKind::kSend, 4, 1), step(StepKind::kReceive, 8, 2), step(StepKind::kSend, 4, 2),
                          step(StepKind::kReceive, 16, 2), step(StepKind::kSend, 12, 1)}));
  CHECK(plan.pair_index(0) == 0 && plan.pair_index(4) == 1 && plan.pair_index(2) == 0);
  CHECK(plan.receives(2).size() == 2 && plan.receives(2)[1] == 3 && plan.receives(1).empty());
  CHECK(plan.largest_receive(2) == 16 && plan.largest_receive(0) == 0);
  CHECK(plan.talks_to(1) && plan.talks_to(2) && !plan.talks_to(0));
  CHECK(plan.sends_more_than(11) && !plan.sends_more_than(12));
}

}  // namespace
}  // namespace openmrc::collectives
