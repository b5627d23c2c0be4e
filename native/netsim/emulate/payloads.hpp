// Bytes of the datagrams inside the fabric: slots of one size with reference counts (a duplicate shares its slot).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {

inline constexpr std::uint32_t kDatagramBytesMax = 9216;  // a jumbo frame

class Payloads {
 public:
  struct Slot {
    std::uint16_t references = 0;
    std::uint16_t source_port = 0;
    std::uint8_t dscp = 0;  // as received
  };

  explicit Payloads(std::uint32_t count)
      : slots_(count), free_(count), bytes_(new std::uint8_t[std::size_t{count} * kDatagramBytesMax]) {
    for (std::uint32_t i = 0; i < count; ++i) free_[i] = count - 1 - i;
  }

  bool empty() const { return free_.empty(); }

  // Returns a slot with one reference. Must not be called when empty().
  std::uint32_t take() {
    MRC_ASSERT(!free_.empty());
    const std::uint32_t index = free_.back();
    free_.pop_back();
    slots_[index].references = 1;
    return index;
  }

  void share(std::uint32_t index) { ++slots_[index].references; }

  void release(std::uint32_t index) {
    MRC_ASSERT(slots_[index].references > 0);
    if (--slots_[index].references == 0) free_.push_back(index);
  }

  Slot& slot(std::uint32_t index) { return slots_[index]; }
  std::uint8_t* data(std::uint32_t index) { return bytes_.get() + std::size_t{index} * kDatagramBytesMax; }

 private:
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::unique_ptr<std::uint8_t[]> bytes_;  // uninitialised: only slots in use cost memory
};

}  // namespace openmrc::netsim
