// The DCTCP baseline: SACK recovery, timeouts and probes, the window's answer to marks, pauses and failing ports.
#include <cstdint>
#include <vector>

#include "netsim/simulate/dctcp_control.hpp"
#include "netsim/simulate/dctcp_endpoint.hpp"
#include "netsim/simulate/dctcp_scoreboard.hpp"
#include "netsim/simulate/dctcp_sender.hpp"
#include "netsim/simulate/dctcp_wire.hpp"
#include "tests/endpoint_pair.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using openmrc::test::Fate;
using openmrc::test::Network;
using openmrc::test::WireOptions;

Network::Factory dctcp(const DctcpSettings& settings = {}) {
  return [settings](const Surroundings& surroundings, std::uint32_t host) {
    return make_dctcp_endpoint(surroundings, settings, host);
  };
}

bool is_data(const HostPacket& packet) { return dctcp_kind(packet) == DctcpKind::kData; }

// Loses the first copies of some packets of host 0.
Network::Filter lose_once(std::vector<std::uint64_t> sequences) {
  return [sequences](TimePs, std::uint32_t, PortId, const HostPacket& packet) mutable -> Fate {
    if (!is_data(packet)) return {};
    const auto found = std::find(sequences.begin(), sequences.end(), read_dctcp_header<DctcpData>(packet).sequence);
    if (found == sequences.end()) return {};
    sequences.erase(found);
    return {0, 0};
  };
}

constexpr std::uint32_t kFullBytes = 82 + 24 + 4096;  // of the default wire

}  // namespace

TEST_CASE(dctcp_delivers_once_and_in_order_over_any_wire) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) test::check_delivery(seed, dctcp());
}

TEST_CASE(dctcp_with_a_small_window_and_no_probes_delivers_once_too) {
  DctcpSettings settings;
  settings.tail_loss_probe = false;
  settings.window_bytes = 5'000;
  settings.ack_packets = 4;
  for (std::uint64_t seed = 101; seed <= 120; ++seed) test::check_delivery(seed, dctcp(settings));
}

TEST_CASE(dctcp_fills_a_clean_wire) {
  DctcpSettings settings;
  settings.initial_window = 100;  // above the bandwidth-delay product, so that slow start costs nothing
  Network net({}, dctcp(settings));
  const auto number = net.join(0, 1);
  constexpr std::uint32_t kPackets = 2'000;
  net.post(0, number[0], 7, std::uint64_t{kPackets} * 4096);
  CHECK(net.run(kPsPerSecond));
  const TimePs ideal = (kPackets + 1) * net.transmit_time(kFullBytes) + 2 * net.options.delay;
  CHECK(net.done[0].done.kind == Done::Kind::kReceived);
  CHECK(net.done[0].time >= ideal && net.done[0].time - ideal <= net.transmit_time(kFullBytes));
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.sent_packets == kPackets && stats.retransmitted_packets == 0 && stats.timeouts == 0);
  CHECK(stats.acknowledgements == kPackets / 2);
}

TEST_CASE(dctcp_starts_slowly_and_doubles) {
  WireOptions options;
  options.delay = 100 * kPsPerUs;
  Network net(options, dctcp());
  const auto number = net.join(0, 1);
  std::array<std::uint64_t, 3> sent{};  // in each round trip
  net.filter = [&](TimePs now, std::uint32_t from, PortId, const HostPacket&) -> Fate {
    const auto round = static_cast<std::size_t>(now / (4 * options.delay));
    if (from == 0 && round < sent.size()) ++sent[round];
    return {};
  };
  net.post(0, number[0], 1, 1'000 * 4096);
  CHECK(net.run(kPsPerSecond));
  CHECK((sent == std::array<std::uint64_t, 3>{10, 20, 40}));
}

TEST_CASE(dctcp_sizes_are_those_of_the_real_headers) {
  Network net({}, dctcp());
  const auto number = net.join(0, 1);
  std::vector<std::uint32_t> sizes;
  const auto lose = lose_once({1});
  net.filter = [&](TimePs now, std::uint32_t from, PortId port, HostPacket& packet) -> Fate {
    sizes.push_back(packet.bytes);
    return lose(now, from, port, packet);
  };
  net.post(0, number[0], 1, 0);
  net.post(0, number[0], 2, 100);
  net.post(0, number[0], 3, 0);
  CHECK(net.run(kPsPerSecond));
  std::sort(sizes.begin(), sizes.end());
  // Four packets of data, the lost one being sent twice; three acknowledgements, one of them with a SACK block.
  CHECK((sizes == std::vector<std::uint32_t>{106, 106, 106, 106, 106 + 12, 206, 206}));
  CHECK(net.reports(0, Done::Kind::kCompleted) == (std::vector<MessageId>{1, 2, 3}));
  CHECK(net.endpoint(0).stats(number[0]).timeouts ==
        0);  // two later packets are too few, but the probe timer repairs the loss
}

TEST_CASE(dctcp_sends_only_the_lost_packets_again) {
  Network net({}, dctcp());
  const auto number = net.join(0, 1);
  net.filter = lose_once({50, 52, 53, 90});
  net.post(0, number[0], 1, 400 * 4096);
  CHECK(net.run(kPsPerSecond));
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.retransmitted_packets == 4 && stats.losses_inferred == 4 && stats.timeouts == 0);
  CHECK(net.endpoint(1).stats(number[1]).duplicate_packets == 0);
}

