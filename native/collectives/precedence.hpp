// Order of operations: those that share memory with earlier ones wait for them, as do fences. Internal to the executor.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "collectives/memory_claims.hpp"
#include "collectives/operations.hpp"

namespace openmrc::collectives {

class Precedence {
 public:
  explicit Precedence(Operations& operations) : operations_(operations) {}

  // Makes an operation that has not started wait for the earlier ones that it must not overtake.
  void order(Operation& op, const Plan& plan);
  // Releases its memory; operations that waited only for it become due.
  void ended(Operation& op);
  // The next operation without earlier ones to wait for; nullptr: none.
  std::shared_ptr<Operation> next_due();
  // An operation that has not ended and uses this memory, where either writes; 0: there is none.
  OpId user_of(const void* base, std::uint64_t bytes, bool writes) const;

 private:
  static void follow(Operation& op, Operation& earlier);

  Operations& operations_;
  MemoryClaims claims_;  // of operations that have not ended
  std::deque<OpId> due_;
};

}  // namespace openmrc::collectives
