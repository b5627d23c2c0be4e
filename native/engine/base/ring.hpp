// Queue in one allocation that grows by doubling. Holds no memory until first use, as most connections of a large run
// never use theirs. (An empty std::deque takes more than half a kilobyte.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/assert.hpp"

namespace openmrc {

template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  T& operator[](std::size_t index) {
    MRC_ASSERT(index < size_);
    return slots_[(first_ + index) & (slots_.size() - 1)];
  }
  const T& operator[](std::size_t index) const {
    MRC_ASSERT(index < size_);
    return slots_[(first_ + index) & (slots_.size() - 1)];
  }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }

  template <typename Value = T>
  void push_back(Value&& value) {
    if (size_ == slots_.size()) grow();
    slots_[(first_ + size_) & (slots_.size() - 1)] = std::forward<Value>(value);
    ++size_;
  }

  void pop_front() {
    MRC_ASSERT(size_ > 0);
    if constexpr (!std::is_trivially_destructible_v<T>) {
      [[maybe_unused]] const T gone(std::move(slots_[first_]));  // frees what the element holds
    }
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
  }

  void clear() {
    if constexpr (std::is_trivially_destructible_v<T>) {
      size_ = 0;
    } else {
      while (size_ > 0) pop_front();
    }
  }

  // Removes every element equal to `value`.
  void erase(const T& value) {
    for (std::size_t left = size_; left > 0; --left) {
      const T element = front();
      pop_front();
      if (!(element == value)) push_back(element);
    }
  }

  std::uint64_t memory_bytes() const { return slots_.capacity() * sizeof(T); }

 private:
  static constexpr std::size_t kFirstSlots = 4;

  void grow() {
    std::vector<T> larger(slots_.empty() ? kFirstSlots : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(slots_[(first_ + i) & (slots_.size() - 1)]);
    slots_.swap(larger);
    first_ = 0;
  }

  std::vector<T> slots_;  // a power of two of them
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace openmrc
