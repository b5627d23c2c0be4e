// Steps that are ready: computed here, or sent to other ranks.
#include <cstring>
#include <utility>

#include "collectives/executor_state.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {

void Executor::start_ready() {
  while (!ready_.empty()) {
    const Ready next = ready_.front();
    ready_.pop_front();
    Operation* op = operations_.at(next.op_slot, next.op);
    if (op != nullptr && op->state == OpState::kRunning) start(*op, next.step);
  }
}

void Executor::work() {
  start_ready();
  begin_due();
  for (const auto& [rank, status] : std::exchange(broken_, {})) {
    fail(*peers_[rank],
         status == WcStatus::kRetryExceeded ? "it did not answer on any path" : "the connection to it broke");
  }
  begin_due();
}

void Executor::begin_due() {
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

void Executor::start(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  if (step.kind == StepKind::kSend) {
    Lane& lane = peers_[step.peer]->lanes[op.lane];
    const bool first = lane.held.empty() || (!peers_[step.peer]->shares && op.id == operations_.oldest(op.lane));
    const bool sent = first && (step.bytes <= kEagerBytesMax ? send_small(op, index) : send_direct(op, index));
    if (!sent) lane.held.push_back({op.slot, op.id, index});
    return;
  }
  compute(op, step);
  finish(op, index);
}

void Executor::compute(Operation& op, const Step& step) {
  const PlanConfig& config = op.plan->config();
  std::uint8_t* into = op.buffers[step.into_buffer].base + step.into_offset;
  const std::uint8_t* from = op.buffers[step.from_buffer].base + step.from_offset;
  const std::size_t count = static_cast<std::size_t>(step.bytes / element_bytes(config.type));
  switch (step.kind) {
    case StepKind::kReduce:
      stats_.reduced_bytes += step.bytes;
      reduce(config.type, config.op, into, from, count, step.reversed);
      return;
    case StepKind::kCopy:
      stats_.copied_bytes += step.bytes;
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

// False: no slot is free.
bool Executor::send_small(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  Peer& peer = *peers_[step.peer];
  const MessageHead head{
      op.key, MessageHead::kData,    op.plan->pair_index(index), static_cast<std::uint32_t>(step.bytes),
      0,      op.plan->config().call};
  if (!put_message(peer, peer.lanes[op.lane], &op, head, op.buffers[step.from_buffer].base + step.from_offset))
    return false;
  finish(op, index);  // it lies in the outbox: the buffer is free
  return true;
}

// False: the peer has no receive left for it. Without an announcement it waits for that alone.
bool Executor::send_direct(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  Peer& peer = *peers_[step.peer];
  Lane& lane = peer.lanes[op.lane];
  Operation::Remote& remote = op.remote(step.peer, settings_.ranks);
  if (!remote.announced) {
    if (!offer(op, index)) return false;
    remote.held.push_back(index);
    return true;
  }
  if (peer.shares) return send_parts(op, index);
  if (!may_send(peer, lane)) return false;
  const RemoteBuffer& into = remote.buffers[step.into_buffer];
  SendWr wr;
  wr.wr_id = op.id << kStepBits | index;
  wr.opcode = WrOpcode::kWriteImm;
  wr.lkey = op.keys[step.from_buffer];
  wr.local_address = reinterpret_cast<std::uintptr_t>(op.buffers[step.from_buffer].base) + step.from_offset;
  wr.length_bytes = step.bytes;
  wr.remote_address = into.address + step.into_offset;
  wr.rkey = into.rkey;
  wr.immediate = remote.op_slot << kPairBits | op.plan->pair_index(index);
  ++lane.immediates_sent;
  ++op.reading;
  op.posted[index] = true;
  post(lane, wr);
  return true;
}

// Tells the peer that a send waits for its buffers, unless it has told them already: it may have to choose among senders.
// False: no slot is free.
bool Executor::offer(Operation& op, std::uint32_t index) {
  Peer& peer = *peers_[op.plan->step(index).peer];
  if (!op.plan->config().offered || op.plan->pair_index(index) > 0 || peer.early.contains(op.key)) return true;
  const MessageHead head{op.key, MessageHead::kOffer, 0, 0, 0, op.plan->config().call};
  return put_message(peer, peer.lanes[op.lane], &op, head, nullptr);
}

bool Executor::put_message(Peer& peer, Lane& lane, const Operation* op, const MessageHead& head, const void* data) {
  if (peer.shares) return put_shared(peer, lane, {head, 0}, data);
  if (!may_send(peer, lane) || !has_slot(peer, lane, op)) return false;
  const auto slot = static_cast<std::uint32_t>(lane.slots_sent % kSlots);
  std::uint8_t* at = outbox_.base() + outbox_.slot(peer.rank, lane.number, slot);
  std::memcpy(at, &head, kHeadBytes);
  if (head.bytes > 0) std::memcpy(at + kHeadBytes, data, head.bytes);
  SendWr wr;
  wr.opcode = WrOpcode::kWriteImm;
  wr.lkey = outbox_key_;
  wr.local_address = reinterpret_cast<std::uintptr_t>(at);
  wr.length_bytes = kHeadBytes + head.bytes;
  wr.remote_address = peer.mailbox_address + mailbox_.slot(settings_.rank, lane.number, slot);
  wr.rkey = peer.mailbox_rkey;
  wr.immediate = kSlotFlag | slot;
  ++lane.slots_sent;
  ++lane.immediates_sent;
  ++stats_.slot_messages;
  post(lane, wr);
  return true;
}

bool Executor::may_send(Peer& peer, const Lane& lane) {
  if (peer.failed || !peer.connected) return false;
  return lane.immediates_sent - mailbox_.read_credit(peer.rank, lane.number).immediates < settings_.recv_depth;
}

bool Executor::has_slot(Peer& peer, const Lane& lane, const Operation* op) {
  const std::uint64_t used = lane.slots_sent - mailbox_.read_credit(peer.rank, lane.number).slots;
  if (used + kReservedSlots < kSlots) return true;
  const OpId oldest = operations_.oldest(lane.number);
  return used < kSlots && (op == nullptr || oldest == 0 || op->id == oldest);
}

void Executor::post(Lane& lane, const SendWr& wr) {
  ++lane.posted;
  if (!lane.backlog.empty() || !offer(lane, wr)) lane.backlog.push_back(wr);
}

// False: the QP's queue is full. One that is broken takes nothing, and no completion will come.
bool Executor::offer(Lane& lane, const SendWr& wr) {
  const Status status = device_->post_send(lane.qp, wr);
  if (status == Status::kQueueFull) return false;
  if (status != Status::kOk) take_back(lane, wr.wr_id);
  return true;
}

// The device has done with it: its buffer is not read any more. Null: it belongs to no operation.
Operation* Executor::take_back(Lane& lane, std::uint64_t wr_id) {
  ++lane.completed;
  Operation* op = wr_id == 0 ? nullptr : operations_.find(wr_id >> kStepBits);
  if (op != nullptr) --op->reading;
  return op;
}

// Goes on with what could not be sent: credits and completions have come.
void Executor::resume(Peer& peer, Lane& lane) {
  while (!lane.backlog.empty() && offer(lane, lane.backlog.front())) lane.backlog.pop_front();
  while (!lane.held_messages.empty()) {
    const auto& [head, data] = lane.held_messages.front();
    if (!put_message(peer, lane, nullptr, head, data.data())) return;
    lane.held_messages.pop_front();
  }
  while (!lane.held.empty() && send_held(peer, lane, lane.held.front())) {
    lane.held.pop_front();
    lane.left_bytes = 0;
  }
  // The oldest operation may go before the others, which have used up their slots.
  const OpId oldest = operations_.oldest(lane.number);
  if (lane.held.empty() || peer.shares || oldest == 0) return;
  std::erase_if(lane.held, [&](const Ready& next) { return next.op == oldest && send_held(peer, lane, next); });
}

// True: it is sent, or not to be sent any more.
bool Executor::send_held(Peer& peer, Lane& lane, const Ready& next) {
  Operation* op = operations_.at(next.op_slot, next.op);
  if (op == nullptr || op->state != OpState::kRunning) return true;
  MRC_ASSERT(&peer.lanes[op->lane] == &lane);
  const bool small = op->plan->step(next.step).bytes <= kEagerBytesMax;
  return small ? send_small(*op, next.step) : send_direct(*op, next.step);
}

void Executor::finish(Operation& op, std::uint32_t index) {
  op.done[index] = true;
  for (const std::uint32_t next : op.plan->after(index)) {
    if (--op.waits[next] == 0) ready_.push_back({op.slot, op.id, next});
  }
  if (--op.left == 0) end(op, OpState::kDone, kNobody, "");
}

}  // namespace openmrc::collectives
