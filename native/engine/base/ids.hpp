// Numbers that identify the engine's objects to its callers.
#pragma once

#include <cstdint>

namespace openmrc {

using CqId = std::uint32_t;
// Protection domain, numbered by the driver. Work of a QP reaches regions of the QP's own domain only.
using DomainId = std::uint32_t;
using SrqId = std::uint32_t;  // shared receive queue, from 1
using PeerId = std::uint32_t;

}  // namespace openmrc
