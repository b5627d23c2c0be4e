// Addresses of all objects that NCCL holds, with their kinds, so that a wrong or stale pointer is an error.
#pragma once

#include <cstdint>

namespace openmrc::nccl {

enum class Kind : std::uint8_t { kContext, kListen, kConnector, kSend, kReceive, kRegion, kRequest };

void add_live(const void* object, Kind kind);
bool is_live(const void* object, Kind kind);
// False: it was not live.
bool remove_live(const void* object, Kind kind);

}  // namespace openmrc::nccl
