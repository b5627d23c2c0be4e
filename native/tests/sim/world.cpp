#include "tests/sim/world.hpp"

#include <algorithm>
#include <cstdlib>

#include "engine/base/assert.hpp"

namespace openmrc::sim {

namespace {

constexpr std::uint32_t kTimerSpinsMax = 200;
constexpr TimePs kQuietTime = 200 * kPsPerMs;

std::size_t at(int end) { return static_cast<std::size_t>(end); }

}  // namespace

World::World(const Scenario& scenario, Canary canary, int verbosity)
    : scenario_(scenario),
      canary_(canary),
      verbosity_(verbosity),
      rng_(Rng::for_component(scenario.seed, "world")),
      network_(scenario) {
  for (int end = 0; end < kEnds; ++end) {
    ends_[at(end)] = std::make_unique<Endpoint>(scenario, end, trace_);
    PeerConfig peer;
    for (PortId port = 0; port < scenario.planes; ++port) peer.ports.push_back(address_of(scenario, 1 - end, port));
    SIM_REQUIRE(ends_[at(end)]->engine().add_peer(peer, peers_[at(end)]) == Status::kOk, "add_peer");
    Rng content = Rng::for_component(scenario.seed, "content", static_cast<std::uint64_t>(end));
    source_[at(end)].resize(512 * 1024 + 7);
    for (std::uint8_t& byte : source_[at(end)]) byte = static_cast<std::uint8_t>(content.next());
    RegionConfig region{source_[at(end)].data(), 0x10'0000'0000ULL, source_[at(end)].size(), 0x1000, kLocalRead};
    SIM_REQUIRE(ends_[at(end)]->engine().register_memory(region) == Status::kOk, "register_memory");
  }
  links_.resize(scenario.qps.size());
  for (std::uint32_t i = 0; i < links_.size(); ++i) set_up_memory(i, links_[i]);
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    for (int end = 0; end < kEnds; ++end) create(i, end);
    new_streams(i);
    const int first = static_cast<int>(rng_.below(2));
    schedule(0, Kind::kConnect, first, i);
    schedule(rng_.chance(1, 3) ? static_cast<TimePs>(rng_.below(500 * kPsPerUs)) : 0, Kind::kConnect, 1 - first, i);
  }
  for (std::uint32_t i = 0; i < scenario.faults.size(); ++i) {
    schedule(scenario.faults[i].start, Kind::kFaultStart, 0, i);
    schedule(scenario.faults[i].stop, Kind::kFaultStop, 0, i);
  }
  for (const TimePs time : scenario.clock_rebases) schedule(time, Kind::kClockRebase);
}

void World::schedule(TimePs time, Kind kind, int end, std::uint32_t index, std::uint32_t incarnation) {
  queue_.push({std::max(time, now_), order_++, kind, static_cast<std::uint8_t>(end), index, incarnation});
}

Outcome World::run() {
  run_until(scenario_.safety_end, false);
  now_ = scenario_.safety_end;
  heal();
  if (canary_ == Canary::kCrash) std::abort();
  run_until(scenario_.safety_end + scenario_.liveness_limit, true);
  require_settled();
  require_quiet();
  final_checks();
  outcome_.trace_hash = trace_.value();
  outcome_.final_draw = network_.final_draw() ^ rng_.next();
  outcome_.packets = ends_[0]->packets_sent() + ends_[1]->packets_sent();
  outcome_.virtual_time = now_;
  outcome_.network = network_.counters();
  return outcome_;
}

void World::run_until(TimePs limit, bool stop_when_settled) {
  while (!queue_.empty() && queue_.top().time <= limit) {
    if (stop_when_settled && settled()) return;
    const Pending pending = queue_.top();
    queue_.pop();
    MRC_ASSERT(pending.time >= now_);
    now_ = pending.time;
    dispatch(pending);
  }
}

