// Memory in use by running operations, to find those that a new operation has to wait for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace openmrc::collectives {

class MemoryClaims {
 public:
  // After find_conflicts() for the same memory, whose result `op` waits for. A write replaces the claims inside it, as
  // any conflict with these is a conflict with it; so a chain of operations on one buffer has one claim.
  void add(std::uint64_t op, const void* base, std::uint64_t bytes, bool writes) {
    if (bytes == 0) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    const auto inside = [&](const Claim& claim) { return begin <= claim.begin && claim.end <= begin + bytes; };
    if (writes) std::erase_if(claims_, inside);
    claims_.push_back({.begin = begin, .end = begin + bytes, .op = op, .writes = writes});
  }

  void remove(std::uint64_t op) {
    std::erase_if(claims_, [op](const Claim& claim) { return claim.op == op; });
  }

  // Calls `found(op)` for each claim that overlaps the memory, if the claim or the caller writes. A linear scan: few
  // operations run at once, and a claim takes half a cache line.
  template <typename Found>
  void find_conflicts(const void* base, std::uint64_t bytes, bool writes, Found&& found) const {
    if (bytes == 0) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    for (const Claim& claim : claims_) {
      if (claim.begin < begin + bytes && begin < claim.end && (writes || claim.writes)) found(claim.op);
    }
  }

 private:
  struct Claim {
    std::uint64_t begin, end, op;
    bool writes;
  };
  std::vector<Claim> claims_;
};

}  // namespace openmrc::collectives
