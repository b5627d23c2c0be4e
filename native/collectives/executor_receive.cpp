// What arrives from other ranks: messages in slots, data written directly, accounts. Nothing in it is trusted.
#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/executor_state.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

constexpr std::uint32_t kCreditCells = 16;  // an account under way is not overwritten by the next ones
// A peer that sends on without slots is not one of ours.
constexpr std::size_t kEarlySlackBytes = 8 * kSlots * kSlotBytes;
constexpr std::size_t kEarlyEntryBytes = 128;  // about what holding a message takes beside its data
constexpr const char* kAnother = "its call differs in operation, size or element type; make the same call at all ranks";

}  // namespace

// A peer that claims to have taken what was never sent would have us wait for ever, or write over what is under way.
void Executor::check_credit(Peer& peer, const Lane& lane) {
  const Credit credit = mailbox_.read_credit(peer.rank, lane.number);
  if (credit.slots > lane.slots_sent || credit.immediates > lane.immediates_sent) {
    protocol_error(peer, "its account says more than was sent to it");
  }
}

void Executor::handle_message(Peer& peer, Lane& lane, std::uint32_t slot) {
  if (slot >= kSlots) return protocol_error(peer, "it named a slot that does not exist");
  const std::uint8_t* at = mailbox_.base() + mailbox_.slot(peer.rank, lane.number, slot);
  MessageHead head;
  std::memcpy(&head, at, kHeadBytes);
  const std::size_t held = peer.early_count;
  take_message(peer, head, at + kHeadBytes);
  if (peer.early_count > held && peer.too_early()) {
    ++lane.withheld;
  } else {
    ++lane.slots_taken;
  }
}

void Executor::take_message(Peer& peer, const MessageHead& head, const std::uint8_t* data) {
  if (head.bytes > kEagerBytesMax || head.kind < MessageHead::kData || head.kind > MessageHead::kCall ||
      head.kind == MessageHead::kPart) {
    return protocol_error(peer, "it sent a message that cannot be read");
  }
  Operation* op = operations_.by_key(head.key);
  if (op != nullptr) {
    if (op->state == OpState::kRunning) take(*op, peer.rank, head, data);
    return;
  }
  // A call is compared with one that has begun: whichever of the two begins last asks again.
  if (operations_.dead(head.key) || head.kind == MessageHead::kCall) return;
  // A ring in shared memory has no accounts of slots: there the number of messages is the limit.
  const bool bytes_over = !peer.shares && peer.early_bytes > kEarlyBytesMax + kEarlySlackBytes;
  if (bytes_over || peer.early_count > kEarlyMax + 8 * kSlots) {
    return protocol_error(peer, "it sends more for later operations than it was given room for");
  }
  ++peer.early_count;
  peer.early_bytes += kEarlyEntryBytes + head.bytes;
  ++stats_.early_messages;
  stats_.early_bytes_max = std::max<std::uint64_t>(stats_.early_bytes_max, peer.early_bytes);
  peer.early[head.key].push_back({head, std::vector<std::uint8_t>(data, data + head.bytes)});
  match_all();
}

// False: the peer's call is another one, and both sides know from now on.
bool Executor::agrees(const Operation& op, Peer& peer, const MessageHead& head) {
  const Call& own = op.plan->config().call;
  if (std::memcmp(&head.call, &own, sizeof own) == 0) return true;
  const std::string differs = difference(head.call, own);
  if (differs.empty()) return true;
  // It may be waiting for what we shall not send. Without room for the message it finds out when this process ends.
  Lane& lane = peer.lanes[op.lane];
  put_message(peer, lane, nullptr, {op.key, MessageHead::kCall, 0, 0, 0, own}, nullptr);
  protocol_error(peer, differs);
  return false;
}

// Ranks whose calls differ may all wait for each other, so a rank that has waited long shows its call to those.
void Executor::compare_calls(Operation& op) {
  if (!op.begun || op.compared || op.plan->config().call.kind == 0) return;
  op.compared = true;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer->failed || !op.needs(peer->rank)) continue;
    const MessageHead head{op.key, MessageHead::kCall, 0, 0, 0, op.plan->config().call};
    if (!put_message(*peer, peer->lanes[op.lane], &op, head, nullptr)) op.compared = false;  // at the next wait
  }
}

void Executor::take(Operation& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) {
  if (!agrees(op, *peers_[rank], head)) return;
  switch (head.kind) {
    case MessageHead::kData:
      return take_data(op, rank, head, data);
    case MessageHead::kAnnounce:
      return take_announcement(op, rank, head, data);
    case MessageHead::kCall:
      return;
    default:  // an offer: our buffers are announced already, if they are as large as the sender believes
      if (op.plan->largest_receive(rank) <= kEagerBytesMax) protocol_error(*peers_[rank], kAnother);
  }
}

void Executor::take_data(Operation& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) {
  const auto receives = op.plan->receives(rank);
  Peer& peer = *peers_[rank];
  if (head.pair_index >= receives.size()) return protocol_error(peer, "it sent more than the operation has");
  const std::uint32_t index = receives[head.pair_index];
  const Step& step = op.plan->step(index);
  if (step.bytes != head.bytes || op.done[index]) {
    return protocol_error(peer, kAnother);
  }
  const bool reduces = reduces_now(op, index);
  if (reduces) {
    reduce_from(op, index, 0, data, step.bytes);
  } else if (step.bytes > 0) {
    std::memcpy(op.buffers[step.into_buffer].base + step.into_offset, data, step.bytes);
  }
  finish_receive(op, index, reduces);
}

