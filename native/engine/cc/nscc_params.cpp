#include "engine/cc/nscc_params.hpp"

#include <algorithm>

namespace openmrc::nscc {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kReferenceBytes = 150'000;        // BDP for which scaling_a is 1: 100 Gb/s x 12 us
constexpr std::uint64_t kReferenceDelay = 12 * kPsPerUs;  // target for which scaling_b is 1
constexpr std::uint64_t kReferenceRateBps = 100'000'000'000;
constexpr std::uint64_t kRateBpsMax = 100'000'000'000'000;
constexpr std::uint64_t kWindowBytesMax = std::uint64_t{1} << 50;
constexpr std::uint64_t kQ10 = 1U << 10;
constexpr std::uint64_t kQ20 = 1U << 20;

std::uint64_t narrow(Wide value, std::uint64_t most) { return value > most ? most : static_cast<std::uint64_t>(value); }

// scaling_a x permille / 1000 x unit
std::uint64_t scaled_by_bdp(std::uint64_t bdp_bytes, std::uint32_t permille, std::uint64_t unit) {
  return narrow(Wide{bdp_bytes} * permille * unit / (Wide{kReferenceBytes} * 1000), kWindowBytesMax);
}

std::uint64_t proportional_gain(const CcConfig& config, const Params& params) {
  // alpha x target = 4 x scaling_a x scaling_b x MTU: the target in alpha's denominator cancels.
  const Wide by_formula = Wide{params.bdp_bytes} * static_cast<std::uint64_t>(params.target_qdelay) * 4 *
                          params.mtu_bytes * kQ10 / (Wide{kReferenceBytes} * kReferenceDelay);
  if (config.proportional_cap_permille == 0) return narrow(by_formula, kWindowBytesMax);
  // X.5.4. At least one packet, so that a small BDP leaves room for growth.
  const Wide cap =
      std::max(Wide{params.bdp_bytes} * config.proportional_cap_permille * kQ10 / 1000, Wide{params.mtu_bytes} * kQ10);
  return narrow(std::min(by_formula, cap), kWindowBytesMax);
}

}  // namespace

Params derive(const CcConfig& config) {
  Params params;
  params.mtu_bytes = std::clamp<std::uint64_t>(config.mtu_bytes, 64, 1U << 20);
  const std::uint64_t rate_bps =
      config.link_rate_bps == 0 ? kReferenceRateBps : std::min(config.link_rate_bps, kRateBpsMax);
  params.base_rtt =
      config.base_rtt <= 0 ? static_cast<TimePs>(kReferenceDelay) : std::clamp(config.base_rtt, kPsPerNs, kRttMax);
  params.bdp_bytes = narrow(Wide{rate_bps} * static_cast<std::uint64_t>(params.base_rtt) / (8 * Wide{kPsPerSecond}),
                            kWindowBytesMax / 2);
  params.bdp_bytes = std::max<std::uint64_t>(params.bdp_bytes, 1);

  const std::uint64_t by_bdp =
      std::max(params.bdp_bytes + params.bdp_bytes / 2, std::uint64_t{config.max_cwnd_packets_min} * params.mtu_bytes);
  params.max_window_bytes = config.max_cwnd_bytes == 0 ? by_bdp : std::min(config.max_cwnd_bytes, kWindowBytesMax);
  params.max_window_bytes = std::max(params.max_window_bytes, params.mtu_bytes);
  params.initial_window_bytes =
      std::max(params.max_window_bytes / std::max(config.incast_degree, 1U), params.mtu_bytes);

  const TimePs target = config.trimming ? params.base_rtt / 4 * 3 : params.base_rtt;
  params.target_qdelay = std::clamp(config.target_qdelay <= 0 ? target : config.target_qdelay, TimePs{1}, kRttMax);
  const TimePs threshold = config.trimming ? kNever : 4 * params.target_qdelay;
  params.qa_threshold = config.qa_threshold <= 0 ? threshold : config.qa_threshold;
  params.adjust_period = config.adjust_period <= 0 ? params.base_rtt : std::min(config.adjust_period, kRttMax);
  params.adjust_bytes = config.adjust_bytes == 0 ? 8 * params.mtu_bytes : config.adjust_bytes;
  const auto tolerance =
      static_cast<TimePs>(Wide{kPsPerUs} * static_cast<std::uint64_t>(params.target_qdelay) / kReferenceDelay);
  params.no_delay_tolerance =
      config.no_delay_tolerance <= 0 ? std::max(tolerance, kPsPerUs) : config.no_delay_tolerance;

  params.proportional_q10 = proportional_gain(config, params);
  params.fair_q10 = scaled_by_bdp(params.bdp_bytes, config.fi_permille, params.mtu_bytes * kQ10);
  params.eta_q10 = scaled_by_bdp(params.bdp_bytes, config.eta_permille, params.mtu_bytes * kQ10);
  params.fast_q20 = scaled_by_bdp(params.bdp_bytes, config.fi_scale_permille, kQ20);
  params.gamma_permille = std::min<std::uint32_t>(config.gamma_permille, 1000);
  params.max_md_jump_permille = std::min<std::uint32_t>(config.max_md_jump_permille, 1000);
  params.qa_gate_shift = std::min<std::uint32_t>(config.qa_gate_shift, 63);
  params.quick_adapt = !config.disable_qa;
  params.receiver_penalty = !config.ignore_rcv_penalty;
  params.last_hop_delay = !config.ignore_last_hop_trims;
  return params;
}

}  // namespace openmrc::nscc
