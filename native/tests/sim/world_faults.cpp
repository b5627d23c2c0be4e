// Faults on the ends: carriers, stalls, controller and receiver decisions, strangers on the network.
#include <algorithm>

#include "tests/sim/world.hpp"

namespace openmrc::sim {

namespace {

std::size_t at(int end) { return static_cast<std::size_t>(end); }

}  // namespace

void World::start_fault(std::uint32_t index) {
  const Fault& fault = scenario_.faults[index];
  const int end = std::max(fault.sender, 0);
  Link& link = links_[fault.qp];
  Engine& engine = ends_[at(end)]->engine();
  if (verbosity_ > 0)
    std::printf("%lld us: fault %s starts\n", static_cast<long long>(now_ / kPsPerUs), name_of(fault.kind));
  switch (fault.kind) {
    case FaultKind::kPortDown:
      network_.set_carrier(end, static_cast<PortId>(fault.plane), false);
      schedule(now_ + fault.amount, Kind::kPortNotice, end, static_cast<std::uint32_t>(fault.plane));
      break;
    case FaultKind::kStall:
      stalled_until_[at(end)] = std::max(stalled_until_[at(end)], fault.stop);
      break;
    case FaultKind::kDenyEv:
      deny_some(fault);
      break;
    case FaultKind::kPenalty:
      if (link.ready[at(end)])
        engine.set_receive_penalty(link.qpn[at(end)], static_cast<std::uint8_t>(rng_.below(128)), rng_.chance(1, 2));
      break;
    case FaultKind::kShrinkWindow:
      if (link.ready[at(end)] && link.plan->rtr.capabilities.dynamic_mpr)
        engine.set_receive_window(link.qpn[at(end)], 1);
      break;
    case FaultKind::kRestart:
      if (!link.closed() && link.ready[0] && link.ready[1] && !link.restarting) {
        link.restarting = true;
        break_peer(fault.qp, end);
      }
      break;
    case FaultKind::kGarbage:
    case FaultKind::kEvProbe:
      schedule(now_, Kind::kFaultTick, 0, index);
      break;
    default:
      break;
  }
}

void World::stop_fault(std::uint32_t index) {
  const Fault& fault = scenario_.faults[index];
  const int end = std::max(fault.sender, 0);
  Link& link = links_[fault.qp];
  Engine& engine = ends_[at(end)]->engine();
  switch (fault.kind) {
    case FaultKind::kPortDown:
      network_.set_carrier(end, static_cast<PortId>(fault.plane), true);
      schedule(now_ + static_cast<TimePs>(rng_.below(static_cast<std::uint64_t>(fault.amount))), Kind::kPortNotice, end,
               static_cast<std::uint32_t>(fault.plane));
      break;
    case FaultKind::kStall:
      schedule(stalled_until_[at(end)], Kind::kStallEnd, end);
      break;
    case FaultKind::kDenyEv:
      if (index % 2 == 0) {
        ends_[at(end)]->enable_all(now_);
        if (!stalled(end)) step(end);
      }
      break;
    case FaultKind::kPenalty:
      if (link.ready[at(end)]) engine.set_receive_penalty(link.qpn[at(end)], 0, true);
      break;
    case FaultKind::kShrinkWindow:
      if (link.ready[at(end)] && link.plan->rtr.capabilities.dynamic_mpr) {
        engine.set_receive_window(link.qpn[at(end)], link.plan->mpr_units[at(end)]);
      }
      break;
    default:
      break;
  }
}

void World::tick_fault(std::uint32_t index) {
  const Fault& fault = scenario_.faults[index];
  if (now_ >= fault.stop || now_ >= scenario_.safety_end) return;
  const int end = std::max(fault.sender, 0);
  if (!stalled(end)) {
    if (fault.kind == FaultKind::kGarbage) {
      const Datagram datagram = network_.garbage(end);
      ends_[at(end)]->receive(now_, datagram);
    } else {
      probe_some(fault);
    }
    step(end);
  }
  schedule(now_ + fault.amount / 8 + 1, Kind::kFaultTick, 0, index);
}

void World::deny_some(const Fault& fault) {
  const int end = std::max(fault.sender, 0);
  Link& link = links_[fault.qp];
  if (!link.ready[at(end)] || link.plan->transport == Transport::kRc) return;
  const auto& universe = link.plan->init.ev_universe;
  const std::uint64_t count = 1 + rng_.below(universe.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    ends_[at(end)]->deny(now_, link.qpn[at(end)], universe[rng_.below(universe.size())].value);
  }
  ends_[at(end)]->deny(now_, link.qpn[at(end)], 0x1);  // an EV of nobody
  if (!stalled(end)) step(end);
}

void World::probe_some(const Fault& fault) {
  const int end = std::max(fault.sender, 0);
  const PortId port = static_cast<PortId>(rng_.below(scenario_.planes));
  const std::uint32_t ev = static_cast<std::uint32_t>(0xC000 + rng_.below(0x4000));
  ends_[at(end)]->engine().send_ev_probe(ends_[at(end)]->local(now_), peers_[at(end)], port, ev,
                                         static_cast<std::uint16_t>(rng_.next()), 2 * fault.amount);
}

}  // namespace openmrc::sim
