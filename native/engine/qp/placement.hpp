// Places payloads at the address of their RETH, if key, protection domain, bounds and permission allow it (A.8.2).
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "engine/memory.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc {

class Placement {
 public:
  Placement(MemoryTable& memory, DomainId domain) : memory_(memory), domain_(domain) {}

  // False: refused, and nothing was written. `payload` may be shorter than `bytes` only in phantom regions.
  bool place(const wire::Reth& reth, const std::uint8_t* payload, std::uint32_t bytes) {
    if (bytes == 0) return true;
    const Region* region = find(reth.rkey);
    if (region == nullptr) return false;
    if (!region->contains(reth.virtual_address, bytes)) return false;
    if (region->placer != nullptr) {
      return payload != nullptr &&
             region->placer->place(reth.virtual_address - region->virtual_address, std::span(payload, bytes));
    }
    std::uint8_t* target = region->at(reth.virtual_address);
    if (target != nullptr && payload != nullptr) std::memcpy(target, payload, bytes);
    return true;
  }

 private:
  // The region that this QP may write to with `key`, or nullptr. Caches the last result, since traffic stays in one
  // region for many packets.
  const Region* find(std::uint32_t key) {
    if (key == key_ && memory_.epoch() == epoch_) return region_;
    key_ = key;
    epoch_ = memory_.epoch();
    const Region* region = memory_.find(key);
    const bool granted = region != nullptr && region->domain == domain_ && (region->access & kRemoteWrite) != 0;
    region_ = granted ? region : nullptr;
    return region_;
  }

  MemoryTable& memory_;
  const Region* region_ = nullptr;
  std::uint64_t epoch_ = 0;
  DomainId domain_;
  std::uint32_t key_ = 0;
};

}  // namespace openmrc
