// Numbers by which the engine's objects are known outside.
#pragma once

#include <cstdint>

namespace openmrc {

using CqId = std::uint32_t;
// Protection domain: a number that the driver chooses. Work of a QP reaches regions of the QP's own domain only.
using DomainId = std::uint32_t;
using PeerId = std::uint32_t;

}  // namespace openmrc
