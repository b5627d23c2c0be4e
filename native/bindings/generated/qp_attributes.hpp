// Written by tools/spec.py from spec/qp.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "engine/generated/qp_attributes.hpp"

namespace openmrc::bindings {

inline constexpr Choice kQpInitAttributesTransport[] = {{0, "MRC"}, {1, "RC"}};
inline constexpr FieldRule kQpInitAttributesFields[] = {
    {.name = "transport", .kind = FieldKind::kInteger, .choices = kQpInitAttributesTransport},
    {.name = "send_wr_max", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "recv_wr_max", .kind = FieldKind::kInteger, .max = 65'535},
    {.name = "urgent", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kQpInitAttributesFields) <= kFieldsMax);
inline constexpr RecordRule kQpInitAttributes{"QpInitAttributes", kQpInitAttributesFields};

inline constexpr FieldRule kQpHintAttributesFields[] = {
    {.name = "qps_per_peer", .kind = FieldKind::kInteger, .min = 1, .max = 4'294'967'295U},
    {.name = "send_peers", .kind = FieldKind::kInteger, .min = 1, .max = 4'294'967'295U},
    {.name = "incast_degree", .kind = FieldKind::kInteger, .min = 1, .max = 4'294'967'295U},
    {.name = "vendor_data", .kind = FieldKind::kObject, .type_name = "bytes"},
};
static_assert(std::size(kQpHintAttributesFields) <= kFieldsMax);
inline constexpr RecordRule kQpHintAttributes{"QpHintAttributes", kQpHintAttributesFields};

inline constexpr Choice kToInitSignal[] = {{0, "MARKS"}, {1, "DELAY"}, {2, "DISCOVER"}};
inline constexpr FieldRule kToInitFields[] = {
    {.name = "hint", .kind = FieldKind::kObject, .nullable = true, .type_name = "QpHint"},
    {.name = "ev_profile", .kind = FieldKind::kObject, .nullable = true, .type_name = "EvProfile"},
    {.name = "cc_profile", .kind = FieldKind::kObject, .nullable = true, .type_name = "CcProfile"},
    {.name = "ev_selector", .kind = FieldKind::kText, .names = &ev_selector_names},
    {.name = "probe_successes", .kind = FieldKind::kInteger, .min = 1, .max = 255},
    {.name = "probe_interval_us", .kind = FieldKind::kInteger, .min = 100, .max = 60'000'000},
    {.name = "skip_lapse_us", .kind = FieldKind::kInteger, .max = 60'000'000},
    {.name = "signal", .kind = FieldKind::kInteger, .choices = kToInitSignal},
    {.name = "plane_buffer_bytes", .kind = FieldKind::kInteger, .max = 1'099'511'627'776U},
    {.name = "rc_plane_move", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kToInitFields) <= kFieldsMax);
inline constexpr RecordRule kToInit{"ToInit", kToInitFields};

inline constexpr FieldRule kToRtrFields[] = {
    {.name = "peer", .kind = FieldKind::kObject, .required = true, .type_name = "Peer"},
    {.name = "destination_qp", .kind = FieldKind::kInteger, .required = true, .max = 16'777'215},
    {.name = "rq_psn", .kind = FieldKind::kInteger, .required = true, .max = 16'777'215},
    {.name = "payload_mtu", .kind = FieldKind::kInteger, .min = 256, .max = 8192, .multiple_of = 4},
    {.name = "payload_mtu_max", .kind = FieldKind::kInteger, .max = 8192, .multiple_of = 4},
    {.name = "mpr_units", .kind = FieldKind::kInteger, .min = 1, .max = 255},
    {.name = "wimm_max_dest", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "rc_rnr_timer", .kind = FieldKind::kInteger, .max = 31},
    {.name = "rc_reads_max_dest", .kind = FieldKind::kInteger, .min = 1, .max = 128},
    {.name = "trim_nack", .kind = FieldKind::kBoolean},
    {.name = "dynamic_mpr", .kind = FieldKind::kBoolean},
    {.name = "service_time", .kind = FieldKind::kBoolean},
    {.name = "plane_sacks", .kind = FieldKind::kBoolean},
    {.name = "sack_transit", .kind = FieldKind::kBoolean},
    {.name = "sack_sharers", .kind = FieldKind::kBoolean},
    {.name = "no_icrc", .kind = FieldKind::kBoolean},
    {.name = "kernel_check", .kind = FieldKind::kBoolean},
    {.name = "sack_bytes", .kind = FieldKind::kInteger, .min = 1, .max = 1'048'576},
    {.name = "nack_out_of_window", .kind = FieldKind::kBoolean},
};
static_assert(std::size(kToRtrFields) <= kFieldsMax);
inline constexpr RecordRule kToRtr{"ToRtr", kToRtrFields};

inline constexpr Choice kToRtsTimestampResolutionNs[] = {{128, "128"}, {1000, "1000"}};
inline constexpr FieldRule kToRtsFields[] = {
    {.name = "sq_psn", .kind = FieldKind::kInteger, .required = true, .max = 16'777'215},
    {.name = "mpr_units", .kind = FieldKind::kInteger, .min = 1, .max = 255},
    {.name = "wimm_max", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "timeout_exponent", .kind = FieldKind::kInteger, .max = 24},
    {.name = "linear_retries", .kind = FieldKind::kInteger, .max = 7},
    {.name = "exponential_retries", .kind = FieldKind::kInteger, .max = 25},
    {.name = "timestamp_resolution_ns", .kind = FieldKind::kInteger, .choices = kToRtsTimestampResolutionNs},
    {.name = "trimmable", .kind = FieldKind::kBoolean},
    {.name = "rc_window_packets", .kind = FieldKind::kInteger, .min = 1, .max = 32'768},
    {.name = "rc_reads_max", .kind = FieldKind::kInteger, .min = 1, .max = 128},
    {.name = "rc_rnr_retries", .kind = FieldKind::kInteger, .max = 7},
};
static_assert(std::size(kToRtsFields) <= kFieldsMax);
inline constexpr RecordRule kToRts{"ToRts", kToRtsFields};

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, QpInitAttributes& to) {
  const Values values = check(kQpInitAttributes, from);
  take(values[0], to.transport);
  take(values[1], to.send_wr_max);
  take(values[2], to.recv_wr_max);
  take(values[3], to.urgent);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, QpToInit& to) {
  const Values values = check(kToInit, from);
  take(values[3], to.ev_selector);
  take(values[4], to.ev_set.probe_successes);
  take_time(values[5], to.ev_set.probe_interval, kPsPerUs);
  take_time(values[6], to.ev_set.skip_lapse, kPsPerUs);
  take(values[7], to.signal);
  take(values[8], to.plane_buffer_bytes);
  take(values[9], to.rc_plane_move);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, QpToRtr& to) {
  const Values values = check(kToRtr, from);
  take(values[1], to.destination_qp);
  take(values[2], to.rq_psn);
  take(values[3], to.payload_mtu);
  take(values[4], to.payload_mtu_max);
  take(values[5], to.mpr_units);
  take(values[6], to.wimm_max_dest);
  take(values[7], to.rc_rnr_timer);
  take(values[8], to.rc_reads_max_dest);
  take(values[9], to.capabilities.trim_nack);
  take(values[10], to.capabilities.dynamic_mpr);
  take(values[11], to.capabilities.service_time);
  take(values[12], to.capabilities.plane_sacks);
  take(values[13], to.capabilities.sack_transit);
  take(values[14], to.capabilities.sack_sharers);
  take(values[15], to.capabilities.no_icrc);
  take(values[16], to.capabilities.kernel_check);
  take(values[17], to.sack_bytes);
  take(values[18], to.nack_out_of_window);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, QpToRts& to) {
  const Values values = check(kToRts, from);
  take(values[0], to.sq_psn);
  take(values[1], to.mpr_units);
  take(values[2], to.wimm_max);
  take(values[3], to.timeout_exponent);
  take(values[4], to.linear_retries);
  take(values[5], to.exponential_retries);
  take(values[6], to.timestamp_resolution_ns);
  take(values[7], to.trimmable);
  take(values[8], to.rc_window_packets);
  take(values[9], to.rc_reads_max);
  take(values[10], to.rc_rnr_retries);
}

}  // namespace openmrc::bindings
