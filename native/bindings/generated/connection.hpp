// Written by tools/spec.py from spec/connection.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "engine/cc/controller.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc::bindings {

inline constexpr Choice kQpSettingsFieldsTransport[] = {{0, "auto"}, {0, "mrc"}, {0, "rc"}};
inline constexpr Choice kQpSettingsFieldsSignal[] = {{0, "auto"}, {0, "marks"}, {0, "delay"}, {0, "discover"}};
inline constexpr Choice kQpSettingsFieldsIntegrity[] = {{0, "auto"}, {0, "icrc"}};
inline constexpr FieldRule kQpSettingsFieldsFields[] = {
    {.name = "transport", .kind = FieldKind::kText, .choices = kQpSettingsFieldsTransport},
    {.name = "ev_selector", .kind = FieldKind::kText, .names = &ev_selector_names},
    {.name = "controller", .kind = FieldKind::kText, .names = &controller_names},
    {.name = "signal", .kind = FieldKind::kText, .choices = kQpSettingsFieldsSignal},
    {.name = "integrity", .kind = FieldKind::kText, .choices = kQpSettingsFieldsIntegrity},
    {.name = "payload_mtu", .kind = FieldKind::kInteger, .nullable = true, .min = 256, .max = 8192, .multiple_of = 4},
    {.name = "mpr_units", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 255},
    {.name = "sack_bytes", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 1'048'576},
    {.name = "timeout_exponent", .kind = FieldKind::kInteger, .max = 24},
    {.name = "linear_retries", .kind = FieldKind::kInteger, .max = 7},
    {.name = "exponential_retries", .kind = FieldKind::kInteger, .nullable = true, .max = 25},
    {.name = "active_per_port", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 1024},
    {.name = "min_active", .kind = FieldKind::kInteger, .min = 1, .max = 1024},
    {.name = "probe_interval_us", .kind = FieldKind::kInteger, .min = 100, .max = 60'000'000},
    {.name = "skip_lapse_us", .kind = FieldKind::kInteger, .max = 60'000'000},
    {.name = "base_rtt_us", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 10'000'000},
    {.name = "rate_bps", .kind = FieldKind::kInteger, .nullable = true, .min = 1000, .max = 100'000'000'000'000U},
    {.name = "max_window_bytes", .kind = FieldKind::kInteger, .nullable = true, .min = 4096, .max = 1'099'511'627'776U},
    {.name = "trimming", .kind = FieldKind::kBoolean},
    {.name = "send_wr_max", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "recv_wr_max", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "rc_window_packets", .kind = FieldKind::kInteger, .min = 1, .max = 32'768},
    {.name = "rc_path", .kind = FieldKind::kInteger, .max = 1023},
};
static_assert(std::size(kQpSettingsFieldsFields) <= kFieldsMax);
inline constexpr RecordRule kQpSettingsFields{"QpSettingsFields", kQpSettingsFieldsFields};

}  // namespace openmrc::bindings
