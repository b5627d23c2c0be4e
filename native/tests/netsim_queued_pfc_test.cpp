// Shared buffers, PFC, and invariants: no packet vanishes, equal runs are equal.
#include <set>

#include "engine/base/rng.hpp"
#include "netsim/queued_plane.hpp"
#include "tests/check.hpp"
#include "tests/netsim_fixture.hpp"
#include "tests/netsim_queued_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr TimePs kUs = kPsPerUs;

std::uint64_t queue_full(const QueuedPlane& plane, LinkId link) {
  return plane.counters(link).drops[static_cast<std::size_t>(DropCause::kQueueFull)];
}

TEST_CASE(netsim_queued_a_hot_port_takes_its_share_of_the_buffer_and_leaves_room) {
  QueuedPlaneConfig config = queued_config();
  config.buffer_bytes = 30 * kPacketBytes;
  QueuedRun run(config);
  const ClosShape& shape = config.shape;
  run.arrive_many(0, 100, packet_between(0, 1));  // until the queue is as long as the free buffer
  run.arrive_many(0, 100, packet_between(1, 0));  // the other half, halved again, rounded up
  run.arrive_many(0, 100, packet_between(2, 3));  // another switch, another buffer
  run.plane.run_until(0, run.edge);
  CHECK(run.plane.queue_bytes(0, shape.nic_down(1)) == 15 * kPacketBytes);
  CHECK(run.plane.queue_bytes(0, shape.nic_down(0)) == 8 * kPacketBytes);
  CHECK(run.plane.queue_bytes(0, shape.nic_down(3)) == 15 * kPacketBytes);
  CHECK(queue_full(run.plane, shape.nic_down(1)) == 85);
  CHECK(run.run_dry());
  run.arrive_many(kPsPerMs, 100, packet_between(0, 1));  // the departed packets have freed their space
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 15 + 8 + 15 + 15);
}

