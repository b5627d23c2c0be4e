// The RoCEv2 baseline: go-back-N, timeouts, DCQCN, pauses and failing ports, by hand-computed times and counts.
#include <cstdint>
#include <vector>

#include "netsim/simulate/dcqcn.hpp"
#include "netsim/simulate/roce_endpoint.hpp"
#include "netsim/simulate/roce_wire.hpp"
#include "tests/endpoint_pair.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using openmrc::test::Fate;
using openmrc::test::Network;
using openmrc::test::WireOptions;

Network::Factory roce(const RoceSettings& settings = {}) {
  return [settings](const Surroundings& surroundings, std::uint32_t host) {
    return make_roce_endpoint(surroundings, settings, host);
  };
}

bool is_write(const HostPacket& packet) { return read_roce_header(packet).kind == RoceKind::kWrite; }

constexpr std::uint32_t kMiddleBytes = 82 + 12 + 4 + 4096;  // of the default wire
constexpr std::uint32_t kFirstBytes = kMiddleBytes + 16;

}  // namespace

TEST_CASE(roce_delivers_once_and_in_order_over_any_wire) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) test::check_delivery(seed, roce());
}

TEST_CASE(roce_without_dcqcn_delivers_once_and_in_order_too) {
  RoceSettings settings;
  settings.dcqcn = false;
  settings.window_bytes = 20'000;
  for (std::uint64_t seed = 101; seed <= 120; ++seed) test::check_delivery(seed, roce(settings));
}

TEST_CASE(roce_fills_a_clean_wire) {
  Network net({}, roce());
  const auto number = net.join(0, 1);
  constexpr std::uint32_t kPackets = 2'000;
  net.post(0, number[0], 7, std::uint64_t{kPackets} * 4096);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.done.size() == 2);
  CHECK(net.done[0].done.kind == Done::Kind::kReceived && net.done[0].done.message == 7);
  // Back to back through the NIC, then two links and the last packet a second time through the switch.
  const TimePs ideal = net.transmit_time(kFirstBytes) + (kPackets - 1) * net.transmit_time(kMiddleBytes) +
                       2 * net.options.delay + net.transmit_time(kMiddleBytes);
  CHECK(net.done[0].time >= ideal && net.done[0].time - ideal <= net.transmit_time(kFirstBytes));
  CHECK(net.done[1].done.kind == Done::Kind::kCompleted);
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.sent_packets == kPackets && stats.retransmitted_packets == 0 && stats.timeouts == 0);
  CHECK(stats.acknowledgements == kPackets / 4);
}

TEST_CASE(roce_sizes_are_those_of_the_real_headers) {
  Network net({}, roce());
  const auto number = net.join(0, 1);
  std::vector<std::uint32_t> sizes;
  net.filter = [&](TimePs, std::uint32_t, PortId, const HostPacket& packet) -> Fate {
    sizes.push_back(packet.bytes);
    return {};
  };
  net.post(0, number[0], 1, 0);     // BTH, RETH, ICRC
  net.post(0, number[0], 2, 5000);  // and a middle packet without RETH
  CHECK(net.run(kPsPerSecond));
  CHECK(sizes.size() == 5);  // with two acknowledgements: BTH, AETH, ICRC
  std::sort(sizes.begin(), sizes.end());
  CHECK((sizes == std::vector<std::uint32_t>{82 + 20, 82 + 20, 82 + 32, 82 + 16 + 904, 82 + 32 + 4096}));
  CHECK(net.reports(0, Done::Kind::kCompleted) == (std::vector<MessageId>{1, 2}));
}

TEST_CASE(roce_goes_back_to_the_lost_packet_and_sends_all_after_it_again) {
  Network net({}, roce());
  const auto number = net.join(0, 1);
  bool lost = false;
  TimePs gap_seen = 0;
  std::uint64_t sent_before_nak = 0, naks = 0;
  net.filter = [&](TimePs now, std::uint32_t from, PortId, const HostPacket& packet) -> Fate {
    const RoceHeader header = read_roce_header(packet);
    if (header.kind == RoceKind::kNak) {
      ++naks;
      gap_seen = now;
      CHECK(header.psn == 50);
    }
    if (from == 0 && naks == 0) ++sent_before_nak;
    if (header.kind == RoceKind::kWrite && header.psn == 50 && !lost) {
      lost = true;
      return {0, 0};
    }
    return {};
  };
  net.post(0, number[0], 1, 400 * 4096);
  CHECK(net.run(kPsPerSecond));
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(naks == 1 && stats.negative_acknowledgements == 1 && stats.losses_inferred == 1 && stats.timeouts == 0);
  // All packets sent until the NAK came back: two links and its own transmission twice.
  const TimePs back = 2 * net.options.delay + 2 * net.transmit_time(82 + 20);
  const auto in_flight = static_cast<std::uint64_t>(back / net.transmit_time(kMiddleBytes));
  const std::uint64_t expected = sent_before_nak - 50 + in_flight;
  CHECK(stats.retransmitted_packets >= expected - 1 && stats.retransmitted_packets <= expected + 2);
  CHECK(stats.sent_packets == 400 + stats.retransmitted_packets);
  CHECK(gap_seen > 0 && net.reports(1, Done::Kind::kReceived).size() == 1);
}

