#include <dlfcn.h>

#include <unordered_set>

#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
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

// Looked up rather than linked, so that a program also starts with the system's libibverbs, and is told that MRC is not
// supported.
verbs::MrcSeam* find_seam() {
  void* library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = ::dlvsym(library, verbs::kMrcSeamSymbol, verbs::kMrcSeamNode);
  return found == nullptr ? nullptr : reinterpret_cast<verbs::MrcSeamFunction>(found)();
}

}  // namespace

verbs::MrcSeam* seam() {
  static verbs::MrcSeam* const found = find_seam();
  return found;
}

void add_live(const void* object) {
  const std::lock_guard guard(registry().mutex);
  registry().objects.insert(object);
}

bool is_live(const void* object) {
  const std::lock_guard guard(registry().mutex);
  return object != nullptr && registry().objects.contains(object);
}

bool remove_live(const void* object) {
  const std::lock_guard guard(registry().mutex);
  return registry().objects.erase(object) == 1;
}

}  // namespace openmrc::mrc_api
