// Routes that change while a stream is under way: planes become longer.
#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr TimePs kChange = 2 * kPsPerSecond;

// In both directions.
void change_delays(PlainNetwork& network, TimePs at, TimePs delay) {
  network.at_time(at, [&network, delay] {
    for (int host = 0; host < network.options.hosts; ++host) {
      for (PortId port = 0; port < network.options.planes.size(); ++port) network.link(host, port).link.delay = delay;
    }
  });
}

// Share of the planes from three seconds after the change on.
double share_after_change(const PlainOptions& options, TimePs delay) {
  Stream stream(options);
  stream.flow().outstanding_max = 64;
  stream.network.post(stream.flow());
  change_delays(stream.network, kChange, delay);
  return stream.judge(kChange + 3 * kPsPerSecond, kChange + 6 * kPsPerSecond).share;
}

}  // namespace

TEST_CASE(plain_a_long_path_that_becomes_longer_is_filled_again) {
  CHECK(share_after_change(planes({plane(100, 256, 25 * kPsPerMs)}), 60 * kPsPerMs) > 0.9);
}

// The target queue grows when the rate falls, so that the window comes to rest far above its least value.
TEST_CASE(plain_a_short_path_that_becomes_somewhat_longer_is_filled_again) {
  CHECK(share_after_change(planes({plane(600, 3000, 2600 * kPsPerUs)}, 8192), 4600 * kPsPerUs) > 0.9);
  CHECK(share_after_change(planes({plane(200, 700, 2800 * kPsPerUs)}), 5000 * kPsPerUs) > 0.9);
}

TEST_CASE(plain_one_plane_of_several_becomes_longer) {
  PlainOptions options = planes({plane(60, 512, 4 * kPsPerMs), plane(60, 512, 4 * kPsPerMs)});
  Stream stream(options);
  stream.flow().outstanding_max = 64;
  stream.network.post(stream.flow());
  stream.network.at_time(kChange, [&] {
    for (int host = 0; host < 2; ++host) stream.network.link(host, 1).link.delay = 9 * kPsPerMs;
  });
  CHECK(stream.judge(kChange + 3 * kPsPerSecond, kChange + 6 * kPsPerSecond).share > 0.9);
}

// Senders that share a plane see a queue that stays while their own windows shrink.
TEST_CASE(plain_a_queue_of_other_senders_is_no_longer_path) {
  PlainOptions options = planes({plane(100, 512, 2 * kPsPerMs)});
  options.hosts = 5;
  PlainNetwork network(options);
  for (int host = 0; host < 4; ++host) network.connect(host, 4);
  for (std::size_t flow = 0; flow < network.flows.size(); ++flow) {
    const TimePs joins = network.now + static_cast<TimePs>(flow) * kPsPerSecond;
    network.at_time(joins, [&network, flow] { network.post(network.flows[flow]); });
  }
  network.run_until(8 * kPsPerSecond);
  for (const PlainNetwork::Flow& flow : network.flows) {
    const PlaneStats stats = network.plane(flow, 0);
    CHECK(stats.base_rtt < 8 * kPsPerMs);
    CHECK(stats.smoothed_rtt < 16 * kPsPerMs);
  }
}
