// CRC-32 (Ethernet polynomial, reflected), the checksum of the ICRC: several engines with equal results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace openmrc::wire {

// Raw register: start from ~0, complement the last result. Calls chain over scattered pieces without copying.
inline constexpr std::uint32_t kCrc32Start = 0xFFFFFFFF;

// Updates `state` with the fastest engine of this processor.
std::uint32_t crc32_update(std::uint32_t state, std::span<const std::uint8_t> bytes);

using Crc32Function = std::uint32_t (*)(std::uint32_t state, const std::uint8_t* bytes, std::size_t count);

struct Crc32Engine {
  const char* name = nullptr;
  Crc32Function update = nullptr;
};

inline constexpr std::size_t kCrc32EnginesMax = 4;

// Writes all engines that this processor can run to `engines`, fastest first, and returns their number. The last is
// "table", which runs everywhere.
std::size_t crc32_engines(std::span<Crc32Engine, kCrc32EnginesMax> engines);

}  // namespace openmrc::wire
