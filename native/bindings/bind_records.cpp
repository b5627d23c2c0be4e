// Records on their own, so that Python's classes check values by the rules that the readers apply; names in registries.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
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
namespace {

constexpr const RecordRule* kRecords[] = {
    &kQpInitAttributes,  &kToInit,        &kToRtr,      &kToRts,        &kEvSetConfig,    &kCcConfig,
    &kQpSettingsFields,  &kPortSettings,  &kPathCopy,   &kPathRule,     &kDeviceSettings, &kFabricShape,
    &kPortConfig,        &kPlanePorts,    &kFaultPlace, &kFaultEffects, &kScheduledFault, &kEmulatorSettings,
    &kSharedQueues,      &kReconvergence, &kDeniedPath, &kMrcSettings,  &kRoceSettings,   &kDctcpSettings,
    &kSimulationSettings};

// Raises as `check` where the values of a record are not as described.
void check_record(const std::string& name, const nb::dict& values) {
  for (const RecordRule* rule : kRecords) {
    if (name != rule->name) continue;
    check(*rule, values);
    return;
  }
  throw nb::key_error(name.c_str());
}

std::vector<std::string> copied(std::span<const std::string_view> names) { return {names.begin(), names.end()}; }

}  // namespace

void bind_records(nb::module_& m) {
  m.def("check_record", &check_record);
  m.def("ev_selector_names", [] { return copied(ev_selector_names()); });
  m.def("controller_names", [] { return copied(controller_names()); });
}

}  // namespace openmrc::bindings
