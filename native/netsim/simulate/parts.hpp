// Where the transport parts of packets lie while the packets travel: written by the sending shard, read by the receiving
// one in a later window, given back between windows.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/base/assert.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

// The parts of the packets that one shard has sent into one plane. Others may read parts while the owner takes new ones:
// nothing that exists ever moves.
class Parts {
 public:
  Parts() { slabs_.reserve(kSlabsMax); }

  std::uint32_t take(const TransportPart& part) {
    if (free_.empty()) grow();
    const std::uint32_t handle = free_.back();
    free_.pop_back();
    if (!free_.empty()) __builtin_prefetch(&slot(free_.back()), 1);  // of the next packet
    slot(handle) = part;
    return handle;
  }
  const TransportPart& at(std::uint32_t handle) const { return slabs_[handle / kSlabParts][handle % kSlabParts]; }

  // Between windows only. One more packet, a duplicate, has the part.
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

  // That are on their way, a duplicated one once.
  std::uint64_t held() const { return slabs_.size() * kSlabParts - free_.size(); }

  std::uint64_t memory_bytes() const {
    return slabs_.size() * kSlabParts * sizeof(TransportPart) + free_.capacity() * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t kSlabParts = 4096;
  static constexpr std::uint32_t kSlabsMax = 1U << 14;

  TransportPart& slot(std::uint32_t handle) { return slabs_[handle / kSlabParts][handle % kSlabParts]; }

  void grow() {
    MRC_ASSERT(slabs_.size() < kSlabsMax);
    const auto first = static_cast<std::uint32_t>(slabs_.size() * kSlabParts);
    slabs_.push_back(std::make_unique<TransportPart[]>(kSlabParts));
    for (std::uint32_t i = kSlabParts; i > 0; --i) free_.push_back(first + i - 1);
  }

  std::vector<std::unique_ptr<TransportPart[]>> slabs_;
  std::vector<std::uint32_t> free_;  // the last one given back is the first to be taken: still in the cache
  std::unordered_map<std::uint32_t, std::uint32_t> copies_;  // look-up only
};

// A part to be given back to the shard that sent it.
struct Return {
  std::uint32_t shard = 0;
  std::uint32_t handle = 0;
};

}  // namespace openmrc::netsim
