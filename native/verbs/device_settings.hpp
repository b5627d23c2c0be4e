// A described device as the NIC opens it.
#pragma once

#include <cstdint>

#include "nic/generated/settings.hpp"
#include "verbs/device_description.hpp"

namespace openmrc::verbs {

// Ports, EVs and path rules. Without a UDP port.
nic::Settings settings_of(const DeviceDescription& device, std::uint64_t seed);

// Rate of a plane: what its interface reports or, where it reports none, a usual one; at most that of the path file.
std::uint64_t rate_of(const PlaneDescription& plane);

}  // namespace openmrc::verbs
