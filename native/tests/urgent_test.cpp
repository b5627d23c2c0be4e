// Data of ordinary QPs gives way to urgent QPs, for a bounded share of time.
#include <algorithm>

#include "engine/urgent_time.hpp"
#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using test::PlainNetwork;
using test::plane;
using test::planes;
using test::Stream;

TEST_CASE(urgent_time_ends_a_moment_after_the_latest_packet) {
  UrgentTime urgent;
  CHECK(!urgent.holds(kPsPerSecond));
  urgent.note(kPsPerSecond);
  urgent.note(kPsPerSecond + kPsPerMs);
  CHECK(urgent.end() == kPsPerSecond + 5 * kPsPerMs);
  CHECK(urgent.holds(urgent.end() - 1));
  CHECK(!urgent.holds(urgent.end()));
}

// proves X.9.2
TEST_CASE(urgent_time_leaves_a_fifth_and_ends_in_time_whatever_arrives) {
  for (const TimePs interval : {100 * kPsPerUs, kPsPerMs, 3 * kPsPerMs, 5 * kPsPerMs}) {
    UrgentTime urgent;
    constexpr TimePs kStep = 50 * kPsPerUs;
    TimePs held = 0, in_a_row = 0, longest = 0, total = 0;
    for (TimePs now = kPsPerSecond; now < 3 * kPsPerSecond; now += kStep, total += kStep) {
      if (now % interval == 0) urgent.note(now);
      in_a_row = urgent.holds(now) ? in_a_row + kStep : 0;
      held += urgent.holds(now) ? kStep : 0;
      longest = std::max(longest, in_a_row);
    }
    CHECK(longest <= 45 * kPsPerMs);
    CHECK(held <= total / 100 * 82);
    CHECK(held >= total / 2);
  }
}

TEST_CASE(urgent_time_moves_with_the_clock) {
  UrgentTime urgent;
  urgent.note(2 * kClockRebase);
  urgent.rebase(kClockRebase);
  CHECK(urgent.end() == kClockRebase + 4 * kPsPerMs);
}

// Operations of five messages in a row beside a stream: the time of each, and the share of the planes that the stream keeps.
struct Beside {
  std::vector<TimePs> times;
  double share = 0;
};

Beside operations_beside_a_stream(bool urgent) {
  constexpr TimePs kBegin = kPsPerSecond, kEnd = 2 * kPsPerSecond, kInterval = 20 * kPsPerMs;
  Stream stream(planes({4, plane(250, 256)}, 8192));
  PlainNetwork& network = stream.network;
  const std::size_t number = network.connect(0, 1, urgent);
  network.flows[number].left_bytes = 0;
  Beside beside;
  network.run_until(kBegin);
  const std::uint64_t before = stream.flow().completed_bytes;
  for (TimePs time = kBegin; time < kEnd; time += kInterval) {
    network.run_until(time);
    PlainNetwork::Flow& flow = network.flows[number];
    flow.message_bytes = 16'384;
    flow.left_bytes = 5 * flow.message_bytes;
    flow.outstanding_max = 1;
    network.post(flow);
    network.run_until(time + kInterval - 1);
    CHECK(flow.done >= time);
    beside.times.push_back(flow.done - time);
  }
  const double bits = static_cast<double>(stream.flow().completed_bytes - before) * 8;
  beside.share = bits / static_cast<double>(network.sum_bps());
  std::sort(beside.times.begin(), beside.times.end());
  return beside;
}

// proves X.9.1
TEST_CASE(messages_of_an_urgent_qp_do_not_wait_behind_a_stream) {
  const Beside urgent = operations_beside_a_stream(true);
  const Beside ordinary = operations_beside_a_stream(false);
  CHECK(3 * urgent.times[urgent.times.size() / 2] <= 2 * ordinary.times[ordinary.times.size() / 2]);
  CHECK(urgent.share >= 0.55);  // of 20 ms about 9 are urgent
}

// A dead path is probed for as long as it is dead, also by a QP that has nothing to send.
TEST_CASE(probes_of_an_urgent_qp_do_not_hold_a_stream) {
  Stream stream(planes({4, plane(250, 256)}, 8192));
  PlainNetwork& network = stream.network;
  const std::size_t number = network.connect(0, 1, true);
  network.run_until(kPsPerSecond);
  PlainNetwork::Flow& flow = network.flows[number];
  flow.message_bytes = flow.left_bytes = 1 << 20;
  network.post(flow);
  network.run_until(network.now + 2 * kPsPerMs);
  network.link(0, 0).link.dead = network.link(1, 0).link.dead = true;
  network.run_until(3 * kPsPerSecond / 2);
  CHECK(flow.done > 0);
  const std::uint64_t probes = network.stats(flow).probes_sent;
  CHECK(stream.judge(3 * kPsPerSecond / 2, 5 * kPsPerSecond / 2, 750 * test::kMbps).share >= 0.95);
  CHECK(network.stats(network.flows[number]).probes_sent > probes);
}

// As an operation after a barrier.
// proves X.9.1
TEST_CASE(a_message_that_begins_after_an_urgent_one_does_not_wait) {
  PlainNetwork network(planes({4, plane(1000, 256)}, 8192));
  const std::size_t urgent = network.connect(0, 1, true), ordinary = network.connect(0, 1);
  const auto time_of = [&network](std::size_t number, std::uint64_t bytes) {
    PlainNetwork::Flow& flow = network.flows[number];
    flow.message_bytes = flow.left_bytes = bytes;
    const TimePs posted = network.now;
    network.post(flow);
    while (flow.done < posted) network.run_until(network.now + 10 * kPsPerUs);
    return flow.done - posted;
  };
  network.run_until(100 * kPsPerMs);
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{1} << 20}) {
    const TimePs alone = time_of(ordinary, bytes);
    time_of(urgent, 8);
    CHECK(time_of(ordinary, bytes) <= alone + kPsPerMs);
  }
}

// proves X.9.2
TEST_CASE(a_stream_goes_on_beside_an_urgent_qp_that_never_rests) {
  Stream stream(planes({4, plane(250, 256)}, 8192));
  PlainNetwork& network = stream.network;
  const std::size_t number = network.connect(0, 1, true);
  network.flows[number].message_bytes = 4096;
  network.flows[number].outstanding_max = 1;
  network.run_until(kPsPerSecond);
  network.post(network.flows[number]);
  network.run_until(3 * kPsPerSecond / 2);
  stream.flow().longest_gap = 0;
  CHECK(stream.judge(3 * kPsPerSecond / 2, 5 * kPsPerSecond / 2).share >= 0.1);
  CHECK(stream.flow().longest_gap <= 80 * kPsPerMs);
  CHECK(network.stats(stream.flow()).timeouts == 0);
}

}  // namespace
