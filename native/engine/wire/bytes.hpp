// Big-endian loads and stores; compilers turn each into one move and one byte swap.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace openmrc::wire {

static_assert(std::endian::native == std::endian::little, "openmrc runs on x86-64 and little-endian arm64");

inline std::uint16_t load_be16(const std::uint8_t* in) {
  std::uint16_t value;
  std::memcpy(&value, in, sizeof value);
  return __builtin_bswap16(value);
}

inline std::uint32_t load_be32(const std::uint8_t* in) {
  std::uint32_t value;
  std::memcpy(&value, in, sizeof value);
  return __builtin_bswap32(value);
}

inline std::uint64_t load_be64(const std::uint8_t* in) {
  std::uint64_t value;
  std::memcpy(&value, in, sizeof value);
  return __builtin_bswap64(value);
}

inline void store_be16(std::uint8_t* out, std::uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(out, &value, sizeof value);
}

inline void store_be32(std::uint8_t* out, std::uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(out, &value, sizeof value);
}

inline void store_be64(std::uint8_t* out, std::uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(out, &value, sizeof value);
}

}  // namespace openmrc::wire
