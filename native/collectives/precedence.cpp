#include "collectives/precedence.hpp"

#include <utility>

#include "collectives/inbox.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {

void Precedence::order(Operation& op, const Plan& plan) {
  const std::size_t count = plan.config().buffer_bytes.size();
  const auto uses = [&plan](std::size_t i) { return plan.reads(i) || plan.writes(i); };
  const std::vector<std::uint64_t>& bytes = plan.config().buffer_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    if (!uses(i)) continue;
    claims_.find_conflicts(op.buffers[i].base, bytes[i], plan.writes(i), [&](OpId earlier) {
      Operation* found = operations_.find(earlier);
      MRC_ASSERT(found != nullptr && found->state == OpState::kRunning);
      follow(op, *found);
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (uses(i)) claims_.add(op.id, op.buffers[i].base, bytes[i], plan.writes(i));
  }
  if (!plan.config().fence) return;
  operations_.for_running([&op](Operation& earlier) {
    if (&earlier == &op || earlier.key == 0) return;
    if (earlier.key >> kSequenceBits == op.key >> kSequenceBits) follow(op, earlier);
  });
}

void Precedence::follow(Operation& op, Operation& earlier) {
  if (!earlier.followers.empty() && earlier.followers.back() == op.id) return;
  earlier.followers.push_back(op.id);
  ++op.earlier;
}

// They begin later, not here, so that a long chain of operations does not become a deep recursion.
void Precedence::ended(Operation& op) {
  claims_.remove(op.id);
  for (const OpId id : std::exchange(op.followers, {})) {
    Operation* next = operations_.find(id);
    if (next == nullptr || next->state != OpState::kRunning) continue;
    if (--next->earlier == 0) due_.push_back(id);
  }
}

std::shared_ptr<Operation> Precedence::next_due() {
  while (!due_.empty()) {
    std::shared_ptr<Operation> op = operations_.share(due_.front());
    due_.pop_front();
    if (op != nullptr && op->state == OpState::kRunning) return op;
  }
  return nullptr;
}

OpId Precedence::user_of(const void* base, std::uint64_t bytes, bool writes) const {
  OpId user = 0;
  claims_.find_conflicts(base, bytes, writes, [&user](OpId op) { user = op; });
  return user;
}

}  // namespace openmrc::collectives
