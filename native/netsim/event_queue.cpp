#include "netsim/event_queue.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::size_t kArity = 4;

bool earlier(const Arrival& a, const Arrival& b) { return a.time != b.time ? a.time < b.time : a.order < b.order; }

}  // namespace

void EventQueue::push(TimePs time, PacketId packet) {
  const Arrival arrival{time, inserted_++, packet};
  std::size_t hole = heap_.size();
  heap_.push_back(arrival);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kArity;
    if (!earlier(arrival, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = arrival;
}

Arrival EventQueue::pop() {
  MRC_ASSERT(!heap_.empty());
  const Arrival top = heap_.front();
  const Arrival last = heap_.back();
  heap_.pop_back();
  const std::size_t size = heap_.size();
  if (size == 0) return top;
  std::size_t hole = 0;
  for (;;) {
    const std::size_t first = hole * kArity + 1;
    if (first >= size) break;
    std::size_t best = first;
    const std::size_t end = std::min(first + kArity, size);
    for (std::size_t child = first + 1; child < end; ++child) {
      if (earlier(heap_[child], heap_[best])) best = child;
    }
    if (!earlier(heap_[best], last)) break;
    heap_[hole] = heap_[best];
    hole = best;
  }
  heap_[hole] = last;
  return top;
}

}  // namespace openmrc::netsim
