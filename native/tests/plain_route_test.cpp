// Routes that change while a stream is under way: planes become longer.
#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr TimePs kChange = 2 * kPsPerSecond;

// Share of the planes from three seconds on after one of them has become longer.
double share_after_change(const PlainOptions& options, PortId changed, TimePs delay) {
  Stream stream(options);
  stream.flow().outstanding_max = 64;
  stream.network.post(stream.flow());
  stream.network.at_time(kChange, [&] { stream.network.set_delay(changed, delay); });
  return stream.judge(kChange + 3 * kPsPerSecond, kChange + 6 * kPsPerSecond).share;
}

}  // namespace

TEST_CASE(plain_a_long_path_that_becomes_longer_is_filled_again) {
  CHECK(share_after_change(planes({plane(100, 256, 25 * kPsPerMs)}), 0, 60 * kPsPerMs) > 0.9);
}

// The target queue grows when the rate falls, so that the window comes to rest far above its least value.
TEST_CASE(plain_a_short_path_that_becomes_somewhat_longer_is_filled_again) {
  CHECK(share_after_change(planes({plane(100, 1000, 4 * kPsPerMs)}), 0, 8 * kPsPerMs) > 0.9);
  CHECK(share_after_change(planes({plane(300, 1500, 2600 * kPsPerUs)}, 8192), 0, 4600 * kPsPerUs) > 0.9);
}

TEST_CASE(plain_one_plane_of_several_becomes_longer) {
  const PlainOptions options = planes({plane(60, 512, 4 * kPsPerMs), plane(60, 512, 4 * kPsPerMs)});
  CHECK(share_after_change(options, 1, 9 * kPsPerMs) > 0.9);
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
