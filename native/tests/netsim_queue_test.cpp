// The event queue: time order, insertion order among equals.
#include "engine/base/rng.hpp"
#include "netsim/event_queue.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using netsim::Arrival;
using netsim::EventQueue;

TEST_CASE(netsim_events_leave_in_time_order_and_equals_in_insertion_order) {
  Rng rng(7);
  EventQueue queue(16);
  for (std::uint32_t i = 0; i < 2000; ++i) queue.push(static_cast<TimePs>(rng.below(50)), i);
  Arrival before = queue.pop();
  std::uint32_t popped = 1;
  while (!queue.empty()) {
    const Arrival next = queue.pop();
    CHECK(next.time > before.time || (next.time == before.time && next.packet > before.packet));
    before = next;
    ++popped;
  }
  CHECK(popped == 2000);
}

TEST_CASE(netsim_an_event_pushed_while_others_wait_keeps_its_place) {
  EventQueue queue(4);
  queue.push(30, 3);
  queue.push(10, 1);
  CHECK(queue.pop().packet == 1);
  queue.push(20, 2);
  queue.push(30, 4);
  CHECK(queue.next_time() == 20);
  CHECK(queue.pop().packet == 2);
  CHECK(queue.pop().packet == 3);
  CHECK(queue.pop().packet == 4);
  CHECK(queue.next_time() == kNever);
}

}  // namespace
