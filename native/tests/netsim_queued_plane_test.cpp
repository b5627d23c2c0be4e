// A plane with real queues: hand-computed times, classes, marks, trims, drops, faults. Shared buffers and PFC have a
// file of their own.
#include "netsim/queued_plane.hpp"

#include "tests/check.hpp"
#include "tests/netsim_fixture.hpp"
#include "tests/netsim_queued_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr TimePs kUs = kPsPerUs;
constexpr TimePs kHop = kPacketBytes * kBytePs + kDelay;  // 18 us

std::uint64_t drops(const QueuedPlane& plane, LinkId link, DropCause cause) {
  return plane.counters(link).drops[static_cast<std::size_t>(cause)];
}

TEST_CASE(netsim_queued_stores_and_forwards_on_every_link) {
  for (const std::uint32_t plane : {0U, 1U}) {
    QueuedRun run(queued_config(), plane);
    run.enter(0, packet_between(0, 2));
    run.enter(0, packet_between(0, 2));
    run.enter(kPsPerMs, packet_between(0, 1));
    CHECK(run.run_dry());
    CHECK(run.edge.deliveries.size() == 3);
    CHECK(run.edge.deliveries[0].time == 4 * kHop);
    CHECK(run.edge.deliveries[1].time == 4 * kHop + kPacketBytes * kBytePs);
    CHECK(run.edge.deliveries[2].time == kPsPerMs + 2 * kHop);
    for (const Delivery& delivery : run.edge.deliveries) CHECK(delivery.plane == plane);
    CHECK(run.plane.counters(run.config.shape.nic_up(0)).packets == 3);
    CHECK(run.plane.counters(run.config.shape.t0_up(0, 0)).bytes == 2 * kPacketBytes);
  }
}

TEST_CASE(netsim_queued_takes_over_where_the_nic_has_done_the_uplink) {
  QueuedRun run(queued_config());
  run.arrive(5 * kUs, packet_between(0, 2, 1));
  CHECK(run.plane.next_event() == 5 * kUs);
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries[0].time == 5 * kUs + 3 * kHop);
  CHECK(run.plane.counters(run.config.shape.nic_up(0)).packets == 0);
  CHECK(run.plane.counters(run.config.shape.t0_up(0, 1)).packets == 1);
}

TEST_CASE(netsim_queued_control_waits_where_it_has_no_priority) {
  for (const bool priority : {true, false}) {
    QueuedPlaneConfig config = queued_config();
    for (PortConfig& port : config.ports) port.priority = priority;
    QueuedRun run(config);
    Packet answer = packet_between(0, 1);
    answer.traffic_class = TrafficClass::kControl;
    answer.ev = 7;
    for (int i = 0; i < 3; ++i) run.enter(0, packet_between(0, 1));
    run.enter(0, answer);
    CHECK(run.run_dry());
    CHECK(run.edge.deliveries[priority ? 1 : 3].packet.ev == 7);  // the first packet was in service
  }
}

TEST_CASE(netsim_queued_crosses_three_tiers) {
  QueuedRun run(three_tiers());
  run.enter(0, packet_between(0, 7, 3));
  run.enter(kPsPerMs, packet_between(0, 3, 3));
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries[0].time == 6 * kHop);
  CHECK(run.edge.deliveries[1].time == kPsPerMs + 4 * kHop);
  CHECK(run.plane.counters(run.config.shape.t2_down(3, 1)).packets == 1);
}

TEST_CASE(netsim_queued_hands_over_ahead_of_the_arrival) {
  QueuedPlaneConfig config = queued_config();
  config.delivery_lead = 5 * kUs;
  QueuedRun run(config);
  run.enter(0, packet_between(0, 1));
  run.plane.run_until(2 * kHop - 5 * kUs - 1, run.edge);
  CHECK(run.edge.deliveries.empty());
  run.plane.run_until(2 * kHop - 5 * kUs, run.edge);
  CHECK(run.edge.deliveries.size() == 1);
  CHECK(run.edge.deliveries[0].time == 2 * kHop);
}

