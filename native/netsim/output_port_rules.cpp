#include "netsim/output_port_rules.hpp"

#include <algorithm>

namespace openmrc::netsim {
namespace {

__extension__ using Wide = unsigned __int128;

// Leaves a burst after `burst_packets` on average, and enters one at the rate that gives the configured loss share.
bool lost_in_burst(FaultState& faults) {
  const Effects& effects = faults.effects;
  if (effects.burst_loss_ppb == 0) return false;
  if (effects.burst_loss_ppb >= kPartsPerBillion) return true;
  if (faults.in_burst) {
    if (faults.rng.chance(1, effects.burst_packets)) faults.in_burst = false;
  } else {
    const std::uint64_t kept_ppb = kPartsPerBillion - effects.burst_loss_ppb;
    if (faults.rng.chance(effects.burst_loss_ppb, kept_ppb * effects.burst_packets)) faults.in_burst = true;
  }
  return faults.in_burst;
}

bool lost_for_ev(const Packet& packet, FaultState& faults) {
  return std::any_of(faults.effects.ev_losses.begin(), faults.effects.ev_losses.end(), [&](const EvLoss& loss) {
    return loss.ev == packet.ev && faults.rng.chance(loss.loss_ppb, kPartsPerBillion);
  });
}

bool lost(DropCause cause, LinkCounters& counters) {
  ++counters.drops[static_cast<std::size_t>(cause)];
  return false;
}

}  // namespace

bool ramp_marks(const QueueLevel& queue, std::uint32_t max_permille, Rng& rng) {
  const auto width = static_cast<std::uint64_t>(queue.ecn_max - queue.ecn_min);
  const auto above = static_cast<std::uint64_t>(queue.length - queue.ecn_min);
  return static_cast<Wide>(rng.below(width)) * kPermille < static_cast<Wide>(above) * max_permille;
}

TimePs extra_delay(FaultState& faults, LinkCounters& counters) {
  const Effects& effects = faults.effects;
  TimePs delay = effects.delay;
  if (effects.jitter > 0) delay += static_cast<TimePs>(faults.rng.below(static_cast<std::uint64_t>(effects.jitter)));
  if (effects.reorder_ppb > 0 && faults.rng.chance(effects.reorder_ppb, kPartsPerBillion)) {
    delay += effects.reorder_delay;
    ++counters.reordered;
  }
  return delay;
}

bool survives(Packet& packet, FaultState& faults, LinkCounters& counters) {
  const Effects& effects = faults.effects;
  if (effects.down) return lost(DropCause::kDown, counters);
  if (effects.blackhole) return lost(DropCause::kBlackhole, counters);
  const bool dropped = effects.loss_ppb > 0 && faults.rng.chance(effects.loss_ppb, kPartsPerBillion);
  if (lost_in_burst(faults) || dropped || lost_for_ev(packet, faults)) return lost(DropCause::kLoss, counters);
  if (effects.corrupt_ppb > 0 && faults.rng.chance(effects.corrupt_ppb, kPartsPerBillion)) {
    packet.corruption = static_cast<std::uint16_t>(faults.rng.below(kNotCorrupted));
    ++counters.corrupted;
  }
  return true;
}

}  // namespace openmrc::netsim
