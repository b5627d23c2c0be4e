// Data structures shared by the RoCEv2 and DCTCP baselines, against plain ones.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/rng.hpp"
#include "netsim/simulate/baseline_messages.hpp"
#include "netsim/simulate/baseline_paths.hpp"
#include "netsim/simulate/baseline_timers.hpp"
#include "tests/check.hpp"

using namespace openmrc;
using namespace openmrc::netsim;

TEST_CASE(baseline_timers_fire_in_order_however_they_were_moved) {
  Rng rng(5);
  TimerHeap heap;
  std::map<std::uint32_t, TimePs> plain;
  for (int step = 0; step < 20'000; ++step) {
    const auto connection = static_cast<std::uint32_t>(rng.below(60));
    if (rng.chance(1, 3)) {
      heap.cancel(connection);
      plain.erase(connection);
    } else {
      const auto time = static_cast<TimePs>(rng.below(1000));
      heap.set(connection, time);
      plain[connection] = time;
    }
    std::pair<TimePs, std::uint32_t> first{kNever, 0};
    for (const auto& [other, time] : plain) first = std::min(first, {time, other});
    CHECK(heap.next() == first.first && heap.armed(connection) == plain.contains(connection));
    std::uint32_t popped = 0;
    CHECK(!heap.pop_due(first.first - 1, popped));
    if (!plain.empty() && rng.chance(1, 4)) {
      CHECK(heap.pop_due(first.first, popped) && popped == first.second);
      plain.erase(popped);
    }
  }
}

TEST_CASE(baseline_port_queues_take_turns) {
  PortQueues queues(3);
  for (const std::uint32_t connection : {4U, 9U, 0U}) queues.push(1, connection);
  queues.push(2, 7);
  CHECK(queues.ports() == 0b110 && queues.contains(0) && !queues.contains(1) && !queues.contains(100));
  CHECK(queues.pop(1) == 4 && !queues.contains(4));
  queues.push(1, 4);
  CHECK(queues.pop(1) == 9 && queues.pop(1) == 0 && queues.pop(1) == 4 && queues.pop(2) == 7);
  CHECK(queues.ports() == 0);
  queues.push(0, 9);
  queues.clear();
  CHECK(queues.ports() == 0 && !queues.contains(9));
}

TEST_CASE(baseline_messages_are_cut_into_packets_of_their_own) {
  MessageQueue queue;
  queue.push(10, 0, 1000);
  queue.push(11, 2500, 1000);
  queue.push(12, 1000, 1000);
  CHECK(queue.end() == 5);
  const auto is = [&](std::uint64_t sequence, MessageId message, std::uint32_t bytes, bool first, bool last) {
    const Segment segment = queue.segment(sequence, 1000);
    return segment.message == message && segment.payload_bytes == bytes && segment.first == first &&
           segment.last == last;
  };
  CHECK(is(0, 10, 0, true, true) && is(4, 12, 1000, true, true) && is(1, 11, 1000, true, false));
  CHECK(is(3, 11, 500, false, true) && is(2, 11, 1000, false, false));
  MessageId message = 0;
  CHECK(queue.pop_acknowledged(3, message) && message == 10);
  CHECK(!queue.pop_acknowledged(3, message));
  CHECK(is(4, 12, 1000, true, true) && is(3, 11, 500, false, true));
  CHECK(queue.pop_acknowledged(5, message) && queue.pop_acknowledged(5, message) && message == 12 && queue.empty());
}

TEST_CASE(baseline_paths_repeat_with_the_seed_and_differ_by_host) {
  Surroundings surroundings;
  surroundings.shape.planes = 4;
  surroundings.seed = 9;
  const auto paths = [&](std::uint32_t host) {
    HashedPaths some(surroundings, "roce", host, true);
    std::vector<std::uint32_t> drawn;
    for (int i = 0; i < 20; ++i) {
      HostPacket packet;
      const std::uint32_t connection = some.open({1, 1, 0, 1, 0});
      some.address(connection, packet);
      drawn.push_back(packet.ev << 8 | some.port_of(connection));
    }
    return drawn;
  };
  CHECK(paths(3) == paths(3) && paths(3) != paths(4));
  HashedPaths one(surroundings, "roce", 0, true);
  const std::uint32_t receives_only = one.open({1, 0, 5, 0, 1});
  const std::uint32_t sends = one.open({1, 5, 0, 1, 0});
  CHECK(one.port_of(receives_only) == one.port_of(sends));  // only senders take a turn
  const PortId home = one.port_of(sends);
  one.set_port(home, false);
  CHECK(one.port_of(sends) == (home + 1) % 4);
  one.set_port(home, true);
  CHECK(one.port_of(sends) == home);
}
