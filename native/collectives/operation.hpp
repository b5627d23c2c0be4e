// One operation of a rank, from its call until it is released. The executor's own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/mailbox.hpp"
#include "collectives/plan.hpp"

namespace openmrc::collectives {

struct Memory {
  std::uint8_t* base = nullptr;
  std::uint64_t bytes = 0;
};

using OpId = std::uint64_t;
enum class OpState : std::uint8_t { kRunning = 0, kDone = 1, kFailed = 2, kUnknown = 3 };

inline constexpr int kNobody = -1;

struct Operation {
  OpId id = 0;
  std::uint32_t slot = 0;
  std::uint64_t key = 0;
  std::uint8_t lane = 0;
  std::shared_ptr<const Plan> plan;
  std::array<Memory, kPlanBuffersMax> buffers{};
  std::array<std::uint32_t, kPlanBuffersMax> keys{};
  std::vector<std::uint32_t> waits;
  std::vector<bool> done, posted;  // by step; posted: a direct send that the device has
  std::uint32_t left = 0;
  std::uint32_t reading = 0;  // posted sends that read from its buffers
  struct Remote {
    bool announced = false;
    std::uint32_t op_slot = 0;
    std::array<RemoteBuffer, kPlanBuffersMax> buffers{};
    std::vector<std::uint32_t> held;  // sends that wait for the announcement
  };
  std::vector<Remote> remotes;  // by rank, of an operation with large messages
  Remote& remote(std::uint16_t rank, std::uint32_t ranks) {
    if (remotes.empty()) remotes.resize(ranks);
    return remotes[rank];
  }
  OpState state = OpState::kRunning;
  bool begun = false;                     // only then it has a plan, and a receive its key
  bool near = false;                      // begun, and needs only ranks that share memory
  bool compared = false;                  // with the calls of those that it waits for, after a long wait
  std::shared_ptr<const Plan> next_plan;  // of one that waits for earlier operations, unless it is a receive
  std::uint32_t earlier = 0;              // operations that it waits for before it begins
  std::vector<OpId> followers;            // that wait for this one
  int source = kNobody;
  int failed_rank = kNobody;
  std::string reason;

  // Whether something with this rank is still to happen; a rank that has done its part may go.
  bool needs(std::uint16_t rank) const;
  // As new, but for memory that the next operation can use.
  void clear();
};

}  // namespace openmrc::collectives
