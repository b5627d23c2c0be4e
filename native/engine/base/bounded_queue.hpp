// Queue of bounded length whose reader may be slow or absent: items beyond the bound are dropped and counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

namespace openmrc {

template <typename Item>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False: the queue is full, and the item is dropped.
  bool push(const Item& item) {
    if (items_.size() == capacity_) {
      ++dropped_;
      return false;
    }
    items_.push_back(item);
    return true;
  }
  // Moves the oldest items to `out`; returns their number.
  std::size_t poll(std::span<Item> out) {
    const std::size_t count = std::min(out.size(), items_.size());
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(items_.begin(), end, out.begin());
    items_.erase(items_.begin(), end);
    return count;
  }
  template <typename Change>
  void for_each(Change&& change) {
    for (Item& item : items_) change(item);
  }

  bool empty() const { return items_.empty(); }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::deque<Item> items_;
  std::size_t capacity_;
  std::uint64_t dropped_ = 0;
};

}  // namespace openmrc
