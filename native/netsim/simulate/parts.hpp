// Storage of the transport parts of packets in transit: written by the sending shard, read by the receiving one in a
// later window, released between windows.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "netsim/huge_memory.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

// The parts of the packets that one shard has sent into one plane. Others may read parts while the owner allocates new
// ones: existing parts never move.
class Parts {
 public:
  std::uint32_t take(const TransportPart& part) {
    if (free_.empty()) grow();
    const std::uint32_t handle = free_.back();
    free_.pop_back();
    constexpr std::size_t kAhead = 3;
    if (free_.size() >= kAhead) __builtin_prefetch(&parts_[free_[free_.size() - kAhead]], 1);  // of a packet to come
    parts_[handle] = part;
    return handle;
  }
  const TransportPart& at(std::uint32_t handle) const { return parts_[handle]; }

  // Between windows only. Adds a reference for a duplicate of the packet.
  void share(std::uint32_t handle) { ++copies_[handle]; }
  void give_back(std::uint32_t handle) {
    if (!copies_.empty()) {
      const auto found = copies_.find(handle);
      if (found != copies_.end()) {
        if (--found->second == 0) copies_.erase(found);
        return;
      }
    }
    free_.push_back(handle);
  }

  // number in transit, a duplicated one counted once
  std::uint64_t held() const { return parts_.size() - free_.size(); }

  std::uint64_t memory_bytes() const { return parts_.memory_bytes() + free_.capacity() * sizeof(std::uint32_t); }

 private:
  static constexpr std::uint32_t kFirstParts = 1024;

  void grow() {
    const std::uint32_t first = parts_.size();
    for (std::uint32_t i = parts_.grow(); i > 0; --i) free_.push_back(first + i - 1);
  }

  Slabs<TransportPart, kFirstParts> parts_;
  std::vector<std::uint32_t> free_;  // reused in last-in, first-out order, while still in the cache
  std::unordered_map<std::uint32_t, std::uint32_t> copies_;  // look-up only
};

// A part to be returned to the shard that sent it.
struct Return {
  std::uint32_t shard = 0;
  std::uint32_t handle = 0;
};

}  // namespace openmrc::netsim
