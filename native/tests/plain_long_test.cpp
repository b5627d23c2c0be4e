// Planes between sites: round trips longer than the range of 16-bit timestamps, with comparatively short queues.
#include "engine/qp/plane_set.hpp"
#include "engine/qp/timestamp.hpp"
#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using test::PlainLink;
using test::PlainNetwork;
using test::PlainOptions;
using test::plane;
using test::planes;
using test::Result;
using test::Stream;

PlainOptions sites(TimePs one_way, std::uint32_t loss_ppm = 0, std::int64_t fifo_kb = 512) {
  PlainLink link = plane(250, fifo_kb, one_way);
  link.loss_ppm = loss_ppm;
  PlainOptions options = planes({4, link});
  options.mpr_units = 255;  // as connections of ordinary networks have
  options.sack_bytes = 65'536;
  return options;
}

Result run(const PlainOptions& options, TimePs end) {
  Stream stream(options);
  stream.flow().outstanding_max = 128;
  return stream.judge(2 * kPsPerSecond, end);
}

// Regression: once the record had grown, packets below the window had sending times of zero, and plane 0 a round trip
// equal to the clock's time.
TEST_CASE(an_acknowledgement_of_a_packet_that_is_no_longer_on_record_gives_no_round_trip) {
  constexpr TimePs kNow = 700 * kPsPerSecond, kRange = 65'536 * kPsPerUs;
  constexpr std::uint32_t kBytes = 1500;
  PlaneSharers sharers;
  PlaneTraffic traffic;
  PlaneSet set(kNow, 2, /*discover=*/true, kBytes, 1 << 20, sharers, traffic);
  for (Psn psn = 1; psn <= 40; ++psn) set.sent(kNow, 0, 1, {.psn = psn, .bytes = kBytes});
  CHECK(set.round_trip(kNow + kPsPerMs, 0, 20, kPsPerMs, kRange) == kPsPerMs);
  for (Psn psn = 41; psn <= 200; ++psn) set.sent(kNow, 0, 30, {.psn = psn, .bytes = kBytes});
  CHECK(set.round_trip(kNow + kPsPerMs, 0, 35, kPsPerMs, kRange) == kPsPerMs);
  CHECK(set.round_trip(kNow + kPsPerMs, 0, 20, kPsPerMs, kRange) == 0);
}

// Regression: with 95 ms, while 60 were usual, it had the round trip of 29.5 ms, which held the window of its plane down
// for seconds as the idle one.
TEST_CASE(a_repeated_packet_that_took_unusually_long_gives_no_round_trip) {
  constexpr TimePs kNow = 700 * kPsPerSecond, kRange = 65'536 * kPsPerUs, kUsual = 60 * kPsPerMs;
  constexpr std::uint32_t kBytes = 1500;
  PlaneSharers sharers;
  PlaneTraffic traffic;
  PlaneSet set(kNow, 2, /*discover=*/true, kBytes, 1 << 20, sharers, traffic);
  SendWindow window;
  std::vector<Psn> lost;
  set.sent(kNow, 0, 1, {.psn = 1, .bytes = kBytes});
  set.sampled(0, {.rtt = kUsual, .transit = {}, .psn = 1}, /*marked=*/false);
  set.end_feedback(kNow + kUsual, window, lost);
  set.sent(kNow + kUsual, 0, 1, {.psn = 2, .bytes = kBytes, .repeated = true});
  const auto told = [&](TimePs rtt) { return set.round_trip(kNow + kUsual + rtt, 0, 2, rtt % kRange, kRange); };
  for (const TimePs rtt : {kUsual, kUsual + 5 * kPsPerMs, kUsual + 30 * kPsPerMs}) CHECK(told(rtt) == rtt);
  CHECK(told(kUsual + 35 * kPsPerMs) == 0);
}

// proves X.4.7
TEST_CASE(a_round_trip_is_told_beyond_the_range_of_timestamps) {
  constexpr TimePs kRange = 65'536 * kPsPerUs;
  CHECK(latest_round_trip(70 * kPsPerMs, 70 * kPsPerMs - kRange, kRange) == 70 * kPsPerMs);
  CHECK(latest_round_trip(200 * kPsPerMs, 200 * kPsPerMs - 3 * kRange, kRange) == 200 * kPsPerMs);
  // The receiver held the packet for 3 ms, which the echo leaves out.
  CHECK(latest_round_trip(67 * kPsPerMs, 64 * kPsPerMs, kRange) == 64 * kPsPerMs);
  CHECK(latest_round_trip(100 * kPsPerUs, 101 * kPsPerUs, kRange) == 101 * kPsPerUs);  // both are cut off
  CHECK(latest_round_trip(0, 5 * kPsPerMs, kRange) == 5 * kPsPerMs);
}

LONG_TEST_CASE(planes_between_sites_are_filled_without_losses) {
  for (const std::int64_t fifo_kb : {128, 512}) {
    const Result result = run(sites(30 * kPsPerMs, 0, fifo_kb), 8 * kPsPerSecond);
    CHECK(result.share >= 0.97);
    CHECK(result.resent <= 0.001);
    CHECK(result.queued <= 8 * kPsPerMs);
  }
  PlainOptions drifting = sites(15 * kPsPerMs);
  drifting.drift_ppm = {0, 50};
  CHECK(run(drifting, 6 * kPsPerSecond).share >= 0.97);
}

