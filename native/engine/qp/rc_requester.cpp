#include "engine/qp/rc_requester.hpp"
#include "engine/generated/event_records.hpp"

#include <algorithm>

namespace openmrc {
namespace {

wire::Opcode rc_opcode(bool first, bool last, bool immediate) {
  if (first && last) return immediate ? wire::Opcode::kRcWriteOnlyImm : wire::Opcode::kRcWriteOnly;
  if (last) return immediate ? wire::Opcode::kRcWriteLastImm : wire::Opcode::kRcWriteLast;
  return first ? wire::Opcode::kRcWriteFirst : wire::Opcode::kRcWriteMiddle;
}

}  // namespace

void RcRequester::start(TimePs now, const QpToRts& attributes) {
  queue_.start(attributes.sq_psn);
  first_ = next_ = end_ = first_psn(attributes.sq_psn);
  retry_.start(attributes);
  window_packets_ = std::max(1U, attributes.rc_window_packets);
  timer_base_ = now;
  // A single path cannot distinguish trimming from loss: switches forward these packets whole or drop them.
  data_class_ = TrafficClass::kNoTrim;
}

// While nothing is in flight and a busy port delays the next packet, the peer owes no answer.
TimePs RcRequester::next_timer() const {
  if (queue_.empty()) return kNever;
  const bool waits_for_port = next_ == first_ && ready() && (context_.usable_ports() >> path_.port & 1) != 0;
  return timer_base_ + retry_.wait(rtt_.high()) + (waits_for_port ? kPortPatience : 0);
}

void RcRequester::rebase(TimePs by) {
  timed_sent_ = rebased(timed_sent_, by);
  timer_base_ = rebased(timer_base_, by);
}

void RcRequester::handle_timer(TimePs now) {
  if (next_timer() > now) return;
  ++context_.stats.timeouts;
  if (!retry_.expired()) {
    context_.fail(QpErrorCause::kRetryExceeded);
    return;
  }
  context_.services.events.emit(retry_timeout_event(now, context_.qpn, retry_.consecutive()));
  next_ = first_;
  timed_ = 0;
  timer_base_ = now;
}

bool RcRequester::ready() const { return next_ < queue_.end_psn() && next_ - first_ < window_packets_; }

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
    const bool with_reth = next_ == wqe.first_psn;
    const bool with_imm = next_ + 1 == wqe.end_psn() && wqe.wr.opcode == WrOpcode::kWriteImm;
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
  packet.bth = bth_to_peer(context_, rc_opcode(next_ == wqe.first_psn, last, wqe.wr.opcode == WrOpcode::kWriteImm),
                           wire_psn(next_));
  packet.bth.ack_request = last || (next_ - first_) % std::max(1U, window_packets_ / 4) == 0;
  packet.reth = {wqe.wr.remote_address, wqe.wr.rkey, static_cast<std::uint32_t>(wqe.wr.length_bytes)};
  packet.immdt = {wqe.wr.immediate};
  builder.add_data(packet, wqe.local == nullptr ? nullptr : wqe.local + offset, payload);
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
  timer_base_ = now;
  while (!queue_.empty() && queue_.front().end_psn() <= first_) queue_.complete_front();
}

void RcRequester::handle_acknowledgement(TimePs now, const RxDatagram&, const wire::Packet& packet) {
  const wire::AethSyndrome syndrome = packet.aeth.syndrome;
  const bool ack = syndrome == wire::AethSyndrome::kAck;
  const Psn psn = extend24(packet.bth.psn, first_);
  // An ACK carries the last PSN received, a NAK the expected or refused one.
  const Psn below = ack ? psn + 1 : psn;
  if (below > end_) {
    ++context_.stats.stale_packets;
    return;
  }
  ++context_.stats.acks_received;
  acknowledge_below(now, below);
  if (ack || psn < first_) return;
  if (syndrome == wire::AethSyndrome::kNakPsnSequence) {
    next_ = first_;
    timed_ = 0;
    ++context_.stats.losses_inferred;
  } else {
    context_.fail(cause_of_nak(syndrome));
  }
}

void RcRequester::fill(QpStats& stats) const {
  stats.in_flight_packets = next_ - first_;
  stats.smoothed_rtt = rtt_.smoothed();
  stats.last_rtt = rtt_.last();
}

}  // namespace openmrc