TEST_CASE(netsim_queued_control_goes_before_waiting_data_but_not_before_the_packet_in_service) {
  QueuedRun run(queued_config());
  for (int i = 0; i < 3; ++i) run.enter(0, packet_between(0, 1));
  run.enter(4 * kUs, control_between(0, 1, 100));
  CHECK(run.run_dry());
  // Uplink: data until 8, control until 8.8, data until 16.8 and 24.8. Downlink: data 18 to 26, then control that
  // arrived at 18.8, then data on arrival.
  const TimePs expected[] = {36 * kUs, 36'800 * kPsPerNs, 44'800 * kPsPerNs, 52'800 * kPsPerNs};
  CHECK(run.edge.deliveries.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(run.edge.deliveries[i].time == expected[i]);
  CHECK(run.edge.deliveries[1].packet.traffic_class == TrafficClass::kControl);
}

TEST_CASE(netsim_queued_marks_by_a_step) {
  QueuedPlaneConfig config = queued_config();
  PortConfig& port = ports_of(config, LinkKind::kNicDown);
  port.ecn = true;
  port.ecn_min_bytes = port.ecn_max_bytes = 3 * kPacketBytes;
  QueuedRun run(config);
  run.arrive_many(0, 10, packet_between(0, 1));
  Packet deaf = packet_between(0, 1);
  deaf.ecn = Ecn::kNotEct;
  run.arrive(0, deaf);
  CHECK(run.run_dry());
  for (std::size_t i = 0; i < 10; ++i) CHECK(run.edge.deliveries[i].packet.ecn == (i < 3 ? Ecn::kEct0 : Ecn::kCe));
  CHECK(run.edge.deliveries[10].packet.ecn == Ecn::kNotEct);
  CHECK(run.plane.counters(run.config.shape.nic_down(1)).marks == 7);
  CHECK(run.plane.counters(run.config.shape.nic_down(1)).queue_peak == 10 * kPacketBytes * kBytePs);
}

// A queue of 6,000 bytes at the arrival of each packet: the middle of a ramp from 1,000 to 11,000.
std::uint64_t marks_in_the_middle_of_the_ramp(std::uint32_t max_permille, std::uint64_t seed, bool neighbour) {
  QueuedPlaneConfig config = queued_config(seed);
  PortConfig& port = ports_of(config, LinkKind::kNicDown);
  port.ecn = true;
  port.ecn_min_bytes = 1'000;
  port.ecn_max_bytes = 11'000;
  port.ecn_max_permille = max_permille;
  QueuedRun run(config);
  Packet unmarkable = packet_between(0, 1);
  unmarkable.ecn = Ecn::kNotEct;
  run.arrive_many(0, 6, unmarkable);
  for (int i = 0; i < 10'000; ++i) {
    const TimePs when = kPacketBytes * kBytePs * i + 4 * kUs;
    run.arrive(when, packet_between(0, 1));
    if (neighbour) run.arrive(when, packet_between(2, 3));
  }
  CHECK(run.run_dry());
  return run.plane.counters(config.shape.nic_down(1)).marks;
}

TEST_CASE(netsim_queued_marks_by_a_ramp_that_ends_below_certainty) {
  const std::uint64_t red = marks_in_the_middle_of_the_ramp(100, 7, false);  // 5 percent: 500, deviation 22
  CHECK(red > 410 && red < 590);
  const std::uint64_t full = marks_in_the_middle_of_the_ramp(1000, 7, false);  // half: 5,000, deviation 50
  CHECK(full > 4'800 && full < 5'200);
  CHECK(marks_in_the_middle_of_the_ramp(0, 7, false) == 0);
}

TEST_CASE(netsim_queued_marks_do_not_depend_on_other_links) {
  CHECK(marks_in_the_middle_of_the_ramp(100, 9, false) == marks_in_the_middle_of_the_ramp(100, 9, true));
}

TEST_CASE(netsim_queued_links_and_planes_draw_marks_of_their_own) {
  QueuedPlaneConfig config = queued_config();
  PortConfig& port = ports_of(config, LinkKind::kNicDown);
  port.ecn = true;
  port.ecn_max_bytes = 2 * kPacketBytes;
  const auto marks_at = [&config](std::uint32_t index, std::uint32_t host) {
    QueuedRun run(config, index);
    for (int i = 0; i < 100; ++i) run.arrive_many(i * 20 * kUs, 2, packet_between(host ^ 1, host));
    CHECK(run.run_dry());
    std::vector<Ecn> marks;
    for (const Delivery& delivery : run.edge.deliveries) marks.push_back(delivery.packet.ecn);
    return marks;
  };
  CHECK(marks_at(0, 1) == marks_at(0, 1));
  CHECK(marks_at(0, 1) != marks_at(0, 3));
  CHECK(marks_at(0, 1) != marks_at(1, 1));
}

TEST_CASE(netsim_queued_marks_all_beyond_the_ramp) {
  QueuedPlaneConfig config = queued_config();
  PortConfig& port = ports_of(config, LinkKind::kNicDown);
  port.ecn = true;
  port.ecn_min_bytes = 1'000;
  port.ecn_max_bytes = 4'000;
  port.ecn_max_permille = 0;
  QueuedRun run(config);
  run.arrive_many(0, 10, packet_between(0, 1));
  CHECK(run.run_dry());
  CHECK(run.plane.counters(config.shape.nic_down(1)).marks == 6);
}

TEST_CASE(netsim_queued_trims_packets_that_would_wait_too_long) {
  QueuedPlaneConfig config = queued_config();
  PortConfig& port = ports_of(config, LinkKind::kNicDown);
  port.trim = true;
  port.trim_threshold_bytes = 3 * kPacketBytes;
  port.trim_bytes = 64;
  QueuedRun run(config);
  run.arrive_many(0, 10, packet_between(0, 1));
  Packet whole = packet_between(0, 1);
  whole.traffic_class = TrafficClass::kNoTrim;
  run.arrive(0, whole);
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 11);
  CHECK(run.edge.deliveries[0].packet.bytes == kPacketBytes);
  for (std::size_t i = 1; i <= 6; ++i) {
    const Delivery& trimmed = run.edge.deliveries[i];
    CHECK(trimmed.packet.traffic_class == TrafficClass::kTrimmedLastHop);
    CHECK(trimmed.packet.bytes == 64);
    CHECK(trimmed.time == kHop + static_cast<TimePs>(i) * 64 * kBytePs);
  }
  for (std::size_t i = 7; i < 11; ++i) CHECK(run.edge.deliveries[i].packet.bytes == kPacketBytes);
  CHECK(run.plane.counters(config.shape.nic_down(1)).trims == 6);
}

TEST_CASE(netsim_queued_drops_at_the_tail_of_a_full_port) {
  QueuedPlaneConfig config = queued_config();
  ports_of(config, LinkKind::kNicDown).queue_bytes = 4 * kPacketBytes;
  ports_of(config, LinkKind::kNicDown).control_queue_bytes = 300;
  QueuedRun run(config);
  const LinkId link = config.shape.nic_down(1);
  run.arrive_many(0, 10, packet_between(0, 1));
  run.arrive_many(0, 5, control_between(0, 1, 100));
  run.plane.run_until(0, run.edge);
  CHECK(drops(run.plane, link, DropCause::kQueueFull) == 6);
  CHECK(drops(run.plane, link, DropCause::kControlQueueFull) == 2);
  CHECK(run.plane.queue_bytes(0, link) == 4 * kPacketBytes + 300);
  CHECK(run.plane.packets_inside() == 7 && run.edge.lost == 8);
  run.arrive(8 * kUs, packet_between(0, 1));  // the first has left
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 8);
  CHECK(run.plane.queue_bytes(kPsPerMs, link) == 0);
}

