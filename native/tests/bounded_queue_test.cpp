// The queue of events that engine and device share.
#include "engine/base/bounded_queue.hpp"

#include <array>

#include "tests/check.hpp"

using namespace openmrc;

TEST_CASE(bounded_queue_keeps_the_oldest_and_counts_what_it_drops) {
  BoundedQueue<int> queue(3);
  for (int item = 1; item <= 5; ++item) CHECK(queue.push(item) == (item <= 3));
  CHECK(queue.dropped() == 2 && !queue.empty());
  std::array<int, 2> out{};
  CHECK(queue.poll(out) == 2 && out[0] == 1 && out[1] == 2);
  queue.for_each([](int& item) { item *= 10; });
  CHECK(queue.push(6) && queue.poll(out) == 2 && out[0] == 30 && out[1] == 6);
  CHECK(queue.empty() && queue.poll(out) == 0 && queue.dropped() == 2);
}

TEST_CASE(bounded_queue_without_room_takes_nothing) {
  BoundedQueue<int> queue(0);
  CHECK(!queue.push(1) && queue.empty() && queue.dropped() == 1);
}
