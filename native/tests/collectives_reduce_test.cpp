// Reductions: every engine against the definition, for every type, operation and order; half precision in full.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "collectives/reduce.hpp"
#include "collectives/reduce_kernels.hpp"
#include "engine/base/rng.hpp"
#include "tests/check.hpp"

namespace openmrc::collectives {
namespace {

constexpr std::size_t kBytes = 4096;

std::vector<std::uint8_t> random_bytes(Rng& rng, ElementType type) {
  std::vector<std::uint8_t> bytes(kBytes);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng.next() >> 56);
  if (type == ElementType::kBool) {
    for (auto& byte : bytes) byte &= 1;
  }
  return bytes;
}

// Exponent bits of floating-point types by their element's bits; 0: not floating point.
std::uint64_t exponent_mask(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
      return 0x7FF0000000000000ULL;
    case ElementType::kFloat32:
      return 0x7F800000ULL;
    case ElementType::kFloat16:
      return 0x7C00ULL;
    case ElementType::kBfloat16:
      return 0x7F80ULL;
    default:
      return 0;
  }
}

// Equal bits, or both NaN: the compiler may choose which of two NaNs an addition propagates.
bool same(ElementType type, const std::vector<std::uint8_t>& one, const std::vector<std::uint8_t>& other,
          std::size_t first, std::size_t count) {
  const std::size_t bytes = element_bytes(type);
  const std::uint64_t exponent = exponent_mask(type), magnitude = exponent | (exponent - 1);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, one.data() + first + i * bytes, bytes);
    std::memcpy(&b, other.data() + first + i * bytes, bytes);
    const bool nan = exponent != 0 && (a & magnitude) > exponent && (b & magnitude) > exponent;
    if (a != b && !nan) return false;
  }
  return true;
}

// Any bit pattern, including NaN and subnormal numbers, from unaligned addresses, with a count that is no multiple of a
// vector.
TEST_CASE(engines_reduce_alike) {
  const ReduceTable* avx2 = avx2_reductions();
  if (avx2 == nullptr) return;
  Rng rng(1);
  for (std::size_t type = 0; type < kElementTypes; ++type) {
    for (std::size_t op = 0; op < kReduceOps; ++op) {
      for (std::size_t reversed = 0; reversed < 2; ++reversed) {
        const ReduceLoop portable = portable_reductions().loops[reversed][type][op];
        const ReduceLoop vector = avx2->loops[reversed][type][op];
        CHECK((portable == nullptr) == (vector == nullptr));
        if (portable == nullptr) continue;
        const auto element = static_cast<ElementType>(type);
        const std::vector<std::uint8_t> with = random_bytes(rng, element);
        std::vector<std::uint8_t> one = random_bytes(rng, element), other = one;
        const std::size_t count = kBytes / element_bytes(element) - 3;
        portable(one.data() + 1, with.data() + 2, count);
        vector(other.data() + 1, with.data() + 2, count);
        CHECK(same(element, one, other, 1, count));
      }
    }
  }
}

template <typename T>
std::vector<T> reduced(ElementType type, ReduceOp op, std::vector<T> into, const std::vector<T>& with,
                       bool reversed = false) {
  reduce(type, op, into.data(), with.data(), into.size(), reversed);
  return into;
}

TEST_CASE(integers_wrap_and_combine) {
  using Bytes = std::vector<std::int8_t>;
  CHECK(
      (reduced<std::int8_t>(ElementType::kInt8, ReduceOp::kSum, {127, -128, 5}, {1, -1, -7}) == Bytes{-128, 127, -2}));
  CHECK((reduced<std::int8_t>(ElementType::kInt8, ReduceOp::kProd, {64, -3, 7}, {4, 5, 0}) == Bytes{0, -15, 0}));
  CHECK((reduced<std::int8_t>(ElementType::kInt8, ReduceOp::kMin, {-1, 3, 0}, {1, 2, 0}) == Bytes{-1, 2, 0}));
  using Longs = std::vector<std::int64_t>;
  const std::int64_t high = std::numeric_limits<std::int64_t>::max(), low = std::numeric_limits<std::int64_t>::min();
  CHECK((reduced<std::int64_t>(ElementType::kInt64, ReduceOp::kSum, {high}, {1}) == Longs{low}));
  using Octets = std::vector<std::uint8_t>;
  CHECK((reduced<std::uint8_t>(ElementType::kUint8, ReduceOp::kXor, {0xF0, 0xFF}, {0xFF, 0x0F}) == Octets{0x0F, 0xF0}));
  CHECK((reduced<std::uint8_t>(ElementType::kUint8, ReduceOp::kMax, {200, 1}, {100, 2}) == Octets{200, 2}));
  CHECK((reduced<std::uint8_t>(ElementType::kBool, ReduceOp::kSum, {1, 0, 2}, {1, 0, 0}) == Octets{1, 0, 1}));
  CHECK((reduced<std::uint8_t>(ElementType::kBool, ReduceOp::kProd, {1, 0, 1}, {1, 1, 0}) == Octets{1, 0, 0}));
}

