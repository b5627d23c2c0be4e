// One function per noun, each in its own bind_<noun>.cpp; module.cpp calls them.
#pragma once

#include <nanobind/nanobind.h>

namespace openmrc::bindings {

void bind_calls(nanobind::module_& parent);        // after bind_collectives
void bind_collectives(nanobind::module_& parent);  // after bind_device
void bind_device(nanobind::module_& m);
void bind_measure(nanobind::module_& m);
void bind_netsim(nanobind::module_& m);
void bind_paths(nanobind::module_& m);
void bind_policies(nanobind::module_& m);
void bind_qp(nanobind::module_& m);  // after bind_device
void bind_records(nanobind::module_& m);
void bind_simulate(nanobind::module_& m);
void bind_wire(nanobind::module_& m);

}  // namespace openmrc::bindings
