#include "engine/qp/mrc_responder.hpp"

#include <algorithm>

#include "engine/qp/packet_builder.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

// Every packet counts at least this much towards the byte trigger (A.5.3).
constexpr std::uint32_t kTriggerBytesMin = 1024;
constexpr TimePs kMarksLife = 100 * kPsPerMs;  // without marks for that long: no controller reacts to them

}  // namespace

void MrcResponder::start(TimePs, const QpToRtr& attributes) {
  mpr_units_ = attributes.mpr_units;
  window_psns_ = window_psns_max_ = attributes.mpr_units * kMprUnitPsns;
  received_ = BitRing(window_psns_);
  last_ = BitRing(window_psns_);
  untold_ = BitRing(window_psns_);
  cack_ = max_received_ = latest_end_ = first_psn(attributes.rq_psn) - 1;
  wimm_max_ = attributes.wimm_max_dest;
  sack_bytes_ = attributes.sack_bytes;
  nack_out_of_window_ = attributes.nack_out_of_window;
  if (context_.capabilities.plane_sacks) arrivals_.resize(context_.services.config.ports.size());
  for (PortId port = 0; port < arrivals_.size(); ++port) arrivals_[port].answer_over = port;
}

bool MrcResponder::set_window(std::uint8_t mpr_units) {
  if (mpr_units == 0 || mpr_units * kMprUnitPsns > window_psns_max_) return false;  // A.7.3
  mpr_units_ = mpr_units;
  return true;
}

// --- arrivals

void MrcResponder::handle_data(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  last_port_ = datagram.port;
  if (refused_) {
    ack_due_ = true;  // the NAK may have been lost, and it is the only response from now on
    return;
  }
  if (packet.bth.opcode == wire::Opcode::kProbe) {
    handle_probe(now, datagram, packet);
    return;
  }
  const Psn psn = extend24(packet.bth.psn, cack_ + 1);
  if (is_trimmed(datagram.traffic_class)) {
    handle_trimmed(now, datagram, packet, psn);
    return;
  }
  ++context_.stats.received_packets;
  context_.stats.received_bytes += packet.payload_bytes;
  if (psn > cack_ && psn - cack_ >= window_psns_max_) {  // A.7.2, A.6.5
    ++context_.stats.out_of_window_packets;
    if (nack_out_of_window_) queue_nack(now, datagram, packet, psn, wire::NackReason::kPsnOutOfWindow);
    return;
  }
  const bool duplicate = is_duplicate(psn);
  if (duplicate) {
    ++context_.stats.duplicate_packets;  // A.5.8
    // The sender may be repeating packets because the transport ACK was lost.
    if (psn <= cack_) {
      ack_due_ = true;
      context_.reverse.suspect(*context_.ev_set, datagram.port);
    }
  } else if (!accept(packet, datagram, psn)) {
    refuse_if_reached();
    return;
  }
  const bool marked = datagram.ecn == Ecn::kCe;
  if (marked) marked_ = now;
  const auto nominal = nominal_bytes(static_cast<std::uint32_t>(packet.header_bytes) + packet.payload_bytes +
                                     packet.bth.pad_bytes + static_cast<std::uint32_t>(wire::kIcrcBytes));
  if (!duplicate) rcvd_bytes_ += nominal;  // A.5.10
  ++unreported_packets_;
  advance();
  // A controller that reacts to marks takes a late acknowledgement for congestion.
  context_.services.message_open = (ooo_ > 0 || latest_end_ != cack_) && now - marked_ > kMarksLife;
  // In place: a copy right after many short stores would wait for all of them.
  PendingSack& sack = arrivals_.empty() ? latest_ : arrivals_[datagram.port].latest;
  sack.arrived = now;
  sack.waited = datagram.waited;
  sack.trigger = psn;
  // A.3.7: echo of the entropy.
  sack.entropy = wire::ev_of_fields(datagram.fields, context_.services.config.ev_format);
  sack.timestamp = packet.tseth.timestamp;
  sack.resolution = packet.tseth.resolution;
  // A.5.5: mark.
  sack.mark = marked ? wire::SackMark::kSkipOnce : wire::SackMark::kNone;
  sack.port = datagram.port;
  // A.5.4: triggers at once.
  const bool at_once = packet.bth.ack_request || marked || packet.bth.rtx || duplicate;
  note_arrival(sack, std::max(nominal, kTriggerBytesMin), at_once);
  ++inbound_since_probe_;
  arm_reverse_probe(now);
}