TEST_CASE(netsim_queued_every_switch_has_one_buffer_for_all_its_ports) {
  QueuedPlaneConfig config = three_tiers();
  config.buffer_bytes = 30 * kPacketBytes;
  for (const LinkKind kind : {LinkKind::kT1Down, LinkKind::kT1Up}) ports_of(config, kind).rate_bps = kRateBps / 1000;
  QueuedRun middle(config);
  const ClosShape& shape = config.shape;
  const auto paced = [](QueuedRun& run, TimePs start, const std::vector<Packet>& packets) {
    for (int i = 0; i < 100; ++i) {
      for (const Packet& packet : packets) run.arrive(start + i * 32 * kUs, packet);
    }
  };
  paced(middle, 0, {packet_between(0, 3, 0), packet_between(0, 3, 1)});
  paced(middle, 4 * kPsPerMs, {packet_between(0, 7, 0)});  // through T1 0 as well, but up
  middle.plane.run_until(7'900 * kUs, middle.edge);        // before the first of them has crossed a slow link
  CHECK(middle.plane.queue_bytes(0, shape.t1_down(1, 0)) == 15 * kPacketBytes);
  CHECK(middle.plane.queue_bytes(0, shape.t1_down(1, 1)) == 15 * kPacketBytes);
  CHECK(middle.plane.queue_bytes(0, shape.t1_up(0, 0)) == 8 * kPacketBytes);
  config.ports.fill(port_config());
  for (const LinkKind kind : {LinkKind::kT1Down, LinkKind::kT2Down}) ports_of(config, kind).rate_bps = kRateBps / 1000;
  QueuedRun top(config);
  paced(top, 0, {packet_between(0, 7, 0), packet_between(0, 7, 1), packet_between(0, 7, 2), packet_between(0, 7, 3)});
  paced(top, 0, {packet_between(2, 1, 0)});
  top.plane.run_until(4 * kPsPerMs, top.edge);
  CHECK(top.plane.queue_bytes(0, shape.t1_down(0, 0)) == 15 * kPacketBytes);
  for (const std::uint32_t t1 : {2U, 3U}) {
    for (const std::uint32_t uplink : {0U, 1U}) {
      CHECK(top.plane.queue_bytes(0, shape.t2_down(t1, uplink)) == 15 * kPacketBytes);
    }
  }
}

TEST_CASE(netsim_queued_alpha_sets_the_share_and_the_port_limit_still_holds) {
  QueuedPlaneConfig config = queued_config();
  config.buffer_bytes = 30 * kPacketBytes;
  config.alpha_permille = 500;
  QueuedRun run(config);
  run.arrive_many(0, 100, packet_between(0, 1));
  run.plane.run_until(0, run.edge);
  CHECK(run.plane.queue_bytes(0, config.shape.nic_down(1)) == 10 * kPacketBytes);
  config.alpha_permille = 64'000;  // nearly all; never more than exists
  QueuedRun greedy(config);
  greedy.arrive_many(0, 100, packet_between(0, 1));
  greedy.plane.run_until(0, greedy.edge);
  CHECK(greedy.plane.queue_bytes(0, config.shape.nic_down(1)) == 30 * kPacketBytes);
  ports_of(config, LinkKind::kNicDown).queue_bytes = 6 * kPacketBytes;
  QueuedRun bounded(config);
  bounded.arrive_many(0, 100, packet_between(0, 1));
  bounded.plane.run_until(0, bounded.edge);
  CHECK(bounded.plane.queue_bytes(0, config.shape.nic_down(1)) == 6 * kPacketBytes);
}

TEST_CASE(netsim_queued_trims_packets_refused_by_the_shared_buffer) {
  QueuedPlaneConfig config = queued_config();
  config.buffer_bytes = 30 * kPacketBytes;
  PortConfig& port = ports_of(config, LinkKind::kNicDown);
  port.trim = true;
  port.trim_bytes = 64;
  port.trim_threshold_bytes = 1'000'000;
  QueuedRun run(config);
  run.arrive_many(0, 100, packet_between(0, 1));
  CHECK(run.run_dry());
  CHECK(run.plane.counters(config.shape.nic_down(1)).trims == 85);
  CHECK(run.edge.deliveries.size() == 100 && run.edge.lost == 0);
}

QueuedPlaneConfig lossless(std::uint64_t xoff, std::uint64_t xon) {
  QueuedPlaneConfig config = queued_config();
  config.pfc = true;
  config.pfc_xoff_bytes = xoff;
  config.pfc_xon_bytes = xon;
  return config;
}

TEST_CASE(netsim_queued_pfc_admits_up_to_the_buffer_and_counts_overflows) {
  QueuedPlaneConfig config = lossless(100'000, 50'000);
  config.buffer_bytes = 5 * kPacketBytes;
  ports_of(config, LinkKind::kNicDown).queue_bytes = 2 * kPacketBytes;
  QueuedRun run(config);
  run.arrive_many(0, 10, packet_between(0, 1));
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 5);
  CHECK(queue_full(run.plane, config.shape.nic_down(1)) == 5);
  CHECK(run.edge.pauses.empty());
}

TEST_CASE(netsim_queued_pfc_tells_the_host_one_link_delay_later) {
  QueuedRun run(lossless(2 * kPacketBytes, kPacketBytes));
  for (int i = 0; i < 3; ++i) run.arrive(i * kUs, packet_between(0, 1));
  run.arrive(2 * kUs, packet_between(1, 0));  // counted for another link: no pause
  CHECK(run.run_dry());
  // The third packet makes it 3,000 bytes at 2 us; the second has left at 16 us.
  CHECK((run.edge.pauses == std::vector<Pause>{{2 * kUs + kDelay, 0, true}, {16 * kUs + kDelay, 0, false}}));
  const LinkId uplink = run.config.shape.nic_up(0);
  CHECK(run.plane.pause_counters(kPsPerMs, uplink).pauses == 1);
  CHECK(run.plane.pause_counters(kPsPerMs, uplink).paused == 14 * kUs);
  CHECK(run.plane.pause_counters(kPsPerMs, run.config.shape.nic_up(1)).pauses == 0);
}

