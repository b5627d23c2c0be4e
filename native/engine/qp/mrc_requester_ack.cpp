// The sending half's reactions to SACK, NACK, transport ACK, NAK and probe responses (A.5, A.6, A.9).
#include <algorithm>

#include "engine/qp/mrc_requester.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

// A repeated packet's sample counts only up to this share of the timestamp's range, beyond which an echo behind the
// record is indistinguishable from one ahead of it.
constexpr TimePs kUnambiguousShare = 8;

}  // namespace

void MrcRequester::handle_acknowledgement(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  switch (packet.bth.opcode) {
    case wire::Opcode::kSack:
      handle_sack(now, datagram.port, packet);
      break;
    case wire::Opcode::kNack:
      handle_nack(now, packet);
      break;
    case wire::Opcode::kAck:
      handle_transport_ack(now, packet);
      break;
    default:
      ++context_.stats.stale_packets;
      break;
  }
  window_.release_if_idle();
}

// A.3.9: context ids.
bool MrcRequester::context_matches(std::uint16_t source, std::uint16_t destination) {
  if (source == context_.remote_context() && destination == context_.local_context()) return true;
  ++context_.stats.stale_packets;
  return false;
}

// --- SACK

void MrcRequester::handle_sack(TimePs now, PortId port, const wire::Packet& packet) {
  const wire::Seth& seth = packet.seth;
  if (!context_matches(seth.source_context, seth.destination_context)) return;
  const Psn cack = extend24(seth.cack_psn, window_.first() - 1);
  const Psn base = cack + static_cast<Psn>(static_cast<std::int64_t>(seth.sack_offset));
  if (cack >= window_.end()) {
    ++context_.stats.stale_packets;  // acknowledges a packet that was never sent (A.15.3)
    return;
  }
  ++context_.stats.sacks_received;
  const bool current = cack + 1 >= window_.first();
  const Psn trigger = seth.probe_response ? 0 : cack + static_cast<Psn>(static_cast<std::int64_t>(seth.ack_psn_offset));

  AckSample sample;
  if (seth.probe_response) {
    handle_probe_answer(now, port, packet);
  } else {
    if (planes_ != nullptr) {
      sample_plane(now, port, packet, trigger, sample);
    } else {
      sample.rtt = sample_rtt(now, packet, trigger);
      sample.short_packet = sample.rtt > 0 && window_.record(trigger).nominal_bytes < full_nominal_bytes();
    }
    note_path(now, seth, trigger, sample.rtt);
  }
  const std::uint32_t advance = (packet.cc_state.rcvd_256_bytes - rcvd_256_bytes_) & 0xFFFFFFU;
  if (advance < 0x800000U) {
    rcvd_256_bytes_ = packet.cc_state.rcvd_256_bytes;
    sample.new_bytes = std::uint64_t{advance} * 256;
  }

  if (planes_ != nullptr && window_.contains(trigger)) acknowledge(now, trigger, names_latest_copy(seth, trigger));
  acknowledge_below(now, cack + 1);
  acknowledge_bitmap(now, base, seth.bitmap);
  if (!seth.probe_response && window_.contains(trigger)) acknowledge(now, trigger);

  if (current) {
    note_port_status(seth.port_status, port);
    // A.7.3: dynamic MPR.
    if (context_.capabilities.dynamic_mpr && seth.mpr_units > 0) window_psns_ = seth.mpr_units * kMprUnitPsns;
  }
  sample.in_flight_bytes = window_.in_flight_bytes();
  sample.marked = seth.mark != wire::SackMark::kNone;
  if (planes_ == nullptr || !context_.capabilities.sack_sharers) sample.rcv_cwnd_pen = packet.cc_state.rcv_cwnd_pen;
  sample.restore_cwnd = packet.cc_state.restore_cwnd;
  if (planes_ != nullptr) {
    end_plane_feedback(now, sample, seth);
    return;
  }
  context_.cc->on_ack(now, sample);
  detect_losses(now);
}

// Round trip without the service time (A.10.1): the receiver moves the echoed timestamp forward by the time for which
// it held the packet, so the service time is the difference between the echo and our record of the sending. The record
// has no 16-bit wrap to resolve.
//
// The echo also identifies the copy of a repeated packet that arrived (A.10.2): the echo of an earlier copy lies behind
// our record, so that the difference wraps around. Congestion control needs these samples: if most packets are trimmed,
// it would otherwise react to the delay of a queue that is long gone. Loss detection does not use them.
TimePs MrcRequester::sample_rtt(TimePs now, const wire::Packet& packet, Psn trigger) {
  if (!window_.contains(trigger)) return 0;
  const SendRecord& record = window_.record(trigger);
  if (record.state != SendState::kInFlight) return 0;
  const TimePs elapsed = now - record.sent;
  const auto held = static_cast<std::uint16_t>(packet.cc_state.timestamp - timestamp_at(record.sent, resolution_));
  const TimePs service = held * timestamp_unit(resolution_);
  if (record.transmissions == 1) {
    rtt_.add(elapsed);
  } else if (service >= elapsed || elapsed > timestamp_range(resolution_) / kUnambiguousShare) {
    return 0;
  }
  const TimePs rtt = context_.capabilities.service_time && service < elapsed ? elapsed - service : elapsed;
  context_.stats.last_rtt = rtt;
  return std::max<TimePs>(rtt, 1);
}