TEST_CASE(the_order_of_operands_decides_where_they_compare_equal) {
  const std::vector<float> negative{-0.0F}, positive{0.0F};
  CHECK(std::signbit(reduced(ElementType::kFloat32, ReduceOp::kMin, negative, positive)[0]));
  CHECK(!std::signbit(reduced(ElementType::kFloat32, ReduceOp::kMin, negative, positive, true)[0]));
  CHECK(std::signbit(reduced(ElementType::kFloat32, ReduceOp::kMax, negative, positive)[0]));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(reduced<float>(ElementType::kFloat32, ReduceOp::kMax, {nan}, {1})[0]));
  CHECK(reduced<float>(ElementType::kFloat32, ReduceOp::kMax, {nan}, {1}, true)[0] == 1);
}

// The double nearest to a half, by its definition.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Every half plus zero is itself, and the sum of two is the half nearest to the exact sum.
TEST_CASE(halves_round_to_nearest_even) {
  std::vector<std::uint16_t> all(65536), zero(65536, 0x8000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<std::uint16_t> sums = reduced(ElementType::kFloat16, ReduceOp::kSum, all, zero);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((i & 0x7FFF) <= 0x7C00) CHECK(sums[i] == all[i]);
  }
  Rng rng(2);
  for (int round = 0; round < 20'000; ++round) {
    const auto a = static_cast<std::uint16_t>(rng.next() % 0x7000), b = static_cast<std::uint16_t>(rng.next() % 0x7000);
    const std::uint16_t sum = reduced<std::uint16_t>(ElementType::kFloat16, ReduceOp::kSum, {a}, {b})[0];
    const double exact = half_value(a) + half_value(b);
    const double error = std::abs(half_value(sum) - exact);
    const double below = std::abs(half_value(static_cast<std::uint16_t>(sum - 1)) - exact);
    const double above = std::abs(half_value(static_cast<std::uint16_t>(sum + 1)) - exact);
    CHECK(sum == 0 || error <= below);
    CHECK(error <= above);
    if (sum != 0 && (error == below || error == above)) CHECK((sum & 1) == 0);
  }
}

TEST_CASE(bfloat_keeps_nan_and_rounds) {
  const auto bits = [](float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); };
  const auto sum = [](std::uint16_t a, std::uint16_t b) {
    return reduced<std::uint16_t>(ElementType::kBfloat16, ReduceOp::kSum, {a}, {b})[0];
  };
  CHECK(sum(bits(1.0F), bits(2.0F)) == bits(3.0F));
  CHECK(sum(bits(256.0F), bits(1.0F)) == bits(256.0F));  // 257 lies between 256 and 258: rounded to even
  CHECK(sum(bits(258.0F), bits(1.0F)) == bits(260.0F));
  CHECK((sum(0x7FFF, bits(1.0F)) & 0x7FC0) == 0x7FC0);
  CHECK(sum(0x7F80, 0xFF80) != 0x7F80);  // infinity minus infinity
}

TEST_CASE(reductions_that_do_not_exist_are_refused) {
  CHECK(!reducible(ElementType::kFloat32, ReduceOp::kXor));
  CHECK(!reducible(ElementType::kBfloat16, ReduceOp::kAnd));
  CHECK(reducible(ElementType::kBool, ReduceOp::kXor));
  CHECK(reducible(ElementType::kFloat16, ReduceOp::kMax));
}

TEST_CASE(scaling_and_dividing) {
  std::vector<float> floats{3, -1.5F};
  scale(ElementType::kFloat32, floats.data(), floats.size(), 2.0);
  CHECK((floats == std::vector<float>{6, -3}));
  std::vector<std::int32_t> integers{7, -7, 1};
  divide(ElementType::kInt32, integers.data(), integers.size(), 2);
  CHECK((integers == std::vector<std::int32_t>{3, -3, 0}));
  std::vector<double> doubles{1};
  divide(ElementType::kFloat64, doubles.data(), doubles.size(), 3);
  CHECK(doubles[0] == 1.0 / 3.0);
}

}  // namespace
}  // namespace openmrc::collectives
