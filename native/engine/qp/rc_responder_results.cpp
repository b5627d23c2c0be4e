// READs and atomics at their responder (X.8.6 to X.8.8).
#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/qp/rc_responder.hpp"

namespace openmrc {
namespace {

// Payloads of this size are copied, so that a value that the application changes meanwhile arrives whole.
constexpr std::uint32_t kCopiedBytesMax = kHeaderBytesMax - wire::kBthBytes - wire::kAethBytes;

wire::Opcode response_opcode(bool first, bool last) {
  if (first) return last ? wire::Opcode::kRcReadResponseOnly : wire::Opcode::kRcReadResponseFirst;
  return last ? wire::Opcode::kRcReadResponseLast : wire::Opcode::kRcReadResponseMiddle;
}

}  // namespace

Psn RcResponder::packets_of(std::uint64_t bytes) const {
  return std::max<std::uint64_t>(1, (bytes + context_.payload_mtu - 1) / context_.payload_mtu);
}

bool RcResponder::allows(std::uint32_t rkey, std::uint64_t address, std::uint64_t bytes, std::uint8_t access) const {
  if (bytes == 0) return true;
  const Region* region = context_.services.memory.find(rkey);
  return region != nullptr && region->domain == context_.init.domain && (region->access & access) != 0 &&
         region->contains(address, bytes);
}

// --- requests

bool RcResponder::accept_result(const wire::Packet& packet) {
  const auto fresh = std::count_if(answers_.begin(), answers_.end(), [](const Answer& one) { return !one.repeated; });
  if (in_message_ || fresh >= reads_max_) {  // X.8.5, X.8.6
    ++context_.stats.refused_packets;
    refuse(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kProtocol);
    return false;
  }
  const bool accepted =
      packet.bth.opcode == wire::Opcode::kRcReadRequest ? accept_read(packet.reth) : accept_atomic(packet);
  if (!accepted) {
    ++context_.stats.refused_packets;
    return false;
  }
  ++completed_;
  ++context_.stats.received_messages;
  return true;
}

bool RcResponder::accept_read(const wire::Reth& reth) {
  if (reth.dma_length > kMessageBytesMax) {
    refuse(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kProtocol);
    return false;
  }
  if (!allows(reth.rkey, reth.virtual_address, reth.dma_length, kRemoteRead)) {
    refuse(wire::AethSyndrome::kNakRemoteAccess, QpErrorCause::kAccessViolation);
    return false;
  }
  const Psn end = expected_ + packets_of(reth.dma_length);
  answers_.push_back(
      {.next = expected_, .end = end, .address = reth.virtual_address, .bytes = reth.dma_length, .rkey = reth.rkey});
  expected_ = end;
  return true;
}

// X.8.8
bool RcResponder::accept_atomic(const wire::Packet& packet) {
  if (packet.atomic.virtual_address % kAtomicBytes != 0) {
    refuse(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kProtocol);
    return false;
  }
  if (!allows(packet.atomic.rkey, packet.atomic.virtual_address, kAtomicBytes, kRemoteAtomic)) {
    refuse(wire::AethSyndrome::kNakRemoteAccess, QpErrorCause::kAccessViolation);
    return false;
  }
  const std::uint64_t original = execute(packet);
  if (executed_.size() >= reads_max_) executed_.pop_front();
  executed_.push_back({expected_, original});
  answers_.push_back({.next = expected_, .end = expected_ + 1, .atomic = true, .original = original});
  ++expected_;
  return true;
}

// One operation for threads of this process, too, if the memory is aligned as its address says.
std::uint64_t RcResponder::execute(const wire::Packet& packet) const {
  const wire::AtomicEth& atomic = packet.atomic;
  std::uint8_t* at = context_.services.memory.find(atomic.rkey)->at(atomic.virtual_address);
  const bool add = packet.bth.opcode == wire::Opcode::kRcFetchAdd;
  if (at == nullptr) return 0;
  std::uint64_t original = atomic.compare;
  if (reinterpret_cast<std::uintptr_t>(at) % kAtomicBytes == 0) {
    const std::atomic_ref<std::uint64_t> value(*reinterpret_cast<std::uint64_t*>(at));
    if (add) return value.fetch_add(atomic.swap_add);
    value.compare_exchange_strong(original, atomic.swap_add);
    return original;
  }
  std::memcpy(&original, at, kAtomicBytes);
  const std::uint64_t changed = add ? original + atomic.swap_add : atomic.swap_add;
  if (add || original == atomic.compare) std::memcpy(at, &changed, kAtomicBytes);
  return original;
}

// --- duplicates (X.8.7)

void RcResponder::handle_duplicate(Psn psn, const wire::Packet& packet) {
  if (packet.bth.opcode == wire::Opcode::kRcReadRequest) {
    repeat_read(psn, packet.reth);
  } else if (wire::is_rc_atomic(packet.bth.opcode)) {
    repeat_atomic(psn);
  } else if (packet.bth.ack_request) {
    ack_due_ = true;
  }
}

// A duplicate may begin inside the READ that it repeats. It replaces the rest of that READ's answer, if that was still to
// come. One without access is ignored: it may be late, for a region that was deregistered after the answer.
void RcResponder::repeat_read(Psn psn, const wire::Reth& reth) {
  const Psn end = psn + packets_of(reth.dma_length);
  if (end > expected_) return;
  const auto coming = [&](const Answer& one) { return one.next <= psn && psn < one.end && one.end >= end; };
  if (std::any_of(answers_.begin(), answers_.end(), coming)) return;
  if (!allows(reth.rkey, reth.virtual_address, reth.dma_length, kRemoteRead)) return;
  std::erase_if(answers_, [&](const Answer& one) { return one.repeated && one.end > psn; });
  const bool rest = std::erase_if(answers_, [&](const Answer& one) { return one.next > psn && one.end <= end; }) > 0;
  if (answers_.size() >= 2U * reads_max_) return;
  const auto behind = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& one) { return one.next > psn; });
  answers_.insert(behind, {.next = psn,
                           .end = end,
                           .address = reth.virtual_address,
                           .bytes = reth.dma_length,
                           .rkey = reth.rkey,
                           .repeated = !rest});
}

