// Processing of messages from other ranks. No input is trusted.
#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/plan_runner.hpp"
#include "collectives/reducing_placer.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

constexpr const char* kNobodyWaits = "it wrote what nobody waits for";

}  // namespace

void PlanRunner::take_breach(std::uint16_t rank, const char* breach) { protocol_error(*ranks_[rank], breach); }

void PlanRunner::take_loss(std::uint16_t rank, const char* reason) { lost_.emplace_back(rank, reason); }

bool PlanRunner::take_message(std::uint16_t number, const MessageHead& head, const std::uint8_t* data) {
  RemoteRank& rank = *ranks_[number];
  if (head.bytes > kEagerBytesMax || head.kind < MessageHead::kData || head.kind > MessageHead::kCall ||
      head.kind == MessageHead::kPart) {
    protocol_error(rank, "it sent a message that cannot be read");
    return false;
  }
  Operation* op = operations_.by_key(head.key);
  if (op != nullptr) {
    if (op->state == OpState::kRunning) take(*op, rank, head, data);
    return false;
  }
  // A call is compared with one that has begun: whichever of the two begins last asks again.
  if (operations_.dead(head.key) || head.kind == MessageHead::kCall) return false;
  if (rank.early.overrun(rank.transport->traits().accounts)) {
    protocol_error(rank, "it sends more for later operations than it was given room for");
    return false;
  }
  const std::size_t held = rank.early.count();
  rank.early.hold(head, data);
  ++early_messages_;
  early_bytes_max_ = std::max<std::uint64_t>(early_bytes_max_, rank.early.bytes());
  match_all();
  return rank.early.count() > held && rank.early.crowded();
}

// False: the peer's call is another one, and both sides know from now on.
bool PlanRunner::agrees(const Operation& op, RemoteRank& rank, const MessageHead& head) {
  const Call& own = op.plan->config().call;
  if (std::memcmp(&head.call, &own, sizeof own) == 0) return true;
  const std::string differs = difference(head.call, own);
  if (differs.empty()) return true;
  // It may be waiting for what we shall not send. Without room for the message it finds out when this process ends.
  put(rank, op.lane, nullptr, {.key = op.key, .kind = MessageHead::kCall, .call = own}, nullptr);
  protocol_error(rank, differs);
  return false;
}

// Sends the call once to each rank that the operation waits for. A rank without room for it gets it at a later look, and
// does not keep it from the others.
void PlanRunner::compare_calls(Operation& op) {
  if (!op.begun || op.plan->config().call.kind == 0) return;
  if (!op.compared) {
    op.compared = true;
    for (const std::unique_ptr<RemoteRank>& rank : ranks_) op.untold.push_back(rank->number);
  }
  const MessageHead head{.key = op.key, .kind = MessageHead::kCall, .call = op.plan->config().call};
  std::erase_if(op.untold, [&](std::uint16_t number) {
    RemoteRank& rank = *ranks_[number];
    return rank.failed || !op.needs(number) || put(rank, op.lane, &op, head, nullptr);
  });
}

void PlanRunner::take(Operation& op, RemoteRank& rank, const MessageHead& head, const std::uint8_t* data) {
  if (!agrees(op, rank, head)) return;
  switch (head.kind) {
    case MessageHead::kData:
      return take_data(op, rank, head, data);
    case MessageHead::kAnnounce:
      return take_announcement(op, rank, head, data);
    case MessageHead::kCall:
      return;
    default: {  // an offer: our buffers are announced already, if they are as large as the sender believes
      if (op.plan->largest_receive(rank.number) > kEagerBytesMax) return;
      const std::string theirs = "over " + byte_count(kEagerBytesMax);
      protocol_error(rank, message_difference(head.call, theirs, op.plan->largest_receive(rank.number)));
    }
  }
}

void PlanRunner::take_data(Operation& op, RemoteRank& rank, const MessageHead& head, const std::uint8_t* data) {
  const auto receives = op.plan->receives(rank.number);
  if (head.pair_index >= receives.size()) return protocol_error(rank, "it sent more than the operation has");
  const std::uint32_t index = receives[head.pair_index];
  if (op.done[index]) return protocol_error(rank, kNobodyWaits);
  if (const std::uint64_t own = op.plan->step(index).bytes; own != head.bytes) {
    return protocol_error(rank, message_difference(head.call, byte_count(head.bytes), own));
  }
  finish_receive(op, index, steps_.place(op, index, data));
}

