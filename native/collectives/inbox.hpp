// Point-to-point messages of a group's other ranks to this one: the next message of each, and the receives that have
// not begun, in the order of posting. Guarded by the executor that runs the receives.
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

// The low bits of a message's key count the messages of its sender to its receiver, with wrap-around.
inline constexpr std::uint32_t kSequenceBits = 20;
inline constexpr std::uint64_t kSequenceMask = (1ULL << kSequenceBits) - 1;

inline constexpr int kAnySource = -1;

// Shared with Python like a plan.
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

  // Takes a rank and a key each; the sequence bits of the keys are zero.
  explicit Inbox(std::span<const std::pair<std::uint16_t, std::uint64_t>> sources) {
    for (const auto& [rank, base] : sources) sources_.push_back({rank, base & ~kSequenceMask});
    if (sources_.empty()) throw std::invalid_argument("nobody to receive from");
  }

 private:
  friend class Matching;

  // nullptr for a rank that does not send here.
  Source* find(int rank) {
    const auto found =
        std::find_if(sources_.begin(), sources_.end(), [rank](const Source& one) { return one.rank == rank; });
    return found == sources_.end() ? nullptr : &*found;
  }

  std::vector<Source> sources_;
  std::size_t turn_ = 0;  // index of the rank to try first: the one after the last choice, for fairness
  std::deque<Waiting> waiting_;
};

}  // namespace openmrc::collectives
