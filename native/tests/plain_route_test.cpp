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
  CHECK(share_after_change(planes({plane(100, 1000, 4 * kPsPerMs)}), 8 * kPsPerMs) > 0.9);
  CHECK(share_after_change(planes({plane(300, 1500, 2600 * kPsPerUs)}, 8192), 4600 * kPsPerUs) > 0.9);
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

// Senders that join one after the other shrink the windows of those before them, whose queue stays.
TEST_CASE(plain_a_queue_of_many_senders_is_no_longer_path) {
  constexpr int kSenders = 16;
  PlainOptions options = planes({plane(200, 500, 200 * kPsPerUs), plane(200, 500, 200 * kPsPerUs)});
  options.hosts = kSenders + 1;
  PlainNetwork network(options);
  for (int host = 0; host < kSenders; ++host) {
    const std::size_t flow = network.connect(host, kSenders);
    network.at_time(network.now + host * 100 * kPsPerMs, [&network, flow] { network.post(network.flows[flow]); });
  }
  network.run_until(5 * kPsPerSecond);
  for (const PlainNetwork::Flow& flow : network.flows) {
    for (PortId port = 0; port < 2; ++port) CHECK(network.plane(flow, port).base_rtt < 2 * kPsPerMs);
  }
}
