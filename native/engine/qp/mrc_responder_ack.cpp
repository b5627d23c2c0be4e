// Output of the receiving half: SACKs, NACKs, transport ACKs and NAKs, and probes of its reverse paths.
#include <algorithm>

#include "engine/base/assert.hpp"
#include "engine/qp/mrc_responder.hpp"
#include "engine/qp/packet_builder.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

// A SACK's bitmap covers 64 PSNs; it is filled after half of that number of arrivals, so that every PSN is reported at
// least twice.
constexpr std::uint32_t kUnreportedMax = kSackBitmapBits / 2;
// With per-plane reports, the SACK of a slow plane must not wait for its byte trigger.
constexpr TimePs kPlaneSackDelay = kPsPerMs;
constexpr TimePs kPlaneSackDelayMax = 4 * kPsPerMs;
constexpr TimePs kTransitGain = kPsPerMs;
constexpr TimePs kQuickHeard = 10 * kPsPerMs;
constexpr TimePs kWayLife = 200 * kPsPerMs;
constexpr std::size_t kSacksMax = 64;
constexpr std::size_t kNacksMax = 256;

std::int16_t offset16(Psn psn, Psn reference) {
  const auto difference = static_cast<std::int64_t>(psn) - static_cast<std::int64_t>(reference);
  // Out of the field's range (an ancient duplicate): report the cumulative PSN, which was also received.
  return difference < INT16_MIN || difference > INT16_MAX ? std::int16_t{0} : static_cast<std::int16_t>(difference);
}

}  // namespace

// Counts a packet towards the byte trigger (A.5.3), of its plane (X.4.5) or of all; per plane, `sack` is the latest.
void MrcResponder::note_arrival(const PendingSack& sack, std::uint32_t bytes, bool at_once) {
  if (arrivals_.empty()) {
    trigger_bytes_ += bytes;
    if (trigger_bytes_ < sack_bytes_ && !at_once) return;
    trigger_bytes_ = 0;
    queue_sack(sack);
    return;
  }
  note_transit(sack);
  PlaneArrivals& plane = arrivals_[sack.port];
  plane.bytes += bytes;
  context_.services.plane_traffic.received_for_qp(sack.arrived, sack.port, plane.period);
  if (plane.bytes < sack_bytes_ && !at_once) {
    if (plane.due == kNever) {
      // SACKs of many slow QPs would take a considerable share of a port that sends data as well.
      const std::uint32_t senders = context_.services.plane_sharers.on(sack.port);
      plane.due = sack.arrived + std::min(kPlaneSackDelay * senders, kPlaneSackDelayMax);
      next_plane_sack_ = std::min(next_plane_sack_, plane.due);
    }
    return;
  }
  plane.bytes = 0;
  plane.due = kNever;
  queue_sack(sack);
}

// Reports of a plane that takes much longer than another one travel over the quicker one. Otherwise the sender would
// learn of packets in another order than that of arrival, and take the last ones for lost. Clocks of the two ends need
// not agree, since planes are compared with each other.
void MrcResponder::note_transit(const PendingSack& sack) {
  PlaneArrivals& own = arrivals_[sack.port];
  own.transit.add(sack.arrived, timestamp_unit(sack.resolution), transit_of(sack), transit_reference_);
  transit_reference_ = own.transit.latest();
  // The least of a period: queues come and go, and would make SACKs change their path all the time.
  const TimePs recently = sack.arrived - kQuickHeard;
  PortId quickest = sack.port;
  for (PortId port = 0; port < arrivals_.size(); ++port) {
    const PlaneTransit& other = arrivals_[port].transit;
    if (other.heard_since(recently) && other.least() < arrivals_[quickest].transit.least()) quickest = port;
  }
  const PlaneTransit& current = arrivals_[own.answer_over].transit;
  const bool current_heard = current.heard_since(recently);
  const std::int64_t gain = own.transit.least() - arrivals_[quickest].transit.least();
  const std::int64_t lead = current.least() - arrivals_[quickest].transit.least();
  const std::int64_t enough = kTransitGain / timestamp_unit(sack.resolution);
  // Round trips with different return paths are not comparable, so the path changes rarely, and only for a clear gain.
  PortId better = own.answer_over;
  if (gain <= enough / 2) {
    better = sack.port;
  } else if (!current_heard || lead > enough) {
    better = quickest;
  }
  if (better == own.answer_over || (current_heard && sack.arrived - own.way_chosen < kWayLife)) return;
  own.answer_over = better;
  own.way_chosen = sack.arrived;
}

