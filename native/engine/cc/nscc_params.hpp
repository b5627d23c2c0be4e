// The parameters of NSCC, derived once from a CcConfig (A.14.2): the published formulas in integers.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "engine/cc/controller.hpp"

namespace openmrc::nscc {

// Gains are fixed-point: `_q10` in units of 1/1024 byte, `_q20` in units of 2^-20.
struct Params {
  std::uint64_t mtu_bytes = 0;
  std::uint64_t bdp_bytes = 0;
  std::uint64_t max_window_bytes = 0;
  std::uint64_t initial_window_bytes = 0;
  TimePs base_rtt = 0;  // configured
  TimePs target_qdelay = 0;
  TimePs qa_threshold = 0;  // kNever: the delay never triggers quick adapt
  TimePs adjust_period = 0;
  std::uint64_t adjust_bytes = 0;
  TimePs no_delay_tolerance = 0;
  std::uint64_t proportional_q10 = 0;  // alpha x target: bytes one RTT without any delay adds
  std::uint64_t fair_q10 = 0;          // fi: bytes one RTT at or above the target adds
  std::uint64_t eta_q10 = 0;
  std::uint64_t fast_q20 = 0;  // fi_scale: bytes added per byte acknowledged
  std::uint32_t gamma_permille = 0;
  std::uint32_t max_md_jump_permille = 0;
  std::uint32_t qa_gate_shift = 0;
  bool quick_adapt = true;
  bool receiver_penalty = true;
  bool last_hop_delay = true;
};

// Accepts any configuration: values out of range are clamped to the nearest limit.
Params derive(const CcConfig& config);

inline constexpr TimePs kRttMax = 100 * kPsPerSecond;  // longer samples and settings count as this long

}  // namespace openmrc::nscc
