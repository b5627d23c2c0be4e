// One operation of a rank, from its call until its release. Internal to the executor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/circle.hpp"
#include "collectives/message.hpp"
#include "collectives/plan.hpp"

namespace openmrc::collectives {

class ReducingPlacer;

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
  std::shared_ptr<const ReducingPlacer> placer;  // of what peers write to scratch memory; nullptr: it is copied there
  Circle* circle = nullptr;                      // of the ranks that it exchanges messages with, if they are one
  std::uint32_t missing = 0;                     // places of those whose messages to all have not come
  bool sent = false;                             // to all of them at once, or it was tried
  OpState state = OpState::kRunning;
  bool begun = false;                     // only then it has a plan, and a receive its key
  bool near = false;                      // begun, and needs only ranks with shared memory
  bool compared = false;                  // with the calls of the ranks it waits for, after a long wait
  std::vector<std::uint16_t> untold;      // ranks that then had no room for its call
  std::shared_ptr<const Plan> next_plan;  // plan of an operation that waits for earlier ones, unless it is a receive
  std::uint32_t earlier = 0;              // number of operations to wait for before it begins
  std::vector<OpId> followers;            // that wait for this one
  int source = kNobody;
  int failed_rank = kNobody;
  std::string reason;

  // True if a step with this rank is still open; a rank without open steps may leave.
  bool needs(std::uint16_t rank) const;
  // Resets everything except for memory that the next operation can reuse.
  void clear();
};

}  // namespace openmrc::collectives
