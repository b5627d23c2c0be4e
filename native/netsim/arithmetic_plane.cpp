#include "netsim/arithmetic_plane.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::size_t kCacheBytes = std::size_t{1} << 18;  // share of the cache that a plane's links can count on

// From the number of packets in flight at full load, with four hops each.
int slot_width(const PlaneConfig& config) {
  constexpr std::uint32_t kFullPacketBytes = 4262;
  constexpr TimePs kHops = 4;
  const Port uplink(config.ports[static_cast<std::size_t>(LinkKind::kNicUp)]);
  return EventQueue::width_for(uplink.transmit_time(kFullPacketBytes) / (kHops * config.shape.hosts));
}

}  // namespace

ArithmeticPlane::ArithmeticPlane(const PlaneConfig& config, std::uint32_t index)
    : config_(config),
      index_(index),
      events_(slot_width(config)),
      links_(config.shape.links_per_plane()),
      fetch_links_(links_.size() * sizeof(OutputPort) > kCacheBytes),
      marking_(Rng::for_component(config.seed, "ecn", index)),
      adaptive_(Rng::for_component(config.seed, "adaptive", index)) {
  for (std::size_t kind = 0; kind < ports_.size(); ++kind) ports_[kind] = Port(config.ports[kind]);
  MRC_ASSERT(config.delivery_lead >= 0);
  MRC_ASSERT(config.delivery_lead <= config.ports[static_cast<std::size_t>(LinkKind::kNicDown)].delay);
}

bool ArithmeticPlane::crowded(const Packet& packet, Edge& edge) {
  if (config_.packets_max == 0 || events_.size() < config_.packets_max) return false;
  const LinkId link = packet.link == kEntering ? config_.shape.nic_up(packet.source_host) : packet.link;
  ++links_[link].counters().drops[static_cast<std::size_t>(DropCause::kCrowded)];
  edge.release(packet);
  return true;
}

void ArithmeticPlane::enter(TimePs when, const Packet& packet, Edge& edge) {
  MRC_ASSERT(packet.source_host < config_.shape.hosts && packet.destination_host < config_.shape.hosts);
  Packet entering = packet;
  entering.link = kEntering;
  entering.route = route_of(config_.shape, packet.source_host, packet.destination_host, packet.ev);
  if (!crowded(entering, edge)) events_.push(std::max(when, now_), entering);
}

void ArithmeticPlane::arrive(TimePs when, const Packet& packet) {
  MRC_ASSERT(when >= now_ && packet.link == config_.shape.nic_up(packet.source_host));
  events_.push(when, packet);
}

void ArithmeticPlane::run_until(TimePs until, Edge& edge) {
  while (const EventQueue::Event* event = events_.pop(until)) {
    now_ = std::max(now_, event->time);
    if (fetch_links_) events_.look_ahead([this](const Packet& packet) { prefetch(packet); });
    pass(now_, event->packet, edge);
  }
  now_ = std::max(now_, until);
}

void ArithmeticPlane::prefetch(const Packet& packet) const {
  if (packet.link == kEntering) return;
  const LinkId next = next_link(config_.shape, packet);
  if (next != kDelivered) __builtin_prefetch(&links_[next], 1);
}

void ArithmeticPlane::send(TimePs now, Packet& packet, LinkId link, Edge& edge) {
  packet.link = link;
  const LinkKind kind = config_.shape.kind_of(link);
  const OutputPort::Sent sent =
      links_[link].offer(now, packet, ports_[static_cast<std::size_t>(kind)], faults_of(link), marking_);
  if (!sent.sent) return edge.release(packet);
  events_.push(kind == LinkKind::kNicDown ? sent.arrival - config_.delivery_lead : sent.arrival, packet);
}

void ArithmeticPlane::pass(TimePs now, const Packet& event, Edge& edge) {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  trace_ = (trace_ ^ (static_cast<std::uint64_t>(now) + (std::uint64_t{event.link} << 40) + event.ev)) * kPrime;
  ++passed_;
  Packet packet = event;
  if (packet.link == kEntering) return send(now, packet, config_.shape.nic_up(packet.source_host), edge);
  if (FaultState* faults = faults_of(packet.link); faults != nullptr) {
    if (!crossed(now, packet, *faults, edge)) return;
  }
  go_on(now, packet, edge);
}

