// Rules for a packet at an output port and on the wire behind it, shared by the two models of the queue: `OutputPort` by
// arithmetic, `QueuedPlane` packet by packet.
#pragma once

#include <cstdint>

#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "netsim/output_port.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

inline constexpr std::uint32_t kPermille = 1000;

// True for the control class, which is served before data.
constexpr bool is_control(TrafficClass traffic_class) {
  return traffic_class == TrafficClass::kControl || is_trimmed(traffic_class);
}

inline bool can_trim(const PortConfig& config, const Packet& packet) {
  const bool trimmable =
      packet.traffic_class == TrafficClass::kTrimmable || packet.traffic_class == TrafficClass::kTrimmableRetx;
  return config.trim && trimmable && packet.bytes > config.trim_bytes;
}

// True if the port serves the packet before waiting data.
inline bool overtakes(const PortConfig& config, const Packet& packet) {
  return config.priority && is_control(packet.traffic_class);
}

inline void trim(const PortConfig& config, Packet& packet, LinkCounters& counters) {
  packet.bytes = config.trim_bytes;
  packet.traffic_class = config.last_hop ? TrafficClass::kTrimmedLastHop : TrafficClass::kTrimmed;
  ++counters.trims;
}

// A queue and its two marking thresholds, all in the same unit: picoseconds or bytes.
struct QueueLevel {
  std::int64_t length = 0;
  std::int64_t ecn_min = 0;
  std::int64_t ecn_max = 0;
};

// True with a probability that rises linearly from 0 at ecn_min to `max_permille` at ecn_max; the queue is in between.
bool ramp_marks(const QueueLevel& queue, std::uint32_t max_permille, Rng& rng);

// Sets CE on a packet of an ECN-capable transport: never up to ecn_min, always from ecn_max, by the ramp in between.
inline void mark(Packet& packet, const QueueLevel& queue, std::uint32_t max_permille, Rng& rng,
                 LinkCounters& counters) {
  if (packet.ecn == Ecn::kNotEct || packet.ecn == Ecn::kCe) return;
  if (queue.length < queue.ecn_max) {
    if (queue.length <= queue.ecn_min || !ramp_marks(queue, max_permille, rng)) return;
  }
  packet.ecn = Ecn::kCe;
  ++counters.marks;
}

// `time` at the remaining rate. `faults` is nullptr while there are none, here and below.
inline TimePs stretched(TimePs time, const FaultState* faults) {
  if (faults == nullptr || faults->effects.rate_ppm == kFullRatePpm) return time;
  __extension__ using Wide = unsigned __int128;
  return static_cast<TimePs>(static_cast<Wide>(time) * kFullRatePpm / faults->effects.rate_ppm);
}

// Extra delay by the faults for the packet that leaves now.
TimePs extra_delay(FaultState& faults, LinkCounters& counters);

// Applies losses after the packet has crossed: false if it is lost. May corrupt it.
bool survives(Packet& packet, FaultState& faults, LinkCounters& counters);

}  // namespace openmrc::netsim