void MrcResponder::tell_overdue_planes(TimePs now) {
  if (next_plane_sack_ > now) return;
  next_plane_sack_ = kNever;
  for (PlaneArrivals& plane : arrivals_) {
    if (plane.due <= now) {
      plane.bytes = 0;
      plane.due = kNever;
      queue_sack(plane.latest);
    }
    next_plane_sack_ = std::min(next_plane_sack_, plane.due);
  }
}

void MrcResponder::queue_sack(const PendingSack& sack) {
  if (pending_sack_) {
    const bool one_plane = arrivals_.empty() || pending_.port == sack.port;
    // A.5.5: mark.
    // Without a gap, the cumulative acknowledgement says it all.
    const bool complete = !arrivals_.empty() && max_received_ == cack_;
    const bool mergeable = pending_.mark == wire::SackMark::kNone && sack.mark == wire::SackMark::kNone &&
                           !pending_.probe && !sack.probe && one_plane &&
                           (unreported_packets_ < kUnreportedMax || complete);
    if (!mergeable) {
      take_stock(pending_);
      if (sacks_.size() < kSacksMax) sacks_.push_back(pending_);
    }
  }
  pending_ = sack;
  pending_sack_ = true;
}

// Chooses the PSNs of the bitmap: the top of the window, so that most PSNs are reported twice; or from the lowest
// unreported PSN (A.5.6) if that is further down, as no other SACK would report it. Answers to probes start at the
// oldest gap, which the sender repairs first.
void MrcResponder::take_stock(PendingSack& sack) {
  unreported_packets_ = 0;
  sack.cack = cack_;
  sack.base = cack_ + 1;
  sack.bitmap = 0;
  if (max_received_ <= cack_) return;
  const Psn end = max_received_ + 1;
  if (!sack.probe && end - sack.base > kSackBitmapBits) {
    sack.base = untold_.find_first(sack.base, end - kSackBitmapBits);
  }
  const auto known = static_cast<std::uint32_t>(std::min<Psn>(end - sack.base, kSackBitmapBits));
  const std::uint64_t mask = known == kSackBitmapBits ? ~0ULL : (1ULL << known) - 1;
  sack.bitmap = received_.window64(sack.base) & mask;  // A.5.1
  untold_.clear_range(sack.base, known);
}

// A SACK echoes the timestamp of the packet that it names. After a probe's answer that is not the probe.
const MrcResponder::PendingSack& MrcResponder::latest_data(PortId port) const {
  if (arrivals_.empty()) return latest_;
  if (arrivals_[port].latest.trigger != 0) return arrivals_[port].latest;
  const auto other = std::find_if(arrivals_.begin(), arrivals_.end(),
                                  [](const PlaneArrivals& plane) { return plane.latest.trigger != 0; });
  MRC_ASSERT(other != arrivals_.end());
  return other->latest;
}

// Called after the pending SACK was built: one SACK may not cover arrivals that are far apart.
void MrcResponder::follow_up() {
  const Psn end = max_received_ + 1;
  pending_sack_ = cack_ + 1 < end && untold_.find_first(cack_ + 1, end) < end;
  if (pending_sack_ && pending_.probe) pending_ = latest_data(pending_.port);
  pending_.mark = wire::SackMark::kNone;
}

void MrcResponder::queue_nack(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, Psn psn,
                              wire::NackReason reason) {
  if (nacks_.size() >= kNacksMax) return;
  const std::uint32_t entropy = wire::ev_of_fields(datagram.fields, context_.services.config.ev_format);
  nacks_.push_back({.arrived = now,
                    .psn = psn,
                    .entropy = entropy,
                    .timestamp = packet.tseth.timestamp,
                    .resolution = packet.tseth.resolution,
                    .reason = reason,
                    .port = datagram.port});
}

// --- reverse paths

void MrcResponder::arm_reverse_probe(TimePs now) {
  if (next_reverse_probe_ == kNever) next_reverse_probe_ = now + context_.services.config.reverse_probe_interval;
}

TimePs MrcResponder::next_timer() const { return std::min(next_reverse_probe_, next_plane_sack_); }

void MrcResponder::rebase(TimePs by) {
  next_reverse_probe_ = rebased(next_reverse_probe_, by);
  next_plane_sack_ = rebased(next_plane_sack_, by);
  marked_ = rebased(marked_, by);
  for (PlaneArrivals& plane : arrivals_) {
    plane.due = rebased(plane.due, by);
    plane.transit.rebase(by);
    plane.way_chosen = rebased(plane.way_chosen, by);
    plane.latest.arrived = rebased(plane.latest.arrived, by);
  }
  pending_.arrived = rebased(pending_.arrived, by);
  for (PendingSack& sack : sacks_) sack.arrived = rebased(sack.arrived, by);
  for (PendingNack& nack : nacks_) nack.arrived = rebased(nack.arrived, by);
}

