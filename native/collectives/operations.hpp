// The unreleased operations of one rank, found by id, by slot, and by the key common to all ranks. Internal to the
// executor, whose lock guards them.
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

class Operations {
 public:
  Operations(std::uint32_t ranks, std::uint8_t lanes);

  // Creates a running operation that has not begun. Throws std::runtime_error if there are too many at once.
  std::shared_ptr<Operation> make(std::uint8_t lane, std::span<const Memory> buffers);
  // Gives it its plan and its key. `near`: it needs only ranks that share memory.
  void begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key, bool near);
  // Frees its key, unless it failed: until it is forgotten, messages of peers for it are recognised and dropped.
  void end(Operation& op, OpState state, int rank, const std::string& reason);
  // Frees id and slot of an ended operation. Later messages of peers for a failed one are dropped.
  void forget(Operation& op);

  Operation* find(OpId id) const { return at(slot_of(id), id); }
  std::shared_ptr<Operation> share(OpId id) const { return find(id) == nullptr ? nullptr : by_slot_[slot_of(id)]; }
  Operation* by_key(std::uint64_t key) const;
  Operation* at(std::uint32_t slot) const { return slot < by_slot_.size() ? by_slot_[slot].get() : nullptr; }
  Operation* at(std::uint32_t slot, OpId id) const {
    Operation* op = at(slot);
    return op != nullptr && op->id == id ? op : nullptr;
  }
  // Calls `each(operation)` for running ones.
  template <typename Each>
  void for_running(Each&& each) const {
    for (std::size_t slot = 0; slot < by_slot_.size(); ++slot) {
      if (by_slot_[slot] != nullptr && by_slot_[slot]->state == OpState::kRunning) each(*by_slot_[slot]);
    }
  }

  // The running operation that was made first; nullptr: none.
  std::shared_ptr<Operation> first_running() const;
  // The oldest running operation in this lane that has begun; 0: none.
  OpId oldest(std::uint8_t lane) const { return begun_[lane].empty() ? 0 : *begun_[lane].begin(); }
  bool dead(std::uint64_t key) const { return dead_keys_.contains(key); }
  std::uint32_t running() const { return running_; }
  bool all_near() const { return near_ == running_; }
  std::uint64_t made() const { return made_; }
  std::uint64_t ended() const { return made_ - running_; }

 private:
  static std::uint32_t slot_of(OpId id) { return static_cast<std::uint32_t>(id & 0xFFFFU); }

  const std::shared_ptr<const Plan> nothing_;  // plan of operations that have not begun
  std::vector<std::shared_ptr<Operation>> by_slot_;
  std::vector<std::shared_ptr<Operation>> spare_;        // finished operations, whose memory is reused
  std::map<std::uint64_t, std::uint32_t> slots_by_key_;  // operations that run or failed
  std::map<std::uint64_t, std::uint32_t>::node_type spare_slot_;
  std::set<std::uint64_t> dead_keys_;  // of failed and forgotten ones
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::set<OpId>> begun_;  // operations that run, by lane
  std::set<OpId>::node_type spare_begun_;
  std::uint64_t made_ = 0;
  std::uint32_t running_ = 0;
  std::uint32_t near_ = 0;  // of those running
};

}  // namespace openmrc::collectives
