#include "engine/qp/plane_set.hpp"

#include <bit>

#include "engine/base/assert.hpp"
#include "engine/planes/ratio.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

constexpr std::int64_t kMuchFaster = 4;  // factor between the rates of two planes
constexpr TimePs kCheckInterval = 2 * kPsPerMs;
constexpr TimePs kPatienceMin = 10 * kPsPerMs;
constexpr TimePs kPatienceUnsampled = 300 * kPsPerMs;
constexpr TimePs kProbeAfter = 3 * kPsPerMs;  // beyond the round trip
constexpr TimePs kProbeGapMin = 10 * kPsPerMs;
constexpr TimePs kProbeGapMax = 100 * kPsPerMs;
constexpr TimePs kLatencySlack = kPsPerMs;  // planes within this difference count as equally quick for repairs
constexpr TimePs kSlackMin = kPsPerMs;
constexpr TimePs kLateMax = 10 * kPsPerMs;
constexpr TimePs kLateLife = 10 * kPsPerSecond;
constexpr TimePs kRested = kPsPerSecond;
constexpr std::uint32_t kIdleQuestions = 8;  // the last one a third of a second after the first
constexpr TimePs kSettle = 500 * kPsPerUs;
constexpr std::int64_t kPatienceBytes = 131'072;
constexpr std::int64_t kUnaskedMax = 65'536;  // at most, and at most a part of a window
constexpr std::uint32_t kReorderingMax = 128;
constexpr std::size_t kSentMin = 64;
constexpr TimePs kMarkingHysteresis = kPsPerSecond;
constexpr std::uint32_t kMarkedRounds = 2, kUnmarkedRounds = 4;

constexpr PortMask bit_of(PortId port) { return PortMask{1} << port; }

bool before(std::uint32_t order, std::uint32_t other) { return static_cast<std::int32_t>(order - other) < 0; }

}  // namespace

PlaneSet::PlaneSet(TimePs now, std::uint32_t plane_count, bool discover, std::uint32_t packet_bytes,
                   std::int64_t buffer_bytes, PlaneSharers& sharers, const PlaneTraffic& traffic)
    : sharers_(sharers), traffic_(traffic), planes_(plane_count), heard_(now), discover_(discover) {
  for (Plane& plane : planes_) {
    plane.window.start(packet_bytes, buffer_bytes);
    plane.heard = plane.sent = now;
  }
}

PlaneSet::~PlaneSet() {
  end_work();
  for (Plane& plane : planes_) end_silence(plane);
}

void PlaneSet::rebase(TimePs by) {
  for (TimePs* time : {&heard_, &others_asked_, &next_check_, &wake_, &repair_since_}) *time = rebased(*time, by);
  for (Sent& sent : sent_) sent.time = rebased(sent.time, by);
  for (Plane& plane : planes_) {
    plane.window.rebase(by);
    for (TimePs* time :
         {&plane.heard, &plane.sent, &plane.probe_at, &plane.judged, &plane.settling_since, &plane.late_since})
      *time = rebased(*time, by);
  }
}

// --- data in flight

void PlaneSet::join_flight(Plane& plane, std::uint32_t bytes) {
  plane.in_flight_bytes += bytes;
  if (plane.shares) return;
  plane.shares = true;
  sharers_.join(id_of(plane));
}

void PlaneSet::left_flight(Plane& plane, std::uint32_t bytes) {
  plane.in_flight_bytes -= bytes;
  if (plane.in_flight_bytes <= 0) leave_sharers(plane);
}

void PlaneSet::leave_sharers(Plane& plane) {
  if (plane.shares) sharers_.leave(id_of(plane));
  plane.shares = false;
}

// Facts beyond the plane's own packets. The end of a message waits for the last burst of the slowest plane: bursts are
// long only where planes are alike.
void PlaneSet::note_surroundings(Plane& plane, bool alike) {
  plane.window.share(sharers_.on(id_of(plane)));
  plane.window.allow_long_bursts(alike);
  plane.window.meet_data(traffic_.both_ways(id_of(plane)));
}

bool PlaneSet::has_faster(const Plane& plane) const {
  const std::int64_t much = kMuchFaster * plane.window.rate();
  return std::any_of(planes_.begin(), planes_.end(), [=](const Plane& other) { return other.window.rate() > much; });
}

