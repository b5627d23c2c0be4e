// Written by tools/spec.py from spec/simulator.toml: edit that, then `make spec`.
#pragma once

#include "bindings/generated/fabric.hpp"
#include "bindings/generated/profiles.hpp"
#include "bindings/record.hpp"
#include "engine/cc/controller.hpp"
#include "engine/paths/ev_set.hpp"
#include "netsim/generated/simulator.hpp"

namespace openmrc::bindings {

inline constexpr FieldRule kSharedQueuesFields[] = {
    {.name = "buffer_bytes", .kind = FieldKind::kInteger, .max = 18'446'744'073'709'551'615U},
    {.name = "alpha_permille", .kind = FieldKind::kInteger, .max = 4'294'967'295U},
    {.name = "pfc", .kind = FieldKind::kBoolean},
    {.name = "pfc_xoff_bytes", .kind = FieldKind::kInteger, .max = 18'446'744'073'709'551'615U},
    {.name = "pfc_xon_bytes", .kind = FieldKind::kInteger, .max = 18'446'744'073'709'551'615U},
};
static_assert(std::size(kSharedQueuesFields) <= kFieldsMax);
inline constexpr RecordRule kSharedQueues{"SharedQueues", kSharedQueuesFields};

inline constexpr FieldRule kReconvergenceFields[] = {
    {.name = "down_ps", .kind = FieldKind::kInteger, .nullable = true, .max = 4'611'686'018'427'387'904U},
    {.name = "blackhole_ps", .kind = FieldKind::kInteger, .nullable = true, .max = 4'611'686'018'427'387'904U},
};
static_assert(std::size(kReconvergenceFields) <= kFieldsMax);
inline constexpr RecordRule kReconvergence{"Reconvergence", kReconvergenceFields};

inline constexpr FieldRule kDeniedPathFields[] = {
    {.name = "plane", .kind = FieldKind::kInteger, .required = true, .max = 15},
    {.name = "t0_uplink", .kind = FieldKind::kInteger, .required = true, .max = 65'535},
    {.name = "t1_uplink", .kind = FieldKind::kInteger, .max = 65'535},
};
static_assert(std::size(kDeniedPathFields) <= kFieldsMax);
inline constexpr RecordRule kDeniedPath{"DeniedPath", kDeniedPathFields};

inline constexpr Choice kMrcSettingsSignal[] = {{0, "MARKS"}, {1, "DELAY"}, {2, "DISCOVER"}};
inline constexpr FieldRule kMrcSettingsFields[] = {
    {.name = "ev_selector", .kind = FieldKind::kText, .names = &ev_selector_names},
    {.name = "controller", .kind = FieldKind::kText, .names = &controller_names},
    {.name = "signal", .kind = FieldKind::kInteger, .choices = kMrcSettingsSignal},
    {.name = "active_per_port", .kind = FieldKind::kInteger, .min = 1, .max = 1024},
    {.name = "universe_per_port", .kind = FieldKind::kInteger, .min = 1, .max = 8192},
    {.name = "min_active", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "probe_successes", .kind = FieldKind::kInteger, .min = 1, .max = 255},
    {.name = "probe_interval_ps", .kind = FieldKind::kInteger, .max = 3'600'000'000'000'000U},
    {.name = "skip_lapse_ps", .kind = FieldKind::kInteger, .max = 3'600'000'000'000'000U},
    {.name = "reverse_probe_interval_ps", .kind = FieldKind::kInteger, .max = 3'600'000'000'000'000U},
    {.name = "half_marked_rule", .kind = FieldKind::kBoolean},
    {.name = "marked_probe_revives_to_good", .kind = FieldKind::kBoolean},
    {.name = "mpr_units", .kind = FieldKind::kInteger, .min = 1, .max = 255},
    {.name = "wimm_max", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "sack_bytes", .kind = FieldKind::kInteger, .min = 1, .max = 1'048'576},
    {.name = "trim_nack", .kind = FieldKind::kBoolean},
    {.name = "dynamic_mpr", .kind = FieldKind::kBoolean},
    {.name = "nack_out_of_window", .kind = FieldKind::kBoolean},
    {.name = "timeout_exponent", .kind = FieldKind::kInteger, .max = 24},
    {.name = "linear_retries", .kind = FieldKind::kInteger, .max = 7},
    {.name = "exponential_retries", .kind = FieldKind::kInteger, .max = 25},
    {.name = "path_events", .kind = FieldKind::kBoolean},
    {.name = "watched", .kind = FieldKind::kInteger, .max = 4'294'967'295U, .list = true},
    {.name = "denied", .kind = FieldKind::kRecord, .record = &kDeniedPath, .list = true},
    {.name = "cc", .kind = FieldKind::kRecord, .record = &kCcConfig},
};
static_assert(std::size(kMrcSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kMrcSettings{"MrcSettings", kMrcSettingsFields};

inline constexpr FieldRule kRoceSettingsFields[] = {
    {.name = "dcqcn", .kind = FieldKind::kBoolean},
    {.name = "cnp_interval_ps", .kind = FieldKind::kInteger, .max = 3'600'000'000'000'000U},
    {.name = "alpha_timer_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "increase_timer_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "increase_bytes", .kind = FieldKind::kInteger, .min = 1, .max = 2'147'483'648U},
    {.name = "gain_shift", .kind = FieldKind::kInteger, .min = 1, .max = 16},
    {.name = "recovery_stages", .kind = FieldKind::kInteger, .max = 100},
    {.name = "clamp_target", .kind = FieldKind::kBoolean},
    {.name = "rate_ai_bps", .kind = FieldKind::kInteger, .max = 100'000'000'000'000U},
    {.name = "rate_hai_bps", .kind = FieldKind::kInteger, .max = 100'000'000'000'000U},
    {.name = "rate_min_bps", .kind = FieldKind::kInteger, .max = 100'000'000'000'000U},
    {.name = "ack_packets", .kind = FieldKind::kInteger, .min = 1, .max = 1024},
    {.name = "timeout_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "timeout_max_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "retries", .kind = FieldKind::kInteger, .max = 255},
    {.name = "window_bytes", .kind = FieldKind::kInteger, .max = 1'099'511'627'776U},
    {.name = "failover", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kRoceSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kRoceSettings{"RoceSettings", kRoceSettingsFields};

inline constexpr FieldRule kDctcpSettingsFields[] = {
    {.name = "gain_shift", .kind = FieldKind::kInteger, .min = 1, .max = 10},
    {.name = "initial_window", .kind = FieldKind::kInteger, .min = 1, .max = 65'536},
    {.name = "min_window", .kind = FieldKind::kInteger, .min = 1, .max = 65'536},
    {.name = "window_bytes", .kind = FieldKind::kInteger, .max = 1'099'511'627'776U},
    {.name = "reordering_packets", .kind = FieldKind::kInteger, .min = 1, .max = 65'536},
    {.name = "ack_packets", .kind = FieldKind::kInteger, .min = 1, .max = 64},
    {.name = "ack_delay_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "rto_min_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "rto_max_ps", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000'000'000U},
    {.name = "retries", .kind = FieldKind::kInteger, .max = 255},
    {.name = "tail_loss_probe", .kind = FieldKind::kBoolean},
    {.name = "failover", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kDctcpSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kDctcpSettings{"DctcpSettings", kDctcpSettingsFields};

inline constexpr FieldRule kSimulationSettingsFields[] = {
    {.name = "shape", .kind = FieldKind::kRecord, .required = true, .record = &kFabricShape},
    {.name = "ports", .kind = FieldKind::kRecord, .required = true, .record = &kPlanePorts},
    {.name = "unlike", .kind = FieldKind::kRecord, .record = &kPlanePorts, .list = true},
    {.name = "queued", .kind = FieldKind::kRecord, .nullable = true, .record = &kSharedQueues},
    {.name = "reconvergence", .kind = FieldKind::kRecord, .nullable = true, .record = &kReconvergence},
    {.name = "seed", .kind = FieldKind::kInteger, .required = true, .max = 18'446'744'073'709'551'615U},
    {.name = "payload_mtu", .kind = FieldKind::kInteger, .required = true, .min = 256, .max = 8192},
    {.name = "header_bytes", .kind = FieldKind::kInteger, .required = true, .max = 65'535},
    {.name = "base_rtt_ps", .kind = FieldKind::kInteger, .required = true, .max = 3'600'000'000'000'000U},
    {.name = "nic_latency_ps", .kind = FieldKind::kInteger, .required = true, .max = 3'600'000'000'000'000U},
    {.name = "doorbell_ps", .kind = FieldKind::kInteger, .max = 3'600'000'000'000'000U},
    {.name = "lanes", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 65'535},
    {.name = "threads", .kind = FieldKind::kInteger, .min = 1, .max = 256},
    {.name = "mrc", .kind = FieldKind::kRecord, .nullable = true, .record = &kMrcSettings},
    {.name = "roce", .kind = FieldKind::kRecord, .nullable = true, .record = &kRoceSettings},
    {.name = "dctcp", .kind = FieldKind::kRecord, .nullable = true, .record = &kDctcpSettings},
};
static_assert(std::size(kSimulationSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kSimulationSettings{"SimulationSettings", kSimulationSettingsFields};

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::SharedQueues& to) {
  const Values values = check(kSharedQueues, from);
  take(values[0], to.buffer_bytes);
  take(values[1], to.alpha_permille);
  take(values[2], to.pfc);
  take(values[3], to.pfc_xoff_bytes);
  take(values[4], to.pfc_xon_bytes);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::Reconvergence& to) {
  const Values values = check(kReconvergence, from);
  take_time(values[0], to.down, 1);
  take_time(values[1], to.blackhole, 1);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::DeniedPath& to) {
  const Values values = check(kDeniedPath, from);
  take(values[0], to.plane);
  take(values[1], to.t0_uplink);
  take(values[2], to.t1_uplink);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::MrcSettings& to) {
  const Values values = check(kMrcSettings, from);
  take(values[0], to.ev_selector);
  take(values[1], to.controller);
  take(values[2], to.signal);
  take(values[3], to.active_per_port);
  take(values[4], to.universe_per_port);
  take(values[5], to.min_active);
  take(values[6], to.probe_successes);
  take_time(values[7], to.probe_interval, 1);
  take_time(values[8], to.skip_lapse, 1);
  take_time(values[9], to.reverse_probe_interval, 1);
  take(values[10], to.half_marked_rule);
  take(values[11], to.marked_probe_revives_to_good);
  take(values[12], to.mpr_units);
  take(values[13], to.wimm_max);
  take(values[14], to.sack_bytes);
  take(values[15], to.trim_nack);
  take(values[16], to.dynamic_mpr);
  take(values[17], to.nack_out_of_window);
  take(values[18], to.timeout_exponent);
  take(values[19], to.linear_retries);
  take(values[20], to.exponential_retries);
  take(values[21], to.path_events);
  for (const nb::handle one : items(values[22])) take(one.ptr(), to.watched.emplace_back());
  for (const nb::handle one : items(values[23])) read(nb::borrow<nb::dict>(one.ptr()), to.denied.emplace_back());
  if (given(values[24])) read(nb::borrow<nb::dict>(values[24]), to.cc);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::RoceSettings& to) {
  const Values values = check(kRoceSettings, from);
  take(values[0], to.dcqcn);
  take_time(values[1], to.rate.cnp_interval, 1);
  take_time(values[2], to.rate.alpha_timer, 1);
  take_time(values[3], to.rate.increase_timer, 1);
  take(values[4], to.rate.increase_bytes);
  take(values[5], to.rate.gain_shift);
  take(values[6], to.rate.recovery_stages);
  take(values[7], to.rate.clamp_target);
  take(values[8], to.rate.rate_ai_bps);
  take(values[9], to.rate.rate_hai_bps);
  take(values[10], to.rate.rate_min_bps);
  take(values[11], to.ack_packets);
  take_time(values[12], to.timeout, 1);
  take_time(values[13], to.timeout_max, 1);
  take(values[14], to.retries);
  take(values[15], to.window_bytes);
  take(values[16], to.failover);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::DctcpSettings& to) {
  const Values values = check(kDctcpSettings, from);
  take(values[0], to.gain_shift);
  take(values[1], to.initial_window);
  take(values[2], to.min_window);
  take(values[3], to.window_bytes);
  take(values[4], to.reordering_packets);
  take(values[5], to.ack_packets);
  take_time(values[6], to.ack_delay, 1);
  take_time(values[7], to.rto_min, 1);
  take_time(values[8], to.rto_max, 1);
  take(values[9], to.retries);
  take(values[10], to.tail_loss_probe);
  take(values[11], to.failover);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::SimulationSettings& to) {
  const Values values = check(kSimulationSettings, from);
  if (given(values[0])) read(nb::borrow<nb::dict>(values[0]), to.shape);
  if (given(values[1])) read(nb::borrow<nb::dict>(values[1]), to.ports);
  for (const nb::handle one : items(values[2])) read(nb::borrow<nb::dict>(one.ptr()), to.unlike.emplace_back());
  if (given(values[3])) read(nb::borrow<nb::dict>(values[3]), to.queued.emplace());
  if (given(values[4])) read(nb::borrow<nb::dict>(values[4]), to.reconvergence.emplace());
  take(values[5], to.seed);
  take(values[6], to.payload_mtu);
  take(values[7], to.header_bytes);
  take_time(values[8], to.base_rtt, 1);
  take_time(values[9], to.nic_latency, 1);
  take_time(values[10], to.doorbell, 1);
  take(values[11], to.lanes);
  take(values[12], to.threads);
  if (given(values[13])) read(nb::borrow<nb::dict>(values[13]), to.mrc.emplace());
  if (given(values[14])) read(nb::borrow<nb::dict>(values[14]), to.roce.emplace());
  if (given(values[15])) read(nb::borrow<nb::dict>(values[15]), to.dctcp.emplace());
}

}  // namespace openmrc::bindings
