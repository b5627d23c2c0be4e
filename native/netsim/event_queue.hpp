// Arrivals in time order; equal times leave in the order of insertion, never by address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

struct Arrival {
  TimePs time = 0;
  std::uint64_t order = 0;
  PacketId packet = kNoPacket;
};

// A 4-ary heap: half the depth of a binary one, and the four children share a cache line or two.
class EventQueue {
 public:
  explicit EventQueue(std::size_t capacity) { heap_.reserve(capacity); }

  void push(TimePs time, PacketId packet);
  Arrival pop();

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  TimePs next_time() const { return heap_.empty() ? kNever : heap_.front().time; }

 private:
  std::vector<Arrival> heap_;
  std::uint64_t inserted_ = 0;
};

}  // namespace openmrc::netsim