// Whether a message can be combined from where it arrives: nothing else reads it, and all else that its reduction waits for
// is there.
bool Executor::reduces_now(const Operation& op, std::uint32_t receive) const {
  const std::uint32_t reduction = op.plan->reduction_of(receive);
  return reduction != kNoStep && op.waits[reduction] == 1;
}

// `offset`: in the message.
void Executor::reduce_from(Operation& op, std::uint32_t receive, std::uint64_t offset, const std::uint8_t* data,
                           std::uint64_t bytes) {
  const Plan& plan = *op.plan;
  const Step& step = plan.step(plan.reduction_of(receive));
  const ElementType type = plan.config().type;
  stats_.reduced_bytes += bytes;
  reduce(type, plan.config().op, op.buffers[step.into_buffer].base + step.into_offset + offset, data,
         static_cast<std::size_t>(bytes / element_bytes(type)), step.reversed);
}

void Executor::finish_receive(Operation& op, std::uint32_t receive, bool reduced) {
  if (!reduced) return finish(op, receive);
  const std::uint32_t reduction = op.plan->reduction_of(receive);
  op.done[receive] = true;
  --op.left;
  op.waits[reduction] = 0;
  finish(op, reduction);
}

void Executor::take_announcement(Operation& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) {
  Operation::Remote& remote = op.remote(rank, settings_.ranks);
  Peer& peer = *peers_[rank];
  if (head.bytes != sizeof remote.buffers || head.op_slot >= kOpSlotsMax || remote.announced) {
    return protocol_error(peer, "it announced buffers that cannot be");
  }
  std::memcpy(remote.buffers.data(), data, sizeof remote.buffers);
  remote.op_slot = head.op_slot;
  remote.announced = true;
  for (const std::uint32_t step : remote.held) ready_.push_back({op.slot, op.id, step});
  remote.held.clear();
}

void Executor::handle_direct(Peer& peer, std::uint32_t immediate) {
  const std::uint32_t slot = immediate >> kPairBits, pair = immediate & kPairMask;
  ++stats_.direct_messages;
  Operation* op = operations_.at(slot);
  if (op != nullptr && op->state == OpState::kFailed) return;
  const auto receives = op == nullptr ? std::span<const std::uint32_t>{} : op->plan->receives(peer.rank);
  if (pair >= receives.size() || op->done[receives[pair]]) {
    return protocol_error(peer, "it wrote what nobody waits for");
  }
  finish(*op, receives[pair]);
}

void Executor::protocol_error(Peer& peer, const std::string& what) {
  ++stats_.protocol_errors;
  peer.early.clear();
  peer.early_count = peer.early_bytes = 0;
  peer.faulty = peer.faulty || !peer.failed;
  fail(peer, what);
}

// The next of the messages that came early; its room is the peer's again.
void Executor::forget_early(Peer& peer, const MessageHead& head) {
  --peer.early_count;
  peer.early_bytes -= kEarlyEntryBytes + head.bytes;
  if (peer.too_early()) return;
  for (Lane& lane : peer.lanes) {
    if (lane.withheld == 0) continue;
    lane.slots_taken += std::exchange(lane.withheld, 0);
    give_back(peer, lane);
  }
}

// Tells the peer what we have taken, before it runs out.
void Executor::give_back(Peer& peer, Lane& lane) {
  // With slots withheld the peer has few, and waits for each.
  const std::uint64_t slots_due = lane.withheld > 0 ? 1 : kSlots / 4;
  const bool due = lane.slots_taken - lane.told.slots >= slots_due ||
                   lane.immediates_taken - lane.told.immediates >= settings_.recv_depth / 4;
  if (!due || peer.failed) return;
  lane.told = {lane.slots_taken, lane.immediates_taken};
  // Receives first: the peer may use what it is told at once.
  post_receives(0);
  static_assert(kCreditCells * sizeof(Credit) <= kCreditBytes);
  const std::size_t cell = outbox_.credit(peer.rank, lane.number) + lane.credit_cell++ % kCreditCells * sizeof(Credit);
  std::memcpy(outbox_.base() + cell, &lane.told, sizeof lane.told);
  SendWr wr;
  wr.opcode = WrOpcode::kWriteImm;
  wr.immediate = kSlotFlag | kCreditFlag;
  wr.lkey = outbox_key_;
  wr.local_address = reinterpret_cast<std::uintptr_t>(outbox_.base()) + cell;
  wr.length_bytes = sizeof(Credit);
  wr.remote_address = peer.mailbox_address + outbox_.credit(settings_.rank, lane.number);
  wr.rkey = peer.mailbox_rkey;
  post(lane, wr);
}

// Of those lanes that lack more than `owed`.
void Executor::post_receives(std::uint32_t owed) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    for (Lane& lane : peer->lanes) {
      if (lane.receives_owed <= owed) continue;
      std::uint32_t posted = 0;
      device_->post_recvs(lane.qp, 0, lane.receives_owed, posted);
      lane.receives_owed -= posted;
    }
  }
}

}  // namespace openmrc::collectives
