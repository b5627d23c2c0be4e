// Congestion control of one QP: window based, clocked by SACKs (A.14). Integer arithmetic only.
//
// Order of calls: `on_sent` for every packet put on the wire; then, as feedback arrives, `on_ack` for each SACK,
// `on_trim` for each TRIMMED / TRIMMED_LASTHOP NACK, `on_loss` for each packet inferred lost. `window_bytes` at any
// time; the requester sends while in_flight + packet <= window. Sizes are nominal: UDP length + 40 (A.3).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/base/hot_memory.hpp"
#include "engine/base/time.hpp"
#include "engine/generated/profiles.hpp"
#include "engine/generated/statistics.hpp"

namespace openmrc {

struct AckSample {
  std::uint64_t new_bytes = 0;        // advance of the receiver's rcvd_bytes
  std::uint64_t in_flight_bytes = 0;  // after this SACK
  TimePs rtt = 0;                     // service time removed; 0: no sample (probe answer, unknown copy of a packet)
  bool short_packet = false;          // `rtt` is that of a packet with less payload than the MTU
  bool marked = false;                // ECN: M = SKIP_ONCE or ALWAYS_SKIP
  std::uint8_t rcv_cwnd_pen = 0;      // receiver's penalty field, 0..127
  bool restore_cwnd = false;
};

class CongestionController {
 public:
  virtual ~CongestionController() = default;
  virtual void on_sent(TimePs now, std::uint64_t bytes) = 0;
  virtual void on_ack(TimePs now, const AckSample& sample) = 0;
  virtual void on_trim(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes, bool last_hop) = 0;
  virtual void on_loss(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes) = 0;
  virtual std::uint64_t window_bytes() const = 0;
  virtual CcStats stats() const = 0;
  // The clock was set back by `by`: for controllers that store instants (`rebased` in base/time.hpp).
  virtual void rebase(TimePs /*by*/) {}
  // Adds the addresses of the state that traffic touches, as a hint for prefetching.
  virtual void hot_memory(HotMemory& /*memory*/) const {}
};

// Creates a controller by its registered name (A.14.15): "nscc", "none", or a name added by register_controller of
// custom_controller.hpp. Returns nullptr for an unknown name.
std::unique_ptr<CongestionController> make_controller(std::string_view name, const CcConfig& config);
std::span<const std::string_view> controller_names();

}  // namespace openmrc
