// Steps that are ready: computed here, or sent to other ranks.
#include <array>
#include <utility>

#include "collectives/plan_runner.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {

void PlanRunner::start_ready() {
  while (!steps_.empty()) {
    const ReadyStep next = steps_.pop();
    Operation* op = operations_.at(next.op_slot, next.op);
    if (op != nullptr && op->state == OpState::kRunning) start(*op, next.step);
  }
}

void PlanRunner::work() {
  start_ready();
  begin_due();
  if (lost_.empty()) return;
  for (const auto& [rank, reason] : std::exchange(lost_, {})) fail(*ranks_[rank], reason);
  begin_due();
}

// After messages or room have come.
void PlanRunner::go_on() {
  transports_.retry();
  if (held_ > 0) {
    for (const std::unique_ptr<RemoteRank>& rank : ranks_) {
      for (RemoteRank::Lane& lane : rank->lanes) resume(*rank, lane);
    }
  }
  work();
}

void PlanRunner::start(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  if (step.kind != StepKind::kSend) {
    steps_.compute(op, index);
    return finish(op, index);
  }
  if (op.done[index] || send_to_all(op, index)) return;
  RemoteRank& rank = *ranks_[step.peer];
  RemoteRank::Lane& lane = rank.lanes[op.lane];
  const bool first = lane.held.empty() || (rank.transport->traits().overtaking && op.id == operations_.oldest(op.lane));
  if (first && send(op, index)) return;
  lane.held.push_back({.op_slot = op.slot, .op = op.id, .step = index});
  ++held_;
}

void PlanRunner::finish(Operation& op, std::uint32_t index) {
  if (steps_.finish(op, index)) end(op, OpState::kDone, kNobody, "");
}

// All sends of an operation at once, if this is the first one.
bool PlanRunner::send_to_all(Operation& op, std::uint32_t index) {
  if (op.circle == nullptr || std::exchange(op.sent, true)) return false;
  const Step& step = op.plan->step(index);
  const MessageHead head{.key = op.key,
                         .kind = MessageHead::kData,
                         .bytes = static_cast<std::uint32_t>(step.bytes),
                         .call = op.plan->config().call};
  if (!op.circle->put(op.lane, head, op.buffers[step.from_buffer].base + step.from_offset)) return false;
  for (std::uint32_t i = index; i < op.plan->step_count(); ++i) {
    if (op.plan->step(i).kind == StepKind::kSend) finish(op, i);
  }
  return true;
}

// False: there is no room for it.
bool PlanRunner::send(Operation& op, std::uint32_t index) {
  return op.plan->step(index).bytes <= kEagerBytesMax ? send_small(op, index) : send_large(op, index);
}

bool PlanRunner::send_small(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  const MessageHead head{.key = op.key,
                         .kind = MessageHead::kData,
                         .pair_index = op.plan->pair_index(index),
                         .bytes = static_cast<std::uint32_t>(step.bytes),
                         .call = op.plan->config().call};
  const std::uint8_t* data = op.buffers[step.from_buffer].base + step.from_offset;
  if (!put(*ranks_[step.peer], op.lane, &op, head, data)) return false;
  finish(op, index);  // it is copied: the buffer is free
  return true;
}

// Without an announcement the send waits for that alone.
bool PlanRunner::send_large(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  Operation::Remote& remote = op.remote(step.peer, rank_count_);
  if (!remote.announced) {
    if (!offer(op, index)) return false;
    remote.held.push_back(index);
    return true;
  }
  const RemoteBuffer& into = remote.buffers[step.into_buffer];
  const LargeMessage message{.op = op.id,
                             .step = index,
                             .head = {.key = op.key,
                                      .pair_index = op.plan->pair_index(index),
                                      .op_slot = remote.op_slot,
                                      .call = op.plan->config().call},
                             .data = op.buffers[step.from_buffer].base + step.from_offset,
                             .bytes = step.bytes,
                             .local_key = op.keys[step.from_buffer],
                             .remote_key = into.rkey,
                             .remote_address = into.address + step.into_offset};
  ++op.reading;
  const Transport::Sending sending = ranks_[step.peer]->transport->send(step.peer, op.lane, message);
  if (sending == Transport::Sending::kPosted) {
    op.posted[index] = true;
    return true;
  }
  --op.reading;
  if (sending == Transport::Sending::kNoRoom) return false;
  finish(op, index);
  return true;
}

