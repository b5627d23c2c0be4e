// Reductions of collectives: arrays of numbers, element by element. The result depends on the operands alone, bit for
// bit: every engine (portable, AVX2) computes the same, and half precision rounds to nearest even after every step. Only
// which payload a NaN has may differ between engines.
#pragma once

#include <cstddef>
#include <cstdint>

namespace openmrc::collectives {

enum class ElementType : std::uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool,  // one byte, 0 or 1; any other byte counts as true and becomes 1
};
inline constexpr std::size_t kElementTypes = 10;

// Integers wrap around. min and max of NaN: the first operand unless the second compares below (above) it. Of bool, sum
// and max are `or`, prod and min are `and`.
enum class ReduceOp : std::uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor };
inline constexpr std::size_t kReduceOps = 7;

std::size_t element_bytes(ElementType type);

// False for bitwise operations of floating-point numbers.
bool reducible(ElementType type, ReduceOp op);

// into[i] = into[i] op with[i]; reversed: with[i] op into[i], which differs for NaN and for -0 and 0. The arrays may be
// unaligned and must not overlap; the pair must be reducible.
void reduce(ElementType type, ReduceOp op, void* into, const void* with, std::size_t count, bool reversed = false);

// data[i] = data[i] * factor, computed in double precision (half and float32: in float32) and rounded once. Integers
// are cut towards zero.
void scale(ElementType type, void* data, std::size_t count, double factor);

// data[i] = data[i] / divisor, which turns a sum into an average. Integers are cut towards zero.
void divide(ElementType type, void* data, std::size_t count, std::uint32_t divisor);

const char* reduce_engine();  // "avx2" or "portable"

}  // namespace openmrc::collectives