// proves X.4.7
LONG_TEST_CASE(round_trips_of_more_than_one_range_of_timestamps_are_measured) {
  PlainOptions options = sites(50 * kPsPerMs);
  Stream stream(options);
  stream.flow().outstanding_max = 160;
  const Result result = stream.judge(4 * kPsPerSecond, 8 * kPsPerSecond);
  CHECK(result.share >= 0.95);
  CHECK(result.resent <= 0.001);
  for (PortId port = 0; port < 4; ++port) {
    const TimePs base = stream.network.plane(stream.flow(), port).base_rtt;
    CHECK(base >= 100 * kPsPerMs && base <= 101 * kPsPerMs);
  }
}

// The losses of a block vary by chance. Each reaction to a chance loss costs many round trips here.
LONG_TEST_CASE(random_loss_between_sites_costs_its_share_of_packets) {
  double sum = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    PlainOptions options = sites(30 * kPsPerMs, 1000);
    options.seed = seed;
    const Result result = run(options, 16 * kPsPerSecond);
    CHECK(result.share >= 0.90);
    CHECK(result.resent <= 0.003);
    sum += result.share;
  }
  CHECK(sum / 4 >= 0.95);
  CHECK(run(sites(30 * kPsPerMs, 10'000), 10 * kPsPerSecond).share >= 0.90);
}

// SACKs keep their return path although a probe takes longer than the interval between two.
TEST_CASE(reverse_probes_wait_for_a_path_that_is_longer_than_their_interval) {
  Stream stream(sites(30 * kPsPerMs));
  stream.flow().outstanding_max = 128;
  stream.network.run_until(2 * kPsPerSecond);
  for (PortId port = 0; port < 4; ++port) {
    const TimePs base = stream.network.plane(stream.flow(), port).base_rtt;
    CHECK(base <= 60 * kPsPerMs + 500 * kPsPerUs);
  }
}

// Two streams that pause between their works and overfill the path when they go on.
//
// Regression: the receiver took a queue of more than 33 ms after a short silence for a shorter path, and sent its SACKs
// over other planes. Each change of their way hides the idle round trip for a while.
LONG_TEST_CASE(long_queues_between_sites_do_not_change_the_idle_round_trips) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    PlainOptions options = planes({4, plane(100, 512, 30 * kPsPerMs)}, 8192);
    options.mpr_units = 255;
    options.sack_bytes = 65'536;
    options.hosts = 3;
    options.seed = seed;
    PlainNetwork network(options);
    for (int host = 0; host < 2; ++host) network.flows[network.connect(host, 2)].outstanding_max = 64;
    for (int second = 0; second < 16; ++second) {
      if (second % 4 == 0) {
        for (PlainNetwork::Flow& flow : network.flows) {
          flow.left_bytes = std::uint64_t{64} << 20;
          network.post(flow);
        }
      }
      network.run_until(network.now + kPsPerSecond);
      for (const PlainNetwork::Flow& flow : network.flows) {
        for (PortId port = 0; port < 4; ++port) {
          const TimePs base = network.plane(flow, port).base_rtt;
          CHECK(base >= 60 * kPsPerMs && base <= 64 * kPsPerMs);
        }
      }
    }
  }
}

// Jain's index of two streams over a path of 60 ms, the second of which joins 1.6 s after the first, in these seconds.
double fairness(std::int64_t rate_mbps, std::int64_t fifo_kb, TimePs from, TimePs to, std::uint64_t seed = 1) {
  PlainLink link = plane(rate_mbps, fifo_kb, 30 * kPsPerMs);
  PlainOptions options = planes({4, link});
  options.mpr_units = 255;
  options.sack_bytes = 65'536;
  options.hosts = 3;
  options.seed = seed;
  PlainNetwork network(options);
  for (int host = 0; host < 2; ++host) {
    const std::size_t flow = network.connect(host, 2);
    network.flows[flow].outstanding_max = 128;
    network.at_time((1 + host * 8) * 200 * kPsPerMs, [&network, flow] { network.post(network.flows[flow]); });
  }
  network.run_until(from);
  const std::uint64_t first = network.flows[0].completed_bytes, second = network.flows[1].completed_bytes;
  network.run_until(to);
  const double a = static_cast<double>(network.flows[0].completed_bytes - first);
  const double b = static_cast<double>(network.flows[1].completed_bytes - second);
  const double seconds = static_cast<double>((to - from) / kPsPerMs) / 1e3;
  CHECK((a + b) * 8 * (1408 + 122.0) / 1408 >= 0.95 * seconds * static_cast<double>(network.sum_bps()));
  return (a + b) * (a + b) / (2 * (a * a + b * b));
}

LONG_TEST_CASE(a_stream_that_joins_a_long_path_gets_half_of_it_in_seconds) {
  CHECK(fairness(250, 512, 4 * kPsPerSecond, 7 * kPsPerSecond) >= 0.95);
  CHECK(fairness(250, 512, 8 * kPsPerSecond, 10 * kPsPerSecond) >= 0.98);
  CHECK(fairness(100, 512, 8 * kPsPerSecond, 10 * kPsPerSecond) >= 0.95);
  // A short buffer allows no longer queues, and the shares of a moment depend on chance.
  double sum = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U})
    sum += fairness(250, 128, 13 * kPsPerSecond, 15 * kPsPerSecond, seed);
  CHECK(sum / 4 >= 0.85);
}

}  // namespace
