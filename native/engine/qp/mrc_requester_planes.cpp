// The sending half with per-plane control: assignment of packets to planes, and processing of their feedback.
#include <algorithm>

#include "engine/generated/event_records.hpp"
#include "engine/qp/mrc_requester.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

constexpr std::uint32_t kFewPackets = 4;
constexpr std::int64_t kSmallBytes = 1024;
constexpr std::uint8_t kSilentBursts = 4;  // consecutive losses; a full buffer drops as many, but not for as long
constexpr TimePs kSilentTime = 10 * kPsPerMs;
constexpr std::ptrdiff_t kPlaneProbesMax = 4;  // of one plane, unanswered

}  // namespace

bool MrcRequester::fill_plane(PortId plane, PlaneStats& stats) const {
  if (planes_ == nullptr || plane >= context_.services.config.ports.size()) return false;
  stats = planes_->stats(plane);
  return true;
}

void MrcRequester::announce_plane(TimePs now, PortId plane, bool silent) {
  context_.services.events.emit(plane_state_event(now, context_.qpn, plane, !silent));
}

// --- sending

// Bytes waiting in the window and in posted messages; an estimate that counts every packet as a full one.
std::int64_t MrcRequester::backlog_bytes() const {
  const Psn unsent = std::min(queue_.end_psn(), window_end());
  const Psn waiting = window_.lost() + (unsent > window_.end() ? unsent - window_.end() : 0);
  return static_cast<std::int64_t>(waiting * full_nominal_bytes());
}

// Bytes from the lower edge of the window to the end of the posted data or of the peer's window.
std::int64_t MrcRequester::posted_bytes() const {
  const Psn end = std::min(queue_.end_psn(), window_end());
  return static_cast<std::int64_t>(end > window_.first() ? (end - window_.first()) * full_nominal_bytes() : 0);
}

// A single controller for all planes is fed by every acknowledgement, and its repairs are urgent on any plane.
UnderWay MrcRequester::under_way() const {
  if (queue_.empty()) return UnderWay::kNothing;
  if (planes_ == nullptr || window_.lost() > 0 || retry_.consecutive() > 0) return UnderWay::kEnd;
  return backlog_bytes() < static_cast<std::int64_t>(window_.in_flight_bytes()) ? UnderWay::kEnd : UnderWay::kStream;
}

// Finds the next packet from `from` on: lost ones first, then new ones. False: none may be sent.
bool MrcRequester::next_for_plane(Psn from, Psn& psn) {
  if (window_.lost() > 0 && from < window_.end()) {
    psn = window_.next_lost(from);
    if (psn < window_.end()) return psn < window_end();
  }
  psn = window_.end();
  if (psn >= queue_.end_psn() || psn >= window_end()) return false;
  const Wqe& wqe = queue_.at(psn);
  return psn != wqe.first_psn || !wimm_blocked(wqe);
}

// Opens the record of a new packet and returns the packet's size.
std::uint32_t MrcRequester::open_record(Psn psn) {
  if (psn < window_.end()) return window_.record(psn).nominal_bytes;
  const Wqe& wqe = queue_.at(psn);
  const std::uint32_t bytes = packet_nominal_bytes(wqe, psn);
  window_.append().nominal_bytes = bytes;
  if (psn == wqe.first_psn && wqe.wr.opcode == WrOpcode::kWriteImm) ++wimm_unfinished_;
  return bytes;
}

// True at the end of the posted data, and at the end of each burst while the plane's window is small. A few small
// packets do not need a SACK: the transport ACK of their messages carries the same information.
bool MrcRequester::wants_plane_ack(PortId plane, Psn psn, std::int64_t burst_bytes) {
  if (window_.in_flight() < kFewPackets && burst_bytes < kSmallBytes) return false;
  return planes_->wants_ack(plane, burst_bytes) || psn + 1 >= queue_.end_psn();
}

