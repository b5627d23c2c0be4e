// Records on their own, so that Python's classes check values by the rules that the readers apply; names in registries.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/generated/connection.hpp"
#include "bindings/generated/fabric.hpp"
#include "bindings/generated/path_rules.hpp"
#include "bindings/generated/profiles.hpp"
#include "bindings/generated/qp_attributes.hpp"
#include "bindings/generated/settings.hpp"
#include "bindings/generated/simulator.hpp"

namespace openmrc::bindings {

using namespace nb::literals;

namespace {

constexpr const RecordRule* kRecords[] = {&kQpInitAttributes,
                                          &kToInit,
                                          &kToRtr,
                                          &kToRts,
                                          &kEvSetConfig,
                                          &kCcConfig,
                                          &kQpHintAttributes,
                                          &kQpSettingsFields,
                                          &kPortSettings,
                                          &kPathCopy,
                                          &kPathRule,
                                          &kDeviceSettings,
                                          &kFabricShape,
                                          &kPortConfig,
                                          &kPlanePorts,
                                          &kFaultPlace,
                                          &kFaultEffects,
                                          &kScheduledFault,
                                          &kEmulatorSettings,
                                          &kSharedQueues,
                                          &kReconvergence,
                                          &kDeniedPath,
                                          &kMrcSettings,
                                          &kRoceSettings,
                                          &kDctcpSettings,
                                          &kSimulationSettings};

const RecordRule& rule_of(const std::string& record) {
  for (const RecordRule* rule : kRecords) {
    if (record == rule->name) return *rule;
  }
  throw nb::key_error(record.c_str());
}

// Raises as `check` where the values of a record are not as described.
void check_record(const std::string& record, const nb::dict& values) { check(rule_of(record), values); }

// The smallest and the largest value of a field.
std::pair<std::uint64_t, std::uint64_t> record_range(const std::string& record, const std::string& field) {
  for (const FieldRule& rule : rule_of(record).fields) {
    if (field == rule.name) return {rule.min, rule.max};
  }
  throw nb::key_error(field.c_str());
}

std::vector<std::string> copied(std::span<const std::string_view> names) { return {names.begin(), names.end()}; }

}  // namespace

void bind_records(nb::module_& m) {
  m.def("check_record", &check_record, "record"_a, "values"_a);
  m.def("record_range", &record_range, "record"_a, "field"_a);
  m.def("ev_selector_names", [] { return copied(ev_selector_names()); });
  m.def("controller_names", [] { return copied(controller_names()); });
}

}  // namespace openmrc::bindings
