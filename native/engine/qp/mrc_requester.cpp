#include "engine/qp/mrc_requester.hpp"
#include "engine/generated/event_records.hpp"

#include <algorithm>
#include <bit>

#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

constexpr std::uint32_t kFewPackets = 4;
constexpr std::uint32_t kSmallBytes = 1024;
constexpr std::int64_t kMuchBytes = 65'536;  // amount that justifies probing the planes before sending
constexpr TimePs kPatienceRtts = 3;
constexpr std::ptrdiff_t kAskedMax = 64;     // unanswered questions of the application; older ones are dropped
constexpr std::uint8_t kStateProbesMax = 3;  // without any progress: question or answer may be on a dead path

// A.2.2: cut by the payload MTU.
wire::Opcode data_opcode(bool first, bool last, bool immediate) {
  if (first && last) return immediate ? wire::Opcode::kWriteOnlyImm : wire::Opcode::kWriteOnly;
  if (last) return immediate ? wire::Opcode::kWriteLastImm : wire::Opcode::kWriteLast;
  return first ? wire::Opcode::kWriteFirst : wire::Opcode::kWriteMiddle;
}

std::uint32_t payload_of(const Wqe& wqe, Psn psn) {
  const std::uint64_t offset = (psn - wqe.first_psn) * wqe.payload_mtu;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wqe.payload_mtu, wqe.wr.length_bytes - offset));
}

std::uint32_t data_nominal_bytes(std::uint32_t payload, bool immediate) {
  const std::size_t headers = wire::kBthBytes + wire::kMethBytes + wire::kTsethBytes + wire::kRethBytes +
                              (immediate ? wire::kImmDtBytes : 0) + wire::kIcrcBytes;
  return nominal_bytes(static_cast<std::uint32_t>(headers) + ((payload + 3U) & ~3U));
}

}  // namespace

void MrcRequester::start(TimePs now, const QpToRts& attributes) {
  queue_.start(attributes.sq_psn);
  window_.start(first_psn(attributes.sq_psn));
  retry_.start(attributes);
  const TimePs configured_rtt = context_.cc->stats().base_rtt;
  const TimePs base_rtt = configured_rtt > 0 ? configured_rtt : retry_.base() / 2;
  // If NACKs report congestion losses, only a dead path loses packets silently; a path that has just become slow must
  // not count as dead, since two switches on it may each hold a packet for a BDP before they trim (A.14).
  const bool losses_told = context_.fabric_trims && context_.capabilities.trim_nack;
  rtt_.start(base_rtt, losses_told ? kPatienceRtts * base_rtt : 0);
  window_psns_ = attributes.mpr_units * kMprUnitPsns;
  wimm_max_ = attributes.wimm_max;
  // Packets to a peer that does not report trimming must not be trimmable (A.6.8, A.4.1).
  const bool trimmable = context_.capabilities.trim_nack && attributes.trimmable;
  data_class_ = trimmable ? TrafficClass::kTrimmable : TrafficClass::kNoTrim;
  resolution_ =
      attributes.timestamp_resolution_ns == 1000 ? wire::TimestampResolution::k1Us : wire::TimestampResolution::k128Ns;
  quiet_since_ = last_sent_ = now;
  context_.payload.set_planes(context_.ev_set->planes());
  if (context_.path_signal != PathSignal::kMarks && !context_.ev_set->pins()) {
    planes_ = std::make_unique<PlaneSet>(now, static_cast<std::uint32_t>(context_.services.config.ports.size()),
                                         context_.path_signal == PathSignal::kDiscover, full_nominal_bytes(),
                                         static_cast<std::int64_t>(context_.plane_buffer_bytes),
                                         context_.services.plane_sharers, context_.services.plane_traffic);
    resolution_ =
        wire::TimestampResolution::k1Us;  // round trips of planes may exceed the range of the finer resolution
    ev_losses_.resize(context_.ev_set->size());
    planes_->set_usable(now, context_.usable_ports());
    planes_->begin_work(now);
  }
  handle_ports(now);
}

