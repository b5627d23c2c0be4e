#include "netsim/simulate/baseline_timers.hpp"

namespace openmrc::netsim {

bool TimerHeap::armed(std::uint32_t connection) const { return connection < index_.size() && index_[connection] != 0; }

void TimerHeap::place(std::size_t index, const Timer& timer) {
  heap_[index] = timer;
  index_[timer.connection] = static_cast<std::uint32_t>(index + 1);
}

void TimerHeap::sift_up(std::size_t index, const Timer& timer) {
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (!timer.before(heap_[parent])) break;
    place(index, heap_[parent]);
    index = parent;
  }
  place(index, timer);
}

void TimerHeap::sift_down(std::size_t index, const Timer& timer) {
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
    if (!heap_[child].before(timer)) break;
    place(index, heap_[child]);
    index = child;
  }
  place(index, timer);
}

void TimerHeap::set(std::uint32_t connection, TimePs time) {
  const Timer timer{time, connection};
  if (connection >= index_.size()) index_.resize(connection + 1U);
  if (index_[connection] == 0) {
    heap_.emplace_back();
    sift_up(heap_.size() - 1, timer);
    return;
  }
  const std::size_t at = index_[connection] - 1;
  if (timer.before(heap_[at])) {
    sift_up(at, timer);
  } else {
    sift_down(at, timer);
  }
}

void TimerHeap::cancel(std::uint32_t connection) {
  if (!armed(connection)) return;
  const std::size_t at = index_[connection] - 1;
  index_[connection] = 0;
  const Timer last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;
  if (at > 0 && last.before(heap_[(at - 1) / 2])) {
    sift_up(at, last);
  } else {
    sift_down(at, last);
  }
}

bool TimerHeap::pop_due(TimePs now, std::uint32_t& connection) {
  if (heap_.empty() || heap_.front().time > now) return false;
  connection = heap_.front().connection;
  cancel(connection);
  return true;
}

std::uint64_t TimerHeap::memory_bytes() const {
  return heap_.capacity() * sizeof(Timer) + index_.capacity() * sizeof(std::uint32_t);
}

}  // namespace openmrc::netsim