void World::dispatch(const Pending& pending) {
  const int end = pending.end;
  switch (pending.kind) {
    case Kind::kArrival:
      arrive(pending);
      break;
    case Kind::kTimer:
      timer(end);
      break;
    case Kind::kPortFree:
      armed_port_[at(end)] = kNever;
      if (!stalled(end)) step(end);
      break;
    case Kind::kFaultStart:
      start_fault(pending.index);
      break;
    case Kind::kFaultStop:
      stop_fault(pending.index);
      break;
    case Kind::kFaultTick:
      tick_fault(pending.index);
      break;
    case Kind::kPortNotice: {
      const PortId plane = static_cast<PortId>(pending.index);
      ends_[at(end)]->set_port(now_, plane, network_.port_carrier(end, plane));
      step(end);
      break;
    }
    case Kind::kAppTick:
      if (!stalled(end) && post_one(pending.index, end)) step(end);
      break;
    case Kind::kStallEnd:
      unstall(end);
      break;
    case Kind::kConnect:
      connect(pending.index, end);
      break;
    case Kind::kPeerBreak:
      if (links_[pending.index].incarnation == pending.incarnation) break_peer(pending.index, end);
      break;
    case Kind::kReconnect:
      if (links_[pending.index].incarnation == pending.incarnation) reconnect(pending.index);
      break;
    case Kind::kClockRebase:
      for (const std::unique_ptr<Endpoint>& each : ends_) each->rebase_clock();
      break;
  }
}

void World::arrive(const Pending& pending) {
  const int end = pending.end;
  if (stalled(end)) {
    backlog_[at(end)].push_back(pending.index);
    return;
  }
  const Datagram datagram = std::move(datagrams_[pending.index]);
  free_slots_.push_back(pending.index);
  if (!network_.carrier(datagram.plane)) return;
  if (datagram.pristine) {
    const std::span<const std::uint8_t> bytes(datagram.bytes);
    const std::size_t first = wire::first_packet_bytes(bytes);
    note_acknowledged(end, datagram, bytes.first(first));
    if (first < bytes.size()) note_acknowledged(end, datagram, bytes.subspan(first));
  }
  ends_[at(end)]->receive(now_, datagram);
  step(end);
}

// A packet as the peer's engine made it arrives.
void World::note_acknowledged(int end, const Datagram& datagram, std::span<const std::uint8_t> bytes) {
  wire::Packet packet;
  if (wire::parse(bytes, wire::Extent::kWhole, packet) != wire::ParseError::kNone) return;
  if (verbosity_ > 1) print_packet("gets", end, datagram.plane, datagram.fields, packet);
  const bool ack = packet.bth.opcode == wire::Opcode::kAck || packet.bth.opcode == wire::Opcode::kRcAck;
  Link* link = find_link(end, packet.bth.destination_qp);
  if (link == nullptr || link->incarnation != datagram.incarnation || !link->ready[at(end)]) return;
  if (packet.bth.opcode == wire::Opcode::kSack) link->stream[at(end)]->on_cumulative(now_, packet.seth.cack_psn);
  // RC: a NAK names the expected packet, and so acknowledges the one before.
  const bool rc_nak = packet.bth.opcode == wire::Opcode::kRcAck && packet.aeth.syndrome != wire::AethSyndrome::kAck;
  if (ack) link->stream[at(end)]->on_cumulative(now_, (packet.bth.psn - (rc_nak ? 1U : 0U)) & (kPsnSpace - 1));
}

void World::timer(int end) {
  if (stalled(end) || armed_[at(end)] > now_) return;
  armed_[at(end)] = kNever;
  if (ends_[at(end)]->next_timer() > now_) {
    arm(end);
    return;
  }
  timer_spins_[at(end)] = last_timer_[at(end)] == now_ ? timer_spins_[at(end)] + 1 : 0;
  last_timer_[at(end)] = now_;
  if (timer_spins_[at(end)] > kTimerSpinsMax) fail(Verdict::kLiveness, "end %d: the timer fires without end", end);
  ends_[at(end)]->engine().handle_timer(ends_[at(end)]->local(now_));
  step(end);
}

void World::step(int end) {
  Endpoint& endpoint = *ends_[at(end)];
  const auto on_packet = [this, end](const TxBurst& burst, const TxPacket& packet, std::vector<std::uint8_t>&& bytes) {
    transmit(end, burst, packet, std::move(bytes));
  };
  do {
    endpoint.pump(now_, on_packet);
    drain(end);
  } while (feed(end));
  arm(end);
}

