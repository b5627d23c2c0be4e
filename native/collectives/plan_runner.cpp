// Operations of a rank from submission to release, and what ends them.
#include "collectives/plan_runner.hpp"

#include <algorithm>
#include <utility>

#include "collectives/reducing_placer.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

constexpr const char* kClosed = "the group was closed";

}  // namespace

PlanRunner::PlanRunner(const ExecutorSettings& settings, Transports& transports, std::condition_variable& ended)
    : rank_count_(settings.ranks), transports_(transports), ended_(ended), operations_(settings.ranks, settings.lanes) {
  MRC_ASSERT(settings.rank < settings.ranks && settings.lanes > 0);
  for (std::uint16_t number = 0; number < settings.ranks; ++number) {
    ranks_.push_back(std::make_unique<RemoteRank>());
    RemoteRank& rank = *ranks_.back();
    rank.number = number;
    rank.transport = &transports_.remote();
    if (number != settings.rank) rank.lanes.resize(settings.lanes);
    for (std::size_t i = 0; i < rank.lanes.size(); ++i) rank.lanes[i].number = static_cast<std::uint8_t>(i);
  }
  transports_.attach(*this);
}

void PlanRunner::use(std::uint16_t rank, Transport& transport) { ranks_[rank]->transport = &transport; }

OpId PlanRunner::submit(std::shared_ptr<const Plan> plan, std::uint64_t key, std::uint8_t lane,
                        std::span<const Memory> buffers) {
  const std::shared_ptr<Operation> op = operations_.make(lane, buffers);
  op->key = key;
  admit(*op, *plan);
  if (op->earlier > 0) {
    op->next_plan = std::move(plan);
  } else {
    begin(*op, std::move(plan), key);
  }
  return op->id;
}

OpId PlanRunner::receive(const std::shared_ptr<Inbox>& inbox, int source, std::shared_ptr<const Plan> plan,
                         std::uint8_t lane, std::span<const Memory> buffers) {
  const std::shared_ptr<Operation> op = operations_.make(lane, buffers);
  admit(*op, *plan);
  matching_.post(*inbox, *op, source, std::move(plan));
  match(*inbox);
  work();
  matching_.enlist(inbox);
  return op->id;
}

void PlanRunner::admit(Operation& op, const Plan& plan) {
  precedence_.order(op, plan);
  if (op.earlier > 0) ++delayed_ops_;
}

void PlanRunner::begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key) {
  MRC_ASSERT(plan->config().ranks == rank_count_);
  for (std::size_t i = 0; i < plan->config().buffer_bytes.size(); ++i) {
    MRC_ASSERT(op.buffers[i].bytes >= plan->config().buffer_bytes[i]);
  }
  const bool near = std::all_of(ranks_.begin(), ranks_.end(), [&plan](const auto& rank) {
    return rank->transport->traits().local || !plan->talks_to(rank->number);
  });
  operations_.begin(op, std::move(plan), key, near);
  if (closed_) return end(op, OpState::kFailed, kNobody, kClosed);
  for (const std::unique_ptr<RemoteRank>& rank : ranks_) {
    // Its part may be here already.
    if (!rank->failed || !op.plan->talks_to(rank->number) || rank->early.contains(key)) continue;
    return end(op, OpState::kFailed, rank->culprit, rank->reason);
  }
  if (!enlist_buffers(op)) {
    return end(op, OpState::kFailed, kNobody, "the device does not take more memory regions");
  }
  announce(op);
  enter_circle(op);
  steps_.begin(op);
  if (op.left == 0) end(op, OpState::kDone, kNobody, "");
  work();  // before what has come is looked at: if it does not fit, the peer shall find out, too
  take_early(op);
  if (op.circle != nullptr) op.circle->take(op.key, op.missing);
  work();
  for (const std::unique_ptr<RemoteRank>& rank : ranks_) {
    if (!rank->failed || op.state != OpState::kRunning || !op.needs(rank->number)) continue;
    end(op, OpState::kFailed, rank->culprit, rank->reason);
  }
  work();
}