TEST_CASE(roce_repairs_a_lost_tail_by_timeout) {
  RoceSettings settings;
  Network net({}, roce(settings));
  const auto number = net.join(0, 1);
  int losses = 2;  // the last packet, twice
  net.filter = [&](TimePs, std::uint32_t, PortId, const HostPacket& packet) -> Fate {
    const RoceHeader header = read_roce_header(packet);
    return {header.kind == RoceKind::kWrite && header.last != 0 && losses-- > 0 ? 0 : 1, 0};
  };
  net.post(0, number[0], 1, 10 * 4096);
  CHECK(net.run(kPsPerSecond));
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.timeouts == 2 && stats.retransmitted_packets >= 2);
  CHECK(net.done.back().time > 2 * settings.timeout && net.done.back().time < 2 * settings.timeout + kPsPerMs);
}

TEST_CASE(roce_gives_up_after_its_retries) {
  RoceSettings settings;
  settings.retries = 3;
  Network net({}, roce(settings));
  const auto number = net.join(0, 1);
  net.filter = [](TimePs, std::uint32_t, PortId, const HostPacket&) -> Fate { return {0, 0}; };
  net.post(0, number[0], 1, 4096);
  net.post(0, number[0], 2, 0);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.reports(0, Done::Kind::kFailed) == (std::vector<MessageId>{1, 2}));
  CHECK(net.endpoint(0).stats(number[0]).timeouts == 4);
  const TimePs all = (1 + 2 + 4 + 8) * settings.timeout;  // each timer is twice as long as the one before
  CHECK(net.done.back().time >= all && net.done.back().time < all + kPsPerMs);
  net.post(0, number[0], 3, 4096);  // the QP is in error
  CHECK(net.run(net.now + kPsPerSecond));
  CHECK(net.reports(0, Done::Kind::kFailed).size() == 3);
}

