#include "engine/qp/rc_requester.hpp"
#include "engine/generated/event_records.hpp"

#include <algorithm>

namespace openmrc {
namespace {

bool is_write(WrOpcode opcode) { return opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm; }
bool has_immediate(WrOpcode opcode) { return opcode == WrOpcode::kWriteImm || opcode == WrOpcode::kSendImm; }

// The opcodes of SEND and WRITE have the same order.
wire::Opcode rc_opcode(WrOpcode opcode, bool first, bool last) {
  std::uint8_t step = first ? 0 : 1;
  if (last) step = first ? 4 : 2;
  if (last && has_immediate(opcode)) ++step;
  const auto base = is_write(opcode) ? wire::Opcode::kRcWriteFirst : wire::Opcode::kRcSendFirst;
  return static_cast<wire::Opcode>(static_cast<std::uint8_t>(base) + step);
}

}  // namespace

void RcRequester::start(TimePs now, const QpToRts& attributes) {
  queue_.start(attributes.sq_psn);
  first_ = next_ = end_ = first_psn(attributes.sq_psn);
  retry_.start(attributes);
  window_packets_ = std::max(1U, attributes.rc_window_packets);
  rnr_retries_ = attributes.rc_rnr_retries;
  timer_base_ = now;
  // A single path cannot distinguish trimming from loss: switches forward these packets whole or drop them.
  data_class_ = TrafficClass::kNoTrim;
}

// While nothing is in flight and a busy port delays the next packet, the peer owes no answer.
TimePs RcRequester::next_timer() const {
  if (queue_.empty()) return kNever;
  if (receiver_not_ready_) return receiver_ready_;
  const bool waits_for_port = next_ == first_ && ready() && (context_.usable_ports() >> path_.port & 1) != 0;
  return timer_base_ + retry_.wait(rtt_.high()) + (waits_for_port ? kPortPatience : 0);
}

void RcRequester::rebase(TimePs by) {
  timed_sent_ = rebased(timed_sent_, by);
  timer_base_ = rebased(timer_base_, by);
  receiver_ready_ = rebased(receiver_ready_, by);
}

void RcRequester::handle_timer(TimePs now) {
  if (next_timer() > now) return;
  if (receiver_not_ready_) {
    receiver_not_ready_ = false;
    timer_base_ = now;
    return;
  }
  ++context_.stats.timeouts;
  if (!retry_.expired()) {
    context_.fail(QpErrorCause::kRetryExceeded);
    return;
  }
  context_.services.events.emit(retry_timeout_event(now, context_.qpn, retry_.consecutive()));
  go_back();
  timer_base_ = now;
}

void RcRequester::go_back() {
  next_ = first_;
  timed_ = 0;
}

bool RcRequester::ready() const {
  return !receiver_not_ready_ && next_ < queue_.end_psn() && next_ - first_ < window_packets_;
}

BuildResult RcRequester::build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (!ready() || (context_.usable_ports() >> path_.port & 1) == 0) return BuildResult::kNothing;
  if ((free_ports >> path_.port & 1) == 0) return BuildResult::kPortBusy;
  BurstBuilder builder = burst_to_peer(burst, context_, path_.port, path_.value, data_class_);
  if (next_ == first_) timer_base_ = now;
  std::uint32_t first_bytes = 0;
  while (burst.count < burst_max && ready()) {
    const Wqe& wqe = queue_.at(next_);
    const std::uint64_t offset = (next_ - wqe.first_psn) * context_.payload_mtu;
    const auto payload =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(context_.payload_mtu, wqe.wr.length_bytes - offset));
    // Only First and Only packets carry a RETH, so the maximum packet size differs.
    const bool with_reth = next_ == wqe.first_psn && is_write(wqe.wr.opcode);
    const bool with_imm = next_ + 1 == wqe.end_psn() && has_immediate(wqe.wr.opcode);
    const std::uint32_t bytes = payload + (with_reth ? 16U : 0U) + (with_imm ? 4U : 0U);
    if (burst.count > 0 && bytes > first_bytes) break;
    if (burst.count == 0) first_bytes = bytes;
    if (timed_ == 0 && next_ == end_) {
      timed_ = next_;
      timed_sent_ = now;
    }
    add(builder, wqe, payload);
    if (bytes < first_bytes) break;
  }
  return BuildResult::kBuilt;
}

