// The arguments of a collective that must be equal at all ranks. Messages carry them, so that an error about a
// different call names the rank and the difference.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace openmrc::collectives {

inline constexpr std::array<const char*, 11> kCallKinds{"none",       "all_reduce", "reduce_scatter", "all_gather",
                                                        "broadcast",  "reduce",     "gather",         "scatter",
                                                        "all_to_all", "message",    "barrier"};
inline constexpr std::array<const char*, 7> kCallAlgorithms{"direct",       "ring",  "doubling", "halving",
                                                            "hierarchical", "chain", "tree"};
inline constexpr std::array<const char*, 10> kCallTypes{"float64", "float32", "float16", "bfloat16", "int64",
                                                        "int32",   "int16",   "int8",    "uint8",    "bool"};
inline constexpr std::array<const char*, 9> kCallReductions{"sum", "prod", "min", "max",       "and",
                                                            "or",  "xor",  "avg", "premul_sum"};

// Numbers are indexes of the tables above; those from a peer may be anything.
struct Call {
  std::uint64_t bytes = 0;  // of the buffer with the same size at all ranks; 0: the operation has none
  std::uint16_t root = 0;
  std::uint8_t kind = 0;  // 0: unknown, which matches every call
  std::uint8_t algorithm = 0, type = 0, reduction = 0;
  std::uint16_t unused = 0;
};
static_assert(sizeof(Call) == 16);

// Differences between the peer's call and the own one, in words for the exception; empty if equal.
std::string difference(const Call& theirs, const Call& own);

std::string byte_count(std::uint64_t bytes);
// The difference in words if the calls agree and a message does not: in an all-to-all each pair of ranks has its sizes.
// `theirs`: with unit.
std::string message_difference(const Call& call, const std::string& theirs, std::uint64_t own_bytes);

}  // namespace openmrc::collectives
