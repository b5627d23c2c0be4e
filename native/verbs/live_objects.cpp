#include "verbs/live_objects.hpp"

#include <mutex>
#include <unordered_map>

namespace openmrc::verbs {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, LiveKind> objects;

  bool holds(const void* object, LiveKind kind) const {
    const auto found = objects.find(object);
    return found != objects.end() && found->second == kind;
  }
};

// Never destroyed: programs call during their exit.
Registry& registry() {
  static Registry& made = *new Registry;
  return made;
}

}  // namespace

void add_live(const void* object, LiveKind kind) {
  const std::lock_guard guard(registry().mutex);
  registry().objects[object] = kind;
}

bool is_live(const void* object, LiveKind kind) {
  const std::lock_guard guard(registry().mutex);
  return registry().holds(object, kind);
}

bool remove_live(const void* object, LiveKind kind) {
  const std::lock_guard guard(registry().mutex);
  return registry().holds(object, kind) && registry().objects.erase(object) == 1;
}

void for_each_live(const std::function<void(const void*, LiveKind)>& visit) {
  const std::lock_guard guard(registry().mutex);
  for (const auto& [object, kind] : registry().objects) visit(object, kind);
}

void lock_live_objects() { registry().mutex.lock(); }

void unlock_live_objects() { registry().mutex.unlock(); }

}  // namespace openmrc::verbs