TEST_CASE(dctcp_notices_a_lost_retransmission_without_a_timeout) {
  Network net({}, dctcp());
  const auto number = net.join(0, 1);
  net.filter = lose_once({50, 50});
  net.post(0, number[0], 1, 400 * 4096);
  CHECK(net.run(kPsPerSecond));
  const ConnectionStats stats = net.endpoint(0).stats(number[0]);
  CHECK(stats.retransmitted_packets == 2 && stats.losses_inferred == 2 && stats.timeouts == 0);
}

TEST_CASE(dctcp_tolerates_slight_reordering) {
  Network net({}, dctcp());
  const auto number = net.join(0, 1);
  const TimePs two_packets = 2 * net.transmit_time(kFullBytes);
  net.filter = [=](TimePs, std::uint32_t, PortId, const HostPacket& packet) -> Fate {
    const bool late = is_data(packet) && read_dctcp_header<DctcpData>(packet).sequence % 20 == 15;
    return {1, late ? two_packets : 0};
  };
  net.post(0, number[0], 1, 400 * 4096);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.endpoint(0).stats(number[0]).retransmitted_packets == 0);
}

TEST_CASE(dctcp_repairs_a_lost_tail_by_probe_or_by_timeout) {
  for (const bool probe : {true, false}) {
    DctcpSettings settings;
    settings.tail_loss_probe = probe;
    Network net({}, dctcp(settings));
    const auto number = net.join(0, 1);
    net.filter = lose_once({7, 8, 9});
    net.post(0, number[0], 1, 10 * 4096);
    CHECK(net.run(kPsPerSecond));
    const ConnectionStats stats = net.endpoint(0).stats(number[0]);
    CHECK(stats.timeouts == (probe ? 0U : 1U));
    CHECK(stats.retransmitted_packets == 3);
    const TimePs done = net.done.back().time;
    CHECK(probe ? done < 100 * kPsPerUs : done > settings.rto_min && done < settings.rto_min + 2 * settings.ack_delay);
  }
}

TEST_CASE(dctcp_backs_off_and_gives_up_after_its_retries) {
  DctcpSettings settings;
  settings.retries = 3;
  settings.tail_loss_probe = false;
  Network net({}, dctcp(settings));
  const auto number = net.join(0, 1);
  std::vector<TimePs> sent;
  net.filter = [&](TimePs now, std::uint32_t, PortId, const HostPacket&) -> Fate {
    sent.push_back(now);
    return {0, 0};
  };
  net.post(0, number[0], 1, 100);
  CHECK(net.run(kPsPerSecond));
  const TimePs rto = settings.rto_min;
  CHECK((sent == std::vector<TimePs>{0, rto, 3 * rto, 7 * rto}));
  CHECK(net.done.size() == 1 && net.done[0].done.kind == Done::Kind::kFailed && net.done[0].time == 15 * rto);
  net.post(0, number[0], 2, 100);
  CHECK(net.run(net.now + kPsPerSecond));
  CHECK(net.reports(0, Done::Kind::kFailed).size() == 2);
}

// A probe after two round trips and the delay of an acknowledgement, each next one after twice the time, then the RTO.
TEST_CASE(dctcp_repeats_a_probe_that_is_lost_until_the_timeout) {
  DctcpSettings settings;
  settings.ack_delay = 10 * kPsPerUs;
  settings.retries = 0;
  Network net({}, dctcp(settings));
  const auto number = net.join(0, 1);
  std::vector<TimePs> sent;
  net.filter = [&](TimePs now, std::uint32_t, PortId, const HostPacket&) -> Fate {
    sent.push_back(now / kPsPerUs);
    return {0, 0};
  };
  net.post(0, number[0], 1, 100);
  CHECK(net.run(kPsPerSecond));
  // The idle round trip is 4 us: 18, 18 + 36, 18 + 36 + 72... and 10 ms in all.
  CHECK((sent == std::vector<TimePs>{0, 18, 54, 126, 270, 558, 1134, 2286, 4590, 9198}));
  CHECK(net.done.size() == 1 && net.done[0].time == settings.rto_min);
}