void MrcResponder::handle_timer(TimePs now) {
  tell_overdue_planes(now);
  if (next_reverse_probe_ > now) return;
  next_reverse_probe_ = kNever;
  const TimePs interval = context_.services.config.reverse_probe_interval;
  // A.11.18; the next arrival arms it again.
  if (inbound_since_probe_ < context_.services.config.reverse_probe_packets) return;
  inbound_since_probe_ = 0;
  const PortMask usable = context_.usable_ports();
  const TimePs patience = std::max(interval, 3 * context_.cc->stats().base_rtt);
  for (PortId port = 0; port < context_.peer->ports.size(); ++port) {
    if ((usable >> port & 1) == 0) continue;
    const bool measured = arrivals_.empty() || context_.reverse.round_trip(now, port) > 0;  // see resolve_transits
    if (measured && context_.reverse.confirmed(port) > now - interval) continue;
    const Ev ev = context_.reverse.draw(*context_.ev_set, port);
    if (ev.port != port) continue;
    context_.services.prober.probe_reverse_path(now, context_.qpn, context_.peer->id, ev,
                                                context_.reverse.patience(port, patience));
  }
  resolve_transits(now);
  next_reverse_probe_ = now + interval;
}

// Transit times repeat, so that those of planes of very different lengths may seem close, or in the wrong order. Round
// trips of probes tell how far they are apart.
void MrcResponder::resolve_transits(TimePs now) {
  const auto ports = static_cast<PortId>(arrivals_.size());
  const TimePs recently = now - kQuickHeard;
  PortId nearest = ports;
  for (PortId port = 0; port < ports; ++port) {
    const TimePs round_trip = context_.reverse.round_trip(now, port);
    if (round_trip == 0 || !arrivals_[port].transit.heard_since(recently)) continue;
    if (nearest == ports || round_trip < context_.reverse.round_trip(now, nearest)) nearest = port;
  }
  if (nearest == ports) return;
  const TimePs unit = timestamp_unit(arrivals_[nearest].latest.resolution);
  for (PortId port = 0; port < ports; ++port) {
    const TimePs round_trip = context_.reverse.round_trip(now, port);
    if (round_trip == 0 || !arrivals_[port].transit.heard_since(recently)) continue;
    const TimePs longer = (round_trip - context_.reverse.round_trip(now, nearest)) / 2;
    arrivals_[port].transit.resolve(arrivals_[nearest].transit.least() + longer / unit);
  }
}

// --- packets

std::uint16_t MrcResponder::echo(TimePs now, TimePs arrived, std::uint16_t timestamp,
                                 wire::TimestampResolution resolution) const {
  if (!context_.capabilities.service_time) return timestamp;  // A.10.1
  const TimePs held = (now - arrived) / timestamp_unit(resolution);
  return static_cast<std::uint16_t>(timestamp + std::min<TimePs>(held, UINT16_MAX));
}

// X.4.6. The clocks differ by a constant and drift slowly; the sender compares transit times with each other.
std::uint16_t MrcResponder::transit_of(const PendingSack& sack) {
  return static_cast<std::uint16_t>(timestamp_at(sack.arrived - sack.waited, sack.resolution) - sack.timestamp);
}

wire::Packet MrcResponder::sack_packet(TimePs now, const PendingSack& sack) const {
  wire::Packet packet;
  packet.bth = bth_to_peer(context_, wire::Opcode::kSack, wire_psn(sack.cack));
  wire::Seth& seth = packet.seth;
  seth.mark = sack.mark;
  seth.probe_response = sack.probe;
  seth.ack_psn_offset = sack.probe ? static_cast<std::int16_t>(sack.probe_id) : offset16(sack.trigger, sack.cack);
  seth.entropy = sack.entropy;
  seth.source_context = context_.local_context();
  seth.destination_context = context_.remote_context();
  if (context_.services.config.ports.size() <= 8) {
    // X.1.1: byte 12 of the SETH.
    seth.port_status = static_cast<std::uint8_t>(context_.services.local_ports_up);
  }
  seth.cack_psn = wire_psn(sack.cack);
  // A.7.3: dynamic MPR.
  seth.mpr_units = context_.capabilities.dynamic_mpr ? mpr_units_ : std::uint8_t{0};
  seth.sack_offset = offset16(sack.base, sack.cack);
  seth.bitmap = sack.bitmap;
  packet.cc_state.timestamp = echo(now, sack.arrived, sack.timestamp, sack.resolution);
  packet.cc_state.ooo_count = !arrivals_.empty() && context_.capabilities.sack_transit
                                  ? transit_of(sack) & kTransitMask
                                  : static_cast<std::uint16_t>(std::min<std::uint32_t>(ooo_, 0x7FFF));
  packet.cc_state.restore_cwnd = restore_cwnd_;
  packet.cc_state.rcv_cwnd_pen = penalty_;
  if (!arrivals_.empty() && context_.capabilities.sack_sharers) {  // X.4.13
    packet.cc_state.rcv_cwnd_pen =
        static_cast<std::uint8_t>(context_.services.plane_traffic.receiving_qps(now, sack.port));
  }
  packet.cc_state.rcvd_256_bytes = static_cast<std::uint32_t>((rcvd_bytes_ + 255) / 256) & 0xFFFFFFU;
  return packet;
}

