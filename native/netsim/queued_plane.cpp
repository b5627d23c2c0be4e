#include "netsim/queued_plane.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "engine/base/assert.hpp"
#include "netsim/output_port_rules.hpp"

namespace openmrc::netsim {
namespace {

std::uint64_t stream_of(std::uint32_t plane, LinkId link) { return (std::uint64_t{plane} << 32) + link; }

}  // namespace

QueuedPlane::QueuedPlane(const QueuedPlaneConfig& config, std::uint32_t index)
    : config_(config),
      index_(index),
      queues_(config.shape.links_per_plane()),
      switch_bytes_(config.shape.t0s() + config.shape.t1s_in_all() + config.shape.t2s()),
      adaptive_(Rng::for_component(config.seed, "adaptive", index)) {
  MRC_ASSERT(!config.pfc || config.pfc_xon_bytes <= config.pfc_xoff_bytes);
  MRC_ASSERT(config.delivery_lead >= 0);
  MRC_ASSERT(config.delivery_lead <= config.ports[static_cast<std::size_t>(LinkKind::kNicDown)].delay);
  for (std::size_t kind = 0; kind < ports_.size(); ++kind) ports_[kind] = Port(config.ports[kind]);
  for (LinkId link = 0; link < queues_.size(); ++link) {
    queues_[link].switch_index = sending_switch(link);
    queues_[link].marking = Rng::for_component(config.seed, "ecn", stream_of(index, link));
  }
}

std::uint32_t QueuedPlane::sending_switch(LinkId link) const {
  const LinkEnds ends = ends_of(config_.shape, link);
  switch (ends.kind) {
    case LinkKind::kNicUp:
      break;
    case LinkKind::kNicDown:
    case LinkKind::kT0Up:
      return ends.t0;
    case LinkKind::kT1Down:
    case LinkKind::kT1Up:
      return config_.shape.t0s() + ends.t1;
    case LinkKind::kT2Down:
      return config_.shape.t0s() + config_.shape.t1s_in_all() + ends.t2;
  }
  return kNoSwitch;
}

FaultState* QueuedPlane::faults_of(LinkId link) {
  if (fault_states_.empty() || fault_states_[link] == nullptr) return nullptr;
  return fault_states_[link]->effects.any() ? fault_states_[link].get() : nullptr;
}

void QueuedPlane::enter(TimePs when, const Packet& packet, Edge& /*edge*/) {
  MRC_ASSERT(packet.source_host < config_.shape.hosts && packet.destination_host < config_.shape.hosts);
  const std::uint32_t id = packets_.take(packet);
  Packet& entering = packets_[id].packet;
  entering.link = kEntering;
  entering.route = route_of(config_.shape, packet.source_host, packet.destination_host, packet.ev);
  events_.push(std::max(when, now_), QueuedEventKind::kEntry, config_.shape.nic_up(packet.source_host), id);
}

void QueuedPlane::arrive(TimePs when, const Packet& packet) {
  MRC_ASSERT(when >= now_ && packet.link == config_.shape.nic_up(packet.source_host));
  MRC_ASSERT(packet.destination_host < config_.shape.hosts);
  const std::uint32_t id = packets_.take(packet);
  packets_[id].arrival = when;
  events_.push(when, QueuedEventKind::kArrival, packet.link, id);
}

void QueuedPlane::run_until(TimePs until, Edge& edge) {
  while (events_.next_time() <= until) {
    const QueuedEvent event = events_.pop();
    now_ = std::max(now_, event.time);
    ++events_passed_;
    switch (event.kind()) {
      case QueuedEventKind::kDeparture:
        depart(event.link(), edge);
        break;
      case QueuedEventKind::kArrival:
        finish_crossing(event.index, edge);
        break;
      case QueuedEventKind::kEntry:
        offer(event.index, event.link(), edge);
        break;
      case QueuedEventKind::kPause:
        receive_pause(event.link(), event.index != 0);
        break;
    }
  }
  now_ = std::max(now_, until);
}

void QueuedPlane::finish_crossing(std::uint32_t id, Edge& edge) {
  const HeldPacket& held = packets_[id];
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(held.arrival), (std::uint64_t{held.packet.link} << 32) + held.packet.ev,
        std::uint64_t{held.packet.bytes}}) {
    trace_ = std::rotl((trace_ ^ word) * 0x9e3779b97f4a7c15ULL, 29);
  }
  if (FaultState* faults = faults_of(held.packet.link); faults != nullptr) {
    LinkCounters& counters = queues_[held.packet.link].counters;
    if (!survives(packets_[id].packet, *faults, counters)) return discard(id, edge);
    const std::uint32_t twice_ppb = faults->effects.duplicate_ppb;
    if (twice_ppb > 0 && faults->rng.chance(twice_ppb, kPartsPerBillion)) {
      ++counters.duplicated;
      const HeldPacket original = held;  // `take` may move it
      const std::uint32_t copy = packets_.take(original.packet);
      packets_[copy].arrival = original.arrival;
      edge.share(original.packet);
      go_on(copy, edge);  // independent; it cannot be duplicated again on the same link
    }
  }
  go_on(id, edge);
}