// Never executed again. A result that is no longer known belongs to a request whose answer has arrived, and then the peer
// ignores the NAK, or to a peer with more atomics in flight than agreed.
void RcResponder::repeat_atomic(Psn psn) {
  const auto coming = [&](const Answer& one) { return one.next == psn; };
  if (std::any_of(answers_.begin(), answers_.end(), coming) || answers_.size() >= 2U * reads_max_) return;
  for (std::size_t i = 0; i < executed_.size(); ++i) {
    if (executed_[i].psn != psn) continue;
    const auto behind =
        std::find_if(answers_.begin(), answers_.end(), [&](const Answer& one) { return one.next > psn; });
    answers_.insert(behind,
                    {.next = psn, .end = psn + 1, .atomic = true, .repeated = true, .original = executed_[i].original});
    return;
  }
  forgotten_ = psn;
}

// --- answers

BuildResult RcResponder::build_answers(PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (context_.state == QpState::kError && !refusing_) answers_.clear();
  if (answers_.empty()) return build(0, free_ports, burst_max, burst);
  if (!paths_.usable(context_.usable_ports())) return BuildResult::kNothing;
  if (!paths_.usable(free_ports)) return BuildResult::kPortBusy;
  BurstBuilder builder =
      burst_to_peer(burst, context_, paths_.current().port, paths_.current().value, TrafficClass::kNoTrim);
  std::uint32_t first_bytes = 0;
  while (burst.count < burst_max && !answers_.empty()) {
    Answer& answer = answers_.front();
    if (!answer.atomic && !allows(answer.rkey, answer.address, answer.bytes, kRemoteRead)) {
      if (answer.repeated) {
        answers_.erase(answers_.begin());
        continue;
      }
      answers_.clear();
      refuse(wire::AethSyndrome::kNakRemoteAccess, QpErrorCause::kAccessViolation);
      acknowledgement_waits_ = true;
      break;
    }
    const auto payload = static_cast<std::uint32_t>(std::min<std::uint64_t>(context_.payload_mtu, answer.bytes));
    const bool middle = answer.begun && answer.next + 1 < answer.end;
    const std::uint32_t bytes = payload + (answer.atomic ? 12U : middle ? 0U : 4U);
    if (burst.count > 0 && bytes > first_bytes) break;
    if (burst.count == 0) first_bytes = bytes;
    add_answer(builder, answer, payload);
    if (answer.next == answer.end) answers_.erase(answers_.begin());
    if (bytes < first_bytes) break;
  }
  return burst.count > 0 ? BuildResult::kBuilt : build(0, free_ports, burst_max, burst);
}

void RcResponder::add_answer(BurstBuilder& builder, Answer& answer, std::uint32_t payload) {
  wire::Packet packet;
  const bool last = answer.next + 1 == answer.end;
  const wire::Opcode opcode = answer.atomic ? wire::Opcode::kRcAtomicAck : response_opcode(!answer.begun, last);
  packet.bth = bth_to_peer(context_, opcode, wire_psn(answer.next));
  packet.aeth = {wire::AethSyndrome::kAck, completed_ & 0xFFFFFFU};
  packet.atomic_ack = {answer.original};
  Region* region = payload == 0 ? nullptr : context_.services.memory.find(answer.rkey);
  const std::uint8_t* bytes = region == nullptr ? nullptr : region->at(answer.address);
  if (bytes != nullptr && payload <= kCopiedBytesMax) {
    builder.add_copied(packet, bytes, payload);
  } else {
    builder.add(packet, bytes, payload);
  }
  answer.address += payload;
  answer.bytes -= payload;
  answer.begun = true;
  ++answer.next;
  ++context_.stats.acks_sent;
}

}  // namespace openmrc
