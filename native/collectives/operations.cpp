#include "collectives/operations.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

constexpr std::uint64_t kGenerationMask = (1ULL << (64 - 16 - kStepBits)) - 1;
// Memory of operations that are over, for the next ones.
constexpr std::size_t kSpareOps = 64;

static_assert(kPlanStepsMax <= kStepMask + 1ULL && kPlanPairsMax <= kPairMask + 1ULL && kOpSlotsMax <= 1U << 16);

// With the memory of an element that was taken out before, if there is one.
template <typename Set>
void insert(Set& set, typename Set::node_type& spare, const typename Set::key_type& value) {
  if (spare.empty()) {
    set.insert(value);
  } else {
    spare.value() = value;
    set.insert(std::move(spare));
  }
}

std::shared_ptr<const Plan> plan_of_nothing(std::uint32_t ranks) {
  PlanConfig config;
  config.ranks = ranks;
  return std::make_shared<const Plan>(std::move(config));
}

}  // namespace

bool Operation::needs(std::uint16_t rank) const {
  if (!plan->talks_to(rank)) return false;
  for (std::uint32_t i = 0; i < plan->step_count(); ++i) {
    const Step& step = plan->step(i);
    const bool talks = step.kind == StepKind::kSend || step.kind == StepKind::kReceive;
    if (talks && step.peer == rank && !done[i]) return true;
  }
  return false;
}

void Operation::clear() {
  waits.clear(), done.clear(), posted.clear(), remotes.clear();
  Operation fresh;
  fresh.waits = std::move(waits), fresh.done = std::move(done), fresh.posted = std::move(posted);
  fresh.followers = std::move(followers), fresh.followers.clear();
  *this = std::move(fresh);
}

Operations::Operations(std::uint32_t ranks, std::uint8_t lanes) : nothing_(plan_of_nothing(ranks)), begun_(lanes) {}

std::shared_ptr<Operation> Operations::make(std::uint8_t lane, std::span<const Memory> buffers) {
  MRC_ASSERT(lane < begun_.size() && buffers.size() <= kPlanBuffersMax);
  if (free_slots_.empty() && by_slot_.size() == kOpSlotsMax) throw std::runtime_error("too many operations at once");
  std::shared_ptr<Operation> op;
  if (spare_.empty()) {
    op = std::make_shared<Operation>();
  } else {
    op = std::move(spare_.back());
    spare_.pop_back();
  }
  if (free_slots_.empty()) {
    op->slot = static_cast<std::uint32_t>(by_slot_.size());
    by_slot_.emplace_back();
  } else {
    op->slot = free_slots_.back();
    free_slots_.pop_back();
  }
  by_slot_[op->slot] = op;
  op->id = (++made_ & kGenerationMask) << 16 | op->slot;
  op->lane = lane;
  op->plan = nothing_;
  std::copy(buffers.begin(), buffers.end(), op->buffers.begin());
  ++running_;
  return op;
}

void Operations::begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key, bool near) {
  MRC_ASSERT(!op.begun && op.state == OpState::kRunning);
  op.begun = true;
  insert(begun_[op.lane], spare_begun_, op.id);
  op.key = key;
  op.plan = std::move(plan);
  op.waits = op.plan->wait_counts();
  op.left = op.plan->step_count();
  op.done.assign(op.left, false);
  op.posted.assign(op.left, false);
  op.near = near;
  near_ += near ? 1 : 0;
  if (spare_slot_.empty()) {
    slots_by_key_[key] = op.slot;
  } else {
    spare_slot_.key() = key;
    auto inserted = slots_by_key_.insert(std::move(spare_slot_));
    inserted.position->second = op.slot;
    spare_slot_ = std::move(inserted.node);
  }
  dead_keys_.erase(key);
}

void Operations::end(Operation& op, OpState state, int rank, const std::string& reason) {
  MRC_ASSERT(op.state == OpState::kRunning && state != OpState::kRunning);
  op.state = state;
  op.failed_rank = rank;
  op.reason = reason;
  spare_begun_ = begun_[op.lane].extract(op.id);
  if (state == OpState::kDone) spare_slot_ = slots_by_key_.extract(op.key);
  --running_;
  near_ -= op.near ? 1 : 0;
}

void Operations::forget(Operation& op) {
  MRC_ASSERT(op.state != OpState::kRunning);
  if (op.state == OpState::kFailed && op.begun) {
    dead_keys_.insert(op.key);
    slots_by_key_.erase(op.key);
  }
  free_slots_.push_back(op.slot);
  const std::shared_ptr<Operation> gone = std::move(by_slot_[op.slot]);
  if (gone.use_count() == 1 && spare_.size() < kSpareOps) {
    gone->clear();
    spare_.push_back(gone);
  }
}

std::shared_ptr<Operation> Operations::first_running() const {
  const Operation* first = nullptr;
  for_running([&](const Operation& op) {
    if (first == nullptr || op.id >> 16 < first->id >> 16) first = &op;
  });
  return first == nullptr ? nullptr : by_slot_[first->slot];
}

Operation* Operations::by_key(std::uint64_t key) const {
  const auto found = slots_by_key_.find(key);
  return found == slots_by_key_.end() ? nullptr : by_slot_[found->second].get();
}

}  // namespace openmrc::collectives
