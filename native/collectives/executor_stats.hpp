// Counters of an executor and of the transports below it.
#pragma once

#include <cstdint>

namespace openmrc::collectives {

struct ExecutorStats {
  std::uint64_t ops = 0, slot_messages = 0, direct_messages = 0, early_messages = 0, reduced_bytes = 0,
                copied_bytes = 0;
  std::uint64_t shared_messages = 0, shared_bytes = 0;  // taken out of rings
  std::uint64_t early_bytes_max = 0;                    // held at a time for a peer that is ahead
  std::uint64_t protocol_errors = 0;
  std::uint64_t delayed_ops = 0;  // waited for an earlier operation before they began
};

}  // namespace openmrc::collectives