TEST_CASE(roce_control_passes_a_paused_port_and_data_does_not) {
  Network net({}, roce());
  const auto number = net.join(0, 1);
  net.pause(0, 1);
  net.post(0, number[0], 1, 100'000);
  net.post(1, number[1], 2, 100'000);
  net.run(kPsPerMs);
  CHECK(net.reports(1, Done::Kind::kCompleted) == std::vector<MessageId>{2});
  CHECK(net.endpoint(0).stats(number[0]).sent_packets == 0);
  net.pause(0, 0);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.reports(0, Done::Kind::kCompleted) == std::vector<MessageId>{1});
  CHECK(net.endpoint(0).stats(number[0]).timeouts == 0);
}

TEST_CASE(roce_moves_to_another_port_when_its_own_goes_down) {
  WireOptions options;
  options.planes = 4;
  Network net(options, roce());
  const auto number = net.join(0, 1);
  std::uint32_t ports_used = 0;
  PortId last = 0;
  net.filter = [&](TimePs, std::uint32_t from, PortId port, const HostPacket&) -> Fate {
    if (from == 0) {
      ports_used |= 1U << port;
      last = port;
    }
    return {};
  };
  net.post(0, number[0], 1, 1'000'000);
  net.run(20 * kPsPerUs);
  const PortId home = last;
  CHECK(ports_used == 1U << home);  // one path
  net.set_port(0, home, false);
  CHECK(net.run(kPsPerSecond));
  CHECK(last == (home + 1) % 4);
  CHECK(net.reports(0, Done::Kind::kCompleted).size() == 1);
  CHECK(net.endpoint(0).stats(number[0]).timeouts <= 1);
}

TEST_CASE(roce_without_failover_fails_with_its_port_or_resumes_when_it_is_back) {
  RoceSettings settings;
  settings.failover = false;
  WireOptions options;
  options.planes = 2;
  for (const bool back : {false, true}) {
    Network net(options, roce(settings));
    const auto number = net.join(0, 1);
    net.post(0, number[0], 1, 1'000'000);
    net.run(20 * kPsPerUs);
    for (PortId port = 0; port < 2; ++port) net.set_port(0, port, false);
    net.run(10 * kPsPerMs);
    CHECK(net.done.empty());
    if (back) {
      for (PortId port = 0; port < 2; ++port) net.set_port(0, port, true);
    }
    CHECK(net.run(kPsPerSecond));
    CHECK(net.reports(0, back ? Done::Kind::kCompleted : Done::Kind::kFailed).size() == 1);
    CHECK(net.endpoint(0).stats(number[0]).timeouts == (back ? 1 : 8));
  }
}

TEST_CASE(roce_spreads_its_qps_evenly_over_planes_and_draws_their_paths) {
  WireOptions options;
  options.planes = 4;
  Network net(options, roce());
  std::array<int, 4> on_port{};
  std::vector<std::uint32_t> paths;
  net.filter = [&](TimePs, std::uint32_t from, PortId port, const HostPacket& packet) -> Fate {
    if (from == 0 && is_write(packet)) {
      ++on_port[port];
      paths.push_back(packet.ev);
      CHECK(packet.ev >= 0xC000 && packet.ev <= 0xFFFF);
    }
    return {};
  };
  for (MessageId message = 0; message < 16; ++message) net.post(0, net.join(0, 1)[0], message, 100);
  CHECK(net.run(kPsPerSecond));
  for (const int packets : on_port) CHECK(packets == 4);
  std::sort(paths.begin(), paths.end());
  CHECK(std::unique(paths.begin(), paths.end()) - paths.begin() >= 15);
}

TEST_CASE(dcqcn_sends_at_most_one_cnp_per_interval_and_qp) {
  RoceSettings settings;
  settings.rate.rate_min_bps = 10'000'000'000;
  WireOptions options;
  options.ecn_min_bytes = options.ecn_max_bytes = 0;  // every packet is marked
  Network net(options, roce(settings));
  const auto number = net.join(0, 1);
  std::vector<TimePs> cnps;
  net.filter = [&](TimePs now, std::uint32_t, PortId, const HostPacket& packet) -> Fate {
    if (read_roce_header(packet).kind == RoceKind::kCnp) {
      cnps.push_back(now);
      CHECK(packet.traffic_class == TrafficClass::kControl && packet.ecn == Ecn::kNotEct);
      CHECK(packet.bytes == 82 + 32);
    }
    return {};
  };
  net.post(0, number[0], 1, 100'000'000);
  net.run(2 * kPsPerMs);
  // A packet every 3.4 us, so one within that time after each interval; a CNP may wait for its port for some ns.
  CHECK(cnps.size() >= 37 && cnps.size() <= 40);
  for (std::size_t i = 1; i < cnps.size(); ++i) CHECK(cnps[i] - cnps[i - 1] >= 50 * kPsPerUs - 20 * kPsPerNs);
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.marks + 1 >= cnps.size() && stats.rate_bps == settings.rate.rate_min_bps);
}

TEST_CASE(roce_at_the_lowest_rate_does_not_time_out) {
  RoceSettings settings;
  settings.rate.rate_min_bps = 5'000'000;  // 6.7 ms a packet, which is above the timeout
  settings.rate.increase_timer = 10 * kPsPerSecond;
  WireOptions options;
  options.ecn_min_bytes = options.ecn_max_bytes = 0;
  Network net(options, roce(settings));
  const auto number = net.join(0, 1);
  net.post(0, number[0], 1, 10'000'000);
  net.run(kPsPerSecond);
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.rate_bps < 100'000'000 && stats.marks > 10);
  CHECK(stats.timeouts == 0 && stats.retransmitted_packets == 0);
}

TEST_CASE(roce_sends_sooner_when_the_rate_rises_during_a_wait) {
  RoceSettings settings;
  settings.rate.rate_min_bps = 10'000'000;  // 3.4 ms a packet, but the rate climbs every 55 us
  WireOptions options;
  options.ecn_min_bytes = options.ecn_max_bytes = 0;
  Network net(options, roce(settings));
  const auto number = net.join(0, 1);
  net.post(0, number[0], 1, 100'000'000);
  net.run(100 * kPsPerMs);
  CHECK(net.endpoint(0).stats(number[0]).sent_packets > 4 * 100 / 3);
}

