// The operations of one rank that have not been released, found by id, by slot, and by the key that all ranks know.
// The executor's own; its lock guards them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/operation.hpp"

namespace openmrc::collectives {

inline constexpr std::uint32_t kStepBits = 20, kStepMask = (1U << kStepBits) - 1;  // below the id in a work request's
inline constexpr std::uint32_t kPairBits = 16, kPairMask = (1U << kPairBits) - 1;  // below the slot in an immediate
inline constexpr std::uint32_t kOpSlotsMax = 1U << (31 - kPairBits);

class Operations {
 public:
  Operations(std::uint32_t ranks, std::uint8_t lanes);

  // A new one, which runs and has not begun. Throws std::runtime_error when there are too many at once.
  std::shared_ptr<Operation> make(std::uint8_t lane, std::span<const Memory> buffers);
  // Gives it its plan and its key. `near`: it needs only ranks that share memory.
  void begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key, bool near);
  // Its key is free again, unless it failed: until it is forgotten, what peers send for it is known and dropped.
  void end(Operation& op, OpState state, int rank, const std::string& reason);
  // One that has ended: its id and its slot are free. What peers still send for one that failed is dropped from now on.
  void forget(Operation& op);

  Operation* find(OpId id) const { return at(slot_of(id), id); }
  std::shared_ptr<Operation> share(OpId id) const { return find(id) == nullptr ? nullptr : by_slot_[slot_of(id)]; }
  Operation* by_key(std::uint64_t key) const;
  Operation* at(std::uint32_t slot) const { return slot < by_slot_.size() ? by_slot_[slot].get() : nullptr; }
  Operation* at(std::uint32_t slot, OpId id) const {
    Operation* op = at(slot);
    return op != nullptr && op->id == id ? op : nullptr;
  }
  // Calls `each(operation)` for those that run.
  template <typename Each>
  void for_running(Each&& each) const {
    for (std::size_t slot = 0; slot < by_slot_.size(); ++slot) {
      if (by_slot_[slot] != nullptr && by_slot_[slot]->state == OpState::kRunning) each(*by_slot_[slot]);
    }
  }

  // That has begun and runs, in this lane; 0: none.
  OpId oldest(std::uint8_t lane) const { return begun_[lane].empty() ? 0 : *begun_[lane].begin(); }
  bool dead(std::uint64_t key) const { return dead_keys_.contains(key); }
  std::uint32_t running() const { return running_; }
  bool all_near() const { return near_ == running_; }
  std::uint64_t made() const { return made_; }

 private:
  static std::uint32_t slot_of(OpId id) { return static_cast<std::uint32_t>(id & 0xFFFFU); }

  const std::shared_ptr<const Plan> nothing_;  // of operations that have not begun
  std::vector<std::shared_ptr<Operation>> by_slot_;
  std::vector<std::shared_ptr<Operation>> spare_;        // over, their memory is used again
  std::map<std::uint64_t, std::uint32_t> slots_by_key_;  // operations that run or failed
  std::map<std::uint64_t, std::uint32_t>::node_type spare_slot_;
  std::set<std::uint64_t> dead_keys_;  // of failed ones that are forgotten
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::set<OpId>> begun_;  // operations that run, by lane
  std::set<OpId>::node_type spare_begun_;
  std::uint64_t made_ = 0;
  std::uint32_t running_ = 0;
  std::uint32_t near_ = 0;  // of those running
};

}  // namespace openmrc::collectives