// 31 initial windows of ten packets meet in a queue of 44: repair determines the last arrivals.
TEST_CASE(dctcp_repairs_an_incast_alike_however_long_acknowledgements_wait) {
  std::vector<TimePs> medians;
  for (const TimePs delay : {10 * kPsPerUs, kPsPerMs}) {
    DctcpSettings settings;
    settings.ack_delay = delay;
    WireOptions options;
    options.hosts = 32;
    options.queue_bytes = 185'200;
    options.ecn_min_bytes = options.ecn_max_bytes = 20'000;
    Network net(options, dctcp(settings));
    for (std::uint32_t host = 1; host < 32; ++host) net.post(host, net.join(host, 0)[0], host, 100'000);
    CHECK(net.run(kPsPerSecond));
    std::vector<TimePs> done;
    for (const Network::DoneAt& each : net.done) {
      if (each.done.kind == Done::Kind::kReceived) done.push_back(each.time);
    }
    CHECK(done.size() == 31);
    medians.push_back(done[15]);
  }
  // 31 messages of 25 packets take 270 us over the receiver's port.
  CHECK(medians[0] < 300 * kPsPerUs && medians[1] < 300 * kPsPerUs);
}

TEST_CASE(dctcp_delays_acknowledgements_but_not_for_long) {
  DctcpSettings settings;
  settings.tail_loss_probe = false;
  Network net({}, dctcp(settings));
  const auto number = net.join(0, 1);
  net.filter = lose_once({1});  // so that packet 0 is alone, and not the end of its message
  net.post(0, number[0], 1, 2 * 4096);
  net.run(settings.ack_delay / 2);
  CHECK(net.endpoint(0).stats(number[0]).acknowledgements == 0);
  net.run(settings.ack_delay * 2);
  CHECK(net.endpoint(0).stats(number[0]).acknowledgements == 1);
}

TEST_CASE(dctcp_echoes_exactly_the_packets_that_were_marked) {
  Network net({}, dctcp());
  const auto number = net.join(0, 1);
  Rng rng(3);
  std::uint64_t marked = 0, acks = 0;
  net.filter = [&](TimePs, std::uint32_t from, PortId, HostPacket& packet) -> Fate {
    if (from == 1) ++acks;
    if (is_data(packet) && rng.chance(1, 5)) {
      packet.ecn = Ecn::kCe;
      ++marked;
    }
    return {};
  };
  net.post(0, number[0], 1, 3'000 * 4096);
  CHECK(net.run(kPsPerSecond));
  CHECK(marked > 500 && net.endpoint(0).stats(number[0]).marks == marked);
  CHECK(acks < 2'900);  // and they are still delayed
}

TEST_CASE(dctcp_alpha_follows_the_share_of_marks) {
  const DctcpSettings settings;
  DctcpControl control(settings);
  CHECK(control.window() == 10 && control.alpha() == DctcpControl::kAlphaOne);
  // Windows of ten packets without a mark: alpha falls by 1/16 each, the window doubles (slow start).
  std::uint64_t at = 0;
  control.on_ack(settings, {10, false, at += 10, at + 20, true, false});
  CHECK(control.window() == 20);
  CHECK(control.alpha() == DctcpControl::kAlphaOne / 16 * 15);
  // A mark on all: back up by 1/16 of what is missing, and a cut by alpha / 2, once for this window.
  control.on_ack(settings, {20, true, at += 20, at + 20, true, false});
  const std::uint64_t alpha = DctcpControl::kAlphaOne / 256 * (15 * 15 + 16);
  CHECK(control.alpha() == alpha);
  CHECK(control.window() == 20 - 20 * alpha / (2 * DctcpControl::kAlphaOne));
  const std::uint64_t cut = control.window();
  control.on_ack(settings, {5, true, at + 5, at + 25, true, false});
  CHECK(control.window() == cut);
  // Congestion avoidance: one packet per window.
  at += 20;
  control.on_ack(settings, {cut, false, at += cut, at + cut, true, false});
  CHECK(control.window() == cut + 1);
  control.on_loss(settings);
  CHECK(control.window() == (cut + 1) / 2);
  control.on_timeout(settings, false);
  CHECK(control.window() == 1);
}

TEST_CASE(dctcp_holds_its_queue_near_the_threshold_and_shares_it) {
  WireOptions options;
  options.hosts = 3;
  options.ecn_min_bytes = options.ecn_max_bytes = 65 * kFullBytes;  // K of the DCTCP paper at 10 Gb/s
  Network net(options, dctcp());
  const auto first = net.join(0, 2), second = net.join(1, 2);
  net.post(0, first[0], 1, 1'000'000'000);
  net.post(1, second[0], 2, 1'000'000'000);
  net.run(10 * kPsPerMs);
  const auto received = [&](const std::array<std::uint32_t, 2>& number) {
    return net.endpoint(2).stats(number[1]).received_bytes;
  };
  const std::uint64_t first_before = received(first), second_before = received(second);
  net.queue_peak = net.queue_sum = net.queue_samples = 0;
  net.run(40 * kPsPerMs);
  const std::uint64_t a = received(first) - first_before, b = received(second) - second_before;
  CHECK(test::jain_permille(a, b) > 950);
  CHECK(a + b > 30 * options.rate_bps / 8'000 * 96 / 100);  // of 30 ms, headers included
  const std::uint64_t mean = net.queue_sum / net.queue_samples;
  CHECK(mean > options.ecn_min_bytes / 2 && mean < options.ecn_min_bytes * 11 / 10);
  CHECK(net.queue_peak < options.ecn_min_bytes * 3 / 2);
  CHECK(net.endpoint(0).stats(first[0]).retransmitted_packets == 0 && net.endpoint(0).stats(first[0]).marks > 0);
}

TEST_CASE(dctcp_waits_while_its_port_is_paused) {
  Network net({}, dctcp());
  const auto number = net.join(0, 1);
  net.pause(0, 1);
  net.post(0, number[0], 1, 100'000);
  net.run(kPsPerMs);
  CHECK(net.endpoint(0).stats(number[0]).sent_packets == 0);
  net.pause(0, 0);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.reports(0, Done::Kind::kCompleted) == std::vector<MessageId>{1});
  CHECK(net.endpoint(0).stats(number[0]).timeouts == 0);
}

TEST_CASE(dctcp_stays_on_its_port_unless_told_to_fail_over) {
  WireOptions options;
  options.planes = 4;
  for (const bool failover : {false, true}) {
    DctcpSettings settings;
    settings.failover = failover;
    Network net(options, dctcp(settings));
    const auto number = net.join(0, 1);
    PortId last = 0;
    net.filter = [&](TimePs, std::uint32_t from, PortId port, const HostPacket&) -> Fate {
      if (from == 0) last = port;
      return {};
    };
    net.post(0, number[0], 1, 1'000'000);
    net.run(20 * kPsPerUs);
    const PortId home = last;
    net.set_port(0, home, false);
    net.run(500 * kPsPerMs);
    CHECK(net.reports(0, Done::Kind::kCompleted).size() == (failover ? 1U : 0U));
    CHECK(last == (failover ? (home + 1) % 4 : home));
    net.set_port(0, home, true);
    CHECK(net.run(10 * kPsPerSecond));
    CHECK(net.reports(0, Done::Kind::kCompleted).size() == 1);
    CHECK(failover || net.endpoint(0).stats(number[0]).timeouts >= 4);
  }
}

TEST_CASE(dctcp_idle_connections_cost_little) {
  Network net({}, dctcp());
  for (int i = 0; i < 1000; ++i) (void)net.join(0, 1);
  CHECK(net.endpoint(0).memory_bytes() < 1000 * 80);
  const std::uint64_t idle = net.endpoint(0).memory_bytes();
  net.post(0, 500, 1, 100'000);
  CHECK(net.run(kPsPerSecond));
  CHECK(net.endpoint(0).memory_bytes() > idle && net.endpoint(0).memory_bytes() < idle + 30'000);
}

TEST_CASE(dctcp_probe_that_waits_for_the_port_is_dropped_when_its_packet_arrives) {
  const DctcpSettings settings;
  Surroundings surroundings;
  surroundings.base_rtt = 100 * kPsPerUs;
  DctcpSender sender(settings, surroundings);
  sender.post(1, 3ULL * surroundings.payload_mtu);
  HostPacket packet;
  for (TimePs now = 0; now < 3; ++now) sender.send(now, {}, packet);
  CHECK(!sender.may_send() && sender.handle_timer() && sender.may_send());
  DctcpAck ack;
  ack.sent_ps = 2;
  ack.blocks = 1;
  ack.sacked[0] = {2, 3};
  CHECK(sender.handle_ack(200 * kPsPerUs, ack) && !sender.may_send() && sender.waits());
}

TEST_CASE(dctcp_probes_with_a_packet_that_has_not_arrived) {
  DctcpScoreboard board;
  for (TimePs now = 0; now < 4; ++now) board.sent(now);
  CHECK(board.last_missing() == 3 && board.lose_all() == 4);
  for (const std::uint64_t sequence : {0U, 1U, 2U, 3U}) board.retransmitted(10, sequence);
  // The first copy of the last packet was only late: it proves no loss, so a probe is due.
  CHECK(board.sack(3, 4, 3) == 1 && board.find_losses(0) == 0 && board.last_missing() == 2);
  CHECK(board.acknowledge(1, 0) == 1 && board.sack(2, 3, 2) == 1 && board.last_missing() == 1);
}