void MrcRequester::work_began(TimePs now) {
  if (planes_ != nullptr && backlog_bytes() > kMuchBytes) planes_->begin_work(now);
  quiet_since_ = now;
  state_probes_ = 0;
}

// X.3.2: over an EV of each plane, the probe of which is due.
void MrcRequester::probe_payload(TimePs now) {
  PayloadSearch& search = context_.payload;
  for (PortMask due = search.due(); due != 0; due &= due - 1) {
    const auto plane = static_cast<PortId>(std::countr_zero(due));
    const Ev ev = context_.reverse.draw(*context_.ev_set, plane);
    const bool sent = context_.services.prober.probe_payload(now, context_.qpn, search.id(), context_.peer->id, ev,
                                                             search.patience(plane), search.padding_bytes());
    if (sent) search.asked(plane);
  }
}

void MrcRequester::handle_payload_probe(TimePs now, PortId plane, bool answered) {
  if (context_.payload.ended(plane, answered)) {
    if (planes_ != nullptr) planes_->set_packet_bytes(full_nominal_bytes());
  } else if (!queue_.empty()) {
    probe_payload(now);
  }
}

void MrcRequester::handle_ports(TimePs now) {
  const PortMask usable = context_.usable_ports();
  context_.ev_set->set_usable_ports(now, usable);
  if (planes_ != nullptr) planes_->set_usable(now, usable);
  // Packets in flight on a port that went down are lost, but not because of the paths behind it (A.13.1).
  for (Psn psn = window_.first(); psn < window_.end(); ++psn) {
    SendRecord& record = window_.record(psn);
    if (record.state != SendState::kInFlight) continue;
    if ((usable >> context_.ev_set->ev(record.ev).port & 1) != 0) continue;
    record.path_blameless = true;
    declare_lost(now, psn, EvFeedback::kLost);
  }
}

void MrcRequester::fill(QpStats& stats) const {
  stats.in_flight_packets = in_flight_packets();
  stats.in_flight_bytes = window_.in_flight_bytes();
  stats.lost_pending = window_.lost();
  stats.smoothed_rtt = rtt_.smoothed();
}

// --- timers

// True if nothing is in flight and the next packet waits only for a busy local port or for the pace of a plane: the
// peer then owes no answer.
bool MrcRequester::waits_for_port() const {
  if (!window_.flight_empty() || (window_.lost() == 0 && !new_data_ready())) return false;
  const PortMask planes = planes_ == nullptr ? ~PortMask{0} : planes_->not_silent();
  return (context_.ev_set->ready_ports() & planes) != 0;
}

TimePs MrcRequester::retry_deadline() const {
  if (queue_.empty()) return kNever;
  // With per-plane control the retry timer covers the silence of all planes.
  const bool silence = window_.flight_empty() || planes_ != nullptr;
  const TimePs base = silence ? quiet_since_ : window_.record(window_.oldest()).sent;
  return base + retry_.wait(rtt_.high()) + (waits_for_port() ? kPortPatience : 0);
}

