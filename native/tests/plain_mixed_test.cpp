// Planes that differ much: in rate, length, buffer and random loss, with traffic in one direction or in several.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using test::PlainLink;
using test::PlainNetwork;
using test::PlainOptions;
using test::plane;
using test::planes;
using test::Stream;

PlainOptions long_enough(PlainOptions options) {
  options.mpr_units = 255;  // as connections of ordinary networks have
  return options;
}

PlainLink lossy(PlainLink link, std::uint32_t ppm) {
  link.loss_ppm = ppm;
  return link;
}

// Payload that completed per second from `begin` to `end`, as a share of `receivers` times the planes.
double completed_share(PlainNetwork& network, int receivers, TimePs begin, TimePs end) {
  network.run_until(begin);
  const std::uint64_t before = network.completed_bytes();
  network.run_until(end);
  const double payload = network.options.payload_mtu / (network.options.payload_mtu + 122.0);
  const double seconds = static_cast<double>(end - begin) / static_cast<double>(kPsPerSecond);
  return static_cast<double>(network.completed_bytes() - before) * 8 /
         (static_cast<double>(network.sum_bps()) * payload * seconds * receivers);
}

// Two packets of a slow plane wait longer for each other than a host is late: that is no queue that overflows.
TEST_CASE(random_loss_on_slow_planes_is_not_congestion) {
  Stream stream(long_enough(planes({4, lossy(plane(10, 128, kPsPerMs), 17'000)})));
  CHECK(stream.judge(2 * kPsPerSecond, 6 * kPsPerSecond).share > 0.85);
}

TEST_CASE(a_late_sender_does_not_overrun_a_short_buffer) {
  Stream stream(long_enough(planes({plane(300, 21, 10 * kPsPerMs)})));
  CHECK(stream.judge(2 * kPsPerSecond, 5 * kPsPerSecond).share > 0.9);
}

// Transit times repeat every 65 ms: the longer plane may seem to be the quicker one.
TEST_CASE(planes_that_differ_by_half_the_range_of_transit_times_add_up) {
  PlainNetwork network(long_enough(planes({plane(45, 75, 500 * kPsPerUs), plane(20, 75, 42 * kPsPerMs),
                                           plane(32, 75, kPsPerMs), plane(190, 75, 5 * kPsPerMs)})));
  PlainNetwork::Flow& flow = network.flows[network.connect(0, 1)];
  flow.outstanding_max = 64;
  network.post(flow);
  CHECK(completed_share(network, 1, kPsPerSecond, 5 * kPsPerSecond) > 0.93);
}

TEST_CASE(acknowledgements_do_not_stay_on_a_long_plane) {
  PlainNetwork network(long_enough(planes({plane(520, 700, 150 * kPsPerUs), plane(170, 570, 450 * kPsPerUs),
                                           plane(20, 76, 150 * kPsPerUs), plane(100, 187, 47 * kPsPerMs)},
                                          8192)));
  for (int stream = 0; stream < 2; ++stream) {
    PlainNetwork::Flow& flow = network.flows[network.connect(0, 1)];
    flow.outstanding_max = 64;
    network.post(flow);
  }
  CHECK(completed_share(network, 1, kPsPerSecond, 3 * kPsPerSecond) > 0.95);
}

}  // namespace