bool PlaneSet::alike() const { return spread() <= kSlackMin; }

void PlaneSet::end_work() {
  for (Plane& plane : planes_) leave_sharers(plane);
}

// --- sending

std::int64_t PlaneSet::room(const Plane& plane, TimePs now, std::uint64_t controller_window) const {
  if (!plane.marking) return plane.window.window_bytes(now) - plane.in_flight_bytes;
  return static_cast<std::int64_t>(controller_window) - marking_in_flight();
}

// True for a whole burst, or a part of a small window: a lower threshold would send packet by packet.
bool PlaneSet::ready(const Plane& plane, std::int64_t room, const Request& request) const {
  if (plane.in_flight_bytes == 0) return true;
  const std::int64_t burst = plane.marking ? request.first_bytes : plane.window.burst_bytes();
  const std::int64_t part = (room + plane.in_flight_bytes) / plane.window.bursts();
  const std::int64_t wanted =
      std::min({burst, std::max<std::int64_t>(part, request.first_bytes), request.backlog_bytes});
  return room >= std::max<std::int64_t>(wanted, request.first_bytes);
}

std::int64_t PlaneSet::rate_of_plane(const Plane& plane) const {
  return std::max<std::int64_t>({plane.window.rate(), plane.window.pace() / 2, 1});
}

// X.4.11: planes that other QPs of this host find silent, and over which nothing of ours has arrived since. A QP with
// data in flight relies on its own evidence. None if there are no other planes.
PortMask PlaneSet::suspects(PortMask usable) const {
  PortMask suspects = 0;
  for (PortId id = 0; id < planes_.size(); ++id) {
    const Plane& plane = planes_[id];
    const bool told = sharers_.silent(id) && plane.falls != sharers_.falls(id);
    if (told && !plane.silent && plane.in_flight_bytes == 0) suspects |= usable & bit_of(id);
  }
  return (usable & not_silent() & ~suspects) == 0 ? 0 : suspects;
}

// True if the packet arrives before quicker planes would have delivered everything posted. If it came later, the end of
// a message would wait for it, and a full window behind it would stop the other planes.
bool PlaneSet::worth_it(PortId id, const Request& request, const Latencies& latencies, std::int64_t bytes) const {
  const TimePs own = latencies.of[id];
  if (own == 0 || latencies.quickest == kNever || 2 * latencies.quickest > own) return true;
  std::int64_t quicker_rate = 0;
  TimePs quicker_latency = 0;
  for (PortId other = 0; other < planes_.size(); ++other) {
    const TimePs rival = latencies.of[other];
    if (rival == 0 || 2 * rival > own) continue;
    quicker_rate += rate_of_plane(planes_[other]);
    quicker_latency = std::max(quicker_latency, rival);
  }
  const TimePs needed = own + time_for(bytes, rate_of_plane(planes_[id]));
  return needed <= std::max(time_for(request.posted_bytes, quicker_rate), quicker_latency);
}

PlaneSet::Latencies PlaneSet::latencies(PortMask allowed) const {
  Latencies found;
  for (; allowed != 0; allowed &= allowed - 1) {
    const auto id = static_cast<std::size_t>(std::countr_zero(allowed));
    if (id >= planes_.size()) break;
    found.of[id] = planes_[id].window.delay().smoothed_forward();
    if (found.of[id] > 0) found.quickest = std::min(found.quickest, found.of[id]);
  }
  return found;
}

