// Written by tools/spec.py from spec/profiles.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "engine/generated/profiles.hpp"

namespace openmrc::bindings {

inline constexpr FieldRule kEvSetConfigFields[] = {
    {.name = "active_per_port", .kind = FieldKind::kInteger, .min = 1, .max = 1024},
    {.name = "min_active", .kind = FieldKind::kInteger, .min = 1, .max = 1024},
    {.name = "probe_successes", .kind = FieldKind::kInteger, .min = 1, .max = 255},
    {.name = "probe_interval_us", .kind = FieldKind::kInteger, .min = 100, .max = 60'000'000},
    {.name = "skip_lapse_us", .kind = FieldKind::kInteger, .max = 60'000'000},
    {.name = "marked_probe_revives_to_good", .kind = FieldKind::kBoolean},
    {.name = "half_marked_rule", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kEvSetConfigFields) <= kFieldsMax);
inline constexpr RecordRule kEvSetConfig{"EvSetConfig", kEvSetConfigFields};

inline constexpr FieldRule kCcConfigFields[] = {
    {.name = "mtu_bytes", .kind = FieldKind::kInteger, .min = 64, .max = 65'535},
    {.name = "link_rate_bps", .kind = FieldKind::kInteger, .max = 100'000'000'000'000U},
    {.name = "base_rtt_ns", .kind = FieldKind::kInteger, .max = 3'600'000'000'000U},
    {.name = "trimming", .kind = FieldKind::kBoolean},
    {.name = "max_cwnd_bytes", .kind = FieldKind::kInteger, .max = 1'099'511'627'776U},
    {.name = "target_qdelay_ns", .kind = FieldKind::kInteger, .max = 3'600'000'000'000U},
    {.name = "qa_threshold_ns", .kind = FieldKind::kInteger, .max = 3'600'000'000'000U},
    {.name = "adjust_period_ns", .kind = FieldKind::kInteger, .max = 3'600'000'000'000U},
    {.name = "adjust_bytes", .kind = FieldKind::kInteger, .max = 1'099'511'627'776U},
    {.name = "fi_permille", .kind = FieldKind::kInteger, .max = 100'000},
    {.name = "eta_permille", .kind = FieldKind::kInteger, .max = 100'000},
    {.name = "fi_scale_permille", .kind = FieldKind::kInteger, .max = 100'000},
    {.name = "gamma_permille", .kind = FieldKind::kInteger, .max = 100'000},
    {.name = "max_md_jump_permille", .kind = FieldKind::kInteger, .max = 1000},
    {.name = "qa_gate_shift", .kind = FieldKind::kInteger, .max = 32},
    {.name = "disable_qa", .kind = FieldKind::kBoolean},
    {.name = "ignore_rcv_penalty", .kind = FieldKind::kBoolean},
    {.name = "no_delay_tolerance_ns", .kind = FieldKind::kInteger, .max = 3'600'000'000'000U},
    {.name = "proportional_cap_permille", .kind = FieldKind::kInteger, .max = 100'000},
    {.name = "incast_degree", .kind = FieldKind::kInteger, .max = 1'048'576},
    {.name = "ignore_last_hop_trims", .kind = FieldKind::kBoolean},
    {.name = "max_cwnd_packets_min", .kind = FieldKind::kInteger, .min = 1, .max = 65'536},
};
static_assert(std::size(kCcConfigFields) <= kFieldsMax);
inline constexpr RecordRule kCcConfig{"CcConfig", kCcConfigFields};

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, EvSetConfig& to) {
  const Values values = check(kEvSetConfig, from);
  take(values[0], to.active_per_port);
  take(values[1], to.min_active);
  take(values[2], to.probe_successes);
  take_time(values[3], to.probe_interval, kPsPerUs);
  take_time(values[4], to.skip_lapse, kPsPerUs);
  take(values[5], to.marked_probe_revives_to_good);
  take(values[6], to.half_marked_rule);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, CcConfig& to) {
  const Values values = check(kCcConfig, from);
  take(values[0], to.mtu_bytes);
  take(values[1], to.link_rate_bps);
  take_time(values[2], to.base_rtt, kPsPerNs);
  take(values[3], to.trimming);
  take(values[4], to.max_cwnd_bytes);
  take_time(values[5], to.target_qdelay, kPsPerNs);
  take_time(values[6], to.qa_threshold, kPsPerNs);
  take_time(values[7], to.adjust_period, kPsPerNs);
  take(values[8], to.adjust_bytes);
  take(values[9], to.fi_permille);
  take(values[10], to.eta_permille);
  take(values[11], to.fi_scale_permille);
  take(values[12], to.gamma_permille);
  take(values[13], to.max_md_jump_permille);
  take(values[14], to.qa_gate_shift);
  take(values[15], to.disable_qa);
  take(values[16], to.ignore_rcv_penalty);
  take_time(values[17], to.no_delay_tolerance, kPsPerNs);
  take(values[18], to.proportional_cap_permille);
  take(values[19], to.incast_degree);
  take(values[20], to.ignore_last_hop_trims);
  take(values[21], to.max_cwnd_packets_min);
}

}  // namespace openmrc::bindings
