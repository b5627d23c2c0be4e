// Every CRC-32 engine equals the table engine, for any bytes, any start and any split. Input: four bytes of start
// value, one byte that selects the split, then the message.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/wire/crc32.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 5) return 0;
  std::uint32_t start;
  std::memcpy(&start, data, sizeof start);
  const std::vector<std::uint8_t> message(data + 5, data + size);
  const std::size_t split = message.size() * data[4] / 255;

  std::array<openmrc::wire::Crc32Engine, openmrc::wire::kCrc32EnginesMax> engines;
  const std::size_t count = openmrc::wire::crc32_engines(engines);
  const std::uint32_t expected = engines[count - 1].update(start, message.data(), message.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t first = engines[i].update(start, message.data(), split);
    MRC_ASSERT(engines[i].update(first, message.data() + split, message.size() - split) == expected);
  }
  MRC_ASSERT(openmrc::wire::crc32_update(start, message) == expected);
  return 0;
}
