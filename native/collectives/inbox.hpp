// What the other ranks of a group send to this one alone: which message of each is next, and the receives that have not
// begun, in the order in which they were posted. The executor that runs the receives guards it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "collectives/plan.hpp"

namespace openmrc::collectives {

// The low bits of a message's key count the messages of its sender to its receiver, and go round.
inline constexpr std::uint32_t kSequenceBits = 20;
inline constexpr std::uint64_t kSequenceMask = (1ULL << kSequenceBits) - 1;

inline constexpr int kAnySource = -1;

// Shared with Python as a plan is.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  struct Source {
    std::uint16_t rank;
    std::uint64_t base;  // of the keys of its messages
    std::uint64_t taken = 0;
    std::uint64_t next_key() const { return base | (taken & kSequenceMask); }
  };
  struct Waiting {
    std::uint64_t op;
    int source;  // or kAnySource
    std::shared_ptr<const Plan> plan;
  };

  // A rank and a key each; the sequence bits of the keys are zero.
  explicit Inbox(std::span<const std::pair<std::uint16_t, std::uint64_t>> sources) {
    for (const auto& [rank, base] : sources) sources_.push_back({rank, base & ~kSequenceMask});
    if (sources_.empty()) throw std::invalid_argument("nobody to receive from");
  }

 private:
  friend class Executor;

  // nullptr: not one that sends here.
  Source* find(int rank) {
    const auto found =
        std::find_if(sources_.begin(), sources_.end(), [rank](const Source& one) { return one.rank == rank; });
    return found == sources_.end() ? nullptr : &*found;
  }

  std::vector<Source> sources_;
  std::size_t turn_ = 0;  // who is asked first: the one behind the last that was chosen, so that all have their turn
  std::deque<Waiting> waiting_;
};

}  // namespace openmrc::collectives