// Tells the peer that a send waits for its buffers, unless it has told them already: it may have to choose among senders.
// False: there is no room for the message.
bool PlanRunner::offer(Operation& op, std::uint32_t index) {
  RemoteRank& rank = *ranks_[op.plan->step(index).peer];
  if (!op.plan->config().offered || op.plan->pair_index(index) > 0 || rank.early.contains(op.key)) return true;
  const MessageHead head{.key = op.key, .kind = MessageHead::kOffer, .call = op.plan->config().call};
  return put(rank, op.lane, &op, head, nullptr);
}

// Tells those that will write into our buffers where these are.
void PlanRunner::announce(Operation& op) {
  for (const std::unique_ptr<RemoteRank>& rank : ranks_) {
    if (op.plan->largest_receive(rank->number) <= kEagerBytesMax || rank->failed) continue;
    std::array<RemoteBuffer, kPlanBuffersMax> own{};
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = {.address = reinterpret_cast<std::uintptr_t>(op.buffers[i].base) + op.plan->shift(rank->number, i),
                .rkey = op.keys[i]};
    }
    RemoteRank::Lane& lane = rank->lanes[op.lane];
    const MessageHead head{.key = op.key,
                           .kind = MessageHead::kAnnounce,
                           .bytes = sizeof own,
                           .op_slot = op.slot,
                           .call = op.plan->config().call};
    if (lane.held_messages.empty() && put(*rank, op.lane, nullptr, head, own.data())) continue;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(own.data());
    lane.held_messages.emplace_back(head, std::vector<std::uint8_t>(bytes, bytes + sizeof own));
    ++held_;
  }
}

// `op`: whose message it is; none if it must go whatever else waits. False: there is no room.
bool PlanRunner::put(RemoteRank& rank, std::uint8_t lane, const Operation* op, const MessageHead& head,
                     const void* data) {
  const OpId oldest = operations_.oldest(lane);
  const bool urgent = op == nullptr || oldest == 0 || op->id == oldest;
  return rank.transport->put(rank.number, lane, head, data, urgent);
}

// Goes on with what could not be sent: room may have come.
void PlanRunner::resume(RemoteRank& rank, RemoteRank::Lane& lane) {
  while (!lane.held_messages.empty()) {
    const auto& [head, data] = lane.held_messages.front();
    if (!put(rank, lane.number, nullptr, head, data.data())) return;
    lane.held_messages.pop_front();
    --held_;
  }
  while (!lane.held.empty() && send_held(lane.held.front())) {
    lane.held.pop_front();
    --held_;
  }
  if (lane.held.empty() || !rank.transport->traits().overtaking) return;
  // The oldest operation may go before the others, which have used up their slots.
  const OpId oldest = operations_.oldest(lane.number);
  if (oldest == 0) return;
  held_ -= std::erase_if(lane.held, [&](const ReadyStep& held) { return held.op == oldest && send_held(held); });
}

// True: it is sent, or not to be sent any more.
bool PlanRunner::send_held(const ReadyStep& held) {
  Operation* op = operations_.at(held.op_slot, held.op);
  return op == nullptr || op->state != OpState::kRunning || send(*op, held.step);
}

// The device has done with it: its buffer is not read any more.
void PlanRunner::take_sent(OpId id, std::uint32_t step, bool arrived) {
  Operation* op = operations_.find(id);
  if (op == nullptr) return;
  --op->reading;
  if (arrived && op->state == OpState::kRunning && !op->done[step]) finish(*op, step);
}

}  // namespace openmrc::collectives
