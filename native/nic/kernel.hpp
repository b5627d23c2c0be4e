// Identity of the kernel that runs this process (X.4.12).
#pragma once

#include "engine/base/keyed_hash.hpp"

namespace openmrc::nic {

// A hash of the kernel's boot identifier; zeros if that cannot be read.
HashKey kernel_key();

}  // namespace openmrc::nic