// Well before the retry timer (A.9.9), ask the receiver for its state: the answer reveals losses at the end of a burst,
// where no later packet would, and repeats a lost transport ACK.
TimePs MrcRequester::state_probe_time() const {
  if (queue_.empty() || state_probe_due_ || state_probes_ >= kStateProbesMax || waits_for_port()) return kNever;
  if (planes_ != nullptr && !window_.flight_empty()) return kNever;  // planes are probed one by one
  const TimePs heard = std::max(last_sent_, quiet_since_);
  TimePs wait = 2 * rtt_.high();
  if (window_.lost() > 0) {
    // The repair causes a SACK. If the window is closed by packets that no SACK has reported, nothing else causes one:
    // trims have shrunk the window, and those packets may have arrived without triggering a SACK. The oldest one is due
    // for a SACK.
    if (may_send(full_nominal_bytes())) return kNever;
    if (state_probes_ == 0) return window_.record(window_.oldest()).sent + rtt_.high();
    wait = rtt_.high();
  } else if (window_.first() == queue_.end_psn()) {
    wait = rtt_.high() / 2;  // only the transport ACK is missing, due right after the SACK of the last packet
  }
  const TimePs silence = heard + (wait << state_probes_);
  // Sparse packets may all wait for the byte trigger, and each one postpones the silence: ask one round trip before the
  // oldest times out.
  if (window_.flight_empty() || state_probes_ > 0) return silence;
  const TimePs patience = std::max(rtt_.loss_delay(), retry_.wait(rtt_.high()) - rtt_.loss_delay());
  return std::min(silence, window_.record(window_.oldest()).sent + patience);
}

TimePs MrcRequester::next_timer() const {
  // A path probe that waits for its port does not depend on time.
  const TimePs path_probe = path_probe_due_ ? kNever : context_.ev_set->next_probe_time();
  const TimePs planes = planes_ == nullptr ? kNever : planes_->next_timer();
  return std::min({retry_deadline(), state_probe_time(), path_probe, planes});
}

void MrcRequester::resume(TimePs now) {
  if (queue_.empty()) return;
  quiet_since_ = now;
  if (planes_ != nullptr) planes_->resume(now);
}

void MrcRequester::rebase(TimePs by) {
  window_.rebase(by);
  if (planes_ != nullptr) planes_->rebase(by);
  for (EvLosses& losses : ev_losses_) {
    losses.first = rebased(losses.first, by);
    losses.latest = rebased(losses.latest, by);
  }
  for (Probe& probe : probes_) probe.sent = rebased(probe.sent, by);
  for (TimePs* time : {&latest_delivered_, &quiet_since_, &last_sent_, &last_timeout_}) *time = rebased(*time, by);
}

void MrcRequester::handle_timer(TimePs now) {
  if (state_probe_time() <= now) state_probe_due_ = true;
  if (context_.ev_set->next_probe_time() <= now) path_probe_due_ = true;
  if (planes_ != nullptr) handle_plane_timer(now);
  if (retry_deadline() <= now) handle_timeout(now);
}

void MrcRequester::handle_timeout(TimePs now) {
  const TimePs wait = retry_.wait(rtt_.high());
  // Packets of one window expire one after another; a whole wait has to pass before another retry is counted.
  if (now - last_timeout_ >= wait) {
    last_timeout_ = now;
    ++context_.stats.timeouts;
    if (!retry_.expired()) {
      context_.fail(QpErrorCause::kRetryExceeded);
      return;
    }
    context_.services.events.emit(retry_timeout_event(now, context_.qpn, retry_.consecutive()));
  }
  if (window_.flight_empty()) {
    // Only the transport ACK is missing. A path that loses the question is as bad as one that loses data.
    for (const Probe& probe : probes_) {
      if (probe.purpose == Purpose::kState && probe.sent + wait <= now)
        context_.ev_set->on_feedback(now, probe.ev, EvFeedback::kTimeout);
    }
    state_probe_due_ = true;
  }
  if (planes_ != nullptr) condemn_unanswered(now);
  while (planes_ == nullptr && !window_.flight_empty() && window_.record(window_.oldest()).sent + wait <= now) {
    declare_lost(now, window_.oldest(), EvFeedback::kTimeout);
  }
  quiet_since_ = now;
}

// --- what may be sent

// A.7.1: maximum PSN range.
Psn MrcRequester::window_end() const { return window_.first() - 1 + window_psns_; }

bool MrcRequester::may_send(std::uint64_t bytes) const {
  // A.14.1. One packet may always be sent if nothing is in flight: without feedback the window would never open.
  return window_.flight_empty() || window_.in_flight_bytes() + bytes <= context_.cc->window_bytes();
}