// The first packet has passed all checks that depend on the headers which the packets of a run share.
std::uint32_t MrcResponder::handle_run(TimePs now, const RxDatagram& train, const wire::Packet& first,
                                       std::uint32_t count, std::size_t datagram_bytes) {
  if (arrivals_.empty() || train.ecn == Ecn::kCe || refused_ || refusal_.cause != QpErrorCause::kNone) return 0;
  PlaneArrivals& plane = arrivals_[train.port];
  const Psn psn = plane.latest.trigger + 1;
  // Otherwise the first packet was dropped, or is an old one.
  if (wire_psn(psn - 1) != first.bth.psn || plane.latest.arrived != now || psn <= cack_) return 0;
  const Psn beyond = std::min(psn + count, cack_ + window_psns_max_);
  if (beyond <= psn) return 0;
  count = place_run(train, first, static_cast<std::uint32_t>(received_.find_first(psn, beyond) - psn), datagram_bytes);
  context_.stats.received_bytes += std::uint64_t{count} * first.payload_bytes;
  const auto nominal = nominal_bytes(static_cast<std::uint32_t>(datagram_bytes));
  const std::uint32_t counted = std::max(nominal, kTriggerBytesMin);
  rcvd_bytes_ += std::uint64_t{count} * nominal;
  for (std::uint32_t left = count; left > 0;) {
    const std::uint32_t missing = sack_bytes_ - std::min(plane.bytes, sack_bytes_ - 1);  // until the next SACK
    const std::uint32_t part = std::min(left, (missing + counted - 1) / counted);
    take_run(plane, part);
    note_arrival(plane.latest, part * counted, /*at_once=*/false);
    left -= part;
  }
  context_.services.message_open = (ooo_ > 0 || latest_end_ != cack_) && now - marked_ > kMarksLife;
  arm_reverse_probe(now);
  return count;
}

std::uint32_t MrcResponder::place_run(const RxDatagram& train, const wire::Packet& first, std::uint32_t count,
                                      std::size_t datagram_bytes) {
  wire::Reth reth = first.reth;
  const std::uint8_t* payload = train.bytes.data() + first.header_bytes;
  std::uint32_t placed = 0;
  for (; placed < count; ++placed) {
    reth.virtual_address += first.payload_bytes;
    payload += datagram_bytes;
    if (!placement_.place(reth, payload, first.payload_bytes)) break;
  }
  context_.stats.placed_bytes += std::uint64_t{placed} * first.payload_bytes;
  context_.services.placed_packets += placed;
  return placed;
}

void MrcResponder::take_run(PlaneArrivals& plane, std::uint32_t count) {
  const Psn psn = plane.latest.trigger + 1;
  received_.set_range(psn, count);
  untold_.set_range(psn, count);
  ooo_ += count;
  plane.latest.trigger += count;
  max_received_ = std::max(max_received_, plane.latest.trigger);
  context_.stats.received_packets += count;
  unreported_packets_ += count;
  inbound_since_probe_ += count;
  advance();
}

void MrcResponder::handle_probe(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  const wire::Peth& peth = packet.peth;
  if (peth.source_context != context_.remote_context() || peth.destination_context != context_.local_context()) {
    ++context_.stats.stale_packets;
    return;
  }
  ++context_.stats.probes_received;  // A.5.9, A.12.1
  const wire::SackMark mark = datagram.ecn == Ecn::kCe ? wire::SackMark::kSkipOnce : wire::SackMark::kNone;
  const std::uint32_t entropy = wire::ev_of_fields(datagram.fields, context_.services.config.ev_format);
  const PendingSack answer{.arrived = now,
                           .waited = datagram.waited,
                           .entropy = entropy,
                           .timestamp = peth.timestamp,
                           .probe_id = peth.probe_id,
                           .resolution = peth.resolution,
                           .mark = mark,
                           .port = datagram.port,
                           .probe = true};
  if (!arrivals_.empty()) note_transit(answer);
  queue_sack(answer);
  // A sender that asks for the state may have missed the transport ACK, or may receive nothing from here at all.
  if (completed_ > 0) ack_due_ = true;
  context_.reverse.suspect(*context_.ev_set, datagram.port);
  ++inbound_since_probe_;
  arm_reverse_probe(now);
}

void MrcResponder::handle_trimmed(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, Psn psn) {
  ++context_.stats.trimmed_packets;
  // A.6.1: a trimmed packet is NACKed; A.6.8: negotiated.
  if (!context_.capabilities.trim_nack || psn <= cack_ || psn - cack_ >= window_psns_max_ || is_duplicate(psn)) return;
  const bool last_hop = datagram.traffic_class == TrafficClass::kTrimmedLastHop;
  queue_nack(now, datagram, packet, psn, last_hop ? wire::NackReason::kTrimmedLastHop : wire::NackReason::kTrimmed);
}

