// CRC-32 by carry-less multiplication (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ").
//
// The message is a polynomial over GF(2). A block of it may be replaced by another one that is congruent modulo the CRC
// polynomial P: 128 bits at distance d from the end of the accumulated part are `high * x^64 + low`, and multiplying
// the halves by x^(d+64) mod P and x^d mod P moves them onto the next 128 bits. Four (eight, or sixteen) independent
// lanes hide the multiplier's latency. The odd bytes at the end form a lane with bytes of the last remaining one, which
// is then reduced to the register by Barrett's method. The tables are not used: between system calls they leave the
// cache.
#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <cstring>

#include "engine/wire/crc32_table.hpp"
#include "engine/wire/crc32_vector.hpp"

namespace openmrc::wire {

namespace {

// x^n mod P, with the bits reversed as everywhere in a reflected CRC, and shifted by one: the product of two reversed
// 64-bit factors has 127 bits and sits one place too low.
constexpr std::uint64_t fold_constant(unsigned n) {
  std::uint32_t remainder = 0x80000000;  // x^0, reversed
  for (unsigned i = 0; i < n; ++i) remainder = (remainder >> 1) ^ ((remainder & 1U) != 0 ? kCrc32Polynomial : 0);
  return std::uint64_t{remainder} << 1;
}

// Factors that move a 128-bit lane on by `lanes` lanes: for its first eight bytes, then for its last eight. The 32 is
// where a reflected 64-bit operand keeps its 33-bit constant.
struct FoldFactors {
  std::uint64_t first;
  std::uint64_t last;
};
constexpr FoldFactors fold_by(unsigned lanes) {
  return {fold_constant(lanes * 128 + 32), fold_constant(lanes * 128 - 32)};
}

static_assert(fold_by(4).first == 0x0154442bd4 && fold_by(4).last == 0x01c6e41596);  // the paper's k1, k2
static_assert(fold_by(1).first == 0x01751997d0 && fold_by(1).last == 0x00ccaa009e);  // and k3, k4

constexpr std::uint64_t kFoldLow = fold_constant(64);
constexpr std::uint64_t kPolynomial33 = std::uint64_t{kCrc32Polynomial} << 1 | 1;  // with the term x^32
constexpr std::uint64_t kQuotient = 0x01f7011641;                                  // x^64 / P
static_assert(kFoldLow == 0x0163cd6124 && kPolynomial33 == 0x01db710641);          // the paper's k5, P

#define MRC_TARGET_128 __attribute__((target("pclmul,sse4.1")))
#define MRC_TARGET_256 __attribute__((target("pclmul,sse4.1,avx2,vpclmulqdq")))
#define MRC_TARGET_512 __attribute__((target("pclmul,sse4.1,avx2,avx512f,vpclmulqdq")))

inline constexpr std::size_t kLaneBytes = 16;

MRC_TARGET_128 inline __m128i load_lane(const std::uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

MRC_TARGET_128 inline __m128i factors(FoldFactors by) {
  return _mm_set_epi64x(static_cast<long long>(by.last), static_cast<long long>(by.first));
}

MRC_TARGET_128 inline __m128i fold(__m128i lane, __m128i by, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Appends fewer bytes than a lane has, which follow at least a lane of the message in memory.
MRC_TARGET_128 inline __m128i fold_odd_bytes(__m128i lane, const std::uint8_t* bytes, std::size_t count) {
  static constexpr std::uint8_t kZero = 0x80;  // as an index of a shuffle
  static constexpr std::array<std::uint8_t, 3 * kLaneBytes> kIndices = [] {
    std::array<std::uint8_t, 3 * kLaneBytes> indices{};
    indices.fill(kZero);
    for (std::uint8_t i = 0; i < kLaneBytes; ++i) indices[kLaneBytes + i] = i;
    return indices;
  }();
  // The first `count` bytes of the lane move to its end; the others, and the odd bytes, are the lane behind it.
  const __m128i first = _mm_shuffle_epi8(lane, load_lane(kIndices.data() + count));
  const __m128i others = load_lane(kIndices.data() + kLaneBytes + count);
  const __m128i next = _mm_blendv_epi8(_mm_shuffle_epi8(lane, others), load_lane(bytes + count - kLaneBytes), others);
  return fold(first, factors(fold_by(1)), next);
}

// The register after a lane.
MRC_TARGET_128 inline std::uint32_t reduce(__m128i lane) {
  const __m128i low32 = _mm_setr_epi32(-1, 0, 0, 0);
  lane = _mm_xor_si128(_mm_srli_si128(lane, 8), _mm_clmulepi64_si128(lane, factors(fold_by(1)), 0x10));
  const __m128i by_low = _mm_cvtsi64_si128(static_cast<long long>(kFoldLow));
  lane = _mm_xor_si128(_mm_srli_si128(lane, 4), _mm_clmulepi64_si128(_mm_and_si128(lane, low32), by_low, 0x00));
  const __m128i barrett = _mm_set_epi64x(static_cast<long long>(kQuotient), static_cast<long long>(kPolynomial33));
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(lane, low32), barrett, 0x10);
  const __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(lane, product), 1));
}

// Folds the rest of the message behind `lane`.
MRC_TARGET_128 inline std::uint32_t finish(__m128i lane, const std::uint8_t* bytes, std::size_t count) {
  const __m128i by_one = factors(fold_by(1));
  for (; count >= kLaneBytes; count -= kLaneBytes, bytes += kLaneBytes) lane = fold(lane, by_one, load_lane(bytes));
  return reduce(count == 0 ? lane : fold_odd_bytes(lane, bytes, count));
}

MRC_TARGET_128 std::uint32_t update_128(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  constexpr std::size_t kStep = 4 * kLaneBytes;
  if (count < kLaneBytes) return crc32_table(state, bytes, count);
  __m128i lane0 = _mm_xor_si128(load_lane(bytes), _mm_cvtsi32_si128(static_cast<int>(state)));
  if (count < kStep) return finish(lane0, bytes + kLaneBytes, count - kLaneBytes);
  __m128i lane1 = load_lane(bytes + kLaneBytes);
  __m128i lane2 = load_lane(bytes + 2 * kLaneBytes);
  __m128i lane3 = load_lane(bytes + 3 * kLaneBytes);
  const __m128i by_four = factors(fold_by(4));
  for (bytes += kStep, count -= kStep; count >= kStep; bytes += kStep, count -= kStep) {
    lane0 = fold(lane0, by_four, load_lane(bytes));
    lane1 = fold(lane1, by_four, load_lane(bytes + kLaneBytes));
    lane2 = fold(lane2, by_four, load_lane(bytes + 2 * kLaneBytes));
    lane3 = fold(lane3, by_four, load_lane(bytes + 3 * kLaneBytes));
  }
  const __m128i by_one = factors(fold_by(1));
  lane1 = fold(lane0, by_one, lane1);
  lane2 = fold(lane1, by_one, lane2);
  lane3 = fold(lane2, by_one, lane3);
  return finish(lane3, bytes, count);
}

// Both engines below clear the upper halves of registers themselves: if link-time optimisation turned the last call
// into a jump, the compiler did not clear them, and all later SSE code ran a quarter slower.

MRC_TARGET_256 inline __m256i load_lanes(const std::uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

MRC_TARGET_256 inline __m256i fold_lanes(__m256i lanes, __m256i by, __m256i next) {
  const __m256i low = _mm256_clmulepi64_epi128(lanes, by, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(lanes, by, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

MRC_TARGET_256 std::uint32_t update_256(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  constexpr std::size_t kVectorBytes = 2 * kLaneBytes;
  constexpr std::size_t kStep = 4 * kVectorBytes;
  if (count < kStep) return update_128(state, bytes, count);
  const __m256i start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m256i lanes0 = _mm256_xor_si256(load_lanes(bytes), start);
  __m256i lanes1 = load_lanes(bytes + kVectorBytes);
  __m256i lanes2 = load_lanes(bytes + 2 * kVectorBytes);
  __m256i lanes3 = load_lanes(bytes + 3 * kVectorBytes);
  const __m256i by_eight = _mm256_broadcastsi128_si256(factors(fold_by(8)));
  for (bytes += kStep, count -= kStep; count >= kStep; bytes += kStep, count -= kStep) {
    lanes0 = fold_lanes(lanes0, by_eight, load_lanes(bytes));
    lanes1 = fold_lanes(lanes1, by_eight, load_lanes(bytes + kVectorBytes));
    lanes2 = fold_lanes(lanes2, by_eight, load_lanes(bytes + 2 * kVectorBytes));
    lanes3 = fold_lanes(lanes3, by_eight, load_lanes(bytes + 3 * kVectorBytes));
  }
  const __m256i by_two = _mm256_broadcastsi128_si256(factors(fold_by(2)));
  lanes1 = fold_lanes(lanes0, by_two, lanes1);
  lanes2 = fold_lanes(lanes1, by_two, lanes2);
  lanes3 = fold_lanes(lanes2, by_two, lanes3);
  const __m128i first = _mm256_castsi256_si128(lanes3);
  const __m128i last = _mm256_extracti128_si256(lanes3, 1);
  const __m128i lane = fold(first, factors(fold_by(1)), last);
  _mm256_zeroupper();
  return finish(lane, bytes, count);
}

MRC_TARGET_512 inline __m512i load_wide(const std::uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

MRC_TARGET_512 inline __m512i wide_factors(FoldFactors by) {
  const auto first = static_cast<long long>(by.first);
  const auto last = static_cast<long long>(by.last);
  return _mm512_set_epi64(last, first, last, first, last, first, last, first);
}

MRC_TARGET_512 inline __m512i fold_wide(__m512i lanes, __m512i by, __m512i next) {
  constexpr int kXorOfThree = 0x96;
  const __m512i low = _mm512_clmulepi64_epi128(lanes, by, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(lanes, by, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, kXorOfThree);
}

MRC_TARGET_512 std::uint32_t update_512(std::uint32_t state, const std::uint8_t* bytes, std::size_t count) {
  constexpr std::size_t kVectorBytes = 4 * kLaneBytes;
  constexpr std::size_t kStep = 4 * kVectorBytes;
  if (count < kStep) return update_256(state, bytes, count);
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i lanes0 = _mm512_xor_si512(load_wide(bytes), start);
  __m512i lanes1 = load_wide(bytes + kVectorBytes);
  __m512i lanes2 = load_wide(bytes + 2 * kVectorBytes);
  __m512i lanes3 = load_wide(bytes + 3 * kVectorBytes);
  const __m512i by_sixteen = wide_factors(fold_by(16));
  for (bytes += kStep, count -= kStep; count >= kStep; bytes += kStep, count -= kStep) {
    lanes0 = fold_wide(lanes0, by_sixteen, load_wide(bytes));
    lanes1 = fold_wide(lanes1, by_sixteen, load_wide(bytes + kVectorBytes));
    lanes2 = fold_wide(lanes2, by_sixteen, load_wide(bytes + 2 * kVectorBytes));
    lanes3 = fold_wide(lanes3, by_sixteen, load_wide(bytes + 3 * kVectorBytes));
  }
  const __m512i by_four = wide_factors(fold_by(4));
  lanes1 = fold_wide(lanes0, by_four, lanes1);
  lanes2 = fold_wide(lanes1, by_four, lanes2);
  lanes3 = fold_wide(lanes2, by_four, lanes3);
  for (; count >= kVectorBytes; bytes += kVectorBytes, count -= kVectorBytes) {
    lanes3 = fold_wide(lanes3, by_four, load_wide(bytes));
  }
  const __m128i by_one = factors(fold_by(1));
  std::uint8_t left[kVectorBytes];
  _mm512_storeu_si512(left, lanes3);
  __m128i lane = load_lane(left);
  for (std::size_t i = 1; i < 4; ++i) lane = fold(lane, by_one, load_lane(left + i * kLaneBytes));
  _mm256_zeroupper();
  return finish(lane, bytes, count);
}

}  // namespace

std::size_t crc32_vector_engines(std::span<Crc32Engine> engines) {
  std::size_t count = 0;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1")) return count;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq")) {
    if (__builtin_cpu_supports("avx512f")) engines[count++] = {"vpclmulqdq-512", &update_512};
    engines[count++] = {"vpclmulqdq", &update_256};
  }
  engines[count++] = {"pclmulqdq", &update_128};
  return count;
}

}  // namespace openmrc::wire

#endif
