// Streams that share a long path, and pause between their works.
#include <cstdint>

#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using test::PlainNetwork;
using test::PlainOptions;
using test::plane;
using test::planes;

constexpr std::uint64_t kMiB = 1024 * 1024;

// Two hosts at each of two sites.
PlainOptions two_sites(std::uint64_t seed) {
  PlainOptions options = planes({4, plane(250, 1024)}, 8192);
  options.mpr_units = 255;
  options.sack_bytes = 65'536;
  options.hosts = 4;
  options.seed = seed;
  options.site_of_host = {0, 0, 1, 1};
  options.between_sites = {4, plane(100, 512, 30 * kPsPerMs)};
  return options;
}

class Works {
 public:
  explicit Works(std::uint64_t seed) : network(two_sites(seed)) {
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
TEST_CASE(streams_that_begin_again_together_do_not_overfill_a_long_path) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    Works works(seed);
    works.run(96 * kMiB, 160 * kMiB);
    const std::uint64_t before = works.retransmitted();
    for (int round = 0; round < 4; ++round) works.run(96 * kMiB, 160 * kMiB);
    CHECK(works.retransmitted() - before <= 10);
  }
}

}  // namespace
