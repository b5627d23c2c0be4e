// Written by tools/spec.py from spec/device.toml: edit that, then `make spec`.
#pragma once

#include "bindings/nic_objects.hpp"
#include "bindings/record.hpp"
#include "nic/generated/settings.hpp"

namespace openmrc::bindings {

inline constexpr FieldRule kPortSettingsFields[] = {
    {.name = "local", .kind = FieldKind::kText, .required = true},
    {.name = "advertise", .kind = FieldKind::kText, .required = true},
    {.name = "interface", .kind = FieldKind::kText},
    {.name = "receive", .kind = FieldKind::kText, .nullable = true},
};
static_assert(std::size(kPortSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kPortSettings{"PortSettings", kPortSettingsFields};

inline constexpr Choice kDeviceSettingsEvFormat[] = {{0, "UDP"}, {1, "STEV"}, {2, "SRV6"}};
inline constexpr FieldRule kDeviceSettingsFields[] = {
    {.name = "seed", .kind = FieldKind::kInteger, .nullable = true, .max = 18'446'744'073'709'551'615U},
    {.name = "partition_key", .kind = FieldKind::kInteger, .max = 65'535},
    {.name = "udp_port", .kind = FieldKind::kInteger, .min = 1, .max = 65'535},
    {.name = "ev_format", .kind = FieldKind::kInteger, .nullable = true, .choices = kDeviceSettingsEvFormat},
    {.name = "evs_per_port", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 1024},
    {.name = "first_source_port", .kind = FieldKind::kInteger, .min = 1024, .max = 65'535},
    {.name = "burst_packets", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 64},
    {.name = "plane_burst_packets", .kind = FieldKind::kInteger, .min = 1, .max = 64},
    {.name = "segmentation_offload", .kind = FieldKind::kBoolean},
    {.name = "receive_offload", .kind = FieldKind::kBoolean},
    {.name = "socket_buffer_bytes", .kind = FieldKind::kInteger, .min = 4096, .max = 1'073'741'824},
    {.name = "io_threads", .kind = FieldKind::kInteger, .nullable = true, .min = 1, .max = 16},
    {.name = "endpoint_retry_us", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000U},
    {.name = "endpoint_retries", .kind = FieldKind::kInteger, .max = 255},
    {.name = "answer_strangers", .kind = FieldKind::kBoolean},
    {.name = "reverse_probe_interval_us", .kind = FieldKind::kInteger, .min = 1, .max = 3'600'000'000U},
};
static_assert(std::size(kDeviceSettingsFields) <= kFieldsMax);
inline constexpr RecordRule kDeviceSettings{"DeviceSettings", kDeviceSettingsFields};

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, nic::PortSettings& to) {
  const Values values = check(kPortSettings, from);
  take_address(values[0], to.local);
  take_address(values[1], to.advertise);
  take(values[2], to.interface);
  take_address(values[3], to.receive);
}

// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.
inline void read(const nb::dict& from, nic::Settings& to) {
  const Values values = check(kDeviceSettings, from);
  take(values[0], to.seed);
  take(values[1], to.partition_key);
  take(values[2], to.udp_port);
  take(values[3], to.ev_format);
  take(values[4], to.evs_per_port);
  take(values[5], to.first_source_port);
  take(values[6], to.burst_packets);
  take(values[7], to.plane_burst_packets);
  take(values[8], to.segmentation_offload);
  take(values[9], to.receive_offload);
  take(values[10], to.socket_buffer_bytes);
  take(values[11], to.io_threads);
  take_time(values[12], to.endpoint_retry, kPsPerUs);
  take(values[13], to.endpoint_retries);
  take(values[14], to.answer_strangers);
  take_time(values[15], to.reverse_probe_interval, kPsPerUs);
}

}  // namespace openmrc::bindings
