// Written by tools/spec.py from spec/fabric.toml: edit that, then `make spec`.
#pragma once

#include "bindings/nic_objects.hpp"
#include "bindings/record.hpp"
#include "netsim/generated/fabric.hpp"

namespace openmrc::bindings {

inline constexpr Choice kFabricShapeRouting[] = {{0, "MODULO"}, {1, "HASH"}, {2, "ADAPTIVE"}};
inline constexpr FieldRule kFabricShapeFields[] = {
    {.name = "planes", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 16},
    {.name = "hosts", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 4'294'967'295U},
    {.name = "hosts_per_t0", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 4'294'967'295U},
    {.name = "t1s", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 65'535},
    {.name = "t0s_per_pod", .kind = FieldKind::kInteger, .max = 4'294'967'295U},
    {.name = "t1_uplinks", .kind = FieldKind::kInteger, .max = 65'535},
    {.name = "routing", .kind = FieldKind::kInteger, .choices = kFabricShapeRouting},
};
static_assert(std::size(kFabricShapeFields) <= kFieldsMax);
inline constexpr RecordRule kFabricShape{"FabricShape", kFabricShapeFields};

inline constexpr FieldRule kPortConfigFields[] = {
    {.name = "rate_bps", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 100'000'000'000'000U},
    {.name = "delay_ps", .kind = FieldKind::kInteger, .required = true, .max = 3'600'000'000'000'000U},
    {.name = "queue_bytes", .kind = FieldKind::kInteger, .required = true, .max = 4'294'967'295U},
    {.name = "control_queue_bytes", .kind = FieldKind::kInteger, .required = true, .max = 4'294'967'295U},
    {.name = "ecn", .kind = FieldKind::kBoolean},
    {.name = "ecn_min_bytes", .kind = FieldKind::kInteger, .max = 4'294'967'295U},
    {.name = "ecn_max_bytes", .kind = FieldKind::kInteger, .max = 4'294'967'295U},
    {.name = "ecn_max_permille", .kind = FieldKind::kInteger, .max = 1000},
    {.name = "trim", .kind = FieldKind::kBoolean},
    {.name = "trim_threshold_bytes", .kind = FieldKind::kInteger, .max = 4'294'967'295U},
    {.name = "trim_bytes", .kind = FieldKind::kInteger, .max = 4'294'967'295U},
    {.name = "last_hop", .kind = FieldKind::kBoolean},
    {.name = "priority", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kPortConfigFields) <= kFieldsMax);
inline constexpr RecordRule kPortConfig{"PortConfig", kPortConfigFields};

inline constexpr FieldRule kPlanePortsFields[] = {
    {.name = "nic_up", .kind = FieldKind::kRecord, .required = true, .record = &kPortConfig},
    {.name = "nic_down", .kind = FieldKind::kRecord, .required = true, .record = &kPortConfig},
    {.name = "t0_up", .kind = FieldKind::kRecord, .required = true, .record = &kPortConfig},
    {.name = "t1_down", .kind = FieldKind::kRecord, .required = true, .record = &kPortConfig},
    {.name = "t1_up", .kind = FieldKind::kRecord, .nullable = true, .record = &kPortConfig},
    {.name = "t2_down", .kind = FieldKind::kRecord, .nullable = true, .record = &kPortConfig},
};
static_assert(std::size(kPlanePortsFields) <= kFieldsMax);
inline constexpr RecordRule kPlanePorts{"PlanePorts", kPlanePortsFields};

inline constexpr Choice kFaultPlaceDirection[] = {{0, "BOTH"}, {1, "TX"}, {2, "RX"}};
inline constexpr FieldRule kFaultPlaceFields[] = {
    {.name = "plane", .kind = FieldKind::kInteger, .nullable = true, .max = 4'294'967'295U},
    {.name = "host", .kind = FieldKind::kInteger, .nullable = true, .max = 4'294'967'295U},
    {.name = "t0", .kind = FieldKind::kInteger, .nullable = true, .max = 4'294'967'295U},
    {.name = "t1", .kind = FieldKind::kInteger, .nullable = true, .max = 4'294'967'295U},
    {.name = "t2", .kind = FieldKind::kInteger, .nullable = true, .max = 4'294'967'295U},
    {.name = "direction", .kind = FieldKind::kInteger, .choices = kFaultPlaceDirection},
};
static_assert(std::size(kFaultPlaceFields) <= kFieldsMax);
inline constexpr RecordRule kFaultPlace{"FaultPlace", kFaultPlaceFields};

inline constexpr FieldRule kFaultEffectsFields[] = {
    {.name = "down", .kind = FieldKind::kBoolean},
    {.name = "blackhole", .kind = FieldKind::kBoolean},
    {.name = "loss_ppb", .kind = FieldKind::kInteger, .max = 1'000'000'000},
    {.name = "burst_loss_ppb", .kind = FieldKind::kInteger, .max = 1'000'000'000},
    {.name = "burst_packets", .kind = FieldKind::kInteger, .min = 1, .max = 4'294'967'295U},
    {.name = "rate_ppm", .kind = FieldKind::kInteger, .min = 1, .max = 1'000'000},
    {.name = "delay_ps", .kind = FieldKind::kInteger, .max = 2'592'000'000'000'000'000U},
    {.name = "jitter_ps", .kind = FieldKind::kInteger, .max = 2'592'000'000'000'000'000U},
    {.name = "corrupt_ppb", .kind = FieldKind::kInteger, .max = 1'000'000'000},
    {.name = "duplicate_ppb", .kind = FieldKind::kInteger, .max = 1'000'000'000},
    {.name = "reorder_ppb", .kind = FieldKind::kInteger, .max = 1'000'000'000},
    {.name = "reorder_delay_ps", .kind = FieldKind::kInteger, .max = 2'592'000'000'000'000'000U},
    {.name = "ev", .kind = FieldKind::kInteger, .nullable = true, .max = 4'294'967'295U},
};
static_assert(std::size(kFaultEffectsFields) <= kFieldsMax);
inline constexpr RecordRule kFaultEffects{"FaultEffects", kFaultEffectsFields};

inline constexpr FieldRule kScheduledFaultFields[] = {
    {.name = "place", .kind = FieldKind::kRecord, .required = true, .record = &kFaultPlace},
    {.name = "effects", .kind = FieldKind::kRecord, .required = true, .record = &kFaultEffects},
    {.name = "start_ps", .kind = FieldKind::kInteger, .max = 4'611'686'018'427'387'904U},
    {.name = "duration_ps", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 4'611'686'018'427'387'904U},
    {.name = "period_ps", .kind = FieldKind::kInteger, .max = 4'611'686'018'427'387'904U},
};
static_assert(std::size(kScheduledFaultFields) <= kFieldsMax);
inline constexpr RecordRule kScheduledFault{"ScheduledFault", kScheduledFaultFields};

inline constexpr FieldRule kEmulatorSettingsFields[] = {
    {.name = "shape", .kind = FieldKind::kRecord, .required = true, .record = &kFabricShape},
    {.name = "ports", .kind = FieldKind::kRecord, .required = true, .record = &kPlanePorts},
    {.name = "unlike", .kind = FieldKind::kRecord, .record = &kPlanePorts, .list = true},
    {.name = "seed", .kind = FieldKind::kInteger, .required = true, .max = 18'446'744'073'709'551'615U},
    {.name = "udp_port", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 65'535},
    {.name = "header_bytes", .kind = FieldKind::kInteger, .required = true, .max = 65'535},
    {.name = "tick_ps", .kind = FieldKind::kInteger, .required = true, .min = 1, .max = 1'000'000'000'000U},
    {.name = "local", .kind = FieldKind::kText, .required = true, .list = true},
    {.name = "advertised", .kind = FieldKind::kText, .required = true, .list = true},
};
static_assert(std::size(kEmulatorSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kEmulatorSettings{"EmulatorSettings", kEmulatorSettingsFields};

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::FabricShape& to) {
  const Values values = check(kFabricShape, from);
  take(values[0], to.planes);
  take(values[1], to.hosts);
  take(values[2], to.hosts_per_t0);
  take(values[3], to.t1s);
  take(values[4], to.t0s_per_pod);
  take(values[5], to.t1_uplinks);
  take(values[6], to.routing);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::PortConfig& to) {
  const Values values = check(kPortConfig, from);
  take(values[0], to.rate_bps);
  take_time(values[1], to.delay, 1);
  take(values[2], to.queue_bytes);
  take(values[3], to.control_queue_bytes);
  take(values[4], to.ecn);
  take(values[5], to.ecn_min_bytes);
  take(values[6], to.ecn_max_bytes);
  take(values[7], to.ecn_max_permille);
  take(values[8], to.trim);
  take(values[9], to.trim_threshold_bytes);
  take(values[10], to.trim_bytes);
  take(values[11], to.last_hop);
  take(values[12], to.priority);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::PlanePorts& to) {
  const Values values = check(kPlanePorts, from);
  if (given(values[0])) read(nb::borrow<nb::dict>(values[0]), to.nic_up);
  if (given(values[1])) read(nb::borrow<nb::dict>(values[1]), to.nic_down);
  if (given(values[2])) read(nb::borrow<nb::dict>(values[2]), to.t0_up);
  if (given(values[3])) read(nb::borrow<nb::dict>(values[3]), to.t1_down);
  if (given(values[4])) read(nb::borrow<nb::dict>(values[4]), to.t1_up.emplace());
  if (given(values[5])) read(nb::borrow<nb::dict>(values[5]), to.t2_down.emplace());
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::FaultTarget& to) {
  const Values values = check(kFaultPlace, from);
  take(values[0], to.plane);
  take(values[1], to.host);
  take(values[2], to.t0);
  take(values[3], to.t1);
  take(values[4], to.t2);
  take(values[5], to.direction);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::FaultEffects& to) {
  const Values values = check(kFaultEffects, from);
  take(values[0], to.down);
  take(values[1], to.blackhole);
  take(values[2], to.loss_ppb);
  take(values[3], to.burst_loss_ppb);
  take(values[4], to.burst_packets);
  take(values[5], to.rate_ppm);
  take_time(values[6], to.delay, 1);
  take_time(values[7], to.jitter, 1);
  take(values[8], to.corrupt_ppb);
  take(values[9], to.duplicate_ppb);
  take(values[10], to.reorder_ppb);
  take_time(values[11], to.reorder_delay, 1);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::ScheduledFault& to) {
  const Values values = check(kScheduledFault, from);
  if (given(values[0])) read(nb::borrow<nb::dict>(values[0]), to.place);
  take_time(values[2], to.start, 1);
  take_time(values[3], to.duration, 1);
  take_time(values[4], to.period, 1);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, netsim::EmulatorSettings& to) {
  const Values values = check(kEmulatorSettings, from);
  if (given(values[0])) read(nb::borrow<nb::dict>(values[0]), to.shape);
  if (given(values[1])) read(nb::borrow<nb::dict>(values[1]), to.ports);
  for (const nb::handle one : items(values[2])) read(nb::borrow<nb::dict>(one.ptr()), to.unlike.emplace_back());
  take(values[3], to.seed);
  take(values[4], to.udp_port);
  take(values[5], to.header_bytes);
  take_time(values[6], to.tick, 1);
  for (const nb::handle one : items(values[7])) take_address(one.ptr(), to.local.emplace_back());
  for (const nb::handle one : items(values[8])) take_address(one.ptr(), to.advertised.emplace_back());
}

}  // namespace openmrc::bindings
