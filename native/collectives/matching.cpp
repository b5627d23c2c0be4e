#include "collectives/matching.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {

void Matching::post(Inbox& inbox, const Operation& op, int source, std::shared_ptr<const Plan> plan) {
  MRC_ASSERT(source == kAnySource || inbox.find(source) != nullptr);
  inbox.waiting_.push_back({.op = op.id, .source = source, .plan = std::move(plan)});
}

std::optional<Match> Matching::next(Inbox& inbox) {
  while (!inbox.waiting_.empty()) {
    const Inbox::Waiting& waiting = inbox.waiting_.front();
    std::shared_ptr<Operation> op = operations_.share(waiting.op);
    if (op == nullptr || op->state != OpState::kRunning) {
      inbox.waiting_.pop_front();
      continue;
    }
    if (op->earlier > 0 && !closed_) return std::nullopt;  // its memory is in use
    Inbox::Source* source = waiting.source == kAnySource ? choose(inbox) : inbox.find(waiting.source);
    if (source == nullptr && !closed_ && !nobody_left(inbox)) return std::nullopt;
    Match match{.op = std::move(op), .plan = nullptr};
    if (source != nullptr) {
      match.key = source->next_key();
      ++source->taken;
      match.op->source = source->rank;
      const bool fits = waiting.plan->talks_to(source->rank);
      match.plan = fits ? waiting.plan : std::make_shared<const Plan>(waiting.plan->with_peer(source->rank));
    }
    inbox.waiting_.pop_front();  // before it begins: if that makes a rank fail, the rest is looked at again
    return match;
  }
  return std::nullopt;
}

void Matching::enlist(const std::shared_ptr<Inbox>& inbox) {
  const bool listed = std::find(inboxes_.begin(), inboxes_.end(), inbox) != inboxes_.end();
  if (!inbox->waiting_.empty() && !listed) inboxes_.push_back(inbox);
}

void Matching::drop_empty() {
  std::erase_if(inboxes_, [](const std::shared_ptr<Inbox>& inbox) { return inbox->waiting_.empty(); });
}

// The source whose next message is here, or is offered by a rank that is still there.
Inbox::Source* Matching::choose(Inbox& inbox) const {
  const std::size_t count = inbox.sources_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = (inbox.turn_ + i) % count;
    Inbox::Source& source = inbox.sources_[number];
    const RemoteRank& rank = *ranks_[source.rank];
    const MessageHead* first = rank.early.first(source.next_key());
    if (first == nullptr || (rank.failed && first->kind != MessageHead::kData)) continue;
    inbox.turn_ = (number + 1) % count;
    return &source;
  }
  return nullptr;
}

bool Matching::nobody_left(const Inbox& inbox) const {
  return std::all_of(inbox.sources_.begin(), inbox.sources_.end(),
                     [this](const Inbox::Source& source) { return ranks_[source.rank]->failed; });
}

}  // namespace openmrc::collectives