TEST_CASE(netsim_queued_a_change_of_rate_spares_the_packet_in_service) {
  QueuedRun run(queued_config());
  run.enter(0, packet_between(0, 1));
  run.enter(0, packet_between(0, 1));
  run.plane.run_until(4 * kUs, run.edge);
  Effects half;
  half.rate_ppm = kFullRatePpm / 2;
  run.plane.set_effects(4 * kUs, run.config.shape.nic_up(0), half);
  CHECK(run.plane.effects(run.config.shape.nic_up(0)).rate_ppm == kFullRatePpm / 2);
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries[0].time == 2 * kHop);
  CHECK(run.edge.deliveries[1].time == 8 * kUs + 16 * kUs + kDelay + kHop);
}

TEST_CASE(netsim_queued_faults_lose_delay_and_double) {
  QueuedRun run(queued_config());
  const LinkId link = run.config.shape.nic_down(1);
  Effects effects;
  effects.blackhole = true;
  run.plane.set_effects(0, link, effects);
  run.arrive(0, packet_between(0, 1));
  CHECK(run.run_dry());
  CHECK(run.edge.lost == 1 && drops(run.plane, link, DropCause::kBlackhole) == 1);
  effects = Effects{};
  effects.duplicate_ppb = kPartsPerBillion;
  effects.delay = 3 * kUs;
  run.plane.set_effects(kPsPerMs, link, effects);
  run.arrive(kPsPerMs, packet_between(0, 1));
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 2);
  for (const Delivery& delivery : run.edge.deliveries) CHECK(delivery.time == kPsPerMs + kHop + 3 * kUs);
  CHECK(run.edge.references[1] == 0);
  run.plane.set_effects(2 * kPsPerMs, link, Effects{});
  run.arrive(2 * kPsPerMs, packet_between(0, 1));
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 3 && run.edge.deliveries[2].time == 2 * kPsPerMs + kHop);
}