void QueuedPlane::go_on(std::uint32_t id, Edge& edge) {
  if (config_.shape.routing == Routing::kAdaptive) choose_uplink(packets_[id].packet);
  const LinkId next = next_link(config_.shape, packets_[id].packet);
  if (next != kDelivered) return offer(id, next, edge);
  const HeldPacket delivered = packets_[id];
  packets_.give_back(id);
  edge.deliver(delivered.arrival, index_, delivered.packet);
}

void QueuedPlane::choose_uplink(Packet& packet) {
  const ClosShape& shape = config_.shape;
  const LinkKind kind = shape.kind_of(packet.link);
  const std::uint32_t source_t0 = shape.t0_of(packet.source_host);
  const std::uint32_t target_t0 = shape.t0_of(packet.destination_host);
  if (kind == LinkKind::kNicUp && source_t0 != target_t0) {
    packet.route.t0_uplink = static_cast<std::uint16_t>(least_waiting(packet, shape.t0_up(source_t0, 0), shape.t1s));
  } else if (kind == LinkKind::kT0Up && shape.t1_uplinks > 0 &&
             shape.pod_of_t0(source_t0) != shape.pod_of_t0(target_t0)) {
    const std::uint32_t t1 = ends_of(shape, packet.link).t1;
    packet.route.t1_uplink = static_cast<std::uint16_t>(least_waiting(packet, shape.t1_up(t1, 0), shape.t1_uplinks));
  }
}

// Ties go to the first after a random start, as every switch would otherwise favour its first uplinks. Links that are
// down, known to the switch itself or through routing, come last.
std::uint32_t QueuedPlane::least_waiting(const Packet& packet, LinkId first, std::uint32_t count) {
  const std::uint32_t start = static_cast<std::uint32_t>(adaptive_.below(count));
  std::uint32_t best = start;
  std::uint64_t best_bytes = ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t uplink = (start + i) % count;
    const FaultState* faults = faults_of(first + uplink);
    if (faults != nullptr && faults->effects.down) continue;
    if (config_.tables != nullptr && !config_.tables->usable_uplink(index_, packet, uplink)) continue;
    const std::uint64_t bytes = queue_bytes(now_, first + uplink);
    if (bytes >= best_bytes) continue;
    best = uplink;
    best_bytes = bytes;
  }
  return best;
}

void QueuedPlane::offer(std::uint32_t id, LinkId link, Edge& edge) {
  HeldPacket& held = packets_[id];
  Packet& packet = held.packet;
  held.ingress = packet.link;
  packet.link = link;
  Queue& queue = queues_[link];
  const Port& port = port_of(link);
  const PortConfig& config = port.config();
  const auto drop = [&](DropCause cause) {
    ++queue.counters.drops[static_cast<std::size_t>(cause)];
    discard(id, edge);
  };
  if (!overtakes(config, packet)) {
    const bool admitted = admits(queue, config, packet.bytes);
    if (!can_trim(config, packet) || (admitted && queue.data_bytes <= config.trim_threshold_bytes)) {
      if (!admitted) return drop(DropCause::kQueueFull);
      hold_data(id, queue, port, edge);
      return serve(link);
    }
    trim(config, packet, queue.counters);
  }
  if (queue.control_bytes + packet.bytes > config.control_queue_bytes) return drop(DropCause::kControlQueueFull);
  queue.control_bytes += packet.bytes;
  queue.control.push(packets_, id);
  serve(link);
}

bool QueuedPlane::admits(const Queue& queue, const PortConfig& config, std::uint32_t bytes) const {
  const bool within_port = queue.data_bytes + bytes <= config.queue_bytes;
  if (queue.switch_index == kNoSwitch) return within_port;
  if (!config_.pfc && !within_port) return false;
  if (config_.buffer_bytes == 0) return true;
  const std::uint64_t free_bytes = config_.buffer_bytes - switch_bytes_[queue.switch_index];
  if (bytes > free_bytes) return false;
  return config_.pfc || queue.data_bytes * kPermille < config_.alpha_permille * free_bytes;
}

void QueuedPlane::hold_data(std::uint32_t id, Queue& queue, const Port& port, Edge& edge) {
  const HeldPacket& held = packets_[id];
  const PortConfig& config = port.config();
  if (config.ecn) {
    mark(packets_[id].packet, {static_cast<std::int64_t>(queue.data_bytes), config.ecn_min_bytes, config.ecn_max_bytes},
         config.ecn_max_permille, queue.marking, queue.counters);
  }
  const TimePs wait = port.transmit_time(static_cast<std::uint32_t>(queue.data_bytes));
  queue.counters.queue_peak = std::max(queue.counters.queue_peak, wait);
  queue.data_bytes += held.packet.bytes;
  queue.data.push(packets_, id);
  if (queue.switch_index == kNoSwitch) return;
  switch_bytes_[queue.switch_index] += held.packet.bytes;
  Queue& ingress = queues_[held.ingress];
  ingress.held_beyond_bytes += held.packet.bytes;
  if (config_.pfc && !ingress.pause_sent && ingress.held_beyond_bytes > config_.pfc_xoff_bytes) {
    send_pause(held.ingress, true, edge);
  }
}

