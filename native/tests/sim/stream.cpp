#include "tests/sim/stream.hpp"

#include <algorithm>

namespace openmrc::sim {

namespace {

std::uint32_t packets_of(std::uint64_t length, std::uint32_t mtu) {
  return length == 0 ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
}

unsigned long long ull(std::uint64_t value) { return value; }

}  // namespace

Stream::Stream(const QpPlan& plan, int sender, const StreamMemory& memory, std::uint32_t first_psn,
               std::uint32_t packet_budget, Rng rng, std::uint64_t wr_id_base)
    : plan_(plan),
      memory_(memory),
      rng_(rng),
      first_psn_(first_psn),
      budget_(packet_budget),
      mpr_psns_(plan.mpr_units[static_cast<std::size_t>(1 - sender)] * kMprUnitPsns),
      wimm_max_(plan.wimm_max[static_cast<std::size_t>(1 - sender)]),
      wr_id_base_(wr_id_base),
      recv_base_(wr_id_base + (1ULL << 40)) {}

std::uint64_t Stream::draw_length() {
  const std::uint64_t mtu = plan_.payload_mtu;
  const std::uint64_t most = std::min<std::uint64_t>(plan_.message_bytes_max, memory_.source->size() / 2);
  std::uint64_t length = 0;
  switch (rng_.below(10)) {
    case 0:
      length = rng_.below(2);
      break;
    case 1:
      length = rng_.below(mtu);
      break;
    case 2:
      length = mtu - 1 + rng_.below(3);
      break;
    case 3:
      length = mtu * (1 + rng_.below(4)) + rng_.below(3) - 1;
      break;
    case 4:
      length = most;
      break;
    default:
      length = rng_.below(most + 1);
      break;
  }
  const std::uint64_t room = std::min<std::uint64_t>(std::uint64_t{budget_} * mtu, memory_.target->size() / 2);
  return std::min(length, room);
}

bool Stream::draw(Message& message) {
  if (budget_ == 0) return false;
  const bool imm = rng_.chance(plan_.imm_permille, 1000);
  if (imm && wimms_posted_ - wimms_delivered_ >= recvs_posted()) return false;
  const std::uint64_t length = draw_length();
  message.source_offset = rng_.below(memory_.source->size() - length + 1);
  if (!memory_.target->take(length, rng_.below(9), source_of(message), message.target_offset)) return false;
  message.wr.wr_id = wr_id_base_ + messages_.size();
  message.wr.opcode = imm ? WrOpcode::kWriteImm : WrOpcode::kWrite;
  message.wr.lkey = memory_.lkey;
  message.wr.local_address = memory_.source_address + message.source_offset;
  message.wr.length_bytes = length;
  message.wr.remote_address = memory_.target_address + message.target_offset;
  message.wr.rkey = memory_.rkey;
  message.wr.immediate = static_cast<std::uint32_t>(rng_.next());
  message.wr.signaled = !rng_.chance(plan_.unsignaled_permille, 1000);
  message.first_seq = next_seq_;
  message.packets = packets_of(length, plan_.payload_mtu);
  return true;
}

void Stream::posted(const Message& message) {
  next_seq_ += message.packets;
  budget_ -= std::min(budget_, message.packets);
  bytes_posted_ += message.wr.length_bytes;
  if (message.wr.opcode == WrOpcode::kWriteImm) ++wimms_posted_;
  messages_.push_back(message);
}

const Message& Stream::message_of(std::uint64_t seq) const {
  const auto above =
      std::upper_bound(messages_.begin(), messages_.end(), seq,
                       [](std::uint64_t value, const Message& message) { return value < message.first_seq; });
  return *(above - 1);
}

void Stream::on_sent(TimePs now, const wire::Packet& packet, TrafficClass traffic_class, const TxPacket& tx) {
  const std::uint32_t offset = (packet.bth.psn - first_psn_ - static_cast<std::uint32_t>(acked_)) & (kPsnSpace - 1);
  const std::int64_t step =
      offset < kPsnSpace / 2 ? std::int64_t{offset} : std::int64_t{offset} - std::int64_t{kPsnSpace};
  SIM_REQUIRE(static_cast<std::int64_t>(acked_) + step >= 0, "PSN %u was never part of this stream", packet.bth.psn);
  const std::uint64_t seq = acked_ + static_cast<std::uint64_t>(step);
  SIM_REQUIRE(seq < next_seq_, "PSN %u sent, but only %llu packets are posted", packet.bth.psn, ull(next_seq_));
  const Message& message = message_of(seq);
  const auto index = static_cast<std::uint32_t>(seq - message.first_seq);
  const bool rc = plan_.transport == Transport::kRc;
  SIM_REQUIRE(wire::is_first(packet.bth.opcode) == (index == 0) &&
                  wire::is_last(packet.bth.opcode) == (index + 1 == message.packets),
              "opcode %02x of packet %u of %u", static_cast<unsigned>(packet.bth.opcode), index, message.packets);
  SIM_REQUIRE(wire::has_immediate(packet.bth.opcode) ==
                  (index + 1 == message.packets && message.wr.opcode == WrOpcode::kWriteImm),
              "immediate in the wrong packet");
  SIM_REQUIRE(!wire::has_immediate(packet.bth.opcode) || packet.immdt.immediate == message.wr.immediate,
              "wrong immediate");
  const std::uint64_t begin = std::uint64_t{index} * plan_.payload_mtu;
  const std::uint64_t length = std::min<std::uint64_t>(plan_.payload_mtu, message.wr.length_bytes - begin);
  SIM_REQUIRE(packet.payload_bytes == length, "payload of %u bytes, not %llu", packet.payload_bytes, ull(length));
  SIM_REQUIRE(length == 0 || std::memcmp(tx.payload, source_of(message) + begin, length) == 0,
              "payload is not the source's");
  if (!rc || index == 0) {
    SIM_REQUIRE(packet.reth.virtual_address == message.wr.remote_address + begin &&
                    packet.reth.rkey == message.wr.rkey && packet.reth.dma_length == message.wr.length_bytes,
                "RETH does not place the packet where it belongs");
  }
  if (!rc) {
    SIM_REQUIRE(packet.meth.msn == static_cast<std::uint16_t>(message.wr.wr_id - wr_id_base_), "MSN %u of message %llu",
                packet.meth.msn, ull(message.wr.wr_id - wr_id_base_));
    SIM_REQUIRE(packet.bth.rtx == (seq < sent_end_), "rtx bit %d of a packet that was%s sent before", packet.bth.rtx,
                seq < sent_end_ ? "" : " not");
    const bool may_trim = plan_.rtr.capabilities.trim_nack && plan_.rts.trimmable;
    SIM_REQUIRE(may_trim || traffic_class == TrafficClass::kNoTrim, "trimmable, though nobody would report the trim");
  }
  const std::uint64_t window = rc ? plan_.rts.rc_window_packets : mpr_psns_;
  SIM_REQUIRE(seq < acked_ + window, "PSN %llu sent with %llu acknowledged: beyond the window of %llu", ull(seq),
              ull(acked_), ull(window));
  if (seq >= sent_end_) {
    if (sent_end_ == acked_) last_progress_ = now;
    sent_end_ = seq + 1;
    ++sent_new_;
    for (; start_scan_ < messages_.size() && messages_[start_scan_].first_seq <= seq; ++start_scan_) {
      if (messages_[start_scan_].wr.opcode == WrOpcode::kWriteImm) ++wimms_started_;
    }
    SIM_REQUIRE(rc || wimms_started_ - wimms_acked_ <= wimm_max_, "%llu WRITE_IMM in flight, the peer allows %u",
                ull(wimms_started_ - wimms_acked_), wimm_max_);
  } else {
    ++sent_again_;
  }
}

void Stream::on_cumulative(TimePs now, std::uint32_t cack_psn) {
  const std::uint32_t advance = (cack_psn + 1 - first_psn_ - static_cast<std::uint32_t>(acked_)) & (kPsnSpace - 1);
  if (advance == 0 || advance >= kPsnSpace / 2) return;
  SIM_REQUIRE(acked_ + advance <= sent_end_, "the responder acknowledged %llu packets, %llu were sent",
              ull(acked_ + advance), ull(sent_end_));
  acked_ += advance;
  last_progress_ = now;
  for (; ack_scan_ < messages_.size() && messages_[ack_scan_].first_seq + messages_[ack_scan_].packets <= acked_;
       ++ack_scan_) {
    if (messages_[ack_scan_].wr.opcode == WrOpcode::kWriteImm) ++wimms_acked_;
  }
}

void Stream::require_landed(const Message& message, const char* when) const {
  SIM_REQUIRE(memory_.target->landed(message.target_offset, message.wr.length_bytes, source_of(message)),
              "%s: message %llu (%llu bytes) is not in memory", when, ull(message.wr.wr_id - wr_id_base_),
              ull(message.wr.length_bytes));
}

void Stream::complete_through(std::uint64_t index) {
  for (; completed_ <= index; ++completed_) require_landed(messages_[completed_], "send completion");
  retire_ready();
}

void Stream::retire_ready() {
  // After a flush, packets in flight may still arrive until both QPs are gone.
  if (flushed_ && !abandoned_) return;
  while (retired_ < completed_) {
    const Message& message = messages_[retired_];
    if (message.wr.opcode == WrOpcode::kWriteImm && !message.delivered && !recv_flushed_) return;
    if (!abandoned_) require_landed(message, "retiring");
    memory_.target->retire(message.target_offset, message.wr.length_bytes, source_of(message));
    ++retired_;
  }
}

void Stream::on_send_completion(const Completion& completion, bool broken) {
  SIM_REQUIRE(completion.opcode == WcOpcode::kWrite, "send completion with opcode %u",
              static_cast<unsigned>(completion.opcode));
  const std::uint64_t index = completion.wr_id - wr_id_base_;
  SIM_REQUIRE(index < messages_.size(), "completion of work request %llu, which was never posted",
              ull(completion.wr_id));
  SIM_REQUIRE(index >= completed_, "work request %llu completed twice or out of order", ull(index));
  for (std::uint64_t i = completed_; i < index; ++i) {
    SIM_REQUIRE(!messages_[i].wr.signaled, "work request %llu completed before %llu", ull(index), ull(i));
  }
  if (completion.status == WcStatus::kSuccess) {
    SIM_REQUIRE(!flushed_, "success after a flush");
    SIM_REQUIRE(messages_[index].wr.signaled, "completion of an unsignaled work request");
    SIM_REQUIRE(completion.bytes == messages_[index].wr.length_bytes, "completion of %llu bytes, %llu were posted",
                ull(completion.bytes), ull(messages_[index].wr.length_bytes));
    complete_through(index);
    return;
  }
  SIM_REQUIRE(broken, "status %u on a healthy QP", static_cast<unsigned>(completion.status));
  SIM_REQUIRE(!flushed_ || completion.status == WcStatus::kFlushed, "second error status %u after a flush",
              static_cast<unsigned>(completion.status));
  flushed_ = true;
  for (; completed_ <= index; ++completed_) {
    const Message& message = messages_[completed_];
    memory_.target->require_partial(message.target_offset, message.wr.length_bytes, source_of(message));
  }
}

void Stream::on_recv_completion(const Completion& completion, bool broken) {
  SIM_REQUIRE(completion.wr_id == recv_base_ + recvs_completed_, "receive %llu completed, %llu is next",
              ull(completion.wr_id), ull(recv_base_ + recvs_completed_));
  ++recvs_completed_;
  if (completion.status != WcStatus::kSuccess) {
    SIM_REQUIRE(broken, "receive status %u on a healthy QP", static_cast<unsigned>(completion.status));
    recv_flushed_ = true;
    return;
  }
  SIM_REQUIRE(!recv_flushed_, "receive success after a flush");
  SIM_REQUIRE(completion.opcode == WcOpcode::kRecvWriteImm, "receive with opcode %u",
              static_cast<unsigned>(completion.opcode));
  for (; delivered_ < messages_.size(); ++delivered_) {
    Message& message = messages_[delivered_];
    // Retired messages were checked when they completed.
    if (delivered_ >= retired_) require_landed(message, "earlier than a delivered WRITE_IMM");
    if (message.wr.opcode == WrOpcode::kWriteImm && !message.delivered) break;
  }
  SIM_REQUIRE(delivered_ < messages_.size(), "a WRITE_IMM was delivered that nobody posted");
  Message& message = messages_[delivered_];
  SIM_REQUIRE(completion.immediate == message.wr.immediate, "immediate %08x delivered, %08x is next",
              completion.immediate, message.wr.immediate);
  SIM_REQUIRE(completion.bytes == message.wr.length_bytes, "WRITE_IMM of %llu bytes delivered as %llu",
              ull(message.wr.length_bytes), ull(completion.bytes));
  message.delivered = true;
  ++delivered_;
  ++wimms_delivered_;
  retire_ready();
}

void Stream::on_outstanding(std::uint32_t count) {
  SIM_REQUIRE(count <= outstanding(), "the engine has %u sends outstanding, only %llu can be", count,
              ull(outstanding()));
  if (flushed_) return;
  const std::uint64_t done = messages_.size() - count;
  for (std::uint64_t i = completed_; i < done; ++i) {
    SIM_REQUIRE(!messages_[i].wr.signaled, "work request %llu is done and left no completion", ull(i));
  }
  if (done > completed_) complete_through(done - 1);
}

void Stream::on_broken() const {
  for (std::uint64_t i = completed_; i < messages_.size(); ++i) {
    SIM_REQUIRE(!messages_[i].wr.signaled, "work request %llu was not flushed", ull(i));
  }
}

void Stream::on_receiver_broken() const {
  SIM_REQUIRE(recvs_posted() == 0, "%llu receives were not flushed", ull(recvs_posted()));
}

void Stream::abandon() {
  budget_ = 0;
  for (; completed_ < messages_.size(); ++completed_) {
    const Message& message = messages_[completed_];
    memory_.target->require_partial(message.target_offset, message.wr.length_bytes, source_of(message));
  }
  recv_flushed_ = flushed_ = abandoned_ = true;
  retire_ready();
}

}  // namespace openmrc::sim