void RcRequester::add(BurstBuilder& builder, const Wqe& wqe, std::uint32_t payload) {
  const std::uint64_t offset = (next_ - wqe.first_psn) * context_.payload_mtu;
  const bool last = next_ + 1 == wqe.end_psn();
  wire::DataHeaders packet;
  packet.bth = bth_to_peer(context_, rc_opcode(wqe.wr.opcode, next_ == wqe.first_psn, last), wire_psn(next_));
  packet.bth.solicited_event = last && wqe.wr.solicited;
  packet.bth.ack_request = last || (next_ - first_) % std::max(1U, window_packets_ / 4) == 0;
  packet.reth = {wqe.wr.remote_address, wqe.wr.rkey, static_cast<std::uint32_t>(wqe.wr.length_bytes)};
  packet.immdt = {wqe.wr.immediate};
  builder.add_data(packet, wqe.payload(offset), payload);
  context_.stats.sent_packets += 1;
  context_.stats.sent_bytes += payload;
  if (next_ < end_) ++context_.stats.retransmitted_packets;
  end_ = std::max(end_, ++next_);
}

void RcRequester::acknowledge_below(TimePs now, Psn end) {
  if (end <= first_) return;
  context_.peer->answered = true;
  if (timed_ != 0 && timed_ < end) {
    rtt_.add(now - timed_sent_);
    timed_ = 0;
  }
  first_ = end;
  next_ = std::max(next_, end);
  retry_.progress();
  rnr_naks_ = 0;
  receiver_not_ready_ = false;
  timer_base_ = now;
  while (!queue_.empty() && queue_.front().end_psn() <= first_) queue_.complete_front();
}

void RcRequester::handle_acknowledgement(TimePs now, const RxDatagram&, const wire::Packet& packet) {
  if (packet.bth.opcode != wire::Opcode::kRcAck) {
    ++context_.stats.stale_packets;
    return;
  }
  const bool ack = packet.aeth.syndrome == wire::AethSyndrome::kAck;
  const Psn psn = extend24(packet.bth.psn, first_);
  // An ACK carries the last PSN received, a NAK the expected or refused one.
  const Psn below = ack ? psn + 1 : psn;
  if (below > end_) {
    ++context_.stats.stale_packets;
    return;
  }
  ++context_.stats.acks_received;
  acknowledge_below(now, below);
  if (!ack && psn >= first_) handle_nak(now, psn, packet.aeth);
}

void RcRequester::handle_nak(TimePs now, Psn psn, const wire::Aeth& aeth) {
  if (aeth.syndrome == wire::AethSyndrome::kNakPsnSequence) {
    go_back();
    ++context_.stats.losses_inferred;
  } else if (aeth.syndrome == wire::AethSyndrome::kRnrNak) {
    // X.8.4. A NAK about a packet that was never sent, or one more about the same, has no effect.
    if (psn >= end_ || receiver_not_ready_) return;
    ++context_.stats.rnr_naks_received;
    if (rnr_retries_ != kRnrRetriesForEver && ++rnr_naks_ > rnr_retries_) {
      context_.fail(QpErrorCause::kRnrRetryExceeded);
      return;
    }
    go_back();
    receiver_not_ready_ = true;
    receiver_ready_ = now + rnr_time(aeth.rnr_timer);
  } else {
    context_.fail(cause_of_nak(aeth.syndrome));
  }
}

void RcRequester::fill(QpStats& stats) const {
  stats.in_flight_packets = next_ - first_;
  stats.smoothed_rtt = rtt_.smoothed();
  stats.last_rtt = rtt_.last();
}

}  // namespace openmrc