// Most packets of a stream differ from the one before in PSN and address only. Adds those that follow the latest packet,
// except for the last one of the burst, and returns their number.
std::uint32_t MrcRequester::extend_run(TimePs now, BurstBuilder& builder, const TxBurst& burst,
                                       const PlaneSet::Departure& latest, EvIndex ev) {
  const Wqe& wqe = queue_.at(latest.psn);
  const Psn next = latest.psn + 1;
  const PortId plane = context_.ev_set->ev(ev).port;
  const TxPacket& packet = burst.packets[burst.count - 1];
  if (!wire::RunHeaders::may_begin({packet.headers.data(), packet.header_bytes}) || planes_->marking(plane)) return 0;
  // The last packet of the burst is judged by the caller; that of a message with immediate data is longer.
  const Psn inner_end = wqe.end_psn() - (wqe.wr.opcode == WrOpcode::kWriteImm ? 2 : 1);
  const Psn last = std::min({inner_end, window_end() - 1, latest.psn + (latest.planned - burst.count)});
  if (last <= next) return 0;
  const auto count = static_cast<std::uint32_t>(last - next);
  const wire::RunHeaders run(packet.headers, packet.payload_bytes);
  std::uint64_t offset = (next - wqe.first_psn) * wqe.payload_mtu;
  for (std::uint32_t i = 1; i <= count; ++i, offset += wqe.payload_mtu) builder.add_to_run(run, i, wqe.payload(offset));
  window_.append_sent(count, latest.bytes, now, ev);
  planes_->sent(
      now, plane, window_.first(),
      {.psn = next, .count = count, .bytes = latest.bytes, .position = latest.position + 1, .planned = latest.planned});
  context_.stats.sent_packets += count;
  context_.stats.sent_bytes += std::uint64_t{count} * wqe.payload_mtu;
  return count;
}

BuildResult MrcRequester::build_on_plane(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  Psn psn = 0;
  if (!next_for_plane(window_.first(), psn)) return BuildResult::kNothing;
  const bool repair = psn < window_.end();
  const std::uint32_t first_bytes =
      repair ? window_.record(psn).nominal_bytes : packet_nominal_bytes(queue_.at(psn), psn);
  PortMask usable = context_.ev_set->usable_ports();
  EvIndex ev = kNoEv;
  PlaneSet::Choice choice;
  while (ev == kNoEv) {
    choice = planes_->choose(now, {.usable = usable,
                                   .free = free_ports,
                                   .first_bytes = first_bytes,
                                   .backlog_bytes = backlog_bytes(),
                                   .posted_bytes = posted_bytes(),
                                   .controller_window = context_.cc->window_bytes(),
                                   .repair = repair});
    if (!choice.found) return choice.busy ? BuildResult::kPortBusy : BuildResult::kNothing;
    const EvIndex lost_on = repair ? window_.record(psn).ev : kNoEv;
    ev = context_.ev_set->next(now, PortMask{1} << choice.plane, lost_on);
    usable &= ~(PortMask{1} << choice.plane);
  }
  const Ev& path = context_.ev_set->ev(ev);
  const bool trimmable = repair && data_class_ == TrafficClass::kTrimmable;
  BurstBuilder builder =
      burst_to_peer(burst, context_, path.port, path.value, trimmable ? TrafficClass::kTrimmableRetx : data_class_);
  const auto fit = static_cast<std::uint32_t>(choice.bytes / full_nominal_bytes());
  const std::uint32_t by_delay = context_.services.config.plane_burst_packets;
  const std::uint32_t most = by_delay == 0 || planes_->marking(choice.plane) ? burst_max : by_delay;
  const std::uint32_t planned = std::clamp(fit, 1U, most);
  std::int64_t bytes = 0;
  while (true) {
    const std::uint32_t size = open_record(psn);
    bytes += size;
    const PlaneSet::Departure packet{
        .psn = psn, .bytes = size, .position = burst.count, .planned = planned, .repeated = repair};
    Psn next = 0;
    // One class and one size per burst: only the last packet may be shorter.
    const bool more =
        burst.count + 1 < planned && size == first_bytes && next_for_plane(psn + 1, next) &&
        (next < window_.end()) == repair &&
        (repair ? window_.record(next).nominal_bytes : packet_nominal_bytes(queue_.at(next), next)) <= size;
    const bool ends = !more && wants_plane_ack(path.port, psn, bytes);
    add_data(now, builder, queue_.at(psn), psn, ev, ends);
    planes_->sent(now, path.port, window_.first(), packet);
    if (!more) break;
    const std::uint32_t run = repair ? 0 : extend_run(now, builder, burst, packet, ev);
    bytes += run * size;
    psn = next + run;
  }
  planes_->burst_sent(now, path.port, bytes);
  return BuildResult::kBuilt;
}

