// Receives, from one rank or from any: they begin in the order in which they were posted.
#include <algorithm>
#include <utility>

#include "collectives/executor_state.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {

OpId Executor::receive(const std::shared_ptr<Inbox>& inbox, int source, std::shared_ptr<const Plan> plan,
                       std::uint8_t lane, std::span<const Memory> buffers) {
  const auto guard = enter();
  MRC_ASSERT(source == kAnySource || inbox->find(source) != nullptr);
  const std::shared_ptr<Operation> op = operations_.make(lane, buffers);
  admit(*op, *plan);
  inbox->waiting_.push_back({op->id, source, std::move(plan)});
  match(*inbox);
  work();
  const bool listed = std::find(inboxes_.begin(), inboxes_.end(), inbox) != inboxes_.end();
  if (!inbox->waiting_.empty() && !listed) inboxes_.push_back(inbox);
  watch_later();
  return op->id;
}

int Executor::source(OpId id) {
  const auto guard = enter();
  const Operation* op = operations_.find(id);
  return op == nullptr ? kNobody : op->source;
}

// Begins what can begin. A receive from any source that has nothing to take holds up all behind it: whatever comes first
// is its own.
void Executor::match(Inbox& inbox) {
  while (!inbox.waiting_.empty()) {
    const Inbox::Waiting next = inbox.waiting_.front();
    const std::shared_ptr<Operation> op = operations_.share(next.op);
    Inbox::Source* source = nullptr;
    if (op != nullptr && op->state == OpState::kRunning) {
      if (op->earlier > 0 && !stop_) return;  // its memory is in use
      source = next.source == kAnySource ? choose(inbox) : inbox.find(next.source);
      if (source == nullptr && !stop_ && !nobody_left(inbox)) return;
    }
    inbox.waiting_.pop_front();  // before it begins: if that makes a peer fail, the rest is looked at again
    if (source != nullptr) {
      const std::uint64_t key = source->next_key();
      ++source->taken;
      op->source = source->rank;
      const bool fits = next.plan->talks_to(source->rank);
      begin(*op, fits ? next.plan : std::make_shared<const Plan>(next.plan->with_peer(source->rank)), key);
    } else if (op != nullptr) {
      end(*op, OpState::kFailed, kNobody, stop_ ? kClosed : "every rank that could send is gone");
    }
  }
}

void Executor::match_all() {
  // By number: what begins may end up here again, which changes the list.
  for (std::size_t i = 0; i < inboxes_.size(); ++i) match(*std::shared_ptr<Inbox>(inboxes_[i]));
  std::erase_if(inboxes_, [](const std::shared_ptr<Inbox>& inbox) { return inbox->waiting_.empty(); });
}

// The source whose next message is here, or is offered by a rank that is still there.
Inbox::Source* Executor::choose(Inbox& inbox) {
  const std::size_t count = inbox.sources_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = (inbox.turn_ + i) % count;
    Inbox::Source& source = inbox.sources_[number];
    const Peer& peer = *peers_[source.rank];
    const auto found = peer.early.find(source.next_key());
    if (found == peer.early.end()) continue;
    if (peer.failed && found->second.front().head.kind != MessageHead::kData) continue;
    inbox.turn_ = (number + 1) % count;
    return &source;
  }
  return nullptr;
}

bool Executor::nobody_left(const Inbox& inbox) const {
  return std::all_of(inbox.sources_.begin(), inbox.sources_.end(),
                     [this](const Inbox::Source& source) { return peers_[source.rank]->failed; });
}

}  // namespace openmrc::collectives