TEST_CASE(netsim_queued_pfc_stops_data_after_the_packet_in_service_and_not_control) {
  QueuedPlaneConfig config = lossless(kPacketBytes, 0);
  ports_of(config, LinkKind::kNicDown).rate_bps = kRateBps / 10;  // 80 us a packet
  QueuedRun run(config);
  for (int i = 0; i < 10; ++i) run.enter(0, packet_between(0, 1));
  run.enter(50 * kUs, control_between(0, 1, 100));
  const LinkId uplink = config.shape.nic_up(0);
  // The second packet is in the switch at 26 us; the uplink receives the pause at 36 us, in its fifth packet.
  run.plane.run_until(51 * kUs, run.edge);
  CHECK(run.plane.counters(uplink).packets == 6);
  CHECK(run.plane.queue_bytes(51 * kUs, uplink) == 5 * kPacketBytes);
  // Five times 80 us and 8 us of control after 18 us, and 10 us back: it resumes at 436 us.
  run.plane.run_until(444 * kUs - 1, run.edge);
  CHECK(run.plane.counters(uplink).packets == 6);
  CHECK(run.plane.pause_counters(444 * kUs, uplink).paused == 400 * kUs);
  run.plane.run_until(444 * kUs, run.edge);
  CHECK(run.plane.counters(uplink).packets == 7);
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 11);
  CHECK(run.edge.deliveries[1].time == 116 * kUs);  // control: behind the first packet only
}

// No sender is paused for ever.
bool all_resumed(const QueuedRun& run) {
  std::map<std::uint32_t, bool> paused;
  for (const Pause& pause : run.edge.pauses) {
    if (paused[pause.host] == pause.paused) return false;
    paused[pause.host] = pause.paused;
  }
  for (const auto& [host, still] : paused) {
    if (still) return false;
  }
  for (LinkId link = 0; link < run.config.shape.links_per_plane(); ++link) {
    const TimePs sooner = run.plane.pause_counters(100 * kPsPerSecond, link).paused;
    if (sooner != run.plane.pause_counters(200 * kPsPerSecond, link).paused) return false;
  }
  return true;
}

TEST_CASE(netsim_queued_an_incast_under_pfc_loses_nothing_and_reaches_switches_and_hosts) {
  QueuedPlaneConfig config = lossless(2 * kPacketBytes, kPacketBytes);
  config.buffer_bytes = 60 * kPacketBytes;
  config.ports.fill(port_config());
  for (PortConfig& port : config.ports) port.queue_bytes = 400 * kPacketBytes;
  QueuedRun run(config);
  for (int i = 0; i < 300; ++i) {
    for (const std::uint32_t source : {0U, 1U, 2U}) run.enter(0, packet_between(source, 3));
  }
  CHECK(run.run_dry());
  CHECK(run.edge.deliveries.size() == 900);
  CHECK(run.total_drops() == 0 && run.edge.lost == 0);
  CHECK(all_resumed(run));
  for (const std::uint32_t host : {0U, 1U, 2U}) {
    CHECK(run.plane.pause_counters(kPsPerSecond, config.shape.nic_up(host)).pauses > 10);
  }
  CHECK(run.plane.pause_counters(kPsPerSecond, config.shape.t1_down(1, 0)).pauses > 10);
  CHECK(run.plane.pause_counters(kPsPerSecond, config.shape.t0_up(0, 0)).pauses > 10);
  CHECK(run.plane.pause_counters(kPsPerSecond, config.shape.t0_up(0, 1)).pauses == 0);
  // Without PFC the same buffers drop packets.
  config.pfc = false;
  QueuedRun lossy(config);
  for (int i = 0; i < 300; ++i) {
    for (const std::uint32_t source : {0U, 1U, 2U}) lossy.enter(0, packet_between(source, 3));
  }
  CHECK(lossy.run_dry());
  CHECK(lossy.total_drops() > 100 && lossy.edge.pauses.empty());
}