BuildResult MrcRequester::build_plane_probe(TimePs now, PortMask free_ports, TxBurst& burst) {
  const PortMask usable = context_.ev_set->usable_ports();
  Probe probe{.sent = now, .purpose = Purpose::kPlane};
  PortId plane = 0;
  if (!planes_->next_probe(now, usable, free_ports, plane, probe.order)) return no_ev(free_ports);
  probe.ev = context_.ev_set->next(now, PortMask{1} << plane);
  if (probe.ev == kNoEv) return BuildResult::kNothing;
  const auto of_plane = [&](const Probe& old) {
    return old.purpose == Purpose::kPlane && context_.ev_set->ev(old.ev).port == plane;
  };
  if (std::count_if(probes_.begin(), probes_.end(), of_plane) >= kPlaneProbesMax) {
    const auto oldest = std::find_if(probes_.begin(), probes_.end(), of_plane);
    // On a plane that is silent while others answer, the next probe takes another path.
    if (planes_->silent(plane)) context_.ev_set->on_feedback(now, oldest->ev, EvFeedback::kTimeout);
    probes_.erase(oldest);
  }
  return send_probe(now, probe, burst);
}

// After a whole timeout without any answer, paths of unanswered questions count as dead. Only the latest questions are
// kept: a timer that is long or has backed off exceeds the time to send all of these.
void MrcRequester::condemn_unanswered(TimePs now) {
  const TimePs wait = std::min(retry_.wait(rtt_.high()), std::max(kSilentTime, rtt_.loss_delay()));
  std::erase_if(probes_, [&](const Probe& probe) {
    if (probe.purpose != Purpose::kPlane || probe.sent + wait > now) return false;
    // Before the first answer no queue is known: that of several QPs may be longer than the timer.
    const PortId plane = context_.ev_set->ev(probe.ev).port;
    const bool unknown = !planes_->sampled(plane) && context_.services.plane_sharers.on(plane) > 1;
    if (unknown && probe.sent + kSilentTime > now) return false;
    context_.ev_set->on_feedback(now, probe.ev, EvFeedback::kTimeout);
    return true;
  });
}

void MrcRequester::handle_plane_timer(TimePs now) {
  PortMask silent = 0;
  planes_->handle_timer(now, window_, plane_losses_, silent);
  lose_on_planes(now);
  for (; silent != 0; silent &= silent - 1) announce_plane(now, static_cast<PortId>(std::countr_zero(silent)), true);
}

// --- acknowledgements

void MrcRequester::acknowledge_on_plane(TimePs now, Psn psn, bool certain) {
  const SendRecord& record = window_.record(psn);
  if (record.transmissions == 1 || certain) ev_losses_[record.ev].bursts = 0;
  const PortId plane = context_.ev_set->ev(record.ev).port;
  // Sooner than a packet takes to arrive: the copy that counted as lost had arrived.
  const bool sooner = record.transmissions == 2 && record.lost_on != kNoEv && !certain &&
                      record.state == SendState::kInFlight && 2 * (now - record.sent) < planes_->base(plane);
  if (sooner) planes_->mistaken(now, context_.ev_set->ev(record.lost_on).port, now - record.lost_sent);
  planes_->acknowledged(now, psn, record, plane, certain);
}