void World::arm(int end) {
  const TimePs timer = ends_[at(end)]->next_timer();
  if (timer != kNever && (timer < armed_[at(end)])) {
    armed_[at(end)] = std::max(timer, now_);
    schedule(timer, Kind::kTimer, end);
  }
  const TimePs port = ends_[at(end)]->next_port_free();
  if (port != kNever && port < armed_port_[at(end)]) {
    armed_port_[at(end)] = port;
    schedule(port, Kind::kPortFree, end);
  }
}

void World::transmit(int end, const TxBurst& burst, const TxPacket& tx, std::vector<std::uint8_t>&& bytes) {
  wire::Packet packet;
  const std::span<const std::uint8_t> datagram_bytes(bytes);
  const std::size_t first = wire::first_packet_bytes(datagram_bytes);
  if (first < bytes.size()) {
    SIM_REQUIRE(wire::parse(datagram_bytes.subspan(first), wire::Extent::kWhole, packet) == wire::ParseError::kNone &&
                    packet.bth.opcode == wire::Opcode::kAck,
                "no ACK behind a packet that announces one");
  }
  SIM_REQUIRE(burst.joined == (first < bytes.size()), "burst joined: %d, datagram: %d", burst.joined,
              first < bytes.size());
  const wire::ParseError error = wire::parse(datagram_bytes.first(first), wire::Extent::kWhole, packet);
  SIM_REQUIRE(error == wire::ParseError::kNone, "the engine sent a packet that does not parse: %u",
              static_cast<unsigned>(error));
  if (verbosity_ > 1) print_packet("sends", end, burst.port, burst.fields, packet);
  Datagram datagram;
  Link* link = burst.qp == 0 ? nullptr : find_link(end, burst.qp);
  if (link != nullptr) {
    datagram.qp = burst.qp;
    datagram.incarnation = link->incarnation;
    const bool rc = link->plan->transport == Transport::kRc;
    SIM_REQUIRE(packet.bth.destination_qp == link->qpn[at(1 - end)], "packet for QP %u", packet.bth.destination_qp);
    if (wire::is_data(packet.bth.opcode) || wire::is_rc_data(packet.bth.opcode)) {
      SIM_REQUIRE(wire::is_rc_data(packet.bth.opcode) == rc, "opcode of the wrong transport");
      link->stream[at(end)]->on_sent(now_, packet, burst.traffic_class, tx);
    }
  } else {
    SIM_REQUIRE(packet.bth.destination_qp == kEndpointQp, "packet of QP %u, which does not exist", burst.qp);
  }
  datagram.source = address_of(scenario_, end, burst.port);
  datagram.fields = burst.fields;
  datagram.traffic_class = burst.traffic_class;
  datagram.ecn = burst.ecn;
  datagram.plane = burst.port;
  datagram.sender = static_cast<std::uint8_t>(end);
  datagram.bytes = std::move(bytes);
  arrivals_.clear();
  network_.send(now_, std::move(datagram), arrivals_);
  for (auto& [time, copy] : arrivals_) {
    const int to = 1 - copy.sender;
    std::uint32_t slot = static_cast<std::uint32_t>(datagrams_.size());
    if (free_slots_.empty()) {
      datagrams_.emplace_back();
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    datagrams_[slot] = std::move(copy);
    schedule(time, Kind::kArrival, to, slot);
  }
}

void World::print_packet(const char* what, int end, PortId plane, const wire::EvFields& fields,
                         const wire::Packet& packet) const {
  std::printf(
      "%12lld ns: end %d %s opcode %02x for QP %06x on plane %u, EV class %u, psn %u rtx %d ar %d msn %u cack %u "
      "offset %d "
      "bitmap %016llx pr %d\n",
      static_cast<long long>(now_ / kPsPerNs), end, what, static_cast<unsigned>(packet.bth.opcode),
      packet.bth.destination_qp, plane, ev_class_of(wire::ev_of_fields(fields, scenario_.ev_format)), packet.bth.psn,
      packet.bth.rtx, packet.bth.ack_request, packet.meth.msn, packet.seth.cack_psn, packet.seth.sack_offset,
      static_cast<unsigned long long>(packet.seth.bitmap), packet.seth.probe_response);
}

void World::unstall(int end) {
  if (stalled(end)) return;
  std::vector<std::uint32_t> waiting;
  waiting.swap(backlog_[at(end)]);
  for (const std::uint32_t slot : waiting) arrive({now_, 0, Kind::kArrival, static_cast<std::uint8_t>(end), slot, 0});
  armed_[at(end)] = kNever;
  armed_port_[at(end)] = kNever;
  step(end);
}

void World::heal() {
  stopped_ = true;
  if (verbosity_ > 0) std::printf("safety over at %lld us\n", static_cast<long long>(now_ / kPsPerUs));
  if (canary_ != Canary::kLiveness) network_.heal();
  for (int end = 0; end < kEnds; ++end) {
    stalled_until_[at(end)] = now_;
    for (PortId plane = 0; plane < scenario_.planes; ++plane) {
      const bool heals = ((scenario_.healed_planes >> plane) & 1) != 0;
      network_.set_carrier(end, plane, (heals || network_.port_carrier(end, plane)) && canary_ != Canary::kLiveness);
      ends_[at(end)]->set_port(now_, plane, network_.port_carrier(end, plane));
    }
    const auto alive = [this](const Ev& ev) {
      return ((scenario_.healed_planes >> ev.port) & 1) != 0 &&
             ((scenario_.healed_ev_classes >> ev_class_of(ev.value)) & 1) != 0;
    };
    bool cut_off = false;
    for (const Link& link : links_)
      cut_off |= ends_[at(end)]->all_denied(link.qpn[at(end)], link.plan->init.ev_universe, alive);
    if (scenario_.heal_denied || cut_off) ends_[at(end)]->enable_all(now_);
    for (Link& link : links_) {
      if (!link.ready[at(end)]) continue;
      ends_[at(end)]->engine().set_receive_penalty(link.qpn[at(end)], 0, true);
      if (link.plan->rtr.capabilities.dynamic_mpr) {
        ends_[at(end)]->engine().set_receive_window(link.qpn[at(end)], link.plan->mpr_units[at(end)]);
      }
    }
  }
  for (int end = 0; end < kEnds; ++end) unstall(end);
}

bool World::settled() const {
  for (const Link& link : links_) {
    if (link.restarting) return false;
    if (link.closed()) {
      if (!(link.broken[0] && link.broken[1])) return false;
      continue;
    }
    if (!link.ready[0] || !link.ready[1]) return false;
    if (!link.stream[0]->settled() || !link.stream[1]->settled()) return false;
  }
  return true;
}

void World::print_paths(const Link& link, int end) const {
  const EvSet* set = ends_[at(end)]->engine().ev_set(link.qpn[at(end)]);
  for (std::uint32_t i = 0; set != nullptr && i < set->size(); ++i) {
    const auto index = static_cast<EvIndex>(i);
    const Ev& ev = set->ev(index);
    const bool alive = ((scenario_.healed_planes >> ev.port) & 1) != 0 &&
                       ((scenario_.healed_ev_classes >> ev_class_of(ev.value)) & 1) != 0;
    std::printf("  EV %u on plane %u: state %u, %s, %s\n", ev.value, ev.port, static_cast<unsigned>(set->state(index)),
                set->is_active(index) ? "active" : "backup", alive ? "alive" : "dead");
  }
}

void World::require_settled() {
  if (settled()) return;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const Link& link = links_[i];
    for (int end = 0; end < kEnds; ++end) {
      const Stream& stream = *link.stream[at(end)];
      if (stream.settled() && !link.closed()) continue;
      QpStats stats;
      ends_[at(end)]->engine().qp_stats(link.qpn[at(end)], stats);
      if (verbosity_ > 0) print_paths(link, end);
      fail(Verdict::kLiveness,
           "QP %zu, end %d: %llu messages not complete %lld ms after healing; %llu of %llu packets acknowledged, "
           "in flight %llu, lost %llu, timeouts %llu, state %u, peer state %u, next timer in %lld us",
           i, end, static_cast<unsigned long long>(stream.outstanding()),
           static_cast<long long>((now_ - scenario_.safety_end) / kPsPerMs),
           static_cast<unsigned long long>(stream.acked_packets()),
           static_cast<unsigned long long>(stream.posted_packets()),
           static_cast<unsigned long long>(stats.in_flight_packets),
           static_cast<unsigned long long>(stats.lost_pending), static_cast<unsigned long long>(stats.timeouts),
           static_cast<unsigned>(ends_[at(end)]->engine().qp_state(link.qpn[at(end)])),
           static_cast<unsigned>(ends_[at(1 - end)]->engine().qp_state(link.qpn[at(1 - end)])),
           static_cast<long long>((ends_[at(end)]->next_timer() - now_) / kPsPerUs));
    }
  }
}

