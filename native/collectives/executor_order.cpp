// Order of operations: those that share memory with earlier ones wait for them, as fences do.
#include <utility>

#include "collectives/executor_state.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {

// Makes an operation that was not started yet wait for the earlier ones that it must not overtake.
void Executor::order(Op& op, const Plan& plan) {
  const std::size_t count = plan.config().buffer_bytes.size();
  const auto uses = [&plan](std::size_t i) { return plan.reads(i) || plan.writes(i); };
  const std::vector<std::uint64_t>& bytes = plan.config().buffer_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (!uses(i)) continue;
    claims_.find_conflicts(op.buffers[i].base, bytes[i], plan.writes(i), [&](OpId earlier) {
      Op* found = find(earlier);
      MRC_ASSERT(found != nullptr && found->state == OpState::kRunning);
      follow(op, *found);
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (uses(i)) claims_.add(op.id, op.buffers[i].base, bytes[i], plan.writes(i));
  }
  if (plan.config().fence) {
    for (const std::shared_ptr<Op>& earlier : ops_) {
      if (earlier == nullptr || earlier.get() == &op || earlier->state != OpState::kRunning) continue;
      if (earlier->key != 0 && earlier->key >> kSequenceBits == op.key >> kSequenceBits) follow(op, *earlier);
    }
  }
  if (op.earlier > 0) ++stats_.delayed_ops;
}

void Executor::follow(Op& op, Op& earlier) {
  if (!earlier.followers.empty() && earlier.followers.back() == op.id) return;
  earlier.followers.push_back(op.id);
  ++op.earlier;
}

// They begin in work() and not here, so that a long chain of operations does not become a deep recursion.
void Executor::let_followers_go(Op& op) {
  for (const OpId id : std::exchange(op.followers, {})) {
    Op* next = find(id);
    if (next == nullptr || next->state != OpState::kRunning) continue;
    if (--next->earlier == 0) due_.push_back(id);
  }
}

void Executor::begin_due() {
  if (std::exchange(beginning_, true)) return;  // the caller below goes on
  while (!due_.empty()) {
    const std::shared_ptr<Op> op = share(due_.front());
    due_.pop_front();
    if (op == nullptr || op->state != OpState::kRunning) continue;
    if (op->next_plan != nullptr) {
      begin(*op, std::exchange(op->next_plan, nullptr), op->key);
    } else {
      match_all();
    }
    start_ready();
  }
  beginning_ = false;
}

OpId Executor::user_of(const void* base, std::uint64_t bytes, bool writes) {
  const std::unique_lock guard(mutex_);
  OpId user = 0;
  claims_.find_conflicts(base, bytes, writes, [&user](OpId op) { user = op; });
  return user;
}

bool Executor::delayed(OpId id) {
  const auto guard = enter();
  const Op* op = find(id);
  return op != nullptr && op->state == OpState::kRunning && op->earlier > 0;
}

}  // namespace openmrc::collectives
