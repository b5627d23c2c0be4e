// Common part of fuzz targets that run a script of moves: the script's reader, and the invariants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace openmrc::fuzz {

// Reads the input; zeros after its end.
class Script {
 public:
  Script(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool more() const { return at_ < size_; }
  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
  std::uint32_t word() {
    std::uint32_t value = byte();
    for (int i = 0; i < 3; ++i) value = value << 8 | byte();
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace openmrc::fuzz
