#include "nccl/live.hpp"

#include <mutex>
#include <unordered_map>

namespace openmrc::nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Kind> objects;

  bool holds(const void* object, Kind kind) const {
    const auto found = objects.find(object);
    return found != objects.end() && found->second == kind;
  }
};

// Never destroyed: NCCL may call during the exit of the program.
Registry& registry() {
  static Registry& made = *new Registry;
  return made;
}

}  // namespace

void add_live(const void* object, Kind kind) {
  const std::lock_guard guard(registry().mutex);
  registry().objects[object] = kind;
}

bool is_live(const void* object, Kind kind) {
  const std::lock_guard guard(registry().mutex);
  return registry().holds(object, kind);
}

bool remove_live(const void* object, Kind kind) {
  const std::lock_guard guard(registry().mutex);
  return registry().holds(object, kind) && registry().objects.erase(object) == 1;
}

}  // namespace openmrc::nccl