void World::require_quiet() {
  const std::uint64_t data = ends_[0]->data_packets_sent() + ends_[1]->data_packets_sent();
  run_until(now_ + kQuietTime, false);
  const std::uint64_t more = ends_[0]->data_packets_sent() + ends_[1]->data_packets_sent() - data;
  if (more != 0)
    fail(Verdict::kLiveness, "%llu data packets were sent after everything had completed",
         static_cast<unsigned long long>(more));
  const std::uint32_t all_planes = (1U << scenario_.planes) - 1;
  const bool whole = scenario_.healed_planes == all_planes && scenario_.healed_ev_classes == (1U << kEvClasses) - 1 &&
                     scenario_.heal_denied;
  const std::uint64_t before = ends_[0]->packets_sent() + ends_[1]->packets_sent();
  run_until(now_ + kQuietTime, false);
  const std::uint64_t packets = ends_[0]->packets_sent() + ends_[1]->packets_sent() - before;
  std::uint64_t allowed = 0;
  if (!whole) {
    // Probes of paths that stay dead, and their responses if only the return path is dead.
    for (const Link& link : links_) {
      const auto interval = std::max<TimePs>(link.plan->init.ev_set.probe_interval, 1);
      allowed += 4 * link.plan->init.ev_universe.size() * static_cast<std::uint64_t>(kQuietTime / interval + 2);
    }
  }
  if (packets > allowed) {
    fail(Verdict::kLiveness, "%llu packets in %lld ms of rest, at most %llu are probes of dead paths",
         static_cast<unsigned long long>(packets), static_cast<long long>(kQuietTime / kPsPerMs),
         static_cast<unsigned long long>(allowed));
  }
}