// A.7.4: WRITE_IMM in flight.
bool MrcRequester::wimm_blocked(const Wqe& wqe) const {
  return wqe.wr.opcode == WrOpcode::kWriteImm && wimm_unfinished_ >= wimm_max_;
}

std::uint32_t MrcRequester::packet_nominal_bytes(const Wqe& wqe, Psn psn) const {
  const std::uint32_t payload = payload_of(wqe, psn);
  const bool immediate = wqe.wr.opcode == WrOpcode::kWriteImm && psn + 1 == wqe.end_psn();
  return data_nominal_bytes(payload, immediate);
}

std::uint32_t MrcRequester::full_nominal_bytes() const { return data_nominal_bytes(context_.payload.payload(), false); }

// Requests a SACK at points where sending stops (A.5.7): at the end of the posted data, and regularly while a window is
// full. A few small packets do not need one: the transport ACK of their messages carries the same information.
bool MrcRequester::wants_ack(Psn psn, std::uint32_t bytes) {
  const Psn next = psn + 1;
  if (next >= queue_.end_psn()) return window_.in_flight() >= kFewPackets || bytes >= kSmallBytes;
  const std::uint64_t in_flight = window_.in_flight_bytes() + bytes;
  const bool window_full = next >= window_end() || in_flight + full_nominal_bytes() > context_.cc->window_bytes();
  if (!window_full || psn < next_ack_request_) return false;
  next_ack_request_ = next + window_.in_flight() / 4;
  return true;
}

BuildResult MrcRequester::no_ev(PortMask free_ports) const {
  const PortMask usable = context_.ev_set->usable_ports();
  return (usable & ~free_ports) != 0 ? BuildResult::kPortBusy : BuildResult::kNothing;
}

// --- building

BuildResult MrcRequester::build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (planes_ != nullptr && planes_->probe_due()) {
    if (build_plane_probe(now, free_ports, burst) == BuildResult::kBuilt) return BuildResult::kBuilt;
  }
  const BuildResult probe = build_probe(now, free_ports, burst);
  if (probe == BuildResult::kBuilt) return probe;
  if (planes_ != nullptr) {
    const BuildResult built = build_on_plane(now, free_ports, burst_max, burst);
    return built == BuildResult::kNothing ? probe : built;
  }
  if (window_.lost() > 0) {  // A.9.2
    const BuildResult repaired = build_retransmission(now, free_ports, burst_max, burst);
    if (repaired != BuildResult::kNothing) return repaired;
  }
  const BuildResult built = build_new(now, free_ports, burst_max, burst);
  return built == BuildResult::kNothing ? probe : built;
}

// One probe per path: when the next one is due the previous one has gone unanswered, unless the round trip is longer.
bool MrcRequester::last_probe_over(TimePs now, EvIndex ev) {
  const auto last = std::find_if(probes_.begin(), probes_.end(),
                                 [&](const Probe& probe) { return probe.purpose == Purpose::kPath && probe.ev == ev; });
  if (last == probes_.end()) return true;
  if (now - last->sent < rtt_.loss_delay()) return false;
  probes_.erase(last);
  context_.ev_set->on_probe_timeout(now, ev);
  return true;
}

// Questions of the application (X.6.3) and of this requester.
void MrcRequester::begin_question(Probe& probe) {
  if (asked_) {
    asked_ = false;
    probe.purpose = Purpose::kAsked;
    const auto asked = [](const Probe& old) { return old.purpose == Purpose::kAsked; };
    if (std::count_if(probes_.begin(), probes_.end(), asked) < kAskedMax) return;
    probes_.erase(std::find_if(probes_.begin(), probes_.end(), asked));
    return;
  }
  probe.purpose = Purpose::kState;
  state_probe_due_ = false;
  ++state_probes_;
  last_sent_ = probe.sent;
  std::erase_if(probes_, [](const Probe& old) { return old.purpose == Purpose::kState; });
}

