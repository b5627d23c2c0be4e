// Engines with instructions beyond the baseline: always compiled, chosen at run time.
#pragma once

#include <cstddef>
#include <span>

#include "engine/wire/crc32.hpp"

namespace openmrc::wire {

// Writes the vector engines that this processor can run to `engines`, fastest first, and returns their number (at most
// kCrc32EnginesMax - 1).
std::size_t crc32_vector_engines(std::span<Crc32Engine> engines);

}  // namespace openmrc::wire
