// A stream of messages over a plain network, and its share of the planes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/plain_network.hpp"

namespace openmrc::test {

inline constexpr std::int64_t kMbps = 1'000'000;
inline constexpr std::int64_t kKb = 1024;

inline PlainLink plane(std::int64_t mbps, std::int64_t fifo_kb, TimePs delay = 50 * kPsPerUs) {
  PlainLink link;
  link.rate_bps = mbps * kMbps;
  link.fifo_bytes = fifo_kb * kKb;
  link.delay = delay;
  return link;
}

inline PlainOptions planes(std::vector<PlainLink> links, std::uint32_t payload_mtu = 1408) {
  PlainOptions options;
  options.planes = std::move(links);
  options.payload_mtu = payload_mtu;
  options.burst_max = std::max(1U, 65'000 / (payload_mtu + 100));
  return options;
}

// Two hosts at each of two sites, with four links of 100 Mb/s and 30 ms between them.
inline PlainOptions two_sites(std::uint64_t seed) {
  PlainOptions options = planes({4, plane(250, 1024)}, 8192);
  options.mpr_units = 255;
  options.sack_bytes = 65'536;
  options.hosts = 4;
  options.seed = seed;
  options.site_of_host = {0, 0, 1, 1};
  options.between_sites = {4, plane(100, 512, 30 * kPsPerMs)};
  return options;
}

struct Result {
  double share = 0;   // of the sum of the planes, payload alone
  double resent = 0;  // of the packets
  TimePs queued = 0;  // mean wait of a packet, on the plane with the longest
};

// One stream of messages, measured from `begin` to `end`.
class Stream {
 public:
  explicit Stream(const PlainOptions& options) : network(options) {
    flow_ = network.connect(0, 1);
    network.post(flow());
  }
  PlainNetwork::Flow& flow() { return network.flows[flow_]; }

  Result judge(TimePs begin, TimePs end, std::int64_t limit_bps = 0) {
    network.run_until(begin);
    const QpStats before = network.stats(flow());
    std::uint64_t arrived = 0;
    for (PortId port = 0; port < network.options.planes.size(); ++port) {
      PlainNetwork::LinkState& link = network.link(1, port);
      arrived -= link.arrived_bytes;
      link.packets = 0;
      link.queued_sum = 0;
    }
    network.run_until(end);
    const QpStats after = network.stats(flow());
    Result result;
    for (PortId port = 0; port < network.options.planes.size(); ++port) {
      const PlainNetwork::LinkState& link = network.link(1, port);
      arrived += link.arrived_bytes;
      if (link.packets > 0)
        result.queued = std::max(result.queued, link.queued_sum / static_cast<TimePs>(link.packets));
    }
    const std::int64_t limit = limit_bps == 0 ? network.sum_bps() : limit_bps;
    const double payload = network.options.payload_mtu / (network.options.payload_mtu + 122.0);
    const double seconds = static_cast<double>(end - begin) / static_cast<double>(kPsPerSecond);
    result.share = static_cast<double>(arrived) * 8 / (static_cast<double>(limit) * payload * seconds);
    result.resent = static_cast<double>(after.retransmitted_packets - before.retransmitted_packets) /
                    static_cast<double>(after.sent_packets - before.sent_packets);
    return result;
  }

  PlainNetwork network;

 private:
  std::size_t flow_ = 0;
};

}  // namespace openmrc::test