void PlanRunner::begin_due() {
  if (std::exchange(beginning_, true)) return;  // the caller below goes on
  while (const std::shared_ptr<Operation> op = precedence_.next_due()) {
    if (op->next_plan != nullptr) {
      begin(*op, std::exchange(op->next_plan, nullptr), op->key);
    } else {
      match_all();
    }
    start_ready();
  }
  beginning_ = false;
}

// Large messages in place are read and written by the device: buffers that such a message is received into are open to
// the peers, all others are only read.
bool PlanRunner::enlist_buffers(Operation& op) {
  const auto in_place = [&op](const auto& rank) {
    return rank->transport->traits().in_place && op.plan->talks_to(rank->number);
  };
  if (std::none_of(ranks_.begin(), ranks_.end(), in_place)) return true;
  if (!op.plan->receives_more_than(kEagerBytesMax) && !op.plan->sends_more_than(kEagerBytesMax)) return true;
  for (std::size_t i = 0; i < op.buffers.size(); ++i) {
    if (op.buffers[i].bytes == 0) continue;
    const bool peers_write = op.plan->largest_receive_into(i) > kEagerBytesMax;
    std::shared_ptr<ReducingPlacer> placer;
    if (peers_write && i == op.plan->config().scratch_buffer)
      op.placer = placer = ReducingPlacer::of(op, kEagerBytesMax);
    if (!transports_.enlist(op.buffers[i], peers_write, op.keys[i], placer)) return false;
  }
  return true;
}

void PlanRunner::enter_circle(Operation& op) {
  const std::span<const std::uint16_t> others = op.plan->circle();
  if (others.empty()) return;
  op.circle = transports_.circle(op.key >> kSequenceBits, others);
  if (op.circle == nullptr) return;
  op.missing = (1U << others.size()) - 1;
  circling_.push_back(&op);
}

// Messages to all ranks, for the operations that have begun. True: there were any.
bool PlanRunner::take_circles() {
  bool something = false;
  for (std::size_t i = 0; i < circling_.size();) {
    Operation* op = circling_[i];
    something = op->circle->take(op->key, op->missing) || something;
    if (i < circling_.size() && circling_[i] == op) ++i;  // unless it has ended
  }
  return something;
}

void PlanRunner::take_early(Operation& op) {
  for (const std::unique_ptr<RemoteRank>& rank : ranks_) {
    const std::vector<EarlyMessages::Message> messages = rank->early.take(op.key);
    if (messages.empty()) continue;
    if (!rank->early.crowded()) rank->transport->make_room(rank->number);
    for (const EarlyMessages::Message& message : messages) {
      if (op.state == OpState::kRunning) take(op, *rank, message.head, message.data.data());
    }
  }
}

void PlanRunner::match(Inbox& inbox) {
  while (std::optional<Match> due = matching_.next(inbox)) {
    if (due->plan != nullptr) {
      begin(*due->op, std::move(due->plan), due->key);
    } else {
      end(*due->op, OpState::kFailed, kNobody, closed_ ? kClosed : "every rank that could send is gone");
    }
  }
}

void PlanRunner::match_all() {
  // By number: what begins may end up here again, which changes the list.
  for (std::size_t i = 0; i < matching_.listed(); ++i) match(*matching_.listed(i));
  matching_.drop_empty();
}

void PlanRunner::drive() {
  for (;;) {
    const bool to_all = take_circles();
    const Transport::Arrivals arrivals = transports_.poll();
    if (arrivals == Transport::Arrivals::kNothing && !to_all) return;
    go_on();
    transports_.replenish();
    if (arrivals != Transport::Arrivals::kMore && !to_all) return;
  }
}

bool PlanRunner::arm(Sleeper sleeper) {
  const bool something = transports_.arm(sleeper);
  if (!take_circles()) return something;
  work();
  return true;
}

