#include "engine/qp/reverse_paths.hpp"

#include <algorithm>

namespace openmrc {

void ReversePaths::start(const EvSet& set, std::uint32_t port_count, Rng rng) {
  rng_ = rng;
  port_count_ = static_cast<std::uint8_t>(port_count);
  for (PortId port = 0; port < port_count_; ++port) draw_plane(set, port);
}

void ReversePaths::draw_plane(const EvSet& set, PortId port) {
  Plane plane;
  for (std::uint8_t draws = 0; draws < kEvsPerPort; ++draws) {
    const Ev ev = draw(set, port);
    if (ev.port != port) break;
    const auto end = plane.evs.begin() + plane.count;
    if (std::find(plane.evs.begin(), end, ev.value) == end) plane.evs[plane.count++] = ev.value;
  }
  plane.good = plane.drawn = plane.count > 0;
  planes_[port] = plane;
}

// Paths that our own data found dead come last, since they may still be the only ones. The same holds for an EV that
// min_active keeps: it gets a share of the draws but not all, as it would otherwise take every answer to the probes
// that revive the others.
Ev ReversePaths::draw(const EvSet& set, PortId port) {
  const std::uint32_t start = set.size() == 0 ? 0 : static_cast<std::uint32_t>(rng_.below(set.size()));
  const EvSet::OfPort found = set.find_of_port(port, static_cast<EvIndex>(start));
  if (found.trusted != kNoEv) return set.ev(found.trusted);
  if (found.held == kNoEv && found.bad == kNoEv) return {0, static_cast<PortId>(port + 1)};  // no EV on this port
  const bool take_held = found.bad == kNoEv || (found.held != kNoEv && rng_.below(kEvsPerPort) == 0);
  return set.ev(take_held ? found.held : found.bad);
}

bool ReversePaths::may_use(PortId port, PortMask allowed, bool only_good) const {
  const Plane& plane = planes_[port];
  return (allowed >> port & 1) != 0 && plane.count > 0 && (!only_good || plane.good);
}

// The next EV in turn that our own data has not found dead: a lost NACK would look like the loss of the packet it
// answers. If all were found dead they take turns.
Ev ReversePaths::take(const EvSet& set, PortId port) {
  Plane& plane = planes_[port];
  const auto after = [&plane](std::uint8_t turn) { return static_cast<std::uint8_t>((turn + 1) % plane.count); };
  plane.turn = after(plane.turn);
  std::uint8_t turn = plane.turn;
  for (std::uint8_t step = 0; step < plane.count; ++step) {
    const EvIndex index = set.find(plane.evs[turn]);
    if (index == kNoEv || set.trusted(index)) {
      plane.turn = turn;
      break;
    }
    turn = after(turn);
  }
  return {plane.evs[plane.turn], port};
}

// Keeps the last EV: without a known alternative it may still work.
void ReversePaths::drop(Plane& plane, std::uint32_t value) {
  const auto end = plane.evs.begin() + plane.count;
  const auto found = std::find(plane.evs.begin(), end, value);
  if (found == end || plane.count == 1) return;
  std::copy(found + 1, end, found);
  --plane.count;
  plane.turn = static_cast<std::uint8_t>(plane.turn % plane.count);
  plane.oldest = static_cast<std::uint8_t>(plane.oldest % plane.count);
}

bool ReversePaths::choose(const EvSet& set, PortMask free_ports, PortMask usable_ports, PortId preferred, Ev& ev) {
  const PortMask allowed = free_ports & usable_ports;
  if (preferred < port_count_) {
    if (may_use(preferred, allowed, true)) {
      ev = take(set, preferred);
      return true;
    }
    // Worth waiting for: a packet has just arrived on this plane, which is better evidence than any about the others.
    if (may_use(preferred, usable_ports, true)) return false;
  }
  for (const bool only_good : {true, false}) {
    for (PortId step = 0; step < port_count_; ++step) {
      const auto port = static_cast<PortId>((turn_ + step) % port_count_);
      if (!may_use(port, allowed, only_good)) continue;
      turn_ = static_cast<PortId>((port + 1) % port_count_);
      ev = take(set, port);
      return true;
    }
  }
  return false;
}

void ReversePaths::suspect(const EvSet& set, PortId port) {
  if (port >= port_count_) return;
  const Plane before = planes_[port];
  draw_plane(set, port);
  planes_[port].good = before.good && planes_[port].count > 0;
  planes_[port].confirmed = before.confirmed;
  planes_[port].patience = before.patience;
  planes_[port].round_trip = before.round_trip;
  planes_[port].measured = before.measured;
}

void ReversePaths::confirm(TimePs now, const EvSet& set, EvIndex index) {
  if (set.state(index) == EvState::kDenied) return;
  const Ev& ev = set.ev(index);
  Plane& plane = planes_[ev.port];
  plane.confirmed = now;
  plane.good = true;
  if (plane.drawn) {
    plane.drawn = false;
    plane.count = plane.turn = plane.oldest = 0;
  }
  const auto end = plane.evs.begin() + plane.count;
  if (std::find(plane.evs.begin(), end, ev.value) != end) return;
  if (plane.count < kEvsPerPort) {
    plane.evs[plane.count++] = ev.value;
    return;
  }
  plane.evs[plane.oldest] = ev.value;
  plane.oldest = static_cast<std::uint8_t>((plane.oldest + 1) % kEvsPerPort);
}

void ReversePaths::leave_denied(const EvSet& set) {
  for (PortId port = 0; port < port_count_; ++port) {
    const Plane& plane = planes_[port];
    const bool denied = std::any_of(plane.evs.begin(), plane.evs.begin() + plane.count, [&](std::uint32_t value) {
      const EvIndex index = set.find(value);
      return index != kNoEv && set.state(index) == EvState::kDenied;
    });
    if (denied) draw_plane(set, port);
  }
}

void ReversePaths::on_probe_result(TimePs now, const EvSet& set, const Ev& ev, TimePs rtt) {
  const EvIndex index = set.find(ev.value);
  Plane& plane = planes_[ev.port];
  plane.patience = rtt > 0 ? 3 * rtt : std::clamp(2 * plane.patience, kPatienceFirst, kPatienceMax);
  if (rtt > 0 && (rtt <= plane.round_trip || now - plane.measured >= kRoundTripLife)) {
    plane.round_trip = rtt;
    plane.measured = now;
  }
  if (rtt > 0 && index != kNoEv) {
    confirm(now, set, index);
  } else if (plane.count > 0) {
    plane.good = false;
    drop(plane, ev.value);
  }
}

}  // namespace openmrc
