// Takes what peers write into a region, in place of a copy into its memory.
#pragma once

#include <cstdint>
#include <span>

namespace openmrc {

class Placer {
 public:
  Placer() = default;
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;
  virtual ~Placer() = default;

  // The payload of one packet, `offset` bytes behind the beginning of the region and within it. Each packet comes once, in
  // any order. False: refused; then nothing was written.
  virtual bool place(std::uint64_t offset, std::span<const std::uint8_t> payload) = 0;
};

}  // namespace openmrc
