// Stores payloads as NCCL's protocols LL and LL128 need it: GPUs read the memory while data arrives. LL has a flag of 4
// bytes behind each 4 bytes of data, LL128 one of 8 bytes at the end of each 128 bytes; no flag may be visible before its
// data. Therefore no packet ends within a line of 128 bytes (`Adapter::payload_room`), stores are words of 8 bytes that
// are visible whole, and lines are stored in the order of addresses if NCCL may use LL128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/placer.hpp"

namespace openmrc::nccl {

inline constexpr std::size_t kLineBytes = 128;

// False on x86-64 unless NCCL_PROTO names LL128: NCCL does not choose it there for a NIC behind the processor. Cache
// lines in any order are then enough, and string instructions store them without reading them first.
bool needs_lines_in_order(const char* nccl_proto);

class LinePlacer final : public Placer {
 public:
  LinePlacer(std::uint8_t* base, bool in_order) : base_(base), in_order_(in_order) {}

  bool place(std::uint64_t offset, std::span<const std::uint8_t> payload) override;

 private:
  std::uint8_t* base_;
  bool in_order_;
};

}  // namespace openmrc::nccl