BuildResult MrcRequester::build_probe(TimePs now, PortMask free_ports, TxBurst& burst) {
  Probe probe{.sent = now, .purpose = Purpose::kPath};
  if (asked_ || state_probe_due_) {
    probe.ev = context_.ev_set->next(now, planes_ == nullptr ? free_ports : free_ports & planes_->answering());
  }
  if (probe.ev != kNoEv) {
    begin_question(probe);
  } else if (context_.ev_set->next_probe_time() <= now) {
    // Also while a question about the state waits for a usable path, since a probe may revive one.
    do {
      probe.ev = context_.ev_set->next_probe(now, free_ports, rtt_.smoothed());
      if (probe.ev == kNoEv) {
        // All due probes may still be in flight; the next one then depends on time again.
        path_probe_due_ = context_.ev_set->next_probe_time() <= now;
        return no_ev(free_ports);
      }
    } while (!last_probe_over(now, probe.ev));
  }
  path_probe_due_ = context_.ev_set->next_probe_time() <= now;
  if (probe.ev == kNoEv) return asked_ || state_probe_due_ ? no_ev(free_ports) : BuildResult::kNothing;
  return send_probe(now, probe, burst);
}

BuildResult MrcRequester::send_probe(TimePs now, Probe& probe, TxBurst& burst) {
  probe.id = next_probe_id_++;
  probes_.push_back(probe);
  const Ev& path = context_.ev_set->ev(probe.ev);
  BurstBuilder builder = burst_to_peer(burst, context_, path.port, path.value, data_class_);
  wire::Packet packet;
  packet.bth = bth_to_peer(context_, wire::Opcode::kProbe, 0);
  packet.peth = {
      0, probe.id, context_.local_context(), context_.remote_context(), timestamp_at(now, resolution_), resolution_};
  builder.add(packet, nullptr, 0);
  ++context_.stats.probes_sent;
  return BuildResult::kBuilt;
}

void MrcRequester::add_data(TimePs now, BurstBuilder& builder, const Wqe& wqe, Psn psn, EvIndex ev, bool ack_request) {
  const std::uint32_t payload = payload_of(wqe, psn);
  const std::uint64_t offset = (psn - wqe.first_psn) * wqe.payload_mtu;
  const bool last = psn + 1 == wqe.end_psn();
  SendRecord& record = window_.record(psn);
  wire::DataHeaders packet;
  packet.bth = bth_to_peer(context_, data_opcode(psn == wqe.first_psn, last, wqe.wr.opcode == WrOpcode::kWriteImm),
                           wire_psn(psn));
  packet.bth.ack_request = ack_request;
  packet.bth.rtx = record.transmissions > 0;
  packet.bth.ts = true;
  packet.meth = {wqe.rqmsn, wqe.msn};                            // A.3.3
  packet.tseth = {timestamp_at(now, resolution_), resolution_};  // A.3.4
  // A.3.2: self-placing packets.
  packet.reth = {wqe.wr.remote_address + offset, wqe.wr.rkey, static_cast<std::uint32_t>(wqe.wr.length_bytes)};
  packet.immdt = {wqe.wr.immediate};
  builder.add_data(packet, wqe.payload(offset), payload);
  context_.stats.sent_packets += 1;
  context_.stats.sent_bytes += payload;
  if (record.transmissions > 0) ++context_.stats.retransmitted_packets;
  if (planes_ == nullptr || planes_->marking(context_.ev_set->ev(ev).port))
    context_.cc->on_sent(now, record.nominal_bytes);
  if (psn == window_.first() && record.transmissions == 0) quiet_since_ = now;  // until now the peer owed nothing
  window_.sent(psn, now, ev);
  last_sent_ = now;
}

