// Registered memory: the only bytes of the process that a peer can reach, and only with a key.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "engine/config.hpp"
#include "engine/types.hpp"

namespace openmrc {

struct Region {
  std::uint8_t* base = nullptr;
  std::uint64_t virtual_address = 0;
  std::uint64_t length_bytes = 0;
  std::uint8_t access = 0;
  DomainId domain = 0;
  std::uint32_t posted_sends = 0;  // work requests that have yet to read from it
  std::shared_ptr<Placer> placer;

  bool contains(std::uint64_t address, std::uint64_t length) const {
    return address >= virtual_address && length <= length_bytes && address - virtual_address <= length_bytes - length;
  }
  std::uint8_t* at(std::uint64_t address) const {
    return base == nullptr ? nullptr : base + (address - virtual_address);
  }
};

class MemoryTable {
 public:
  Status add(const RegionConfig& config);
  Status remove(std::uint32_t key);
  Region* find(std::uint32_t key) {
    const auto found = regions_.find(key);
    return found == regions_.end() ? nullptr : &found->second;
  }
  // Changes with every add and remove: a pointer from find() stays valid while the epoch is the same.
  std::uint64_t epoch() const { return epoch_; }

 private:
  std::unordered_map<std::uint32_t, Region> regions_;
  std::uint64_t epoch_ = 1;
};

}  // namespace openmrc
