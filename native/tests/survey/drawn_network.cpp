#include "tests/survey/drawn_network.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace openmrc::survey {
namespace {

using test::PlainLink;
using test::PlainOptions;

constexpr double kRateLeast = 8, kRateMost = 1'500, kRateSum = 2'000;  // Mb/s
constexpr double kJumboFrom = 600;                                     // Mb/s of all planes
constexpr double kBufferLeast = 20e3, kBufferMost = 4e6;               // bytes
constexpr double kBufferJumbo = 70e3;                                  // at least, with large packets
constexpr double kDelayLeast = 20, kDelayMost = 60'000;                // us, one way
constexpr double kLossLeast = 100, kLossMost = 20'000;                 // ppm

class Draw {
 public:
  explicit Draw(std::uint64_t seed, const char* what = "survey") : rng_(Rng::for_component(seed, what)) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(rng_.below(bound)); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  // Evenly on a logarithmic scale.
  double between(double least, double most) {
    const double part = static_cast<double>(rng_.below(1 << 20)) / (1 << 20);
    return least * std::pow(most / least, part);
  }

 private:
  Rng rng_;
};

double sum_of(const std::vector<double>& rates) { return std::accumulate(rates.begin(), rates.end(), 0.0); }

std::vector<double> draw_rates(Draw& draw) {
  std::vector<double> rates;
  do {
    rates.resize(1 + draw.below(6));
    for (double& rate : rates) rate = draw.between(kRateLeast, kRateMost);
    if (draw.one_in(3)) std::fill(rates.begin(), rates.end(), rates.front());
  } while (sum_of(rates) > kRateSum);
  return rates;
}

void draw_planes(Draw& draw, PlainOptions& options, const std::vector<double>& rates, bool jumbo) {
  enum { kShort, kEqual, kOwn };
  const std::size_t lengths = draw.below(3);
  const double delay = draw.between(kDelayLeast, kDelayMost);
  const double buffer = draw.between(kBufferLeast, kBufferMost);
  const bool own_buffers = draw.one_in(2);
  const double loss = draw.between(kLossLeast, kLossMost);
  const std::size_t lossy = draw.below(rates.size());
  const std::size_t losses = draw.below(6);  // 0: of one plane, 1: of all planes, else of none
  for (std::size_t id = 0; id < rates.size(); ++id) {
    PlainLink link;
    link.rate_bps = static_cast<std::int64_t>(rates[id]) * 1'000'000;
    const double own = draw.between(kBufferLeast, kBufferMost);
    link.fifo_bytes = static_cast<std::int64_t>(std::max(own_buffers ? own : buffer, jumbo ? kBufferJumbo : 0));
    const double one_way = draw.between(kDelayLeast, kDelayMost);
    link.delay = static_cast<TimePs>(lengths == kShort ? 50 : lengths == kEqual ? delay : one_way) * kPsPerUs;
    if (losses == 1 || (losses == 0 && id == lossy)) link.loss_ppm = static_cast<std::uint32_t>(loss);
    options.planes.push_back(link);
  }
}

void draw_traffic(Draw& draw, DrawnNetwork& network) {
  struct Kind {
    const char* name;
    int hosts, receivers;
    std::vector<std::pair<int, int>> streams;
  };
  const std::vector<Kind> kinds{{"one stream", 2, 1, {{0, 1}}},
                                {"two streams", 2, 1, {{0, 1}, {0, 1}}},
                                {"both ways", 2, 2, {{0, 1}, {1, 0}}},
                                {"ring of three", 3, 3, {{0, 1}, {1, 2}, {2, 0}}},
                                {"incast of four", 5, 1, {{0, 4}, {1, 4}, {2, 4}, {3, 4}}}};
  const std::size_t index = draw.below(kinds.size() + 1);  // one stream twice as often
  const Kind& kind = kinds[index == kinds.size() ? 0 : index];
  network.traffic = kind.name;
  network.streams = kind.streams;
  network.receivers = kind.receivers;
  network.options.hosts = kind.hosts;
}

// Empty for none.
std::string in_ms(const char* what, TimePs time) {
  if (time == 0) return {};
  char text[40];
  std::snprintf(text, sizeof text, " %s %.2f ms", what, static_cast<double>(time) / 1e9);
  return text;
}

}  // namespace

DrawnNetwork draw(std::uint64_t seed) {
  Draw draw(seed);
  DrawnNetwork network;
  PlainOptions& options = network.options;
  options.seed = seed;
  options.mpr_units = 255;  // as connections of ordinary networks have
  const std::vector<double> rates = draw_rates(draw);
  const bool jumbo = sum_of(rates) > kJumboFrom || draw.one_in(3);
  options.payload_mtu = jumbo ? 8192 : 1408;
  options.burst_max = 65'000 / (options.payload_mtu + 100);
  draw_planes(draw, options, rates, jumbo);
  draw_traffic(draw, network);
  if (draw.one_in(2)) {
    options.jitter = 10 * kPsPerUs;
    options.hiccup_ppm = 0;
  }
  if (draw.one_in(2)) {
    for (int host = 0; host < options.hosts; ++host) {
      options.drift_ppm.push_back(static_cast<std::int32_t>(draw.below(100)) - 50);
    }
  }
  return network;
}

std::vector<TimePs> longer_delays(std::uint64_t seed, const DrawnNetwork& network) {
  Draw draw(seed, "routes");
  std::vector<TimePs> delays;
  for (const PlainLink& link : network.options.planes) {
    delays.push_back(static_cast<TimePs>(static_cast<double>(link.delay) * draw.between(1.3, 3)));
  }
  return delays;
}

TimePs packet_jitter(std::uint64_t seed) {
  Draw draw(seed, "jitter");
  return static_cast<TimePs>(draw.between(0.05, 5) * kPsPerMs);
}

TimePs shaper_bucket(std::uint64_t seed) {
  Draw draw(seed, "bucket");
  return static_cast<TimePs>(draw.between(0.1, 100) * kPsPerMs);
}

double DrawnNetwork::limit() const {
  double sum = 0;
  for (const PlainLink& link : options.planes) sum += static_cast<double>(link.rate_bps) * (1 - link.loss_ppm / 1e6);
  return sum / 8 * options.payload_mtu / (options.payload_mtu + 122.0) * receivers;
}

std::string DrawnNetwork::description() const {
  std::string text = traffic + ", " + (options.payload_mtu > 1500 ? "jumbo frames" : "MTU 1,500");
  for (const PlainLink& link : options.planes) {
    char plane[120];
    std::snprintf(plane, sizeof plane, "; %.0f Mb/s %.0f kB %.1f ms", static_cast<double>(link.rate_bps) / 1e6,
                  static_cast<double>(link.fifo_bytes) / 1e3, static_cast<double>(2 * link.delay) / 1e9);
    text += plane;
    text += in_ms("jitter", link.jitter) + in_ms("bucket", link.bucket);
    if (link.loss_ppm > 0) text += " loss " + std::to_string(link.loss_ppm) + " ppm";
  }
  return text;
}

}  // namespace openmrc::survey
