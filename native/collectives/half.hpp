// Half-precision numbers and float32: IEEE binary16 and bfloat16, rounding to nearest even. No branches on values that a
// vectoriser could not turn into masks. Internal to each engine (unnamed namespace, like the loops that use it).
#pragma once

#include <bit>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace openmrc::collectives {
namespace {

inline float bfloat_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// A NaN stays one: rounding must not carry it to infinity.
inline std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x0040U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

#if defined(__F16C__)

inline float half_to_float(std::uint16_t bits) { return _cvtsh_ss(bits); }
inline std::uint16_t float_to_half(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

#else

// The exponent is moved from bias 15 to 127 by a multiplication, which also turns subnormal halves into normal floats.
inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t special =
      0x7F800000U | (magnitude & 0x03FFU) << 13 | ((magnitude & 0x03FFU) != 0 ? 0x400000U : 0);
  return std::bit_cast<float>(sign | (magnitude >= 0x7C00U ? special : std::bit_cast<std::uint32_t>(scaled)));
}

// Adding a number whose unit in the last place is the half's rounds to nearest even as the processor does.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x03FFU));
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65,520 and more round to infinity
  if (magnitude < 0x38800000U) {  // below the smallest normal half: in units of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0x0FFFU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

#endif

}  // namespace
}  // namespace openmrc::collectives