void MrcRequester::note_path(TimePs now, const wire::Seth& seth, Psn trigger, TimePs rtt) {
  const EvIndex ev = context_.ev_set->find(seth.entropy);
  if (ev == kNoEv) return;
  if (window_.contains(trigger)) {
    SendRecord& record = window_.record(trigger);
    // The copy presumed lost has arrived: the paths differ by more than assumed.
    if (record.lost_on == ev && record.ev != ev) {
      rtt_.add_late(now - record.lost_sent);
      record.lost_on = kNoEv;
    }
  }
  const PortId plane = context_.ev_set->ev(ev).port;
  switch (seth.mark) {
    case wire::SackMark::kNone:
      // On a plane without marks, delay is the evidence that this path is slower than the others.
      if (planes_ != nullptr && !planes_->marking(plane) && rtt > 0 && planes_->outlier(plane, rtt)) {
        context_.ev_set->on_feedback(now, ev, EvFeedback::kSkipOnce);
        break;
      }
      context_.ev_set->on_feedback(now, ev, EvFeedback::kDelivered);
      context_.reverse.confirm(now, *context_.ev_set, ev);
      break;
    case wire::SackMark::kSkipOnce:
      ++context_.stats.ecn_marks_received;
      context_.ev_set->on_feedback(now, ev, EvFeedback::kSkipOnce);
      break;
    case wire::SackMark::kAlwaysSkip:
      context_.ev_set->on_feedback(now, ev, EvFeedback::kAlwaysSkip);
      break;
  }
}

void MrcRequester::handle_probe_answer(TimePs now, PortId port, const wire::Packet& packet) {
  const wire::Seth& seth = packet.seth;
  const auto id = static_cast<std::uint16_t>(seth.ack_psn_offset);
  const auto found = std::find_if(probes_.begin(), probes_.end(), [&](const Probe& probe) { return probe.id == id; });
  if (found == probes_.end()) return;
  const Probe probe = *found;
  probes_.erase(found);
  latest_delivered_ = std::max(latest_delivered_, probe.sent);
  if (probe.purpose == Purpose::kPlane) {
    const PortId plane = context_.ev_set->ev(probe.ev).port;
    const TimePs rtt = latest_round_trip(now - probe.sent, echoed(now, packet), timestamp_range(resolution_));
    if (planes_->answered(now, plane, probe.order, rtt, port)) announce_plane(now, plane, false);
  }
  if (probe.purpose == Purpose::kAsked) context_.answered = std::max(context_.answered, probe.sent);
  if (probe.purpose == Purpose::kPath)
    context_.ev_set->on_probe_answer(now, probe.ev, seth.mark != wire::SackMark::kNone);
}

void MrcRequester::acknowledge(TimePs now, Psn psn, bool certain) {
  SendRecord& record = window_.record(psn);
  if (record.state == SendState::kAcked) return;
  // The acknowledgement of a repeated packet may be for its first copy, so its sending time is not evidence.
  if (record.transmissions == 1) {
    latest_delivered_ = std::max(latest_delivered_, record.sent);
    rtt_.add_acknowledged(now - record.sent);
  }
  if (planes_ != nullptr) acknowledge_on_plane(now, psn, certain);
  window_.leave_flight(psn, SendState::kAcked);
  quiet_since_ = now;
  state_probes_ = 0;
}

void MrcRequester::acknowledge_below(TimePs now, Psn end) {
  if (end <= window_.first()) return;
  context_.peer->answered = true;
  for (Psn psn = window_.first(); psn < end; ++psn) acknowledge(now, psn);
  window_.advance(end);
  retry_.progress();  // A.9.7
  last_timeout_ = kLongAgo;
  quiet_since_ = now;
}

void MrcRequester::acknowledge_bitmap(TimePs now, Psn base, std::uint64_t bitmap) {
  while (bitmap != 0) {
    const Psn psn = base + static_cast<Psn>(std::countr_zero(bitmap));
    bitmap &= bitmap - 1;
    if (window_.contains(psn)) acknowledge(now, psn);
  }
}

