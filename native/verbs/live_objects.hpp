// Addresses of all objects that programs hold, so that a wrong or stale pointer is an error and not a crash.
#pragma once

namespace openmrc::verbs {

void add_live(const void* object);
bool is_live(const void* object);
// False: it was not live.
bool remove_live(const void* object);
// Around fork(): the child gets a consistent list, whatever other threads do.
void lock_live_objects();
void unlock_live_objects();

}  // namespace openmrc::verbs