TEST_CASE(netsim_queued_pfc_makes_a_victim_of_a_flow_that_shares_a_paused_link) {
  const auto victim_done = [](bool incast) {
    QueuedPlaneConfig config = lossless(2 * kPacketBytes, kPacketBytes);
    QueuedRun run(config);
    for (int i = 0; i < 100; ++i) {
      if (incast) {
        for (const std::uint32_t source : {0U, 1U, 2U}) run.enter(0, packet_between(source, 3));
      }
      run.enter(0, packet_between(0, 2));  // no other host sends to host 2
    }
    CHECK(run.run_dry());
    TimePs done = 0;
    for (const Delivery& delivery : run.edge.deliveries) {
      if (delivery.packet.destination_host == 2) done = delivery.time;
    }
    return done;
  };
  CHECK(victim_done(false) == 100 * 8 * kUs + 3 * 8 * kUs + 4 * kDelay);
  // Apart from 100 packets of its own host's other flow, which cost it twice the time, it waits for the paused links.
  CHECK(victim_done(true) > 2 * victim_done(false) + 100 * kUs);
}

QueuedPlaneConfig drawn_config(Rng& draw, std::uint64_t seed) {
  QueuedPlaneConfig config = draw.chance(1, 2) ? three_tiers(seed) : queued_config(seed);
  config.shape.routing = static_cast<Routing>(draw.below(3));
  for (PortConfig& port : config.ports) {
    port.queue_bytes = static_cast<std::uint32_t>(1'000 + draw.below(30'000));
    port.control_queue_bytes = static_cast<std::uint32_t>(64 + draw.below(3'000));
    port.ecn = draw.chance(1, 2);
    port.ecn_min_bytes = static_cast<std::uint32_t>(draw.below(5'000));
    port.ecn_max_bytes = port.ecn_min_bytes + static_cast<std::uint32_t>(draw.below(5'000));
    port.ecn_max_permille = static_cast<std::uint32_t>(draw.below(1'001));
    port.trim = draw.chance(1, 2);
    port.trim_threshold_bytes = static_cast<std::uint32_t>(draw.below(20'000));
    port.trim_bytes = 64;
  }
  if (draw.chance(1, 2)) config.buffer_bytes = 2'000 + draw.below(60'000);
  config.alpha_permille = static_cast<std::uint32_t>(1 + draw.below(4'000));
  config.pfc = draw.chance(1, 2);
  config.pfc_xoff_bytes = draw.below(10'000);
  config.pfc_xon_bytes = draw.below(config.pfc_xoff_bytes + 1);
  config.delivery_lead = static_cast<TimePs>(draw.below(static_cast<std::uint64_t>(kDelay) + 1));
  return config;
}

Effects drawn_effects(Rng& draw) {
  Effects effects;
  const auto share = [&draw] { return static_cast<std::uint32_t>(draw.below(kPartsPerBillion / 4)); };
  switch (draw.below(8)) {
    case 0:
      effects.down = true;
      break;
    case 1:
      effects.blackhole = true;
      break;
    case 2:
      effects.loss_ppb = share();
      break;
    case 3:
      effects.burst_loss_ppb = share();
      effects.burst_packets = 4;
      break;
    case 4:
      effects.rate_ppm = static_cast<std::uint32_t>(50'000 + draw.below(950'000));
      effects.jitter = 5 * kUs;
      break;
    case 5:
      effects.duplicate_ppb = share();
      effects.corrupt_ppb = share();
      break;
    case 6:
      effects.reorder_ppb = share();
      effects.reorder_delay = 50 * kUs;
      break;
    default:
      break;  // repaired
  }
  return effects;
}

std::uint64_t total_duplicates(const QueuedRun& run) {
  std::uint64_t duplicates = 0;
  for (LinkId link = 0; link < run.config.shape.links_per_plane(); ++link) {
    duplicates += run.plane.counters(link).duplicated;
  }
  return duplicates;
}

void check_balance(const QueuedRun& run) {
  const std::uint64_t in = run.entered + total_duplicates(run);
  CHECK(in == run.edge.deliveries.size() + run.edge.lost + run.plane.packets_inside());
  CHECK(run.total_drops() == run.edge.lost);
}

// Random traffic, entering both ways, under faults that begin and end. `steps`: number of steps of time between inputs.
std::uint64_t storm(std::uint64_t seed, TimePs steps) {
  Rng draw = Rng::for_component(seed, "storm");
  QueuedRun run(drawn_config(draw, seed));
  const ClosShape& shape = run.config.shape;
  TimePs now = 0;
  for (int i = 0; i < 400; ++i) {
    const TimePs gap = static_cast<TimePs>(draw.below(6)) * kUs;
    for (TimePs step = 1; step <= steps; ++step) run.plane.run_until(now + gap * step / steps, run.edge);
    now += gap;
    Packet packet =
        packet_between(static_cast<std::uint32_t>(draw.below(shape.hosts)),
                       static_cast<std::uint32_t>(draw.below(shape.hosts)), static_cast<std::uint32_t>(draw.below(64)));
    if (packet.source_host == packet.destination_host) packet.destination_host = packet.source_host ^ 1;
    packet.bytes = static_cast<std::uint32_t>(64 + draw.below(1'437));
    if (draw.chance(1, 5)) packet.traffic_class = TrafficClass::kControl;
    if (draw.chance(1, 2)) {
      run.enter(now, packet);
    } else {
      run.arrive(now + static_cast<TimePs>(draw.below(20)) * kUs, packet);
    }
    if (draw.chance(1, 10)) {
      run.plane.set_effects(now, static_cast<LinkId>(draw.below(shape.links_per_plane())), drawn_effects(draw));
    }
    if (i % 20 == 0) check_balance(run);
  }
  CHECK(run.run_dry());
  check_balance(run);
  CHECK(all_resumed(run));
  for (const auto& [payload, references] : run.edge.references) CHECK(references == 0);
  for (LinkId link = 0; link < shape.links_per_plane(); ++link) CHECK(run.plane.queue_bytes(kPsPerSecond, link) == 0);
  for (const Delivery& delivery : run.edge.deliveries) {
    CHECK(delivery.packet.link == shape.nic_down(delivery.packet.destination_host));
  }
  return run.plane.trace();
}

TEST_CASE(netsim_queued_no_packet_vanishes_in_random_traffic_under_faults) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) storm(seed, 1);
}

TEST_CASE(netsim_queued_equal_runs_are_equal_however_time_is_cut) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::uint64_t trace = storm(seed, 1);
    CHECK(storm(seed, 1) == trace);
    CHECK(storm(seed, 7) == trace);
    CHECK(storm(seed + 1, 1) != trace);
  }
}

TEST_CASE(netsim_queued_random_draws_depend_on_the_seed_alone) {
  const auto trace = [](std::uint64_t seed) {
    QueuedPlaneConfig config = queued_config(seed);
    config.shape.routing = Routing::kAdaptive;
    QueuedRun run(config);
    for (int i = 0; i < 50; ++i) run.arrive(i * kUs, packet_between(0, 2));
    CHECK(run.run_dry());
    return run.plane.trace();
  };
  CHECK(trace(1) == trace(1));
  // The seed decides the first of two uplinks, after which one always has the shorter queue: half of the seeds agree.
  std::set<std::uint64_t> traces;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) traces.insert(trace(seed));
  CHECK(traces.size() > 1);
}

TEST_CASE(netsim_queued_allocates_nothing_in_steady_state) {
  QueuedRun run(lossless(2 * kPacketBytes, kPacketBytes));
  std::size_t memory = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 100; ++i) {
      for (const std::uint32_t source : {0U, 1U, 2U}) run.enter(round * kPsPerSecond, packet_between(source, 3));
    }
    CHECK(run.run_dry());
    if (round == 0) memory = run.plane.memory_bytes();
  }
  CHECK(run.plane.memory_bytes() == memory);
}

}  // namespace
