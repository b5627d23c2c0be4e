#include "engine/memory.hpp"

namespace openmrc {

Status MemoryTable::add(const RegionConfig& config) {
  const bool wraps = config.virtual_address + config.length_bytes < config.virtual_address;
  if (config.key == 0 || wraps) return Status::kInvalidArgument;
  const Region region{.base = config.base,
                      .virtual_address = config.virtual_address,
                      .length_bytes = config.length_bytes,
                      .access = config.access,
                      .domain = config.domain,
                      .placer = config.placer};
  if (!regions_.try_emplace(config.key, region).second) return Status::kInvalidArgument;
  ++epoch_;
  return Status::kOk;
}

Status MemoryTable::remove(std::uint32_t key) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return Status::kNotFound;
  if (found->second.posted_sends > 0) return Status::kBusy;
  regions_.erase(found);
  ++epoch_;
  return Status::kOk;
}

}  // namespace openmrc
