#include "verbs/live_objects.hpp"

#include <mutex>
#include <unordered_set>

namespace openmrc::verbs {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_set<const void*> objects;
};

// Never destroyed: programs call during their exit.
Registry& registry() {
  static Registry& made = *new Registry;
  return made;
}

}  // namespace

void add_live(const void* object) {
  const std::lock_guard guard(registry().mutex);
  registry().objects.insert(object);
}

bool is_live(const void* object) {
  const std::lock_guard guard(registry().mutex);
  return object != nullptr && registry().objects.contains(object);
}

void lock_live_objects() { registry().mutex.lock(); }

void unlock_live_objects() { registry().mutex.unlock(); }

bool remove_live(const void* object) {
  const std::lock_guard guard(registry().mutex);
  return registry().objects.erase(object) == 1;
}

}  // namespace openmrc::verbs
