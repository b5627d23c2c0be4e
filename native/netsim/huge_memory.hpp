// Memory for large tables with random access. At the size of a large fabric an access misses not only the caches but
// also the TLB, which takes as long again; huge pages need few translations.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {

// Returns memory aligned to a cache line, on huge pages if available. Not for small, short-lived pieces.
void* take_memory(std::size_t bytes);
void give_memory(void* memory) noexcept;

template <class T>
struct HugeAllocator {
  using value_type = T;

  HugeAllocator() = default;
  template <class Other>
  explicit HugeAllocator(const HugeAllocator<Other>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(take_memory(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { give_memory(memory); }
  friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

// Elements by number that never move, in slabs each twice as large as the one before. An element is uninitialised until
// it is written, so unused elements take no memory.
template <class T, std::uint32_t kFirstSlab>
class Slabs {
 public:
  Slabs() = default;
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;
  ~Slabs() {
    for (std::size_t slab = 0; slab < count_; ++slab) give_memory(slabs_[slab]);
  }

  T& operator[](std::uint32_t number) { return *at(number); }
  const T& operator[](std::uint32_t number) const { return *at(number); }
  std::uint32_t size() const { return size_; }

  // Makes room for about as many elements as exist already; returns the number added.
  std::uint32_t grow() {
    MRC_ASSERT(count_ < kSlabsMax);
    const std::uint32_t fresh = kFirstSlab << count_;
    slabs_[count_++] = static_cast<T*>(take_memory(fresh * sizeof(T)));
    size_ += fresh;
    return fresh;
  }

  std::size_t memory_bytes() const { return size_ * sizeof(T); }

 private:
  static_assert(std::has_single_bit(kFirstSlab));
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static constexpr int kFirstBits = std::countr_zero(kFirstSlab);
  static constexpr std::size_t kSlabsMax = 31 - kFirstBits;

  T* at(std::uint32_t number) const {
    const std::uint32_t shifted = number + kFirstSlab;
    const int slab = static_cast<int>(std::bit_width(shifted)) - 1 - kFirstBits;
    return slabs_[static_cast<std::size_t>(slab)] + (shifted - (kFirstSlab << slab));
  }

  std::array<T*, kSlabsMax> slabs_{};
  std::size_t count_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace openmrc::netsim