// Uses another EV than the lost copy (A.9.3). After a timeout another plane comes first: if a whole plane is silent,
// its many EVs must not be tried one by one, each for twice as long as the one before.
EvIndex MrcRequester::repair_ev(TimePs now, PortMask free_ports, EvIndex lost_on) {
  if (retry_.consecutive() > 0 && lost_on != kNoEv) {
    const PortMask others = free_ports & ~(PortMask{1} << context_.ev_set->ev(lost_on).port);
    const EvIndex ev = others == 0 ? kNoEv : context_.ev_set->next(now, others, lost_on);
    if (ev != kNoEv) return ev;
  }
  return context_.ev_set->next(now, free_ports, lost_on);
}

BuildResult MrcRequester::build_retransmission(TimePs now, PortMask free_ports, std::uint32_t burst_max,
                                               TxBurst& burst) {
  Psn psn = window_.next_lost(window_.first());  // A.9.1, A.9.2
  // A.9.4: repairs within the window.
  if (psn >= window_end() || !may_send(window_.record(psn).nominal_bytes)) return BuildResult::kNothing;
  const EvIndex lost_on = window_.record(psn).ev;
  const EvIndex ev = repair_ev(now, free_ports, lost_on);
  if (ev == kNoEv) return no_ev(free_ports);
  const Ev& path = context_.ev_set->ev(ev);
  // A.4.2: class of retransmissions.
  const TrafficClass repair = data_class_ == TrafficClass::kTrimmable ? TrafficClass::kTrimmableRetx : data_class_;
  BurstBuilder builder = burst_to_peer(burst, context_, path.port, path.value, repair);
  std::uint32_t first_bytes = 0;
  while (burst.count < burst_max && psn < window_.end() && psn < window_end()) {
    const SendRecord& record = window_.record(psn);
    if (burst.count > 0 && (record.ev != lost_on || record.nominal_bytes > first_bytes)) break;
    if (!may_send(record.nominal_bytes)) break;
    if (burst.count == 0) first_bytes = record.nominal_bytes;
    const bool shorter = record.nominal_bytes < first_bytes;
    add_data(now, builder, queue_.at(psn), psn, ev, false);
    if (shorter) break;
    psn = window_.next_lost(psn + 1);
  }
  return BuildResult::kBuilt;
}

bool MrcRequester::may_build() const {
  return window_.end() < queue_.end_psn() || window_.lost() > 0 || asked_ || state_probe_due_ || path_probe_due_ ||
         (planes_ != nullptr && planes_->probe_due());
}

bool MrcRequester::new_data_ready() const {
  const Psn psn = window_.end();
  if (psn >= queue_.end_psn() || psn >= window_end()) return false;
  const Wqe& wqe = queue_.at(psn);
  if (psn == wqe.first_psn && wimm_blocked(wqe)) return false;
  return may_send(packet_nominal_bytes(wqe, psn));
}

BuildResult MrcRequester::build_new(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (!new_data_ready()) return BuildResult::kNothing;
  const EvIndex ev = context_.ev_set->next(now, free_ports);
  if (ev == kNoEv) return no_ev(free_ports);
  const Ev& path = context_.ev_set->ev(ev);
  BurstBuilder builder = burst_to_peer(burst, context_, path.port, path.value, data_class_);
  std::uint32_t first_bytes = 0;
  while (burst.count < burst_max && new_data_ready()) {
    const Psn psn = window_.end();
    const Wqe& wqe = queue_.at(psn);
    const std::uint32_t bytes = packet_nominal_bytes(wqe, psn);
    if (burst.count > 0 && bytes > first_bytes) break;
    if (burst.count == 0) first_bytes = bytes;
    window_.append().nominal_bytes = bytes;
    if (psn == wqe.first_psn && wqe.wr.opcode == WrOpcode::kWriteImm) ++wimm_unfinished_;
    add_data(now, builder, wqe, psn, ev, wants_ack(psn, bytes));
    if (bytes < first_bytes) break;
  }
  return BuildResult::kBuilt;
}

}  // namespace openmrc