bool PlanRunner::drive_local() {
  const bool something = take_circles() || transports_.look_local();
  if (something || held_ > 0) go_on();
  return something;
}

bool PlanRunner::release(Operation& op) {
  if (op.reading > 0) drive();  // the thread does so for operations that run, not for one that is over
  if (op.state == OpState::kRunning || !settled(op)) return false;
  operations_.forget(op);
  return true;
}

// --- the end of operations

void PlanRunner::end(Operation& op, OpState state, int rank, const std::string& reason) {
  if (op.state != OpState::kRunning) return;
  operations_.end(op, state, rank, reason);
  if (op.circle != nullptr) std::erase(circling_, &op);
  precedence_.ended(op);
  settled(op);
  ended_.notify_all();
}

// Gives the buffers back as soon as no posted send reads from them, and nobody writes into them: peers do not know yet
// that an operation failed here, and a write that is refused would break the connection to one that is well.
bool PlanRunner::settled(Operation& op) {
  if (!closed_ && !transports_.closed()) {
    if (op.reading > 0) return false;
    const auto writes = [&](const std::unique_ptr<RemoteRank>& rank) {
      const auto receives = op.plan->receives(rank->number);
      return !rank->failed && rank->transport->traits().in_place &&
             op.plan->largest_receive(rank->number) > kEagerBytesMax &&
             std::any_of(receives.begin(), receives.end(), [&](std::uint32_t step) { return !op.done[step]; });
    };
    const bool announced = std::any_of(op.keys.begin(), op.keys.end(), [](std::uint32_t key) { return key != 0; });
    if (op.state == OpState::kFailed && announced && std::any_of(ranks_.begin(), ranks_.end(), writes)) return false;
  }
  for (std::uint32_t& key : op.keys) {
    if (key != 0 && !transports_.delist(key)) return false;
    key = 0;
  }
  return true;
}

void PlanRunner::fail_peer(std::uint16_t rank, const std::string& reason, bool left, int culprit) {
  drive();
  if (left) take_leave(rank);
  fail(*ranks_[rank], reason, culprit);
  work();
}

// A rank that leaves has all that was sent to it; its last acknowledgements may be behind its goodbye, or lost.
void PlanRunner::take_leave(std::uint16_t rank) {
  operations_.for_running([&](Operation& op) {
    for (std::uint32_t i = 0; i < op.plan->step_count(); ++i) {
      const Step& step = op.plan->step(i);
      if (step.kind == StepKind::kSend && step.peer == rank && op.posted[i] && !op.done[i]) finish(op, i);
    }
  });
  work();
}

void PlanRunner::fail(RemoteRank& rank, const std::string& reason, int culprit) {
  if (rank.failed) return;
  rank.failed = true;
  rank.culprit = culprit == kNobody ? rank.number : culprit;
  rank.reason = reason;
  rank.transport->stop(rank.number);
  operations_.for_running([&](Operation& op) {
    if (op.needs(rank.number)) end(op, OpState::kFailed, rank.culprit, reason);
  });
  match_all();
}

void PlanRunner::protocol_error(RemoteRank& rank, const std::string& what) {
  ++protocol_errors_;
  rank.early.clear();
  rank.faulty = rank.faulty || !rank.failed;
  fail(rank, what);
}

void PlanRunner::close() {
  closed_ = true;
  matching_.close();
  operations_.for_running([this](Operation& op) { end(op, OpState::kFailed, kNobody, kClosed); });
}

ExecutorStats PlanRunner::stats() const {
  ExecutorStats stats{.ops = operations_.made(),
                      .early_messages = early_messages_,
                      .early_bytes_max = early_bytes_max_,
                      .protocol_errors = protocol_errors_,
                      .delayed_ops = delayed_ops_};
  steps_.add_to(stats);
  transports_.add_to(stats);
  return stats;
}

}  // namespace openmrc::collectives