// Applies the faults of the link to a packet at its end; false if the packet is lost.
bool ArithmeticPlane::crossed(TimePs now, Packet& packet, FaultState& faults, Edge& edge) {
  OutputPort& link = links_[packet.link];
  if (!link.survives(packet, faults)) {
    edge.release(packet);
    return false;
  }
  const std::uint32_t twice_ppb = faults.effects.duplicate_ppb;
  if (twice_ppb > 0 && faults.rng.chance(twice_ppb, kPartsPerBillion) &&
      (config_.packets_max == 0 || events_.size() < config_.packets_max)) {
    ++link.counters().duplicated;
    edge.share(packet);
    Packet copy = packet;  // continues independently; it cannot be duplicated again on the same link
    go_on(now, copy, edge);
  }
  return true;
}

void ArithmeticPlane::go_on(TimePs now, Packet& packet, Edge& edge) {
  if (config_.shape.routing == Routing::kAdaptive) choose_uplink(now, packet);
  const LinkId next = next_link(config_.shape, packet);
  if (next != kDelivered) return send(now, packet, next, edge);
  edge.deliver(now + config_.delivery_lead, index_, packet);
}

void ArithmeticPlane::choose_uplink(TimePs now, Packet& packet) {
  const ClosShape& shape = config_.shape;
  const LinkKind kind = shape.kind_of(packet.link);
  if (kind == LinkKind::kNicUp) {
    packet.route.t0_uplink =
        static_cast<std::uint16_t>(least_busy(now, packet, shape.t0_up(shape.t0_of(packet.source_host), 0), shape.t1s));
  } else if (kind == LinkKind::kT0Up && shape.t1_uplinks > 0) {
    const std::uint32_t t1 = ends_of(shape, packet.link).t1;
    packet.route.t1_uplink = static_cast<std::uint16_t>(least_busy(now, packet, shape.t1_up(t1, 0), shape.t1_uplinks));
  }
}

// A switch knows the state of its own links at once, and that of others after routing has converged.
bool ArithmeticPlane::knows_dead(const Packet& packet, LinkId link, std::uint32_t uplink) const {
  if (faulty_links_ > 0 && fault_states_[link] != nullptr && fault_states_[link]->effects.down) return true;
  return config_.tables != nullptr && !config_.tables->usable_uplink(index_, packet, uplink);
}

// Ties go to the first after a random start, as every switch would otherwise favour its first uplinks.
std::uint32_t ArithmeticPlane::least_busy(TimePs now, const Packet& packet, LinkId first, std::uint32_t count) {
  const std::uint32_t start = static_cast<std::uint32_t>(adaptive_.below(count));
  std::uint32_t best = start;
  TimePs least = kNever;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t uplink = (start + i) % count;
    const TimePs backlog = links_[first + uplink].backlog(now);
    if (backlog >= least || knows_dead(packet, first + uplink, uplink)) continue;
    best = uplink;
    least = backlog;
  }
  return best;
}

void ArithmeticPlane::set_effects(TimePs now, LinkId link, const Effects& effects) {
  MRC_ASSERT(link < links_.size());
  now_ = std::max(now_, now);
  if (fault_states_.empty()) {
    if (!effects.any()) return;
    fault_states_.resize(links_.size());
  }
  auto& state = fault_states_[link];
  const std::uint32_t old_ppm = state == nullptr ? kFullRatePpm : state->effects.rate_ppm;
  if (old_ppm != effects.rate_ppm) links_[link].change_rate(now_, old_ppm, effects.rate_ppm);
  if (!effects.any()) {
    if (state != nullptr) --faulty_links_;
    state.reset();
    return;
  }
  if (state == nullptr) {
    ++faulty_links_;
    state = std::make_unique<FaultState>();
    state->rng = Rng::for_component(config_.seed + faults_begun_++, "fault", (std::uint64_t{index_} << 32) + link);
  }
  state->effects = effects;
}

Effects ArithmeticPlane::effects(LinkId link) const {
  return fault_states_.empty() || fault_states_[link] == nullptr ? Effects{} : fault_states_[link]->effects;
}

std::uint64_t ArithmeticPlane::queue_bytes(TimePs now, LinkId link) const {
  return port_of(link).bytes_in(links_[link].backlog(now));
}

std::size_t ArithmeticPlane::memory_bytes() const {
  return events_.memory_bytes() + links_.capacity() * sizeof(OutputPort) +
         fault_states_.capacity() * sizeof(std::unique_ptr<FaultState>);
}

}  // namespace openmrc::netsim
