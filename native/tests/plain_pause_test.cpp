// Streams that share a long path: they pause between their works, or end.
#include <cstdint>

#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using test::PlainNetwork;
using test::two_sites;

constexpr std::uint64_t kMiB = 1024 * 1024;

class Works {
 public:
  Works() : network(two_sites(1)) {
    for (int host : {0, 1}) network.connect(host, host + 2);
  }
  // Each stream sends so much, and the next work begins half a second after the last byte.
  void run(std::uint64_t first_bytes, std::uint64_t second_bytes) {
    const std::uint64_t end = network.completed_bytes() + first_bytes + second_bytes;
    begin(network.flows[0], first_bytes);
    begin(network.flows[1], second_bytes);
    while (network.completed_bytes() < end && network.now < 200 * kPsPerSecond) {
      network.run_until(network.now + kPsPerMs);
    }
    CHECK(network.completed_bytes() == end);
    network.run_until(network.now + kPsPerSecond / 2);
  }
  std::uint64_t retransmitted() {
    return network.stats(network.flows[0]).retransmitted_packets +
           network.stats(network.flows[1]).retransmitted_packets;
  }

  PlainNetwork network;

 private:
  void begin(PlainNetwork::Flow& flow, std::uint64_t bytes) {
    flow.left_bytes = bytes;
    network.post(flow);
  }
};

// Regression: a stream went on with the window that it had at the end of its work, when the other one had ended. Both
// windows together then overfilled the links.
LONG_TEST_CASE(streams_that_begin_again_together_do_not_overfill_a_long_path) {
  Works works;
  works.run(96 * kMiB, 160 * kMiB);
  const std::uint64_t before = works.retransmitted();
  for (int round = 0; round < 2; ++round) works.run(96 * kMiB, 160 * kMiB);
  CHECK(works.retransmitted() - before <= 10);
}

// With data in both directions, in the second after the others have ended. Regression: windows grew only after eight round
// trips without a queue, and the share was 0.72.
LONG_TEST_CASE(streams_that_are_left_alone_take_over_a_long_path) {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    PlainNetwork network(two_sites(seed));
    for (int host = 0; host < 4; ++host) {
      PlainNetwork::Flow& flow = network.flows[network.connect(host, (host + 2) % 4)];
      flow.outstanding_max = 64;
      network.post(flow);
    }
    network.run_until(6 * kPsPerSecond);
    for (const std::size_t ended : {1U, 3U}) network.flows[ended].left_bytes = 0;
    while (network.flows[1].outstanding + network.flows[3].outstanding > 0) network.run_until(network.now + kPsPerMs);
    const std::uint64_t before = network.flows[0].completed_bytes + network.flows[2].completed_bytes;
    network.run_until(network.now + kPsPerSecond);
    const std::uint64_t taken = network.flows[0].completed_bytes + network.flows[2].completed_bytes - before;
    sum += static_cast<double>(taken) * 8 / (2 * 4 * 100e6);
  }
  CHECK(sum / 2 >= 0.75);
}

}  // namespace
