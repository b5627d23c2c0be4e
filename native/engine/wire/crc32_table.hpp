// The portable CRC-32: sixteen bytes per step through sixteen tables. Also for headers, and what is too short for vector
// engines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace openmrc::wire {

inline constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320;  // 0x04C11DB7 with its bits reversed

using Crc32Tables = std::array<std::array<std::uint32_t, 256>, 16>;

// tables[k][b]: contribution of byte b to the register after k further zero bytes.
constexpr Crc32Tables make_crc32_tables() {
  Crc32Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int i = 0; i < 8; ++i) value = (value >> 1) ^ ((value & 1U) != 0 ? kCrc32Polynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

extern const Crc32Tables kCrc32Tables;

inline std::uint32_t crc32_bytes(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  for (; count > 0; --count, ++bytes) state = (state >> 8) ^ kCrc32Tables[0][(state ^ *bytes) & 0xFFU];
  return state;
}

// Contribution of four bytes, the last of which is followed by `after` more bytes of the same step.
inline std::uint32_t crc32_word(std::uint32_t word, std::size_t after) {
  return kCrc32Tables[after + 3][word & 0xFFU] ^ kCrc32Tables[after + 2][(word >> 8) & 0xFFU] ^
         kCrc32Tables[after + 1][(word >> 16) & 0xFFU] ^ kCrc32Tables[after][word >> 24];
}

inline std::uint32_t crc32_table(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t words[4];
  for (; count >= sizeof words; count -= sizeof words, bytes += sizeof words) {
    std::memcpy(words, bytes, sizeof words);
    state =
        crc32_word(words[0] ^ state, 12) ^ crc32_word(words[1], 8) ^ crc32_word(words[2], 4) ^ crc32_word(words[3], 0);
  }
  // Headers are multiples of four bytes, so most of them end here.
  for (; count >= 4; count -= 4, bytes += 4) {
    std::memcpy(words, bytes, 4);
    state = crc32_word(words[0] ^ state, 0);
  }
  return crc32_bytes(state, bytes, count);
}

}  // namespace openmrc::wire