void QueuedPlane::let_go_of_data(const HeldPacket& held, Queue& queue, Edge& edge) {
  queue.data_bytes -= held.packet.bytes;
  if (queue.switch_index == kNoSwitch) return;
  switch_bytes_[queue.switch_index] -= held.packet.bytes;
  Queue& ingress = queues_[held.ingress];
  ingress.held_beyond_bytes -= held.packet.bytes;
  if (ingress.pause_sent && ingress.held_beyond_bytes <= config_.pfc_xon_bytes) send_pause(held.ingress, false, edge);
}

// Starts the next packet if the port is free and not paused.
void QueuedPlane::serve(LinkId link) {
  Queue& queue = queues_[link];
  if (queue.in_service != kNoPacket) return;
  if (!queue.control.empty()) {
    queue.in_service = queue.control.pop(packets_);
  } else if (!queue.data.empty() && !queue.paused) {
    queue.in_service = queue.data.pop(packets_);
  } else {
    return;
  }
  const TimePs transmit = port_of(link).transmit_time(packets_[queue.in_service].packet.bytes);
  events_.push(now_ + stretched(transmit, faults_of(link)), QueuedEventKind::kDeparture, link);
}

void QueuedPlane::depart(LinkId link, Edge& edge) {
  Queue& queue = queues_[link];
  const std::uint32_t id = queue.in_service;
  queue.in_service = kNoPacket;
  HeldPacket& held = packets_[id];
  if (overtakes(port_of(link).config(), held.packet)) {
    queue.control_bytes -= held.packet.bytes;
  } else {
    let_go_of_data(held, queue, edge);
  }
  ++queue.counters.packets;
  queue.counters.bytes += held.packet.bytes;
  held.arrival = now_ + port_of(link).config().delay;
  if (FaultState* faults = faults_of(link); faults != nullptr) held.arrival += extra_delay(*faults, queue.counters);
  const bool last = config_.shape.kind_of(link) == LinkKind::kNicDown;
  events_.push(last ? held.arrival - config_.delivery_lead : held.arrival, QueuedEventKind::kArrival, link, id);
  serve(link);
}

// The switch at the end of the link pauses the port at its beginning. For a host the edge is notified as well, because
// its port may belong to a NIC outside the plane.
void QueuedPlane::send_pause(LinkId link, bool pause, Edge& edge) {
  queues_[link].pause_sent = pause;
  const TimePs when = now_ + port_of(link).config().delay;
  events_.push(when, QueuedEventKind::kPause, link, pause ? 1 : 0);
  const LinkEnds ends = ends_of(config_.shape, link);
  if (ends.kind == LinkKind::kNicUp) edge.pause(when, index_, ends.host, pause);
}

void QueuedPlane::receive_pause(LinkId link, bool pause) {
  Queue& queue = queues_[link];
  MRC_ASSERT(queue.paused != pause);
  queue.paused = pause;
  if (pause) {
    ++queue.pauses.pauses;
    queue.paused_since = now_;
    return;
  }
  queue.pauses.paused += now_ - queue.paused_since;
  serve(link);
}

void QueuedPlane::discard(std::uint32_t id, Edge& edge) {
  edge.release(packets_[id].packet);
  packets_.give_back(id);
}

void QueuedPlane::set_effects(TimePs now, LinkId link, const Effects& effects) {
  MRC_ASSERT(link < queues_.size());
  now_ = std::max(now_, now);
  if (fault_states_.empty()) {
    if (!effects.any()) return;
    fault_states_.resize(queues_.size());
  }
  auto& state = fault_states_[link];
  if (state == nullptr) {
    if (!effects.any()) return;
    state = std::make_unique<FaultState>();
    state->rng = Rng::for_component(config_.seed, "fault", stream_of(index_, link));
  }
  state->effects = effects;
  if (!effects.any()) state->in_burst = false;
}

Effects QueuedPlane::effects(LinkId link) const {
  return fault_states_.empty() || fault_states_[link] == nullptr ? Effects{} : fault_states_[link]->effects;
}

std::uint64_t QueuedPlane::queue_bytes(TimePs /*now*/, LinkId link) const {
  return queues_[link].data_bytes + queues_[link].control_bytes;
}

PauseCounters QueuedPlane::pause_counters(TimePs now, LinkId link) const {
  const Queue& queue = queues_[link];
  PauseCounters counters = queue.pauses;
  if (queue.paused) counters.paused += std::max<TimePs>(0, now - queue.paused_since);
  return counters;
}

std::size_t QueuedPlane::memory_bytes() const {
  return packets_.memory_bytes() + events_.memory_bytes() + queues_.capacity() * sizeof(Queue) +
         switch_bytes_.capacity() * sizeof(std::uint64_t) +
         fault_states_.capacity() * sizeof(std::unique_ptr<FaultState>);
}

}  // namespace openmrc::netsim
