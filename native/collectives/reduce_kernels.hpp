// The loops behind reduce(): a template that every engine compiles with its own instructions. Everything is in an
// unnamed namespace, so that no engine's code is ever taken for another's.
#pragma once

#include <cstring>
#include <type_traits>

#include "collectives/half.hpp"
#include "collectives/reduce.hpp"
#include "engine/base/assert.hpp"

namespace openmrc::collectives {

// One engine: a function per pair of type and operation, nullptr where the pair is not reducible.
using ReduceLoop = void (*)(std::uint8_t* into, const std::uint8_t* with, std::size_t count);
struct ReduceTable {
  ReduceLoop loops[2][kElementTypes][kReduceOps];  // first index: reversed
  const char* name;
};
const ReduceTable& portable_reductions();
const ReduceTable* avx2_reductions();  // nullptr where the processor or the compiler has none

namespace {

// Type of an element in memory (Stored), and type for computations (Value).
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return half_to_float(stored); }
  static Stored store(Value value) { return float_to_half(value); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return bfloat_to_float(stored); }
  static Stored store(Value value) { return float_to_bfloat(value); }
};

struct Bool {
  using Stored = std::uint8_t;
  using Value = std::uint8_t;
  static Value load(Stored stored) { return stored != 0 ? 1 : 0; }
  static Stored store(Value value) { return value; }
};

// Signed integers wrap: the sum is taken in the unsigned type of at least int's width.
template <typename T>
T wrapping_sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <typename T>
T wrapping_product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}

template <ReduceOp op, typename T>
T combine(T a, T b) {
  if constexpr (op == ReduceOp::kSum) return wrapping_sum(a, b);
  if constexpr (op == ReduceOp::kProd) return wrapping_product(a, b);
  if constexpr (op == ReduceOp::kMin) return b < a ? b : a;
  if constexpr (op == ReduceOp::kMax) return a < b ? b : a;
  if constexpr (op == ReduceOp::kAnd) return static_cast<T>(a & b);
  if constexpr (op == ReduceOp::kOr) return static_cast<T>(a | b);
  if constexpr (op == ReduceOp::kXor) return static_cast<T>(a ^ b);
}

// Unaligned access by memcpy, which compilers turn into vector loads and stores.
template <typename Element, ReduceOp op, bool reversed = false>
void loop(std::uint8_t* __restrict into, const std::uint8_t* __restrict with, std::size_t count) {
  using Stored = typename Element::Stored;
  for (std::size_t i = 0; i < count; ++i) {
    Stored a, b;
    std::memcpy(&a, into + i * sizeof a, sizeof a);
    std::memcpy(&b, with + i * sizeof b, sizeof b);
    const Stored result = Element::store(reversed ? combine<op>(Element::load(b), Element::load(a))
                                                  : combine<op>(Element::load(a), Element::load(b)));
    std::memcpy(into + i * sizeof result, &result, sizeof result);
  }
}

template <typename Element, bool bitwise, bool reversed>
constexpr void fill(ReduceLoop (&row)[kReduceOps]) {
  row[static_cast<std::size_t>(ReduceOp::kSum)] = loop<Element, ReduceOp::kSum, reversed>;
  row[static_cast<std::size_t>(ReduceOp::kProd)] = loop<Element, ReduceOp::kProd, reversed>;
  row[static_cast<std::size_t>(ReduceOp::kMin)] = loop<Element, ReduceOp::kMin, reversed>;
  row[static_cast<std::size_t>(ReduceOp::kMax)] = loop<Element, ReduceOp::kMax, reversed>;
  if constexpr (bitwise) {
    row[static_cast<std::size_t>(ReduceOp::kAnd)] = loop<Element, ReduceOp::kAnd, reversed>;
    row[static_cast<std::size_t>(ReduceOp::kOr)] = loop<Element, ReduceOp::kOr, reversed>;
    row[static_cast<std::size_t>(ReduceOp::kXor)] = loop<Element, ReduceOp::kXor, reversed>;
  }
}

template <bool reversed>
constexpr void fill_all(ReduceLoop (&loops)[kElementTypes][kReduceOps]) {
  const auto row = [&loops](ElementType type) -> ReduceLoop(&)[kReduceOps] {
    return loops[static_cast<std::size_t>(type)];
  };
  fill<Plain<double>, false, reversed>(row(ElementType::kFloat64));
  fill<Plain<float>, false, reversed>(row(ElementType::kFloat32));
  fill<Float16, false, reversed>(row(ElementType::kFloat16));
  fill<Bfloat16, false, reversed>(row(ElementType::kBfloat16));
  fill<Plain<std::int64_t>, true, reversed>(row(ElementType::kInt64));
  fill<Plain<std::int32_t>, true, reversed>(row(ElementType::kInt32));
  fill<Plain<std::int16_t>, true, reversed>(row(ElementType::kInt16));
  fill<Plain<std::int8_t>, true, reversed>(row(ElementType::kInt8));
  fill<Plain<std::uint8_t>, true, reversed>(row(ElementType::kUint8));
  auto& booleans = row(ElementType::kBool);
  fill<Bool, true, reversed>(booleans);
  booleans[static_cast<std::size_t>(ReduceOp::kSum)] = loop<Bool, ReduceOp::kOr>;
  booleans[static_cast<std::size_t>(ReduceOp::kProd)] = loop<Bool, ReduceOp::kAnd>;
}

constexpr ReduceTable make_table(const char* name) {
  ReduceTable table{};
  table.name = name;
  fill_all<false>(table.loops[0]);
  fill_all<true>(table.loops[1]);
  return table;
}

}  // namespace

}  // namespace openmrc::collectives
