#include "collectives/plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "collectives/circle.hpp"
#include "collectives/message.hpp"

namespace openmrc::collectives {

Plan::Plan(PlanConfig config) : config_(std::move(config)) {
  if (config_.buffer_bytes.size() > kPlanBuffersMax) throw std::invalid_argument("too many buffers");
  if (config_.steps.size() > kPlanStepsMax) throw std::invalid_argument("too many steps");
  if (!config_.shifts.empty() && config_.shifts.size() != config_.ranks)
    throw std::invalid_argument("a shift per rank");
  for (std::uint32_t i = 0; i < step_count(); ++i) check(i);
  order_waits();
  pair_up();
  note_access();
  find_reductions();
  find_circle();
}

Plan Plan::with_peer(std::uint16_t rank) const {
  PlanConfig config = config_;
  for (Step& step : config.steps) step.peer = rank;
  return Plan(std::move(config));
}

std::span<const std::uint32_t> Plan::after(std::uint32_t step) const {
  return std::span(after_).subspan(after_first_[step], after_first_[step + 1] - after_first_[step]);
}

bool Plan::receives_more_than(std::uint64_t bytes) const {
  return std::any_of(largest_receive_.begin(), largest_receive_.end(),
                     [bytes](std::uint64_t one) { return one > bytes; });
}

void Plan::check(std::uint32_t index) const {
  const Step& step = config_.steps[index];
  const std::string name = "step " + std::to_string(index) + ": ";
  const auto fits = [&](std::uint8_t buffer, std::uint64_t offset) {
    if (buffer >= config_.buffer_bytes.size() || offset > config_.buffer_bytes[buffer] ||
        step.bytes > config_.buffer_bytes[buffer] - offset) {
      throw std::invalid_argument(name + "outside its buffer");
    }
  };
  const bool from = step.kind == StepKind::kSend || step.kind == StepKind::kReduce || step.kind == StepKind::kCopy;
  if (from) fits(step.from_buffer, step.from_offset);
  if (step.kind != StepKind::kSend) fits(step.into_buffer, step.into_offset);
  if (step.kind == StepKind::kSend && step.into_buffer >= kPlanBuffersMax) {
    throw std::invalid_argument(name + "no such buffer of the peer");
  }
  const bool talks = step.kind == StepKind::kSend || step.kind == StepKind::kReceive;
  if (talks && step.peer >= config_.ranks) throw std::invalid_argument(name + "no such rank");
  const bool counts = step.kind != StepKind::kCopy && !talks;
  if (counts && step.bytes % element_bytes(config_.type) != 0) throw std::invalid_argument(name + "cuts an element");
  if (step.kind == StepKind::kReduce && !reducible(config_.type, config_.op)) {
    throw std::invalid_argument(name + "bitwise operation of floating-point numbers");
  }
  if (step.kind == StepKind::kDivide && config_.divisor == 0) throw std::invalid_argument(name + "divides by zero");
}

void Plan::order_waits() {
  wait_counts_.assign(step_count(), 0);
  after_first_.assign(step_count() + 1U, 0);
  for (const auto& [step, before] : config_.waits) {
    if (step >= step_count() || before >= step)
      throw std::invalid_argument("a step waits for one that is not before it");
    // A directly written message arrives at any time.
    if (config_.steps[step].kind == StepKind::kReceive) throw std::invalid_argument("a receive waits for a step");
    ++wait_counts_[step];
    ++after_first_[before + 1];
  }
  for (std::uint32_t i = 0; i < step_count(); ++i) after_first_[i + 1] += after_first_[i];
  after_.resize(config_.waits.size());
  std::vector<std::uint32_t> next(after_first_.begin(), after_first_.end() - 1);
  for (const auto& [step, before] : config_.waits) after_[next[before]++] = step;
}

void Plan::pair_up() {
  pair_index_.assign(step_count(), 0);
  receives_.resize(config_.ranks);
  largest_receive_.assign(config_.ranks, 0);
  talks_to_.assign(config_.ranks, false);
  std::vector<std::uint32_t> sends(config_.ranks, 0);
  for (std::uint32_t i = 0; i < step_count(); ++i) {
    const Step& step = config_.steps[i];
    if (step.kind == StepKind::kSend || step.kind == StepKind::kReceive) talks_to_[step.peer] = true;
    if (step.kind == StepKind::kSend) {
      pair_index_[i] = sends[step.peer]++;
      largest_send_ = std::max(largest_send_, step.bytes);
    } else if (step.kind == StepKind::kReceive) {
      pair_index_[i] = static_cast<std::uint32_t>(receives_[step.peer].size());
      receives_[step.peer].push_back(i);
      largest_receive_[step.peer] = std::max(largest_receive_[step.peer], step.bytes);
      std::uint64_t& into = largest_receive_into_[step.into_buffer];
      into = std::max(into, step.bytes);
    }
    if (pair_index_[i] >= kPlanPairsMax) throw std::invalid_argument("too many messages between two ranks");
  }
}

void Plan::note_access() {
  for (const Step& step : config_.steps) {
    if (step.bytes == 0) continue;
    const bool from = step.kind == StepKind::kSend || step.kind == StepKind::kReduce || step.kind == StepKind::kCopy;
    if (from) reads_[step.from_buffer] = true;
    if (step.kind != StepKind::kSend) writes_[step.into_buffer] = true;
  }
}

void Plan::find_circle() {
  if (!config_.circle) return;
  std::vector<std::uint32_t> sends(config_.ranks, 0);
  for (const Step& step : config_.steps) {
    if (step.kind != StepKind::kSend) continue;
    if (++sends[step.peer] > 1 || step.bytes > kEagerBytesMax) return;
  }
  for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) {
    if (talks_to_[rank]) circle_.push_back(static_cast<std::uint16_t>(rank));
  }
  if (circle_.size() >= kCircleRanksMax) circle_.clear();
}

void Plan::find_reductions() {
  reduction_of_.assign(step_count(), kNoStep);
  const std::uint8_t scratch = config_.scratch_buffer;
  if (scratch >= config_.buffer_bytes.size()) return;
  std::vector<std::uint64_t> begins, ends;  // of all that is read from scratch memory
  const auto note = [&](std::uint8_t buffer, std::uint64_t offset, std::uint64_t bytes) {
    if (buffer != scratch || bytes == 0) return;
    begins.push_back(offset);
    ends.push_back(offset + bytes);
  };
  for (const Step& step : config_.steps) {
    const bool reduces = step.kind == StepKind::kReduce;
    if (reduces || step.kind == StepKind::kSend || step.kind == StepKind::kCopy) {
      note(step.from_buffer, step.from_offset, step.bytes);
    }
    if (reduces || step.kind == StepKind::kScale || step.kind == StepKind::kDivide) {
      note(step.into_buffer, step.into_offset, step.bytes);
    }
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  for (std::uint32_t i = 0; i < step_count(); ++i) {
    const Step& step = config_.steps[i];
    if (step.kind != StepKind::kReceive || step.into_buffer != scratch || step.bytes == 0 || after(i).size() != 1)
      continue;
    const Step& next = config_.steps[after(i).front()];
    const bool reads = next.kind == StepKind::kReduce && next.from_buffer == scratch &&
                       next.from_offset == step.into_offset && next.bytes == step.bytes;
    const auto begun = std::lower_bound(begins.begin(), begins.end(), step.into_offset + step.bytes) - begins.begin();
    const auto ended = std::upper_bound(ends.begin(), ends.end(), step.into_offset) - ends.begin();
    if (reads && begun - ended == 1) reduction_of_[i] = after(i).front();
  }
}

}  // namespace openmrc::collectives
