#if !defined(__x86_64__) && !defined(__aarch64__)

#include "engine/wire/crc32_vector.hpp"

namespace openmrc::wire {

std::size_t crc32_vector_engines(std::span<Crc32Engine> /*engines*/) { return 0; }

}  // namespace openmrc::wire

#endif