PlaneSet::Choice PlaneSet::choose(TimePs now, const Request& request) {
  Choice choice;
  wake_ = kNever;
  if (!request.repair) {
    repair_since_ = kNever;
  } else if (repair_since_ == kNever) {
    repair_since_ = now;
  }
  const PortMask suspected = suspects(request.usable);
  for (PortMask left = suspected; left != 0; left &= left - 1) {
    const Plane& plane = planes_[static_cast<std::size_t>(std::countr_zero(left))];
    if (plane.probe_at <= now || plane.probe_at == kNever) probe_due_ |= left & (~left + 1);
  }
  const PortMask allowed = request.usable & not_silent() & ~suspected;
  const Latencies latency = latencies(allowed);
  const TimePs quickest = latency.quickest;
  TimePs best = kNever;
  const bool same = alike();
  for (PortId id = 0; id < planes_.size(); ++id) {
    Plane& plane = planes_[id];
    if ((allowed & bit_of(id)) == 0) continue;
    note_surroundings(plane, same);
    const std::int64_t left = room(plane, now, request.controller_window);
    if (!ready(plane, left, request)) continue;
    if (!plane.marking && plane.window.next_send() > now) {
      wake_ = std::min(wake_, plane.window.next_send());
      continue;
    }
    const bool slow_for_repair = request.repair && quickest != kNever && latency.of[id] > 2 * quickest + kLatencySlack;
    if (slow_for_repair && now - repair_since_ < 2 * quickest + kLatencySlack) {
      wake_ = std::min(wake_, repair_since_ + 2 * quickest + kLatencySlack);
      continue;
    }
    const std::int64_t burst = plane.marking ? left : std::min(left, plane.window.burst_bytes());
    const std::int64_t bytes = std::max<std::int64_t>(burst, request.first_bytes);
    if (!worth_it(id, request, latency, std::min(bytes, request.backlog_bytes))) continue;
    if ((request.free & bit_of(id)) == 0) {
      choice.busy = true;
      continue;
    }
    // Among equally quick planes, the one whose turn came first.
    const TimePs turn = plane.marking ? plane.sent : plane.window.next_send();
    const TimePs half = latency.of[id] / 2;
    const TimePs eta = half + std::max<TimePs>(turn - now, -half - kPsPerMs);
    if (choice.found && eta >= best) continue;
    best = eta;
    choice.found = true;
    choice.plane = id;
    choice.bytes = bytes;
  }
  if (choice.found) choice.busy = false;
  return choice;
}

void PlaneSet::reserve(Psn first, Psn psn) {
  if (psn - first < sent_.size()) return;
  std::vector<Sent> larger(std::max(kSentMin, 2 * sent_.size()));
  while (psn - first >= larger.size()) larger.resize(2 * larger.size());
  for (Psn old = first; old < psn && !sent_.empty(); ++old) larger[old & (larger.size() - 1)] = sent_of(old);
  sent_ = std::move(larger);
}

void PlaneSet::sent(TimePs now, PortId id, Psn first, const Departure& packets) {
  const Psn beyond = packets.psn + packets.count;
  reserve(first, beyond - 1);
  Plane& plane = planes_[id];
  if (plane.in_flight_bytes == 0) plane.heard = std::max(plane.heard, now);
  std::uint32_t position = packets.position;
  for (Psn psn = packets.psn; psn < beyond; ++psn, ++position) {
    sent_of(psn) = {
        .time = now,
        .order = plane.next_order,
        .bytes = static_cast<std::uint16_t>(packets.bytes),
        .plane = id,
        .quarter = packets.planned < 4 ? std::uint8_t{1} : static_cast<std::uint8_t>(position * 4 / packets.planned),
        .repeated = packets.repeated};
    plane.flight.push_back({psn, plane.next_order++});
  }
  end_ = std::max(end_, beyond);
  const std::uint32_t bytes = packets.count * packets.bytes;
  join_flight(plane, bytes);
  plane.sent = now;
  plane.counters.sent_packets += packets.count;
  plane.counters.sent_bytes += bytes;
  if (next_check_ == kNever || resting_) {
    next_check_ = now + kCheckInterval;
    heard_ = std::max(heard_, now);
    resting_ = false;
  }
}

bool PlaneSet::wants_ack(PortId id, std::int64_t bytes) {
  Plane& plane = planes_[id];
  plane.unasked_bytes += bytes;
  if (plane.unasked_bytes < std::min(plane.window.window_bytes(kNever) / plane.window.requests(), kUnaskedMax))
    return false;
  plane.unasked_bytes = 0;
  return true;
}

void PlaneSet::burst_sent(TimePs now, PortId id, std::int64_t bytes) {
  Plane& plane = planes_[id];
  plane.window.on_sent(now, bytes, plane.in_flight_bytes);
  arm_probe(now, plane);
}

void PlaneSet::resume(TimePs now) {
  heard_ = now;
  for (Plane& plane : planes_) {
    plane.heard = now;
    plane.window.resume(now, plane.next_order);
    arm_probe(now, plane);
  }
}

// --- feedback