wire::Packet MrcResponder::nack_packet(TimePs now, const PendingNack& nack) const {
  wire::Packet packet;
  packet.bth = bth_to_peer(context_, wire::Opcode::kNack, wire_psn(nack.psn));
  packet.neth = {nack.reason,
                 0,
                 nack.entropy,
                 context_.local_context(),
                 context_.remote_context(),
                 wire_psn(nack.psn),
                 echo(now, nack.arrived, nack.timestamp, nack.resolution)};
  return packet;
}

wire::Packet MrcResponder::next_sack(TimePs now) {
  ++context_.stats.sacks_sent;
  if (!sacks_.empty()) {
    const wire::Packet packet = sack_packet(now, sacks_.front());
    sacks_.erase(sacks_.begin());
    return packet;
  }
  take_stock(pending_);
  const wire::Packet packet = sack_packet(now, pending_);
  follow_up();
  return packet;
}

wire::AckHeaders MrcResponder::ack_headers() {
  wire::AckHeaders ack;
  ack.bth = bth_to_peer(context_, wire::Opcode::kAck, wire_psn(cack_));
  ack.bth.accepts_joined = true;  // X.4.9
  const wire::AethSyndrome syndrome = refused_ ? refusal_.syndrome : wire::AethSyndrome::kAck;
  ack.aeth = {syndrome, static_cast<std::uint32_t>(completed_ & 0xFFFFFFU)};
  ack_due_ = false;
  ++context_.stats.acks_sent;
  return ack;
}

// X.4.8. On planes that do not mark, all packets of a plane take one queue. Published MRC sends control packets in a class of
// their own.
void MrcResponder::add_ack(TxBurst& burst) {
  const bool alone = nacks_.empty() && sacks_.empty() && !pending_sack_ && !refused_;
  if (!ack_due_ || !alone || context_.path_signal == PathSignal::kMarks) return;
  // X.4.9. A repeated packet leaves alone: joined ones may be what the path does not carry.
  burst.joined = context_.peer_accepts_joined && wire::announce_ack(burst.packets[0].headers);
  wire::AckHeaders ack = ack_headers();
  BurstBuilder(burst).add_ack(ack);
}

BuildResult MrcResponder::build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (nacks_.empty() && sacks_.empty() && !pending_sack_ && !ack_due_) return BuildResult::kNothing;
  const PortId preferred = !nacks_.empty()   ? nacks_.front().port
                           : !sacks_.empty() ? sacks_.front().port
                           : pending_sack_   ? pending_.port
                                             : last_port_;
  const PortId answer_over =
      arrivals_.empty() || preferred >= arrivals_.size() ? preferred : arrivals_[preferred].answer_over;
  const PortMask usable = context_.usable_ports();
  Ev path;
  if (!context_.reverse.choose(*context_.ev_set, free_ports, usable, answer_over, path)) {
    return (usable & ~free_ports) != 0 ? BuildResult::kPortBusy : BuildResult::kNothing;
  }
  BurstBuilder builder = burst_to_peer(burst, context_, path.port, path.value, TrafficClass::kControl);
  if (!nacks_.empty()) {
    wire::Packet packet = nack_packet(now, nacks_.front());
    nacks_.erase(nacks_.begin());
    ++context_.stats.nacks_sent;
    builder.add(packet, nullptr, 0);
    return BuildResult::kBuilt;
  }
  const bool sack = !sacks_.empty() || pending_sack_;
  if (sack) {
    wire::Packet packet = next_sack(now);
    builder.add(packet, nullptr, 0);
  }
  // Small messages cause one of each, and the shorter second packet of a burst costs next to nothing.
  if (ack_due_ && (!sack || burst_max > 1)) {
    wire::AckHeaders ack = ack_headers();
    builder.add_ack(ack);
  }
  return BuildResult::kBuilt;
}

}  // namespace openmrc
