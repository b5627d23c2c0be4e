// CRC-32 with the instructions of ARMv8's optional crc32 extension, which compute exactly this polynomial.
#if defined(__aarch64__)

#include <arm_acle.h>
#include <sys/auxv.h>

#include <cstring>

#include "engine/wire/crc32_vector.hpp"

namespace openmrc::wire {

namespace {

#if defined(__clang__)
#define MRC_TARGET_CRC __attribute__((target("crc")))
#else
#define MRC_TARGET_CRC __attribute__((target("+crc")))
#endif

constexpr unsigned long kHwcapCrc32 = 1UL << 7;  // HWCAP_CRC32 of the Linux arm64 ABI

MRC_TARGET_CRC std::uint32_t update_crc32(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t words[4];
  for (; count >= sizeof words; count -= sizeof words, bytes += sizeof words) {
    std::memcpy(words, bytes, sizeof words);
    for (const std::uint64_t word : words) state = __crc32d(state, word);
  }
  for (; count >= sizeof words[0]; count -= sizeof words[0], bytes += sizeof words[0]) {
    std::memcpy(words, bytes, sizeof words[0]);
    state = __crc32d(state, words[0]);
  }
  for (; count > 0; --count, ++bytes) state = __crc32b(state, *bytes);
  return state;
}

}  // namespace

std::size_t crc32_vector_engines(std::span<Crc32Engine> engines) {
  if ((getauxval(AT_HWCAP) & kHwcapCrc32) == 0) return 0;
  engines[0] = {"crc32", &update_crc32};
  return 1;
}

}  // namespace openmrc::wire

#endif
