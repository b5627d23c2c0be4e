#include <dlfcn.h>

#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

// Looked up at run time: with the system's libibverbs a program starts as well, and `mrc_query_device` reports that MRC
// is not supported.
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

}  // namespace openmrc::mrc_api