TEST_CASE(dcqcn_cuts_by_half_of_alpha_and_climbs_back) {
  const DcqcnSettings settings;
  constexpr std::uint64_t kLine = 40'000'000'000;
  Dcqcn rate(settings, kLine);
  CHECK(rate.rate_bps(0) == kLine && !rate.limited());
  rate.on_cnp(0);
  CHECK(rate.rate_bps(0) == kLine / 2);  // alpha starts at 1
  // Fast recovery halves the distance to the old rate once per timer.
  CHECK(rate.rate_bps(54 * kPsPerUs) == kLine / 2);
  CHECK(rate.rate_bps(55 * kPsPerUs) == kLine / 4 * 3);
  CHECK(rate.rate_bps(110 * kPsPerUs) == kLine / 8 * 7);
  const std::uint32_t alpha = rate.alpha();  // decayed twice by 1/256
  CHECK(alpha > Dcqcn::kAlphaOne * 99ULL / 100 && alpha < Dcqcn::kAlphaOne * 993ULL / 1000);
  // From a second cut the target is the current rate; after five steps it grows by a thousandth of the line rate.
  const TimePs cut = 110 * kPsPerUs;
  rate.on_cnp(cut);
  const std::uint64_t target = kLine / 8 * 7;
  const std::uint64_t low = rate.rate_bps(cut);
  CHECK(low > target / 2 && low < target * 51 / 100);
  const std::uint64_t fourth = rate.rate_bps(cut + 4 * 55 * kPsPerUs);
  CHECK(target - fourth <= (target - low) / 16 && target > fourth);
  const std::uint64_t sixth = rate.rate_bps(cut + 6 * 55 * kPsPerUs);
  CHECK(sixth > fourth && sixth < target + 2 * kLine / 1000);
  CHECK(rate.rate_bps(cut + kPsPerSecond) == kLine && !rate.limited());
}

TEST_CASE(dcqcn_takes_a_series_of_cnps_for_one_event_unless_told_to_clamp) {
  constexpr std::uint64_t kLine = 40'000'000'000;
  for (const bool clamp : {false, true}) {
    DcqcnSettings settings;
    settings.clamp_target = clamp;
    Dcqcn rate(settings, kLine);
    rate.on_cnp(0);
    rate.on_cnp(50 * kPsPerUs);
    const std::uint64_t low = rate.rate_bps(50 * kPsPerUs);
    CHECK(low == kLine / 4);
    const std::uint64_t target = clamp ? kLine / 2 : kLine;
    CHECK(rate.rate_bps(105 * kPsPerUs) == (low + target) / 2);
  }
}

TEST_CASE(dcqcn_climbs_by_bytes_sent_as_well) {
  DcqcnSettings settings;
  settings.increase_timer = kPsPerSecond;
  constexpr std::uint64_t kLine = 100'000'000'000;
  Dcqcn rate(settings, kLine);
  rate.on_cnp(0);
  rate.on_sent(1, settings.increase_bytes - 1);
  CHECK(rate.rate_bps(1) == kLine / 2);
  rate.on_sent(1, 1);
  CHECK(rate.rate_bps(1) == kLine / 4 * 3);
}

TEST_CASE(dcqcn_shares_a_bottleneck_fairly_and_bounds_its_queue) {
  WireOptions options;
  options.hosts = 3;
  options.ecn_min_bytes = 100'000;
  options.ecn_max_bytes = 400'000;
  options.ecn_permille = 200;
  Network net(options, roce());
  const auto first = net.join(0, 2), second = net.join(1, 2);
  net.post(0, first[0], 1, 1'000'000'000);
  net.run(2 * kPsPerMs);
  net.post(1, second[0], 2, 1'000'000'000);  // a newcomer at the line rate
  net.run(20 * kPsPerMs);
  const auto received = [&](const std::array<std::uint32_t, 2>& number) {
    return net.endpoint(2).stats(number[1]).received_bytes;
  };
  const std::uint64_t first_before = received(first), second_before = received(second);
  net.queue_peak = 0;
  net.run(50 * kPsPerMs);
  const std::uint64_t a = received(first) - first_before, b = received(second) - second_before;
  CHECK(test::jain_permille(a, b) > 950);
  CHECK(a + b > 30 * options.rate_bps / 8'000 * 80 / 100);  // of 30 ms
  CHECK(net.queue_peak < 1'500'000);
  CHECK(net.endpoint(0).stats(first[0]).retransmitted_packets == 0);
}

TEST_CASE(roce_idle_connections_cost_little) {
  Network net({}, roce());
  for (int i = 0; i < 1000; ++i) (void)net.join(0, 1);
  CHECK(net.endpoint(0).memory_bytes() < 1000 * 80);
  const std::uint64_t idle = net.endpoint(0).memory_bytes();
  net.post(0, 500, 1, 100'000);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.endpoint(0).memory_bytes() > idle && net.endpoint(0).memory_bytes() < idle + 20'000);
}
