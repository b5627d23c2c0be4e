// Congestion control settings of a QP from a dictionary; what it leaves out keeps its default.
#pragma once

#include <nanobind/nanobind.h>

#include "engine/cc/controller.hpp"

namespace openmrc::bindings {

CcConfig cc_of(const nanobind::dict& from);

}  // namespace openmrc::bindings
