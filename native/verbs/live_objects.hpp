// Addresses of all objects that programs hold, with their kinds, so that a wrong or stale pointer is an error and not a
// crash.
#pragma once

#include <cstdint>
#include <functional>

namespace openmrc::verbs {

using LiveKind = std::uint8_t;  // of a library that hands out several kinds as untyped pointers

void add_live(const void* object, LiveKind kind = 0);
bool is_live(const void* object, LiveKind kind = 0);
// False: it was not live.
bool remove_live(const void* object, LiveKind kind = 0);
// `visit` must not add or remove objects.
void for_each_live(const std::function<void(const void* object, LiveKind kind)>& visit);
// Around fork(): the child gets a consistent list, whatever other threads do.
void lock_live_objects();
void unlock_live_objects();

}  // namespace openmrc::verbs