void PlaneSet::acknowledged(TimePs now, Psn psn, const SendRecord& record, PortId id, bool certain) {
  Plane& plane = planes_[id];
  const Sent& sent = sent_of(psn);
  if (record.state == SendState::kLost) {
    // Presumed lost too early: the packet only arrived later than others of its plane.
    if (record.transmissions == 1) {
      const std::uint32_t behind = plane.delivered_order - sent.order;
      plane.reordering = std::clamp(behind + 1, plane.reordering, kReorderingMax);
      mistaken(now, id, now - record.sent);
    }
    return;
  }
  left_flight(plane, record.nominal_bytes);
  plane.feedback.acked_bytes += record.nominal_bytes;
  ++plane.feedback.acked_packets;
  ++plane.counters.acked_packets;
  plane.touched = true;
  if (plane.marking) marking_acked_ += record.nominal_bytes;
  // For a repeated packet the first copy may have arrived; the state of this copy is then unknown.
  if (!certain && record.transmissions > 1 && now - record.sent < plane.window.delay().base()) return;
  note_arrival(now, plane);
  if (before(plane.delivered_order, sent.order + 1)) plane.delivered_order = sent.order + 1;
}

void PlaneSet::note_arrival(TimePs now, Plane& plane) {
  plane.heard = heard_ = now;
  plane.falls = sharers_.falls(id_of(plane));
}

void PlaneSet::mistaken(TimePs now, PortId id, TimePs elapsed) {
  Plane& plane = planes_[id];
  ++plane.feedback.mistaken_packets;
  plane.touched = true;
  if (alike()) return;  // reports of planes that are alike overtake each other by their queues alone
  const PlaneDelay& delay = plane.window.delay();
  const TimePs late = std::min(elapsed - std::max(delay.base(), delay.smoothed()), kLateMax);
  if (now - plane.late_since > kLateLife) plane.late = 0;
  plane.late = std::max(plane.late, late);
  plane.late_since = now;
}

// Timestamps wrap around sooner than a packet returns over a long path. The sending time resolves the wraps, unless an
// earlier copy may have arrived, or the record has been reused: then the round trip is near the others of the plane, or
// unknown, as one below the idle time was a much longer one.
TimePs PlaneSet::round_trip(TimePs now, PortId id, Psn psn, TimePs echoed, TimePs range) const {
  const bool kept = psn < end_ && end_ - psn <= sent_.size() && sent_of(psn).plane == id;
  if (kept && !sent_of(psn).repeated) return latest_round_trip(now - sent_of(psn).time, echoed, range);
  const PlaneDelay& delay = planes_[id].window.delay();
  if (!delay.sampled()) return 0;
  const TimePs nearest = latest_round_trip(delay.smoothed() + range / 2, echoed, range);
  return nearest < delay.base() ? 0 : nearest;
}

void PlaneSet::sampled(PortId id, const PlaneSample& sample, bool marked) {
  if (sent_.empty()) return;
  Plane& plane = planes_[id];
  plane.touched = true;
  plane.feedback.rtt = sample.rtt;
  plane.feedback.transit = sample.transit;
  plane.feedback.rtt_bytes = sent_of(sample.psn).bytes;
  plane.feedback.via = sample.via;
  plane.feedback.sharers = sample.sharers;
  ++plane.samples;
  if (marked) ++plane.marks;
}

void PlaneSet::trimmed(PortId id, std::uint32_t bytes) {
  Plane& plane = planes_[id];
  withdrawn(id, bytes);
  ++plane.feedback.lost_packets;
  ++plane.counters.lost_packets;
  plane.touched = true;
}

bool PlaneSet::outlier(PortId id, TimePs rtt) const {
  const PlaneWindow& window = planes_[id].window;
  const PlaneDelay& delay = window.delay();
  if (!delay.settled()) return false;
  const TimePs usual = delay.unqueued() + delay.least_of(PlaneDelay::kRecent);
  return rtt > usual + 2 * window.target() + 4 * delay.deviation();
}

