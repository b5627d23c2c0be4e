// Kinds of the objects that NCCL holds, in the list of live objects.
#pragma once

#include "verbs/live_objects.hpp"

namespace openmrc::nccl {

enum class Kind : verbs::LiveKind { kContext = 1, kListen, kConnector, kSend, kReceive, kRegion, kRequest };

inline void add_live(const void* object, Kind kind) { verbs::add_live(object, static_cast<verbs::LiveKind>(kind)); }
inline bool is_live(const void* object, Kind kind) {
  return verbs::is_live(object, static_cast<verbs::LiveKind>(kind));
}
// False: it was not live.
inline bool remove_live(const void* object, Kind kind) {
  return verbs::remove_live(object, static_cast<verbs::LiveKind>(kind));
}

}  // namespace openmrc::nccl