void PlanRunner::finish_receive(Operation& op, std::uint32_t receive, bool reduced) {
  if (steps_.finish_receive(op, receive, reduced)) end(op, OpState::kDone, kNobody, "");
}

void PlanRunner::take_announcement(Operation& op, RemoteRank& rank, const MessageHead& head, const std::uint8_t* data) {
  Operation::Remote& remote = op.remote(rank.number, rank_count_);
  if (head.bytes != sizeof remote.buffers || head.op_slot >= kOpSlotsMax || remote.announced) {
    return protocol_error(rank, "it announced buffers that cannot be");
  }
  std::memcpy(remote.buffers.data(), data, sizeof remote.buffers);
  remote.op_slot = head.op_slot;
  remote.announced = true;
  for (const std::uint32_t step : remote.held) steps_.push(op, step);
  remote.held.clear();
}

void PlanRunner::take_part(std::uint16_t number, std::uint8_t lane, const MessageHead& part, std::uint64_t left,
                           const std::uint8_t* data) {
  RemoteRank& rank = *ranks_[number];
  Operation* op = operations_.by_key(part.key);
  if (op == nullptr ? operations_.dead(part.key) : op->state != OpState::kRunning) return;
  if (op != nullptr && !agrees(*op, rank, part)) return;
  const auto receives = op == nullptr ? std::span<const std::uint32_t>{} : op->plan->receives(number);
  if (part.pair_index >= receives.size() || op->done[receives[part.pair_index]]) {
    return protocol_error(rank, kNobodyWaits);
  }
  const std::uint32_t index = receives[part.pair_index];
  const Step& step = op->plan->step(index);
  RemoteRank::Lane::Arriving& arriving = rank.lanes[lane].arriving;
  // A message that its sender gave up is followed by another one.
  if (arriving.key != part.key || arriving.pair_index != part.pair_index) {
    arriving = {.key = part.key, .pair_index = part.pair_index, .reducing = Steps::reduces_now(*op, index)};
  }
  const bool fits = left <= step.bytes && part.bytes <= step.bytes - left;
  if (!fits || step.bytes - left - part.bytes != arriving.bytes) {
    const std::string theirs = byte_count(left + part.bytes + arriving.bytes);
    return protocol_error(rank, message_difference(part.call, theirs, step.bytes));
  }
  if (!arriving.reducing) {
    std::memcpy(op->buffers[step.into_buffer].base + step.into_offset + arriving.bytes, data, part.bytes);
  } else if (part.bytes % element_bytes(op->plan->config().type) == 0) {
    steps_.reduce_part(*op, index, arriving.bytes, data, part.bytes);
  } else {
    return protocol_error(rank, "it cut an element in two");
  }
  arriving.bytes += part.bytes;
  if (left > 0) return;
  const bool reduced = std::exchange(arriving, {}).reducing;
  finish_receive(*op, index, reduced);
}

void PlanRunner::take_written(std::uint16_t number, std::uint32_t op_slot, std::uint32_t pair_index,
                              std::uint64_t bytes) {
  RemoteRank& rank = *ranks_[number];
  Operation* op = operations_.at(op_slot);
  if (op != nullptr && op->state == OpState::kFailed) return;
  const auto receives = op == nullptr ? std::span<const std::uint32_t>{} : op->plan->receives(number);
  if (pair_index >= receives.size() || op->done[receives[pair_index]]) return protocol_error(rank, kNobodyWaits);
  if (const std::uint64_t own = op->plan->step(receives[pair_index]).bytes; own != bytes) {
    return protocol_error(rank, message_difference(op->plan->config().call, byte_count(bytes), own));
  }
  const std::uint32_t index = receives[pair_index];
  const bool reduced = op->placer != nullptr && op->placer->reduces(index);
  if (reduced) steps_.count_reduced(bytes);
  finish_receive(*op, index, reduced);
}

}  // namespace openmrc::collectives
