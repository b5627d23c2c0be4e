// Dependent ops from the view of one host: start times, dependencies, splitting of a send.
#include <cstdint>
#include <vector>

#include "netsim/simulate/workload.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;

Op send(std::uint32_t host, std::uint32_t peer, std::uint64_t bytes, TimePs earliest = 0) {
  return {OpKind::kSend, host, peer, bytes, 0, earliest};
}

Op compute(std::uint32_t host, TimePs duration, TimePs earliest = 0) {
  return {OpKind::kCompute, host, host, 0, duration, earliest};
}

Workload workload(std::vector<Op> ops, const std::vector<Dependency>& dependencies = {}, std::uint16_t lanes = 1) {
  return {std::move(ops), dependencies, 4, lanes, 1000};
}

constexpr auto kNone = HostWork::kNone;

}  // namespace

TEST_CASE(lists_keep_the_order_of_each_key) {
  const Lists lists(4, {{2, 7}, {0, 1}, {2, 5}, {3, 9}, {0, 0}});
  const auto of = [&](std::uint32_t key) {
    const auto [first, last] = lists.of(key);
    return std::vector<std::uint32_t>(first, last);
  };
  CHECK((of(0) == std::vector<std::uint32_t>{1, 0}) && of(1).empty());
  CHECK((of(2) == std::vector<std::uint32_t>{7, 5}) && (of(3) == std::vector<std::uint32_t>{9}));
  CHECK(!lists.empty() && Lists(4, {}).empty());
}

TEST_CASE(sends_are_split_over_lanes_as_long_as_each_gets_a_packet) {
  const Workload one = workload({send(0, 1, 1'000'000)});
  CHECK(one.parts(0) == 1);
  const Workload four = workload(
      {send(0, 1, 0), send(0, 1, 1000), send(0, 1, 1001), send(0, 1, 3000), send(0, 1, 3001), send(0, 1, 1'000'000)},
      {}, 4);
  const std::uint16_t expected[] = {1, 1, 2, 3, 4, 4};
  for (std::uint32_t op = 0; op < 6; ++op) CHECK(four.parts(op) == expected[op]);
}

TEST_CASE(work_of_one_instant_starts_in_the_order_of_the_ops) {
  Workload work = workload({send(0, 1, 1, 500), send(1, 0, 1), send(0, 2, 1), send(0, 3, 1), send(0, 1, 1, 500)});
  HostWork host;
  host.begin(work, 0);
  CHECK(host.next_time() == 0);
  CHECK(host.next_send(work, 0) == 2 && host.next_send(work, 0) == 3 && host.next_send(work, 0) == kNone);
  CHECK(host.next_time() == 500 && host.next_send(work, 499) == kNone);
  CHECK(host.next_send(work, 500) == 0 && host.next_send(work, 500) == 4);
  CHECK(host.next_time() == kNever && host.finished() == 0);
  CHECK((work.started == std::vector<TimePs>{500, -1, 0, 0, 500}));
}

TEST_CASE(the_doorbell_comes_between_the_start_of_a_send_and_its_first_packet) {
  Workload work = workload({send(0, 1, 1, 100), compute(0, 10, 100)});
  work.doorbell = 70;
  HostWork host;
  host.begin(work, 0);
  CHECK(host.next_time() == 100);  // computations need no doorbell
  CHECK(host.next_send(work, 100) == kNone && work.started[1] == 100);
  CHECK(host.next_time() == 110 && host.next_send(work, 110) == kNone && work.completed[1] == 110);
  CHECK(host.next_time() == 170 && host.next_send(work, 170) == 0 && work.started[0] == 100);
}

TEST_CASE(computations_in_a_chain_run_one_after_the_other) {
  Workload work = workload({compute(0, 30), compute(0, 20), compute(0, 0), send(0, 1, 5)},
                           {{1, 0, OpEvent::kCompleted}, {2, 1, OpEvent::kCompleted}, {3, 2, OpEvent::kCompleted}});
  HostWork host;
  host.begin(work, 0);
  while (host.next_time() < 50) CHECK(host.next_send(work, host.next_time()) == kNone);
  CHECK(host.next_time() == 50 && host.next_send(work, 50) == 3);
  CHECK((work.started == std::vector<TimePs>{0, 30, 50, 50}) && work.completed[2] == 50 && host.finished() == 3);
}

TEST_CASE(an_op_waits_for_all_it_depends_on_and_not_before_its_earliest_time) {
  // Op 0 waits for a computation, a receipt and a completion of its host; op 1 for the same receipt, but until 900.
  Workload work = workload({send(0, 1, 5), send(0, 1, 5, 900), compute(0, 40), send(2, 0, 5), send(0, 2, 5)},
                           {{0, 2, OpEvent::kCompleted},
                            {0, 3, OpEvent::kReceived},
                            {0, 4, OpEvent::kCompleted},
                            {1, 3, OpEvent::kReceived}});
  HostWork host;
  host.begin(work, 0);
  CHECK(host.next_send(work, 0) == 4 && host.next_send(work, 0) == kNone);
  CHECK(host.next_send(work, 40) == kNone && work.completed[2] == 40);
  host.received(work, 60, 3);
  CHECK(work.received[3] == 60 && work.completed[3] == -1);
  CHECK(host.next_time() == 900);
  host.completed(work, 75, 4);
  CHECK(host.next_time() == 75 && host.next_send(work, 75) == 0 && work.started[0] == 75);
  CHECK(host.next_send(work, 900) == 1);
}

TEST_CASE(a_split_send_is_there_and_over_with_its_last_part) {
  Workload work = workload({send(1, 0, 3000), send(0, 1, 3000), send(0, 2, 5)},
                           {{2, 0, OpEvent::kReceived}, {2, 1, OpEvent::kCompleted}}, 3);
  HostWork host;
  host.begin(work, 0);
  CHECK(host.next_send(work, 0) == 1 && host.next_send(work, 0) == kNone);
  for (const TimePs now : {10, 20}) {
    host.received(work, now, 0);
    host.completed(work, now, 1);
  }
  CHECK(work.received[0] == -1 && work.completed[1] == -1 && host.next_time() == kNever && host.finished() == 0);
  host.received(work, 30, 0);
  CHECK(work.received[0] == 30 && host.next_time() == kNever);
  host.completed(work, 35, 1);
  CHECK(work.completed[1] == 35 && host.finished() == 1 && host.next_send(work, 35) == 2);
}
