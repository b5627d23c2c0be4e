// Streams beside TCP, which fills the buffers that they share (X.4.14, docs/decisions/0147-beside-tcp.md).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/plain_stream.hpp"

namespace openmrc::test {
namespace {

struct Shares {
  double own = 0, least_own = 0, tcp = 0;  // of the planes; the least of one stream
  std::uint64_t dropped = 0;
};

// Hosts 1 and up send to host 0; TCP comes from a host of its own, over every plane.
class BesideTcp {
 public:
  BesideTcp(const PlainOptions& given, int streams) : network(with_hosts(given, streams + 2)), tcp_host_(streams + 1) {
    for (int i = 0; i < streams; ++i) {
      network.connect(1 + i, 0);
      network.flows.back().outstanding_max = 64;
    }
    for (PlainNetwork::Flow& flow : network.flows) network.post(flow);
  }

  void start_tcp(TimePs at, TimePs until) {
    network.at_time(at, [this, until] {
      for (PortId plane = 0; plane < network.options.planes.size(); ++plane) {
        network.add_tcp(tcp_host_, 0, plane);
        network.tcp.back().stops = until;
      }
    });
  }

  Shares judge(TimePs begin, TimePs end) {
    network.run_until(begin);
    const std::vector<std::uint64_t> before = counts();
    network.run_until(end);
    const std::vector<std::uint64_t> after = counts();
    const double whole =
        static_cast<double>(network.sum_bps()) / 8 * static_cast<double>((end - begin) / kPsPerMs) / 1e3;
    Shares shares{.least_own = 1, .dropped = after[1] - before[1]};
    shares.tcp = static_cast<double>(after[0] - before[0]) / whole;
    for (std::size_t i = 2; i < after.size(); ++i) {
      const double share = static_cast<double>(after[i] - before[i]) / whole;
      shares.own += share;
      shares.least_own = std::min(shares.least_own, share);
    }
    return shares;
  }

  // True if the first stream competes for a plane now.
  bool competes() {
    for (PortId plane = 0; plane < network.options.planes.size(); ++plane) {
      if (network.plane(network.flows.front(), plane).competing) return true;
    }
    return false;
  }

  PlainNetwork network;

 private:
  static PlainOptions with_hosts(PlainOptions options, int hosts) {
    options.hosts = hosts;
    return options;
  }

  // Bytes of TCP, drops, bytes of each stream.
  std::vector<std::uint64_t> counts() {
    std::vector<std::uint64_t> result{0, 0};
    for (const PlainNetwork::Tcp& stream : network.tcp) result[0] += stream.arrived_packets * 1500;
    for (PortId plane = 0; plane < network.options.planes.size(); ++plane) result[1] += network.link(0, plane).dropped;
    for (const PlainNetwork::Flow& flow : network.flows) result.push_back(flow.completed_bytes);
    return result;
  }

  int tcp_host_;
};

constexpr TimePs kSecond = kPsPerSecond;

TEST_CASE(tcp_alone_fills_a_plane_and_two_streams_of_it_share_one) {
  for (const int streams : {1, 2}) {
    BesideTcp beside(planes({plane(200, 256)}), 0);
    for (int i = 0; i < streams; ++i) beside.start_tcp(kPsPerMs, kNever);
    CHECK(beside.judge(2 * kSecond, 20 * kSecond).tcp > 0.95);
    const std::uint64_t first = beside.network.tcp.front().arrived_packets;
    const std::uint64_t last = beside.network.tcp.back().arrived_packets;
    CHECK(std::min(first, last) > std::max(first, last) / 2);
  }
}

// proves X.4.14
LONG_TEST_CASE(a_stream_keeps_a_share_of_its_only_plane_beside_tcp) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    PlainOptions options = planes({plane(200, 256)});
    options.seed = seed;
    BesideTcp beside(options, 1);
    beside.start_tcp(2 * kSecond, 20 * kSecond);
    const Shares shares = beside.judge(6 * kSecond, 20 * kSecond);
    CHECK(shares.own > 0.25);
    CHECK(shares.tcp > 0.45);
    CHECK(beside.competes());
    CHECK(beside.judge(21 * kSecond, 24 * kSecond).own > 0.9);
    CHECK(!beside.competes());
  }
}

// proves X.4.14
TEST_CASE(a_stream_keeps_a_share_of_all_planes_beside_tcp_on_each) {
  BesideTcp beside(planes({4, plane(200, 1024)}), 1);
  beside.start_tcp(kSecond, kNever);
  const Shares shares = beside.judge(6 * kSecond, 14 * kSecond);
  CHECK(shares.own > 0.2);
  CHECK(shares.tcp > 0.45);
}

TEST_CASE(streams_to_one_host_share_what_tcp_leaves) {
  BesideTcp beside(planes({plane(200, 256)}), 3);
  beside.start_tcp(2 * kSecond, 20 * kSecond);
  const Shares shares = beside.judge(6 * kSecond, 20 * kSecond);
  CHECK(shares.own > 0.25);
  CHECK(shares.least_own > 0.025);
  CHECK(shares.tcp > 0.4);
  CHECK(beside.judge(22 * kSecond, 25 * kSecond).own > 0.9);
}

// proves X.4.13
LONG_TEST_CASE(a_crowd_of_own_senders_competes_with_nobody) {
  BesideTcp beside(planes({4, plane(100, 256)}), 16);
  const Shares shares = beside.judge(2 * kSecond, 10 * kSecond);
  CHECK(shares.own > 0.9);
  CHECK(shares.dropped == 0);
  CHECK(!beside.competes());
}

// proves X.4.13
TEST_CASE(without_the_number_of_receiving_qps_a_stream_yields_to_tcp) {
  PlainOptions options = planes({plane(200, 1024)});
  options.sack_sharers = false;
  BesideTcp beside(options, 1);
  beside.start_tcp(kSecond, kNever);
  CHECK(beside.judge(6 * kSecond, 10 * kSecond).own < 0.05);
  CHECK(!beside.competes());
}

}  // namespace
}  // namespace openmrc::test
