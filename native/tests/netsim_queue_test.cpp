// The event queue: time order, insertion order among equals, near or far.
#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"
#include "netsim/event_queue.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using netsim::EventQueue;
using netsim::Packet;

Packet numbered(std::uint32_t number) {
  Packet packet;
  packet.ev = number;
  return packet;
}

struct Expected {
  TimePs time;
  std::uint32_t number;
};

// Pushes at random distances from now, also while the queue runs, and compares the result with a stable sort.
void run_against_model(std::uint64_t seed, TimePs reach) {
  Rng rng(seed);
  EventQueue queue;
  std::vector<Expected> waiting;
  std::uint32_t pushed = 0;
  TimePs now = 0;
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t count = rng.below(6);
    for (std::uint64_t i = 0; i < count; ++i) {
      const TimePs time = now + static_cast<TimePs>(rng.below(static_cast<std::uint64_t>(reach)));
      queue.push(time, numbered(pushed));
      const auto place = std::upper_bound(waiting.begin(), waiting.end(), time,
                                          [](TimePs t, const Expected& e) { return t < e.time; });
      waiting.insert(place, {time, pushed++});
    }
    CHECK(queue.size() == waiting.size());
    CHECK(queue.next_time() == (waiting.empty() ? kNever : waiting.front().time));
    const TimePs until = now + static_cast<TimePs>(rng.below(static_cast<std::uint64_t>(reach)));
    while (const EventQueue::Event* event = queue.pop(until)) {
      CHECK(!waiting.empty() && event->time == waiting.front().time && event->packet.ev == waiting.front().number);
      CHECK(event->time <= until);
      waiting.erase(waiting.begin());
    }
    CHECK(waiting.empty() || waiting.front().time > until);
    now = until;
  }
}

TEST_CASE(netsim_events_leave_in_time_order_and_equals_in_insertion_order) {
  // Within a slot of the wheel, within the wheel, and slightly or far beyond it.
  for (const TimePs reach : {TimePs{50}, 2 * kPsPerNs, kPsPerUs, 40 * kPsPerUs, kPsPerMs, kPsPerSecond}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) run_against_model(seed, reach);
  }
}

TEST_CASE(netsim_an_event_pushed_while_others_wait_keeps_its_place) {
  EventQueue queue;
  queue.push(30, numbered(3));
  queue.push(10, numbered(1));
  CHECK(queue.pop(kNever)->packet.ev == 1);
  queue.push(20, numbered(2));
  queue.push(30, numbered(4));
  CHECK(queue.next_time() == 20);
  CHECK(queue.pop(19) == nullptr);
  CHECK(queue.pop(20)->packet.ev == 2);
  CHECK(queue.pop(30)->packet.ev == 3);
  CHECK(queue.pop(30)->packet.ev == 4);
  CHECK(queue.next_time() == kNever);
  CHECK(queue.pop(kNever) == nullptr);
}

}  // namespace
