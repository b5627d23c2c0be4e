// Puts payloads where their RETH says, if key, bounds and permission allow (A.8, A.15).
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "engine/memory.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc {

class Placement {
 public:
  explicit Placement(MemoryTable& memory) : memory_(memory) {}

  // False: refused, nothing was written. `payload` may be shorter than `bytes` only where payloads are phantom.
  bool place(const wire::Reth& reth, const std::uint8_t* payload, std::uint32_t bytes) {
    if (bytes == 0) return true;
    const Region* region = find(reth.rkey);
    if (region == nullptr || (region->access & kRemoteWrite) == 0) return false;
    if (!region->contains(reth.virtual_address, bytes)) return false;
    std::uint8_t* target = region->at(reth.virtual_address);
    if (target != nullptr && payload != nullptr) std::memcpy(target, payload, bytes);
    return true;
  }

 private:
  // Traffic stays with one region for many packets: remember the last one.
  const Region* find(std::uint32_t key) {
    if (key == key_ && memory_.epoch() == epoch_) return region_;
    key_ = key;
    epoch_ = memory_.epoch();
    region_ = memory_.find(key);
    return region_;
  }

  MemoryTable& memory_;
  const Region* region_ = nullptr;
  std::uint64_t epoch_ = 0;
  std::uint32_t key_ = 0;
};

}  // namespace openmrc