// Skips packets that have left flight or were sent again.
void PlaneSet::give_up(Plane& plane, const Flying& flying, const SendWindow& window, std::vector<Psn>& lost) {
  if (!window.contains(flying.psn)) return;
  const SendRecord& record = window.record(flying.psn);
  const Sent& sent = sent_of(flying.psn);
  const bool same = &planes_[sent.plane] == &plane && sent.order == flying.order;
  if (record.state != SendState::kInFlight || !same) return;
  left_flight(plane, record.nominal_bytes);
  ++plane.feedback.lost_packets;
  ++plane.counters.lost_packets;
  if (sent.quarter == 0) ++plane.feedback.lost_early;
  if (sent.quarter == 3) ++plane.feedback.lost_late;
  plane.touched = true;
  lost.push_back(flying.psn);
}

void PlaneSet::settle(TimePs now, Plane& plane) {
  if (now - plane.settling_since < kSettle) return;
  plane.settled_order = plane.settling_order;
  plane.settling_order = plane.delivered_order;
  plane.settling_since = now;
}

// Difference between the slowest and the quickest plane's round trip.
TimePs PlaneSet::spread() const {
  TimePs least = kNever, most = 0;
  for (const Plane& plane : planes_) {
    if (!plane.window.delay().sampled()) continue;
    least = std::min(least, plane.window.delay().base());
    most = std::max(most, plane.window.delay().base());
  }
  return most > least ? most - least : 0;
}

// A SACK names a late packet and covers 64 others: reporting all earlier arrivals may take more than one. SACKs of other
// planes report them as well, and may return over slower paths; how much later is known once it has happened.
TimePs PlaneSet::slack(TimePs now, const Plane& plane) const {
  const PlaneDelay& delay = plane.window.delay();
  const TimePs late = now - plane.late_since > kLateLife ? 0 : plane.late + plane.late / 2;
  return std::max({delay.smoothed() / 8, 2 * delay.deviation(), kSlackMin, late});
}

void PlaneSet::find_losses(TimePs now, Plane& plane, const SendWindow& window, std::vector<Psn>& lost) {
  settle(now, plane);
  const PlaneDelay& delay = plane.window.delay();
  const TimePs young = now - std::max(delay.base(), delay.smoothed()) - slack(now, plane);
  while (!plane.flight.empty()) {
    const Flying flying = plane.flight.front();
    const bool gone = !window.contains(flying.psn) || window.record(flying.psn).state != SendState::kInFlight ||
                      sent_of(flying.psn).order != flying.order || &planes_[sent_of(flying.psn).plane] != &plane;
    if (!gone) {
      const bool overtaken = before(flying.order + plane.reordering, plane.settled_order);
      if (!overtaken || window.record(flying.psn).sent > young) return;
      give_up(plane, flying, window, lost);
    }
    plane.flight.pop_front();
  }
}

void PlaneSet::end_feedback(TimePs now, const SendWindow& window, std::vector<Psn>& lost) {
  const bool same = alike();
  for (Plane& plane : planes_) {
    if (!plane.touched) continue;
    find_losses(now, plane, window, lost);
    note_surroundings(plane, same);
    const PlaneProgress progress{.next_order = plane.next_order,
                                 .delivered_order = plane.delivered_order,
                                 .in_flight_bytes = plane.in_flight_bytes};
    if (discover_) judge_marks(now, plane);
    if (plane.marking) {
      plane.window.observe(now, plane.feedback);
    } else {
      if (plane.window.small()) plane.window.note_faster(has_faster(plane));
      plane.window.on_feedback(now, plane.feedback, progress);
    }
    plane.feedback = {};
    plane.touched = false;
    arm_probe(now, plane);
  }
}

// If packets queue, a few marks, such as CoDel's, must not hand the plane to a controller that reacts to marks: they
// have to explain the delay.
void PlaneSet::judge_marks(TimePs now, Plane& plane) {
  if (plane.samples < 4 || before(plane.delivered_order, plane.round_order + 1)) return;
  const bool delayed = plane.window.delay().least_of(4) > plane.window.target();
  const bool marked = plane.marks > 0 && (!delayed || 4 * plane.marks >= plane.samples);
  plane.marked_rounds = marked ? plane.marked_rounds + 1 : 0;
  plane.unmarked_rounds = delayed && plane.marks == 0 ? plane.unmarked_rounds + 1 : 0;
  plane.samples = plane.marks = 0;
  plane.round_order = plane.next_order;
  if (now - plane.judged < kMarkingHysteresis) return;
  const bool change = plane.marking ? plane.unmarked_rounds >= kUnmarkedRounds : plane.marked_rounds >= kMarkedRounds;
  if (!change) return;
  plane.judged = now;
  plane.marking = !plane.marking;
  if (!plane.marking) plane.window.restart(now, plane.next_order);
}

