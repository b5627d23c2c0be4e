// Buffers for bytes that packets carry and that no registered region holds in one piece. A returned buffer is used again
// but never freed while the pool lives: a driver may still have to send the repetition of a packet that has meanwhile
// been acknowledged. The receiver discards such a packet by its PSN, whatever its payload.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/assert.hpp"

namespace openmrc {

class BytePool {
 public:
  std::uint8_t* take(std::size_t bytes) {
    const std::size_t size_class = class_of(bytes);
    std::vector<std::uint8_t*>& free = free_[size_class];
    if (free.empty()) {
      owned_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(kLeastBytes << size_class));
      return owned_.back().get();
    }
    std::uint8_t* buffer = free.back();
    free.pop_back();
    return buffer;
  }
  // `bytes` as at take().
  void give(std::uint8_t* buffer, std::size_t bytes) { free_[class_of(bytes)].push_back(buffer); }

 private:
  static constexpr std::size_t kLeastBytes = 256, kClasses = 16;

  static std::size_t class_of(std::size_t bytes) {
    const std::size_t units = (bytes + kLeastBytes - 1) / kLeastBytes;
    const auto size_class = static_cast<std::size_t>(std::bit_width(units <= 1 ? 0 : units - 1));
    MRC_ASSERT(size_class < kClasses);
    return size_class;
  }

  std::array<std::vector<std::uint8_t*>, kClasses> free_;
  std::vector<std::unique_ptr<std::uint8_t[]>> owned_;
};

}  // namespace openmrc
