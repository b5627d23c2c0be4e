// openmrc_survey: shares that openmrc fills of ordinary networks drawn from seeds, in virtual time.
//
//   openmrc_survey --seeds A..B            one line for each seed of [A, B), then quantiles of the shares
//   openmrc_survey --seeds A..B --longer   the same; after two seconds, all planes become 1.3 to 3 times as long
//   openmrc_survey --seeds A..B --jitter   the same; every packet takes up to 0.05 to 5 ms longer, at random
//   openmrc_survey --seeds A..B --buckets  the same; after a pause planes pass 0.1 to 100 ms of their rate at once
//
// A share is the payload that completed in the last six of twelve seconds, of what the planes carry without lost packets.
// Exit codes: 0, 2 usage.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/survey/drawn_network.hpp"

namespace {

using openmrc::kPsPerSecond;
using openmrc::TimePs;
using openmrc::survey::DrawnNetwork;
using openmrc::test::PlainLink;
using openmrc::test::PlainNetwork;

constexpr TimePs kChange = 2 * kPsPerSecond, kBegin = 6 * kPsPerSecond, kEnd = 12 * kPsPerSecond;

double seconds(TimePs time) { return static_cast<double>(time) / static_cast<double>(kPsPerSecond); }

// Enough work for a bandwidth-delay product, the queues, and as much again twice for packets held up by repairs.
double bytes_in_flight(const DrawnNetwork& drawn, const std::vector<TimePs>& delays) {
  double longest_s = 0, bps = 0;
  for (std::size_t plane = 0; plane < delays.size(); ++plane) {
    const PlainLink& link = drawn.options.planes[plane];
    const double queue_s = static_cast<double>(link.fifo_bytes) * 8 / static_cast<double>(link.rate_bps);
    longest_s = std::max(longest_s, seconds(2 * (delays[plane] + link.jitter)) + std::min(queue_s, 0.02));
    bps += static_cast<double>(link.rate_bps);
  }
  return 3 * longest_s * bps / 8;
}

// `delays`: of the planes from the change on.
double measure(const DrawnNetwork& drawn, const std::vector<TimePs>& delays) {
  PlainNetwork network(drawn.options);
  const double wanted = bytes_in_flight(drawn, delays);
  for (const auto& [from, to] : drawn.streams) {
    PlainNetwork::Flow& flow = network.flows[network.connect(from, to)];
    flow.message_bytes = static_cast<std::uint64_t>(std::clamp(wanted / 64, 16'384.0, 4e6));
    const double messages = wanted / static_cast<double>(flow.message_bytes);
    flow.outstanding_max = static_cast<std::uint32_t>(std::clamp(messages + 2, 16.0, 250.0));
  }
  for (PlainNetwork::Flow& flow : network.flows) network.post(flow);
  const TimePs start = network.now;
  network.at_time(start + kChange, [&] {
    for (std::size_t plane = 0; plane < delays.size(); ++plane) {
      network.set_delay(static_cast<openmrc::PortId>(plane), delays[plane]);
    }
  });
  network.run_until(start + kBegin);
  const std::uint64_t before = network.completed_bytes();
  network.run_until(start + kEnd);
  return static_cast<double>(network.completed_bytes() - before) / (seconds(kEnd - kBegin) * drawn.limit());
}

int usage() {
  std::fprintf(stderr, "openmrc_survey: usage: openmrc_survey --seeds A..B [--longer | --jitter | --buckets]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 0, end = 0;
  int read = 0;
  const auto given = [&](const char* option) { return argc == 4 && std::strcmp(argv[3], option) == 0; };
  const bool longer = given("--longer"), jitter = given("--jitter"), buckets = given("--buckets");
  if ((argc != 3 && !longer && !jitter && !buckets) || std::strcmp(argv[1], "--seeds") != 0) return usage();
  if (std::sscanf(argv[2], "%" SCNu64 "..%" SCNu64 "%n", &first, &end, &read) != 2 || argv[2][read] != '\0')
    return usage();
  if (end <= first) return usage();
  std::vector<double> shares;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    DrawnNetwork drawn = openmrc::survey::draw(seed);
    const TimePs longest_jitter = jitter ? openmrc::survey::packet_jitter(seed) : 0;
    const TimePs bucket = buckets ? openmrc::survey::shaper_bucket(seed) : 0;
    for (PlainLink& link : drawn.options.planes) {
      link.jitter = longest_jitter;
      link.bucket = bucket;
    }
    std::vector<TimePs> delays;
    for (const PlainLink& link : drawn.options.planes) delays.push_back(link.delay);
    if (longer) delays = openmrc::survey::longer_delays(seed, drawn);
    const double share = measure(drawn, delays);
    std::printf("%.3f seed %" PRIu64 ": %s\n", share, seed, drawn.description().c_str());
    std::fflush(stdout);
    shares.push_back(std::min(share, 1.0));
  }
  std::sort(shares.begin(), shares.end());
  double sum = 0;
  for (const double share : shares) sum += share;
  const auto at = [&shares](std::size_t percent) { return shares[(shares.size() - 1) * percent / 100]; };
  std::printf("%zu networks: mean %.3f, least %.3f, 1 %% %.3f, 5 %% %.3f, 10 %% %.3f, 25 %% %.3f, median %.3f\n",
              shares.size(), sum / static_cast<double>(shares.size()), at(0), at(1), at(5), at(10), at(25), at(50));
}