// Checks one new packet and places it on arrival (A.8.1). False: refused or dropped.
bool MrcResponder::accept(const wire::Packet& packet, const RxDatagram& datagram, Psn psn) {
  const bool last = wire::is_last(packet.bth.opcode);
  const bool whole = last && wire::is_first(packet.bth.opcode);
  const std::uint32_t bytes = packet.payload_bytes;
  // A.2.2: cut by the payload MTU; X.3.2: or by a larger payload that has proved to arrive.
  const bool well_formed = bytes <= context_.payload_accepted && (last || bytes >= context_.payload_mtu) &&
                           (whole ? bytes == packet.reth.dma_length : bytes < packet.reth.dma_length);
  if (!well_formed) {
    refuse(psn, wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kProtocol);
    return false;
  }
  if ((context_.remote_access & kRemoteWrite) == 0) {  // A.8.2
    ++context_.stats.refused_packets;
    refuse(psn, wire::AethSyndrome::kNakInvalidRequest, QpErrorCause::kAccessViolation);
    return false;
  }
  const bool carried = datagram.bytes.size() > packet.header_bytes;
  const std::uint8_t* payload = carried && bytes > 0 ? datagram.bytes.data() + packet.header_bytes : nullptr;
  if (!placement_.place(packet.reth, payload, bytes)) {
    ++context_.stats.refused_packets;
    refuse(psn, wire::AethSyndrome::kNakRemoteAccess, QpErrorCause::kAccessViolation);
    return false;
  }
  if (wire::has_immediate(packet.bth.opcode) && !keep_immediate(packet, psn)) return false;
  // Another copy was refused before (it was forged, or the region is registered by now). That refusal no longer counts,
  // and would hide later ones.
  if (psn == refusal_.psn) refusal_ = {};
  context_.stats.placed_bytes += bytes;
  ++context_.services.placed_packets;
  received_.set(psn);
  untold_.set(psn);
  if (last) {
    last_.set(psn);
    latest_end_ = std::max(latest_end_, psn);
  }
  ++ooo_;
  max_received_ = std::max(max_received_, psn);
  return true;
}

bool MrcResponder::keep_immediate(const wire::Packet& packet, Psn psn) {
  if (immediates_.size() >= wimm_max_) {  // A.7.5
    nacks_.clear();
    PendingNack nack;
    nack.psn = psn;
    nack.reason = wire::NackReason::kUnexpectedEvent;
    nack.port = last_port_;
    nacks_.push_back(nack);
    context_.fail(QpErrorCause::kWimmLimit);
    return false;
  }
  const Immediate immediate{.psn = psn, .value = packet.immdt.immediate, .bytes = packet.reth.dma_length};
  const auto after = std::upper_bound(immediates_.begin(), immediates_.end(), psn,
                                      [](Psn wanted, const Immediate& held) { return wanted < held.psn; });
  immediates_.insert(after, immediate);
  return true;
}

// Moves the cumulative acknowledgement over all packets received without a gap, stopping at each message with immediate
// data: it is delivered, or refused, before anything behind it counts (A.8.3).
void MrcResponder::advance() {
  while (ooo_ > 0 && !refused_) {
    const Psn stop = immediates_.empty() ? cack_ + ooo_ : std::min(cack_ + ooo_, immediates_.front().psn);
    const std::uint32_t run = received_.run_of_ones(cack_ + 1, static_cast<std::uint32_t>(stop - cack_));
    if (run == 0) break;
    received_.clear_range(cack_ + 1, run);
    untold_.clear_range(cack_ + 1, run);
    const std::uint32_t messages = last_.clear_range(cack_ + 1, run);
    cack_ += run;
    ooo_ -= run;
    completed_ += messages;
    context_.stats.received_messages += messages;
    if (messages > 0) ack_due_ = true;
    if (!immediates_.empty() && immediates_.front().psn == cack_) deliver_immediate();
  }
  refuse_if_reached();
}

void MrcResponder::deliver_immediate() {
  const Immediate immediate = immediates_.front();
  immediates_.erase(immediates_.begin());
  QpErrorCause cause = QpErrorCause::kNoReceivePosted;  // A.8.4
  if (!context_.receives->empty()) {
    const Completion completion{context_.receives->take_id(), immediate.bytes,        context_.qpn, immediate.value,
                                WcStatus::kSuccess,           WcOpcode::kRecvWriteImm};
    context_.receive_taken();
    if (context_.recv_cq->push(completion)) return;
    cause = QpErrorCause::kCqOverrun;
  }
  --completed_;
  --context_.stats.received_messages;
  refused_ = true;
  refusal_ = {.psn = immediate.psn, .syndrome = wire::AethSyndrome::kNakRemoteOperational, .cause = cause};
  context_.fail(cause);
}

// --- refusals: the NAK waits until everything before the refused packet has arrived, as RC would have it (A.8.7)

void MrcResponder::refuse(Psn psn, wire::AethSyndrome syndrome, QpErrorCause cause) {
  if (refusal_.cause == QpErrorCause::kNone || psn < refusal_.psn)
    refusal_ = {.psn = psn, .syndrome = syndrome, .cause = cause};
}

void MrcResponder::refuse_if_reached() {
  if (refusal_.cause == QpErrorCause::kNone || refused_ || refusal_.psn != cack_ + 1) return;
  refused_ = true;
  ack_due_ = true;
  context_.fail(refusal_.cause);
}

}  // namespace openmrc
