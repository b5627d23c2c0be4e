#include "engine/qp/reverse_paths.hpp"

namespace openmrc {

void ReversePaths::start(const EvSet& set, std::uint32_t port_count, Rng rng) {
  rng_ = rng;
  port_count_ = static_cast<std::uint8_t>(port_count);
  for (PortId port = 0; port < port_count_; ++port) {
    const Ev ev = draw(set, port);
    paths_[port] = {ev.value, ev.port == port, ev.port == port, INT64_MIN};
  }
}

Ev ReversePaths::draw(const EvSet& set, PortId port) {
  // The universe is shuffled by construction; a scan from a random start is random enough and always ends.
  const std::uint32_t start = set.size() == 0 ? 0 : static_cast<std::uint32_t>(rng_.below(set.size()));
  for (std::uint32_t step = 0; step < set.size(); ++step) {
    const auto index = static_cast<EvIndex>((start + step) % set.size());
    if (set.ev(index).port == port && set.state(index) != EvState::kDenied) return set.ev(index);
  }
  return {0, static_cast<PortId>(port + 1)};  // no EV on this port
}

bool ReversePaths::try_port(PortId port, PortMask allowed, bool only_good, Ev& ev) const {
  const Path& path = paths_[port];
  if ((allowed >> port & 1) == 0 || !path.exists || (only_good && !path.good)) return false;
  ev = {path.ev, port};
  return true;
}

bool ReversePaths::choose(PortMask free_ports, PortMask usable_ports, PortId preferred, Ev& ev) {
  const PortMask allowed = free_ports & usable_ports;
  if (preferred < port_count_) {
    if (try_port(preferred, allowed, true, ev)) return true;
    // Worth waiting for: nothing is known of the other planes that compares to having just heard from this one.
    if (try_port(preferred, usable_ports, true, ev)) return false;
  }
  for (const bool only_good : {true, false}) {
    for (PortId step = 0; step < port_count_; ++step) {
      const auto port = static_cast<PortId>((turn_ + step) % port_count_);
      if (!try_port(port, allowed, only_good, ev)) continue;
      turn_ = static_cast<PortId>((port + 1) % port_count_);
      return true;
    }
  }
  return false;
}

void ReversePaths::confirm(TimePs now, const EvSet& set, EvIndex index) {
  if (set.state(index) == EvState::kDenied) return;
  const Ev& ev = set.ev(index);
  paths_[ev.port] = {ev.value, true, true, now};
}

void ReversePaths::leave_denied(const EvSet& set) {
  for (PortId port = 0; port < port_count_; ++port) {
    const EvIndex index = set.find(paths_[port].ev);
    if (!paths_[port].exists || index == kNoEv || set.state(index) != EvState::kDenied) continue;
    const Ev ev = draw(set, port);
    paths_[port] = {ev.value, ev.port == port, ev.port == port, INT64_MIN};
  }
}

void ReversePaths::on_probe_result(TimePs now, const EvSet& set, const Ev& ev, bool answered) {
  const EvIndex index = set.find(ev.value);
  if (answered && index != kNoEv) {
    confirm(now, set, index);
  } else if (paths_[ev.port].exists) {
    paths_[ev.port].good = false;
  }
}

}  // namespace openmrc