// The echo belongs to the copy that arrived, and the entropy identifies its plane. Our records do not help: a quicker
// plane has often reported the packet already, which removes them.
void MrcRequester::sample_plane(TimePs now, PortId port, const wire::Packet& packet, Psn trigger, AckSample& sample) {
  sample.rtt = 0;
  const EvIndex ev = context_.ev_set->find(packet.seth.entropy);
  if (ev == kNoEv || trigger >= window_.end()) return;
  const PortId plane = context_.ev_set->ev(ev).port;
  sample.rtt = planes_->round_trip(now, plane, trigger, echoed(now, packet), timestamp_range(resolution_));
  if (sample.rtt == 0) return;
  context_.stats.last_rtt = sample.rtt;
  rtt_.add(sample.rtt);
  const bool marked = packet.seth.mark != wire::SackMark::kNone;
  Transit transit;
  if (context_.capabilities.sack_transit) {
    transit = {packet.cc_state.ooo_count * timestamp_unit(resolution_), transit_range(resolution_)};
  }
  const std::uint8_t sharers = context_.capabilities.sack_sharers ? packet.cc_state.rcv_cwnd_pen : std::uint8_t{0};
  planes_->sampled(plane, {.rtt = sample.rtt, .transit = transit, .psn = trigger, .via = port, .sharers = sharers},
                   marked);
}

// A round trip by its timestamps, which wrap around.
TimePs MrcRequester::echoed(TimePs now, const wire::Packet& packet) const {
  const auto ticks = static_cast<std::uint16_t>(timestamp_at(now, resolution_) - packet.cc_state.timestamp);
  return std::max<TimePs>(ticks * timestamp_unit(resolution_), 1);
}

bool MrcRequester::names_latest_copy(const wire::Seth& seth, Psn trigger) const {
  return context_.ev_set->find(seth.entropy) == window_.record(trigger).ev;
}

void MrcRequester::end_plane_feedback(TimePs now, AckSample& sample, const wire::Seth& seth) {
  planes_->end_feedback(now, window_, plane_losses_);
  lose_on_planes(now);
  const EvIndex ev = context_.ev_set->find(seth.entropy);
  const std::int64_t acked = planes_->take_marking_acked();
  if (ev == kNoEv || !planes_->marking(context_.ev_set->ev(ev).port)) return;
  sample.new_bytes = static_cast<std::uint64_t>(acked);
  sample.in_flight_bytes = static_cast<std::uint64_t>(planes_->marking_in_flight());
  context_.cc->on_ack(now, sample);
}

// Congestion and random loss also lose packets: a path is set aside only if nothing arrives over it while its plane
// answers.
void MrcRequester::lose_on_planes(TimePs now) {
  for (const Psn psn : plane_losses_) {
    const SendRecord record = window_.record(psn);
    const PortId plane = context_.ev_set->ev(record.ev).port;
    window_.leave_flight(psn, SendState::kLost);
    ++context_.stats.losses_inferred;
    if (planes_->marking(plane))
      context_.cc->on_loss(now, record.nominal_bytes, static_cast<std::uint64_t>(planes_->marking_in_flight()));
    if (planes_->silent(plane)) continue;
    EvLosses& losses = ev_losses_[record.ev];
    if (losses.bursts == 0) losses.first = record.sent;
    if (losses.latest != record.sent && losses.bursts < kSilentBursts) ++losses.bursts;
    losses.latest = record.sent;
    if (losses.bursts == kSilentBursts && record.sent - losses.first >= kSilentTime) {
      losses.bursts = 0;
      context_.ev_set->on_feedback(now, record.ev, EvFeedback::kLost);
    }
  }
  plane_losses_.clear();
}

}  // namespace openmrc