void World::final_checks() {
  for (Link& link : links_) {
    for (int end = 0; end < kEnds; ++end) {
      QpStats stats;
      if (!link.closed() && ends_[at(end)]->engine().qp_stats(link.qpn[at(end)], stats)) {
        SIM_REQUIRE(stats.in_flight_packets == 0 && stats.in_flight_bytes == 0 && stats.lost_pending == 0,
                    "at rest, %llu packets (%llu bytes) count as in flight",
                    static_cast<unsigned long long>(stats.in_flight_packets),
                    static_cast<unsigned long long>(stats.in_flight_bytes));
        SIM_REQUIRE(ends_[at(end)]->engine().sends_outstanding(link.qpn[at(end)]) == 0, "sends outstanding at rest");
      }
      if (link.closed()) {
        link.stream[at(end)]->abandon();
      }
      link.target[at(1 - end)]->require_guards();
    }
    for (int end = 0; end < kEnds; ++end) {
      if (canary_ == Canary::kGuard) link.target[at(end)]->base()[-1] ^= 1;
      link.target[at(end)]->require_all_untouched();
    }
  }
  for (int end = 0; end < kEnds; ++end) {
    ends_[at(end)]->drain_events();
    ends_[at(end)]->check_events_against_state();
    ends_[at(end)]->check_counters();
  }
}

World::Link* World::find_link(int end, std::uint32_t qpn) {
  for (Link& link : links_) {
    if (link.qpn[at(end)] == qpn) return &link;
  }
  return nullptr;
}

}  // namespace openmrc::sim
