// Data structures of packets and QPs: elements that never move, many events of one time, QPs by number.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/ring.hpp"
#include "engine/base/rng.hpp"
#include "engine/qp_index.hpp"
#include "netsim/event_queue.hpp"
#include "netsim/huge_memory.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using netsim::EventQueue;
using netsim::Packet;

struct Expected {
  TimePs time;
  netsim::LinkId link;
  std::uint32_t number;
};

TEST_CASE(netsim_thousands_of_events_of_one_slot_leave_by_time_link_and_insertion) {
  for (const std::uint32_t count : {33U, 500U, 5000U}) {
    Rng rng(count);
    EventQueue queue(16);
    std::vector<Expected> expected;
    for (std::uint32_t number = 0; number < count; ++number) {
      Packet packet;
      packet.link = static_cast<netsim::LinkId>(rng.below(700));
      packet.ev = number;
      const auto time = static_cast<TimePs>(1'000'000 + rng.below(count < 1000 ? 40'000 : 3));
      queue.push(time, packet);
      expected.push_back({time, packet.link, number});
    }
    std::stable_sort(expected.begin(), expected.end(), [](const Expected& a, const Expected& b) {
      return a.time != b.time ? a.time < b.time : a.link < b.link;
    });
    for (const Expected& next : expected) {
      const EventQueue::Event* event = queue.pop(kNever);
      CHECK(event != nullptr && event->time == next.time && event->packet.ev == next.number);
    }
    CHECK(queue.pop(kNever) == nullptr);
  }
}

TEST_CASE(netsim_elements_of_slabs_stay_where_they_are) {
  netsim::Slabs<std::uint64_t, 16> slabs;
  std::vector<std::uint64_t*> places;
  while (slabs.size() < 300'000) {
    const std::uint32_t before = slabs.size();
    const auto grown = slabs.grow();
    CHECK(before + grown == slabs.size());
    for (std::uint32_t i = before; i < slabs.size(); ++i) {
      slabs[i] = std::uint64_t{i} * 3;
      places.push_back(&slabs[i]);
    }
  }
  for (std::uint32_t i = 0; i < slabs.size(); ++i) {
    CHECK(&slabs[i] == places[i]);
    CHECK(*places[i] == std::uint64_t{i} * 3);
  }
}

TEST_CASE(qps_are_found_by_number_while_others_come_and_go) {
  QpIndex index;
  CHECK(index.find(17) == nullptr);
  std::vector<int> objects(1000);  // in place of QPs: their contents are not accessed
  const auto qp = [&](std::uint32_t i) { return reinterpret_cast<Qp*>(&objects[i]); };
  const auto number = [](std::uint32_t i) { return (i * 7919U + 2) & 0xFFFFFFU; };
  for (std::uint32_t i = 0; i < objects.size(); ++i) index.add(number(i), qp(i));
  for (std::uint32_t i = 0; i < objects.size(); i += 3) index.remove(number(i));
  for (std::uint32_t i = 0; i < objects.size(); ++i) CHECK(index.find(number(i)) == (i % 3 == 0 ? nullptr : qp(i)));
}

TEST_CASE(rings_lose_what_is_erased_and_keep_the_order_of_the_rest) {
  Ring<int> ring;
  for (const int value : {1, 2, 3, 2, 4}) ring.push_back(value);
  ring.pop_front();
  ring.push_back(2);
  ring.erase(2);
  CHECK(ring.size() == 2 && ring[0] == 3 && ring[1] == 4);
}

}  // namespace
