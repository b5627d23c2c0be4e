#include "collectives/steps.hpp"

#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {

void Steps::begin(const Operation& op) {
  for (std::uint32_t i = 0; i < op.plan->step_count(); ++i) {
    if (op.waits[i] == 0 && op.plan->step(i).kind != StepKind::kReceive) push(op, i);
  }
}

ReadyStep Steps::pop() {
  const ReadyStep next = ready_.front();
  ready_.pop_front();
  return next;
}

bool Steps::finish(Operation& op, std::uint32_t index) {
  op.done[index] = true;
  for (const std::uint32_t next : op.plan->after(index)) {
    if (--op.waits[next] == 0) push(op, next);
  }
  return --op.left == 0;
}

bool Steps::finish_receive(Operation& op, std::uint32_t receive, bool reduced) {
  if (!reduced) return finish(op, receive);
  const std::uint32_t reduction = op.plan->reduction_of(receive);
  op.done[receive] = true;
  --op.left;
  op.waits[reduction] = 0;
  return finish(op, reduction);
}

void Steps::compute(Operation& op, std::uint32_t index) {
  const PlanConfig& config = op.plan->config();
  const Step& step = op.plan->step(index);
  std::uint8_t* into = op.buffers[step.into_buffer].base + step.into_offset;
  const std::uint8_t* from = op.buffers[step.from_buffer].base + step.from_offset;
  const std::size_t count = static_cast<std::size_t>(step.bytes / element_bytes(config.type));
  switch (step.kind) {
    case StepKind::kReduce:
      reduced_bytes_ += step.bytes;
      reduce(config.type, config.op, into, from, count, step.reversed);
      return;
    case StepKind::kCopy:
      copied_bytes_ += step.bytes;
      if (step.bytes > 0) std::memmove(into, from, step.bytes);
      return;
    case StepKind::kScale:
      return scale(config.type, into, count, config.factor);
    case StepKind::kDivide:
      return divide(config.type, into, count, config.divisor);
    case StepKind::kSend:
    case StepKind::kReceive:
      MRC_ASSERT(false);
  }
}

bool Steps::place(Operation& op, std::uint32_t receive, const std::uint8_t* data) {
  const Step& step = op.plan->step(receive);
  const bool reduces = reduces_now(op, receive);
  if (reduces) {
    reduce_part(op, receive, 0, data, step.bytes);
  } else if (step.bytes > 0) {
    std::memcpy(op.buffers[step.into_buffer].base + step.into_offset, data, step.bytes);
  }
  return reduces;
}

bool Steps::reduces_now(const Operation& op, std::uint32_t receive) {
  const std::uint32_t reduction = op.plan->reduction_of(receive);
  return reduction != kNoStep && op.waits[reduction] == 1;
}

void Steps::reduce_part(Operation& op, std::uint32_t receive, std::uint64_t offset, const std::uint8_t* data,
                        std::uint64_t bytes) {
  const Plan& plan = *op.plan;
  const Step& step = plan.step(plan.reduction_of(receive));
  const ElementType type = plan.config().type;
  reduced_bytes_ += bytes;
  reduce(type, plan.config().op, op.buffers[step.into_buffer].base + step.into_offset + offset, data,
         static_cast<std::size_t>(bytes / element_bytes(type)), step.reversed);
}

void Steps::add_to(ExecutorStats& stats) const {
  stats.reduced_bytes += reduced_bytes_;
  stats.copied_bytes += copied_bytes_;
}

}  // namespace openmrc::collectives
