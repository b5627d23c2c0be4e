#include "netsim/plane.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {

Plane::Plane(const PlaneConfig& config, std::uint32_t index)
    : shape_(config.shape),
      index_(index),
      pool_(config.packets_max),
      events_(config.packets_max),
      links_(config.shape.links_per_plane()),
      fault_states_(config.shape.links_per_plane()),
      marking_(Rng::for_component(config.seed, "ecn", index)),
      fault_seeds_(Rng::for_component(config.seed, "fault", index)) {
  for (std::size_t kind = 0; kind < ports_.size(); ++kind) ports_[kind] = Port(config.ports[kind]);
}

void Plane::inject(TimePs when, const Packet& packet, Edge& edge) {
  MRC_ASSERT(packet.source_host < shape_.hosts && packet.destination_host < shape_.hosts);
  const PacketId id = pool_.take(packet);
  if (id == kNoPacket) {
    ++links_[shape_.nic_up(packet.source_host)].counters().drops[static_cast<std::size_t>(DropCause::kPoolEmpty)];
    edge.release(packet.payload);
    return;
  }
  pool_[id].link = kEntering;
  events_.push(std::max(when, now_), id);
}

void Plane::run_until(TimePs until, Edge& edge) {
  while (events_.next_time() <= until) {
    const Arrival arrival = events_.pop();
    now_ = std::max(now_, arrival.time);
    arrive(arrival.packet, edge);
  }
  now_ = std::max(now_, until);
}

void Plane::send(PacketId id, LinkId link, Edge& edge) {
  Packet& packet = pool_[id];
  packet.link = link;
  const Link::Sent sent = links_[link].offer(now_, packet, port_of(link), faults_of(link), marking_);
  if (!sent.sent) return discard(id, edge);
  events_.push(sent.arrival, id);
}

void Plane::arrive(PacketId id, Edge& edge) {
  Packet& packet = pool_[id];
  const LinkId crossed = packet.link;
  if (crossed == kEntering) return send(id, shape_.nic_up(packet.source_host), edge);
  if (FaultState* faults = faults_of(crossed); faults != nullptr) {
    if (!links_[crossed].survives(packet, *faults)) return discard(id, edge);
    const std::uint32_t twice_ppb = faults->effects.duplicate_ppb;
    if (twice_ppb > 0 && faults->rng.chance(twice_ppb, kPartsPerBillion)) duplicate(id, edge);
  }
  const LinkId next = next_link(shape_, packet);
  if (next != kDelivered) return send(id, next, edge);
  edge.deliver(now_, index_, packet);
  pool_.give_back(id);
}

// The copy goes on from here by itself; it cannot be duplicated again on the same link.
void Plane::duplicate(PacketId id, Edge& edge) {
  const PacketId copy = pool_.take(pool_[id]);
  Link& crossed = links_[pool_[id].link];
  if (copy == kNoPacket) {
    ++crossed.counters().drops[static_cast<std::size_t>(DropCause::kPoolEmpty)];
    return;
  }
  ++crossed.counters().duplicated;
  edge.share(pool_[copy].payload);
  const LinkId next = next_link(shape_, pool_[copy]);
  if (next != kDelivered) return send(copy, next, edge);
  edge.deliver(now_, index_, pool_[copy]);
  pool_.give_back(copy);
}

void Plane::discard(PacketId id, Edge& edge) {
  edge.release(pool_[id].payload);
  pool_.give_back(id);
}

void Plane::set_effects(TimePs now, LinkId link, const Effects& effects) {
  MRC_ASSERT(link < links_.size());
  now_ = std::max(now_, now);
  auto& state = fault_states_[link];
  const std::uint32_t old_ppm = state == nullptr ? kFullRatePpm : state->effects.rate_ppm;
  if (old_ppm != effects.rate_ppm) links_[link].change_rate(now_, old_ppm, effects.rate_ppm);
  if (!effects.any()) {
    state.reset();
    return;
  }
  if (state == nullptr) {
    state = std::make_unique<FaultState>();
    state->rng = Rng(fault_seeds_.next());
  }
  state->effects = effects;
}

Effects Plane::effects(LinkId link) const {
  return fault_states_[link] == nullptr ? Effects{} : fault_states_[link]->effects;
}

}  // namespace openmrc::netsim