std::int64_t PlaneSet::marking_in_flight() const {
  std::int64_t bytes = 0;
  for (const Plane& plane : planes_) bytes += plane.marking ? plane.in_flight_bytes : 0;
  return bytes;
}

std::int64_t PlaneSet::take_marking_acked() {
  const std::int64_t bytes = marking_acked_;
  marking_acked_ = 0;
  return bytes;
}

// --- silence

TimePs PlaneSet::patience(const Plane& plane) const {
  const PlaneDelay& delay = plane.window.delay();
  if (!delay.sampled()) return kPatienceUnsampled;
  return std::max({3 * delay.smoothed(), delay.smoothed() + 8 * delay.deviation(), kPatienceMin});
}

// At the end of a transmission no later packet reveals a loss: a probe does, before the plane counts as silent.
void PlaneSet::arm_probe(TimePs now, Plane& plane) {
  if (plane.silent) return;
  const PlaneDelay& delay = plane.window.delay();
  const TimePs round = delay.sampled() ? delay.smoothed() + 4 * delay.deviation() : 30 * kPsPerMs;
  plane.probe_gap = kProbeGapMin;
  plane.probe_at = plane.in_flight_bytes > 0 ? now + round + kProbeAfter : kNever;
  probe_due_ &= ~bit_of(id_of(plane));
}

void PlaneSet::end_silence(Plane& plane) {
  if (plane.silent) sharers_.ended_silence(id_of(plane));
  plane.silent = false;
}

void PlaneSet::fall_silent(TimePs now, Plane& plane, const SendWindow& window, std::vector<Psn>& lost) {
  plane.silent = true;
  sharers_.fell_silent(id_of(plane));
  plane.probe_at = now;
  plane.probe_gap = kProbeGapMin;
  for (; !plane.flight.empty(); plane.flight.pop_front()) give_up(plane, plane.flight.front(), window, lost);
  plane.feedback = {};  // a dead plane has no measurable rate
  plane.touched = false;
}

// A plane is silent only relative to others. If nothing at all comes back, the peer has paused: packets in flight may
// still arrive, and only probes are sent. Idle planes are probed, too: packets lost on a dead plane may hold the whole
// window.
void PlaneSet::handle_timer(TimePs now, const SendWindow& window, std::vector<Psn>& lost, PortMask& changed) {
  if (wake_ <= now) wake_ = kNever;
  if (next_check_ > now) return;
  bool active = false, ask_others = false;
  for (PortId id = 0; id < planes_.size(); ++id) {
    Plane& plane = planes_[id];
    const bool waits = plane.in_flight_bytes > 0 && now - plane.heard > patience(plane);
    if (!plane.silent && waits) {
      if (heard_ - plane.heard > patience(plane) / 2) {
        fall_silent(now, plane, window, lost);
        changed |= bit_of(id);
      } else {
        ask_others = true;
        leave_sharers(plane);  // what waits for a stopped peer fills no queue
      }
    }
    if (!plane.silent && plane.in_flight_bytes > 0) find_losses(now, plane, window, lost);
    const bool watched = plane.in_flight_bytes > 0 || plane.silent || (resting_ && plane.idle_questions > 0);
    if (watched && plane.probe_at <= now && (usable_ & bit_of(id)) != 0) probe_due_ |= bit_of(id);
    active = active || watched;
  }
  if (ask_others && now >= others_asked_ + kProbeGapMin) {
    others_asked_ = now;
    for (PortId id = 0; id < planes_.size(); ++id) {
      if (planes_[id].in_flight_bytes == 0 && !planes_[id].silent) probe_due_ |= bit_of(id) & usable_;
    }
  }
  next_check_ = active ? now + kCheckInterval : kNever;
}

bool PlaneSet::next_probe(TimePs now, PortMask usable, PortMask free, PortId& id, std::uint32_t& order) {
  const PortMask due = probe_due_ & usable & free;
  if (due == 0) return false;
  id = static_cast<PortId>(std::countr_zero(due));
  probe_due_ &= ~bit_of(id);
  Plane& plane = planes_[id];
  plane.probe_at = now + std::max(plane.probe_gap, plane.window.delay().smoothed());
  plane.probe_gap = std::min(kProbeGapMax, plane.probe_gap + plane.probe_gap / 2);
  plane.asked_idle = plane.in_flight_bytes == 0;
  if (plane.idle_questions > 0) --plane.idle_questions;
  // The answer proves that everything before it has arrived or is lost.
  plane.next_order += plane.reordering + 1;
  order = plane.next_order - 1;
  return true;
}