TEST_CASE(netsim_queued_a_fault_that_returns_draws_on) {
  QueuedRun run(queued_config());
  const LinkId link = run.config.shape.nic_down(1);
  Effects jitter;
  jitter.jitter = 1'000 * kUs;
  for (int i = 0; i < 2; ++i) {
    run.plane.set_effects(i * kPsPerSecond, link, jitter);
    run.arrive(i * kPsPerSecond, packet_between(0, 1));
    CHECK(run.run_dry());
    run.plane.set_effects(i * kPsPerSecond + kPsPerSecond / 2, link, Effects{});
  }
  CHECK(run.edge.deliveries[0].time != run.edge.deliveries[1].time - kPsPerSecond);
}

TEST_CASE(netsim_queued_adaptive_switches_take_the_shortest_queue_that_is_up) {
  QueuedPlaneConfig config = queued_config();
  config.shape.routing = Routing::kAdaptive;
  QueuedRun run(config);
  run.arrive_many(0, 8, packet_between(0, 2));
  run.plane.run_until(0, run.edge);
  for (const std::uint32_t uplink : {0U, 1U}) {
    CHECK(run.plane.queue_bytes(0, config.shape.t0_up(0, uplink)) == 4 * kPacketBytes);
  }
  Effects down;
  down.down = true;
  run.plane.set_effects(0, config.shape.t0_up(0, 1), down);
  run.arrive_many(1, 8, packet_between(0, 2));
  run.plane.run_until(1, run.edge);
  CHECK(run.plane.queue_bytes(1, config.shape.t0_up(0, 0)) == 12 * kPacketBytes);
}

TEST_CASE(netsim_queued_adaptive_spreads_on_both_tiers_and_over_idle_uplinks) {
  QueuedPlaneConfig config = three_tiers();
  config.shape.routing = Routing::kAdaptive;
  QueuedRun run(config);
  for (int i = 0; i < 400; ++i) run.arrive(i * kPsPerMs, packet_between(0, 7));  // the fabric is empty each time
  CHECK(run.run_dry());
  for (const std::uint32_t t1 : {0U, 1U}) {
    for (const std::uint32_t uplink : {0U, 1U}) {
      const std::uint64_t packets = run.plane.counters(config.shape.t1_up(t1, uplink)).packets;
      CHECK(packets > 60 && packets < 140);  // 100, deviation 9
    }
  }
}

}  // namespace
