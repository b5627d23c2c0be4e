// One timer per connection, at its exact time; equal times fire in the order of the connections' numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/time.hpp"

namespace openmrc::netsim {

// A binary heap with the position of each connection, so that a timer which moves with every acknowledgement leaves no
// stale entry behind.
class TimerHeap {
 public:
  void set(std::uint32_t connection, TimePs time);
  void cancel(std::uint32_t connection);
  bool armed(std::uint32_t connection) const;

  TimePs next() const { return heap_.empty() ? kNever : heap_.front().time; }
  // Removes one timer that is due at `now`.
  bool pop_due(TimePs now, std::uint32_t& connection);

  std::uint64_t memory_bytes() const;

 private:
  struct Timer {
    TimePs time = 0;
    std::uint32_t connection = 0;

    bool before(const Timer& other) const {
      return time != other.time ? time < other.time : connection < other.connection;
    }
  };

  void place(std::size_t index, const Timer& timer);
  void sift_up(std::size_t index, const Timer& timer);
  void sift_down(std::size_t index, const Timer& timer);

  std::vector<Timer> heap_;
  std::vector<std::uint32_t> index_;  // of each connection in `heap_`, plus 1; 0: none
};

}  // namespace openmrc::netsim