// 0: the SACK carries no status (X.1.1). The port that carried the SACK is up: a status that denies this is invalid for
// the other ports, too. A peer that shares no port with this NIC cannot have sent it.
void MrcRequester::note_port_status(std::uint8_t port_status, PortId port) {
  if (port_status == 0) return;
  if (port < 8 && (port_status >> port & 1U) == 0) {
    ++context_.stats.contradictory_port_status;
    return;
  }
  const PortMask carried = context_.peer->ports.size() >= 8 ? 0xFFU : (1U << context_.peer->ports.size()) - 1;
  const PortMask ports = (context_.peer->ports_up & ~carried) | (port_status & carried) | PortMask{1} << port;
  if (ports == context_.peer->ports_up || (ports & context_.services.local_ports_up) == 0) return;
  context_.peer->ports_up = ports;
  context_.services.peer_ports_changed = context_.peer;
}

// --- NACK

void MrcRequester::handle_nack(TimePs now, const wire::Packet& packet) {
  const wire::Neth& neth = packet.neth;
  if (!context_matches(neth.source_context, neth.destination_context)) return;
  ++context_.stats.nacks_received;
  const Psn psn = extend24(neth.nack_psn, window_.first());
  if (neth.reason == wire::NackReason::kUnexpectedEvent) {
    // This NACK ends the QP (A.6.6), so it has to identify a packet that was sent and not acknowledged.
    if (window_.contains(psn) && window_.record(psn).state != SendState::kAcked) {
      context_.fail(QpErrorCause::kUnexpectedEvent);
    } else {
      ++context_.stats.stale_packets;
    }
    return;
  }
  const EvIndex ev = context_.ev_set->find(neth.entropy);
  if (!window_.contains(psn) || ev == kNoEv || window_.record(psn).state != SendState::kInFlight ||
      window_.record(psn).ev != ev) {
    ++context_.stats.stale_packets;  // of an earlier copy, or of a packet never sent
    return;
  }
  SendRecord& record = window_.record(psn);
  // The echo identifies the copy if the EV does not (A.6.7), as in `sample_rtt`: otherwise a network that duplicates
  // packets would turn each duplicate into a repeat, and each repeat into more of them.
  const auto ahead = static_cast<std::int16_t>(neth.timestamp - timestamp_at(record.sent, resolution_));
  if (record.transmissions > 1 && ahead < 0) {
    ++context_.stats.stale_packets;
    return;
  }
  const bool last_hop = neth.reason == wire::NackReason::kTrimmedLastHop;
  if (!last_hop && neth.reason != wire::NackReason::kTrimmed) {
    // The receiver lacks resources (A.6.4): the packet is repeated like a lost one, but its path is not to blame.
    record.path_blameless = true;
    return;
  }
  ++context_.stats.trims_received;
  const std::uint32_t bytes = record.nominal_bytes;
  window_.leave_flight(psn, SendState::kLost);  // A.6.2
  quiet_since_ = now;
  const PortId plane = context_.ev_set->ev(ev).port;
  if (planes_ != nullptr) planes_->trimmed(plane, bytes);
  if (planes_ != nullptr && !planes_->marking(plane)) return;
  if (!last_hop) context_.ev_set->on_feedback(now, ev, EvFeedback::kTrimmed);  // A.6.3
  context_.cc->on_trim(now, bytes, window_.in_flight_bytes(), last_hop);
}

// --- transport ACK and NAK

void MrcRequester::handle_transport_ack(TimePs now, const wire::Packet& packet) {
  const Psn cack = extend24(packet.bth.psn, window_.first() - 1);
  const bool nak = packet.aeth.syndrome != wire::AethSyndrome::kAck;
  // The field has no context ids. A NAK ends the QP, so it must be plausible: its cumulative PSN is final and never
  // behind ours, as that of a former incarnation of the peer would be.
  if (cack >= window_.end() || (nak && cack + 1 < window_.first())) {
    ++context_.stats.stale_packets;
    return;
  }
  ++context_.stats.acks_received;
  context_.peer_accepts_joined = packet.bth.accepts_joined;  // X.4.9
  acknowledge_below(now, cack + 1);
  complete_up_to(extend24(packet.aeth.msn, queue_.completed()));
  if (nak) refused(packet.aeth.syndrome);
}

// A.1.2: two layers of acknowledgement.
void MrcRequester::complete_up_to(std::uint64_t completed) {
  while (queue_.completed() < completed && !queue_.empty()) {
    const Wqe& front = queue_.front();
    // Ignored: it claims a message whose packets are not acknowledged.
    if (front.end_psn() > window_.first()) {
      ++context_.stats.stale_packets;
      return;
    }
    if (front.wr.opcode == WrOpcode::kWriteImm) --wimm_unfinished_;
    queue_.complete_front();
  }
}

void MrcRequester::refused(wire::AethSyndrome syndrome) {
  const QpErrorCause cause = cause_of_nak(syndrome);
  if (cause == QpErrorCause::kNone) {
    ++context_.stats.stale_packets;
  } else {
    context_.fail(cause);
  }
}

}  // namespace openmrc
