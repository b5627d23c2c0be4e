// Congestion control of one QP: window based, clocked by SACKs (A.14). Integer arithmetic only.
//
// Order of calls: `on_sent` for every packet put on the wire; then, as feedback arrives, `on_ack` for each SACK,
// `on_trim` for each TRIMMED / TRIMMED_LASTHOP NACK, `on_loss` for each packet inferred lost. `window_bytes` at any time;
// the requester sends while inflight + packet <= window. Sizes are nominal: UDP length + 40 (A.3).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/base/hot_memory.hpp"
#include "engine/base/time.hpp"

namespace openmrc {

struct AckSample {
  std::uint64_t new_bytes = 0;       // advance of the receiver's rcvd_bytes
  std::uint64_t inflight_bytes = 0;  // after this SACK
  TimePs rtt = 0;                    // service time removed; 0: no sample (probe answer, unknown copy of a packet)
  bool short_packet = false;         // `rtt` is that of a packet with less payload than the MTU
  bool marked = false;               // ECN: M = SKIP_ONCE or ALWAYS_SKIP
  std::uint8_t rcv_cwnd_pen = 0;     // receiver's penalty field, 0..127
  bool restore_cwnd = false;
};

// What every controller is told of its surroundings.
struct CcConfig {
  std::uint32_t mtu_bytes = 4096;   // nominal size of a full packet
  std::uint64_t link_rate_bps = 0;  // min of the two ends, all planes together; 0: 100 Gb/s
  TimePs base_rtt = 0;              // configured, sizes everything; only the delay is measured against the
                                    // smallest sample. 0: 12 us
  bool trimming = false;            // both the fabric trims and the peer sends TRIM_NACK
  // NSCC parameters (F.2); 0 means the published formula.
  std::uint64_t max_cwnd_bytes = 0;
  TimePs target_qdelay = 0;
  TimePs qa_threshold = 0;
  TimePs adjust_period = 0;
  std::uint64_t adjust_bytes = 0;
  std::uint32_t fi_permille = 5000;       // fi = 5 x MTU x scaling_a
  std::uint32_t eta_permille = 150;       // eta = 0.15 x MTU x scaling_a
  std::uint32_t fi_scale_permille = 250;  // fast increase = 0.25 x scaling_a
  std::uint32_t gamma_permille = 800;
  std::uint32_t max_md_jump_permille = 500;
  std::uint32_t qa_gate_shift = 3;
  bool disable_qa = false;
  bool ignore_rcv_penalty = false;
  // Beyond the published tables, for networks far from 12 us (docs/concepts/congestion-control.md says why).
  TimePs no_delay_tolerance = 0;                  // delay that counts as none; 0: 1 us x scaling_b, at least 1 us
  std::uint32_t proportional_cap_permille = 250;  // most of a BDP that one RTT of proportional increase adds; 0: no cap
  std::uint32_t incast_degree = 0;                // senders that start at one receiver together (the API's QP hint):
                                                  // each begins with its share of MaxWnd; 0: unknown, all of it
  bool ignore_last_hop_trims = false;             // a trim on the last hop does not turn delay into marks
  std::uint32_t max_cwnd_packets_min = 8;         // MaxWnd by formula never falls below this many packets
};

struct CcStats {
  std::uint64_t window_bytes = 0, max_window_bytes = 0;
  TimePs base_rtt = 0, average_delay = 0;
  std::uint64_t proportional = 0, fair = 0, fast = 0, decreases = 0, quick_adapts = 0, trims = 0, losses = 0;
};

class CongestionController {
 public:
  virtual ~CongestionController() = default;
  virtual void on_sent(TimePs now, std::uint64_t bytes) = 0;
  virtual void on_ack(TimePs now, const AckSample& sample) = 0;
  virtual void on_trim(TimePs now, std::uint64_t bytes, std::uint64_t inflight_bytes, bool last_hop) = 0;
  virtual void on_loss(TimePs now, std::uint64_t bytes, std::uint64_t inflight_bytes) = 0;
  virtual std::uint64_t window_bytes() const = 0;
  virtual CcStats stats() const = 0;
  // The clock was set back by `by`: for controllers that remember instants (`rebased` in base/time.hpp).
  virtual void rebase(TimePs /*by*/) {}
  // Adds where the state lies that traffic touches, as a hint.
  virtual void hot_memory(HotMemory& /*memory*/) const {}
};

// Registered names: "nscc", "none", and what register_controller of custom_controller.hpp added. Returns nullptr for an
// unknown name.
std::unique_ptr<CongestionController> make_controller(std::string_view name, const CcConfig& config);
std::span<const std::string_view> controller_names();

}  // namespace openmrc
