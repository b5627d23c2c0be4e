// The same loops, compiled with AVX2 and F16C (CMakeLists.txt sets the flags for this file alone). Never with FMA: a
// fused product rounds once where the portable engine rounds twice.
#include "collectives/reduce_kernels.hpp"

namespace openmrc::collectives {

#if defined(__AVX2__) && defined(__F16C__)

namespace {

// Eight halves at a time: compilers do not turn the conversions of single numbers into those of vectors.
template <ReduceOp op, bool reversed>
void half_loop(std::uint8_t* __restrict into, const std::uint8_t* __restrict with, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    auto* at = reinterpret_cast<__m128i*>(into + i * 2);
    const __m256 own = _mm256_cvtph_ps(_mm_loadu_si128(at));
    const __m256 other = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(with + i * 2)));
    const __m256 a = reversed ? other : own, b = reversed ? own : other;
    __m256 result;
    if constexpr (op == ReduceOp::kSum) result = _mm256_add_ps(a, b);
    if constexpr (op == ReduceOp::kProd) result = _mm256_mul_ps(a, b);
    // The instructions answer their second operand where nothing compares, so that one is `a`.
    if constexpr (op == ReduceOp::kMin) result = _mm256_min_ps(b, a);
    if constexpr (op == ReduceOp::kMax) result = _mm256_max_ps(b, a);
    _mm_storeu_si128(at, _mm256_cvtps_ph(result, _MM_FROUND_TO_NEAREST_INT));
  }
  loop<Float16, op, reversed>(into + i * 2, with + i * 2, count - i);
}

template <bool reversed>
constexpr void fill_half(ReduceLoop (&row)[kReduceOps]) {
  row[static_cast<std::size_t>(ReduceOp::kSum)] = half_loop<ReduceOp::kSum, reversed>;
  row[static_cast<std::size_t>(ReduceOp::kProd)] = half_loop<ReduceOp::kProd, reversed>;
  row[static_cast<std::size_t>(ReduceOp::kMin)] = half_loop<ReduceOp::kMin, reversed>;
  row[static_cast<std::size_t>(ReduceOp::kMax)] = half_loop<ReduceOp::kMax, reversed>;
}

constexpr ReduceTable make_avx2_table() {
  ReduceTable table = make_table("avx2");
  fill_half<false>(table.loops[0][static_cast<std::size_t>(ElementType::kFloat16)]);
  fill_half<true>(table.loops[1][static_cast<std::size_t>(ElementType::kFloat16)]);
  return table;
}

}  // namespace

const ReduceTable* avx2_reductions() {
  static constexpr ReduceTable kTable = make_avx2_table();
  static const bool there = __builtin_cpu_supports("avx2") != 0;  // every processor with AVX2 has F16C
  return there ? &kTable : nullptr;
}

#else

const ReduceTable* avx2_reductions() { return nullptr; }

#endif

}  // namespace openmrc::collectives