// The question is repeated until it is answered or data follows: while two QPs connect, the peer's may not be ready yet.
void PlaneSet::begin_work(TimePs now) {
  resting_ = resting_ || next_check_ == kNever;
  for (PortId id = 0; id < planes_.size(); ++id) {
    Plane& plane = planes_[id];
    const bool rested = plane.in_flight_bytes == 0 && (now - plane.sent > kRested || !plane.window.delay().sampled());
    if (!rested || plane.silent || (usable_ & bit_of(id)) == 0) continue;
    probe_due_ |= bit_of(id);
    plane.probe_gap = kProbeGapMin;
    plane.idle_questions = kIdleQuestions;
  }
  if (resting_) next_check_ = now + kCheckInterval;
}

bool PlaneSet::answered(TimePs now, PortId id, std::uint32_t order, TimePs rtt, PortId via) {
  Plane& plane = planes_[id];
  if (plane.asked_idle && rtt > 0) plane.window.set_idle(now, rtt, via);
  plane.idle_questions = 0;
  note_arrival(now, plane);
  if (before(plane.delivered_order, order + 1)) plane.delivered_order = order + 1;
  plane.touched = true;
  const bool was_silent = plane.silent;
  end_silence(plane);
  if (was_silent) plane.window.restart(now, plane.next_order);
  arm_probe(now, plane);
  return was_silent;
}

void PlaneSet::set_usable(TimePs now, PortMask usable) {
  const PortMask back = usable & ~usable_;
  usable_ = usable;
  for (PortId id = 0; id < planes_.size(); ++id) {
    Plane& plane = planes_[id];
    if ((back & bit_of(id)) != 0) {
      end_silence(plane);
      plane.heard = now;
      plane.window.restart(now, plane.next_order);
    }
    if ((usable & bit_of(id)) != 0) continue;
    end_silence(plane);
    plane.probe_at = kNever;
    plane.idle_questions = 0;
    probe_due_ &= ~bit_of(id);
  }
}

TimePs PlaneSet::patience() const {
  TimePs least = kNever;
  std::int64_t rate = 0;
  for (const Plane& plane : planes_) {
    if (plane.in_flight_bytes == 0 || plane.silent) continue;
    if (plane.marking || plane.window.starting()) return 0;
    least = std::min(least, plane.window.target() / 6);
    rate += rate_of_plane(plane);
  }
  return least == kNever ? 0 : std::min(least, time_for(kPatienceBytes, rate));
}

PortMask PlaneSet::not_silent() const {
  PortMask planes = 0;
  for (PortId id = 0; id < planes_.size(); ++id) planes |= planes_[id].silent ? 0 : bit_of(id);
  return planes;
}

PortMask PlaneSet::answering() const {
  const PortMask planes = not_silent();
  return planes == 0 ? ~PortMask{0} : planes;
}

PlaneStats PlaneSet::stats(PortId id) const {
  const Plane& plane = planes_[id];
  const PlaneDelay& delay = plane.window.delay();
  PlaneStats stats = plane.counters;
  stats.window_bytes = static_cast<std::uint64_t>(plane.window.window_bytes(kNever));
  stats.in_flight_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(plane.in_flight_bytes, 0));
  stats.rate_bps = static_cast<std::uint64_t>(plane.window.rate()) * 8;
  stats.base_rtt = delay.base();
  stats.smoothed_rtt = delay.smoothed();
  stats.queue_delay = delay.least_of(PlaneDelay::kRecent);
  stats.target_delay = plane.window.target();
  stats.background_loss_ppm = static_cast<std::uint32_t>(plane.window.background_loss_ppm());
  stats.burst_bytes = static_cast<std::uint32_t>(plane.window.burst_bytes());
  stats.marking = plane.marking;
  stats.silent = plane.silent;
  stats.competing = plane.window.competing();
  return stats;
}

}  // namespace openmrc
