#include "engine/qp/rc_responder.hpp"

#include "engine/qp/packet_builder.hpp"

namespace openmrc {

void RcResponder::start(TimePs, const QpToRtr& attributes) { expected_ = first_psn(attributes.rq_psn); }

void RcResponder::handle_data(TimePs, const RxDatagram& datagram, const wire::Packet& packet) {
  if (refusing()) {
    answer_due_ = true;  // the NAK may have been lost
    return;
  }
  if (is_trimmed(datagram.traffic_class)) {
    ++context_.stats.trimmed_packets;
    return;
  }
  ++context_.stats.received_packets;
  context_.stats.received_bytes += packet.payload_bytes;
  const Psn psn = extend24(packet.bth.psn, expected_);
  if (psn < expected_) {
    ++context_.stats.duplicate_packets;
    if (packet.bth.ack_request) answer_due_ = true;
    return;
  }
  if (psn > expected_) {
    ++context_.stats.out_of_window_packets;
    if (!sequence_nak_sent_) {
      sequence_nak_sent_ = true;
      syndrome_ = wire::AethSyndrome::kNakPsnSequence;
      answer_due_ = true;
    }
    return;
  }
  if (!accept(datagram, packet)) return;
  sequence_nak_sent_ = false;
  syndrome_ = wire::AethSyndrome::kAck;
  ++expected_;
  if (packet.bth.ack_request) answer_due_ = true;
}

bool RcResponder::well_formed(const wire::Packet& packet) const {
  const bool last = wire::is_last(packet.bth.opcode);
  if (wire::is_first(packet.bth.opcode) == in_message_) return false;
  const std::uint64_t remaining = in_message_ ? remaining_ : packet.reth.dma_length;
  return last ? packet.payload_bytes == remaining && packet.payload_bytes <= context_.payload_mtu
              : packet.payload_bytes == context_.payload_mtu && packet.payload_bytes < remaining;
}

bool RcResponder::accept(const RxDatagram& datagram, const wire::Packet& packet) {
  if (!well_formed(packet)) {
    nak(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kProtocol);
    return false;
  }
  if (wire::is_first(packet.bth.opcode)) {
    message_ = packet.reth;
    remaining_ = packet.reth.dma_length;
  }
  const bool carried = datagram.bytes.size() > packet.header_bytes;
  const std::uint8_t* payload = carried ? datagram.bytes.data() + packet.header_bytes : nullptr;
  if (!placement_.place(message_, payload, packet.payload_bytes)) {
    ++context_.stats.refused_packets;
    nak(wire::AethSyndrome::kNakRemoteAccess, QpErrorCause::kAccessViolation);
    return false;
  }
  context_.stats.placed_bytes += packet.payload_bytes;
  message_.virtual_address += packet.payload_bytes;
  remaining_ -= packet.payload_bytes;
  in_message_ = !wire::is_last(packet.bth.opcode);
  if (in_message_) return true;
  if (wire::has_immediate(packet.bth.opcode) && !deliver_immediate(packet.immdt.immediate)) return false;
  ++completed_;
  ++context_.stats.received_messages;
  return true;
}

bool RcResponder::deliver_immediate(std::uint32_t immediate) {
  if (context_.receives.empty()) {
    nak(wire::AethSyndrome::kNakRemoteOperational, QpErrorCause::kNoReceivePosted);
    return false;
  }
  const Completion completion{context_.receives.front(), message_.dma_length,    context_.qpn, immediate,
                              WcStatus::kSuccess,        WcOpcode::kRecvWriteImm};
  context_.receives.pop_front();
  if (context_.recv_cq->push(completion)) return true;
  nak(wire::AethSyndrome::kNakRemoteOperational, QpErrorCause::kCqOverrun);
  return false;
}

void RcResponder::nak(wire::AethSyndrome syndrome, QpErrorCause cause) {
  syndrome_ = syndrome;
  answer_due_ = true;
  context_.fail(cause);
}

BuildResult RcResponder::build(TimePs, PortMask free_ports, std::uint32_t, TxBurst& burst) {
  if (!answer_due_ || (context_.usable_ports() >> path_.port & 1) == 0) return BuildResult::kNothing;
  if ((free_ports >> path_.port & 1) == 0) return BuildResult::kPortBusy;
  BurstBuilder builder = burst_to_peer(burst, context_, path_.port, path_.value, TrafficClass::kControl);
  const bool ack = syndrome_ == wire::AethSyndrome::kAck;
  wire::Packet packet;
  packet.bth = bth_to_peer(context_, wire::Opcode::kRcAck, wire_psn(ack ? expected_ - 1 : expected_));
  packet.aeth = {syndrome_, completed_ & 0xFFFFFFU};
  builder.add(packet, nullptr, 0);
  answer_due_ = false;
  ++context_.stats.acks_sent;
  return BuildResult::kBuilt;
}

}  // namespace openmrc
