// Events that the driver has not fetched yet. A full queue drops and counts new ones.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/bounded_queue.hpp"
#include "engine/base/time.hpp"
#include "engine/events.hpp"

namespace openmrc {

class EventQueue final : public EventSink {
 public:
  explicit EventQueue(std::uint32_t capacity) : queue_(capacity) {}
  void emit(const Event& event) override { queue_.push(event); }
  std::size_t poll(std::span<Event> out) { return queue_.poll(out); }
  void rebase(TimePs by) {
    queue_.for_each([by](Event& event) { event.time = rebased(event.time, by); });
  }
  bool empty() const { return queue_.empty(); }
  std::uint64_t dropped() const { return queue_.dropped(); }

 private:
  BoundedQueue<Event> queue_;
};

}  // namespace openmrc
