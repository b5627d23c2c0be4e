#include "engine/qp/rc_responder.hpp"

#include "engine/qp/packet_builder.hpp"

namespace openmrc {

void RcResponder::start(TimePs, const QpToRtr& attributes) {
  expected_ = first_psn(attributes.rq_psn);
  context_.rc_rnr_timer = attributes.rc_rnr_timer;
  reads_max_ = attributes.rc_reads_max_dest;
}

void RcResponder::handle_data(TimePs, const RxDatagram& datagram, const wire::Packet& packet) {
  paths_.follow(datagram.port);  // X.8.11
  if (is_trimmed(datagram.traffic_class)) {
    ++context_.stats.trimmed_packets;
    return;
  }
  const Psn psn = extend24(packet.bth.psn, expected_);
  if (refusing_) {
    // The NAK may have been lost, or an answer before it, without which the peer cannot tell what was refused.
    nak_due_ = true;
    if (psn < expected_) handle_duplicate(psn, packet);
    return;
  }
  ++context_.stats.received_packets;
  context_.stats.received_bytes += packet.payload_bytes;
  if (psn < expected_) {
    ++context_.stats.duplicate_packets;
    handle_duplicate(psn, packet);
    return;
  }
  if (psn > expected_) {
    ++context_.stats.out_of_window_packets;
    if (!hole_reported_) nak(wire::AethSyndrome::kNakPsnSequence);
    return;
  }
  if (!permits(packet.bth.opcode)) {  // X.8.5
    ++context_.stats.refused_packets;
    refuse(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kAccessViolation);
    return;
  }
  if (wire::is_rc_data(packet.bth.opcode)) {
    if (!accept(datagram, packet)) return;
    ++expected_;
    if (packet.bth.ack_request) ack_due_ = true;
  } else if (!accept_result(packet)) {
    return;
  }
  hole_reported_ = nak_due_ = false;
}

// Access that the QP grants, in addition to that of regions.
bool RcResponder::permits(wire::Opcode opcode) const {
  if (wire::is_rc_send(opcode)) return true;
  const std::uint8_t needed = wire::is_rc_data(opcode)                 ? kRemoteWrite
                              : opcode == wire::Opcode::kRcReadRequest ? kRemoteRead
                                                                       : kRemoteAtomic;
  return (context_.remote_access & needed) != 0;
}

// X.8.5
bool RcResponder::well_formed(const wire::Packet& packet) const {
  const wire::Opcode opcode = packet.bth.opcode;
  if (!wire::is_rc_data(opcode) || wire::is_first(opcode) == in_message_) return false;
  const bool send = wire::is_rc_send(opcode);
  if (in_message_ && send != in_send_) return false;
  const bool last = wire::is_last(opcode);
  if (send) {
    if (!last) return packet.payload_bytes == context_.payload_mtu;
    return packet.payload_bytes <= context_.payload_mtu && (packet.payload_bytes > 0 || !in_message_);
  }
  const std::uint64_t remaining = in_message_ ? remaining_ : packet.reth.dma_length;
  return last ? packet.payload_bytes == remaining && packet.payload_bytes <= context_.payload_mtu
              : packet.payload_bytes == context_.payload_mtu && packet.payload_bytes < remaining;
}

// A SEND takes its receive with the first packet, a WRITE_IMM with the last.
bool RcResponder::lacks_receive(const wire::Packet& packet) const {
  const bool send = wire::is_rc_send(packet.bth.opcode);
  const bool takes = send ? !in_message_ : wire::has_immediate(packet.bth.opcode);
  return takes && context_.receives->empty();
}

bool RcResponder::accept(const RxDatagram& datagram, const wire::Packet& packet) {
  if (!well_formed(packet)) {
    ++context_.stats.refused_packets;
    refuse(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kProtocol);
    return false;
  }
  if (lacks_receive(packet)) {  // X.8.4
    ++context_.stats.rnr_naks_sent;
    nak(wire::AethSyndrome::kRnrNak);
    return false;
  }
  const bool carried = datagram.bytes.size() > packet.header_bytes;
  const std::uint8_t* payload = carried ? datagram.bytes.data() + packet.header_bytes : nullptr;
  const bool send = wire::is_rc_send(packet.bth.opcode);
  if (!(send ? place_send(payload, packet) : place_write(payload, packet))) {
    ++context_.stats.refused_packets;
    return false;
  }
  context_.stats.placed_bytes += packet.payload_bytes;
  ++context_.services.placed_packets;
  in_message_ = !wire::is_last(packet.bth.opcode);
  in_send_ = send;
  context_.services.message_open = in_message_;
  if (in_message_) return true;
  if ((send || wire::has_immediate(packet.bth.opcode)) && !complete_receive(packet)) return false;
  ++completed_;
  ++context_.stats.received_messages;
  return true;
}

bool RcResponder::place_write(const std::uint8_t* payload, const wire::Packet& packet) {
  if (wire::is_first(packet.bth.opcode)) {
    message_ = packet.reth;
    remaining_ = packet.reth.dma_length;
  }
  if (!placement_.place(message_, payload, packet.payload_bytes)) {
    refuse(wire::AethSyndrome::kNakRemoteAccess, QpErrorCause::kAccessViolation);
    return false;
  }
  message_.virtual_address += packet.payload_bytes;
  remaining_ -= packet.payload_bytes;
  return true;
}

// X.8.3
bool RcResponder::place_send(const std::uint8_t* payload, const wire::Packet& packet) {
  std::optional<TakenReceive>& receive = context_.receive_under_way;
  if (!in_message_) {
    context_.receives->take(receive.emplace());
    context_.receive_taken();
    placed_ = 0;
  }
  switch (receive->place(context_.services.memory, placed_, payload, packet.payload_bytes)) {
    case TakenReceive::Outcome::kPlaced:
      placed_ += packet.payload_bytes;
      return true;
    case TakenReceive::Outcome::kTooLong:
      context_.receive_status = WcStatus::kLocalLength;
      refuse(wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kReceiveTooSmall);
      return false;
    case TakenReceive::Outcome::kNoAccess:
      break;
  }
  context_.receive_status = WcStatus::kLocalProtection;
  refuse(wire::AethSyndrome::kNakRemoteOperational, QpErrorCause::kLocalProtection);
  return false;
}

bool RcResponder::complete_receive(const wire::Packet& packet) {
  Completion completion{.qp = context_.qpn, .solicited = packet.bth.solicited_event};
  const bool immediate = wire::has_immediate(packet.bth.opcode);
  if (immediate) completion.immediate = packet.immdt.immediate;
  if (wire::is_rc_send(packet.bth.opcode)) {
    completion.wr_id = context_.receive_under_way->wr_id;
    completion.bytes = placed_;
    completion.opcode = immediate ? WcOpcode::kRecvImm : WcOpcode::kRecv;
    context_.receive_under_way.reset();
  } else {
    completion.wr_id = context_.receives->take_id();
    context_.receive_taken();
    completion.bytes = message_.dma_length;
    completion.opcode = WcOpcode::kRecvWriteImm;
  }
  if (context_.recv_cq->push(completion)) return true;
  refuse(wire::AethSyndrome::kNakRemoteOperational, QpErrorCause::kCqOverrun);
  return false;
}

// One report of this hole or lack; packets behind it follow in vain.
void RcResponder::nak(wire::AethSyndrome syndrome) {
  syndrome_ = syndrome;
  nak_due_ = hole_reported_ = true;
}

void RcResponder::refuse(wire::AethSyndrome syndrome, QpErrorCause cause) {
  nak(syndrome);
  refusing_ = true;
  context_.fail(cause);
}

BuildResult RcResponder::build(TimePs, PortMask free_ports, std::uint32_t, TxBurst& burst) {
  if (!report_due()) return BuildResult::kNothing;
  acknowledgement_waits_ = !answers_.empty();
  if (acknowledgement_waits_ || !paths_.usable(context_.usable_ports())) return BuildResult::kNothing;
  if (!paths_.usable(free_ports)) return BuildResult::kPortBusy;
  BurstBuilder builder =
      burst_to_peer(burst, context_, paths_.current().port, paths_.current().value, TrafficClass::kControl);
  wire::Packet packet;
  if (forgotten_ != 0) {  // X.8.8
    packet.bth = bth_to_peer(context_, wire::Opcode::kRcAck, wire_psn(forgotten_));
    packet.aeth = {wire::AethSyndrome::kNakInvalidRequest, completed_ & 0xFFFFFFU};
    builder.add(packet, nullptr, 0);
    forgotten_ = 0;
    ++context_.stats.acks_sent;
    return BuildResult::kBuilt;
  }
  add_report(builder);
  return BuildResult::kBuilt;
}

// A NAK acknowledges everything before it, too.
void RcResponder::add_report(BurstBuilder& builder) {
  wire::AckHeaders ack;
  ack.bth = bth_to_peer(context_, wire::Opcode::kRcAck, wire_psn(nak_due_ ? expected_ : expected_ - 1));
  ack.aeth = {nak_due_ ? syndrome_ : wire::AethSyndrome::kAck, completed_ & 0xFFFFFFU, context_.rc_rnr_timer};
  builder.add_ack(ack);
  ack_due_ = nak_due_ = false;
  ++context_.stats.acks_sent;
}

void RcResponder::add_ack(TxBurst& burst) {
  if (!ack_due_ || nak_due_ || forgotten_ != 0 || refusing_ || !answers_.empty()) return;
  BurstBuilder builder(burst);
  add_report(builder);
}

}  // namespace openmrc
