// Faults in a simulated cluster, and the reactions of its NICs: ports that go down and up, paths that lose packets
// silently, packets that are lost, duplicated or corrupted, pauses, and traffic without any path.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/paths/ev_set.hpp"
#include "tests/check.hpp"
#include "tests/simulate_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr std::uint64_t kBytesPerMs = kRateBps / 8 / 1000;  // of one port

std::uint64_t sent_on(Simulation& simulation, std::uint32_t host, std::uint32_t plane) {
  return simulation.nic(host).traffic()[plane].tx_bytes;
}

// Share of its rate, in per mille, at which the host sends into the plane in the next milliseconds.
std::uint64_t used_permille(Simulation& simulation, std::uint32_t host, std::uint32_t plane, TimePs ms) {
  const std::uint64_t before = sent_on(simulation, host, plane);
  simulation.run_until(simulation.now() + ms * kPsPerMs);
  return (sent_on(simulation, host, plane) - before) * 1000 / (kBytesPerMs * static_cast<std::uint64_t>(ms));
}

EvState state_of(const PathEvent& event) { return static_cast<EvState>(event.state); }

// The final state of each path of the host.
std::map<std::uint32_t, EvState> states(const std::vector<PathEvent>& events) {
  std::map<std::uint32_t, EvState> last;
  for (const PathEvent& event : events) {
    if (event.state != 0) last[event.ev] = state_of(event);
  }
  return last;
}

// Runs until no packet is in flight; requires an op that lasts longer.
void come_to_rest(Simulation& simulation) {
  const TimePs end = simulation.now() + kPsPerSecond;
  CHECK(!simulation.run_until(end));
  for (std::uint32_t plane = 0; plane < simulation.shape().planes; ++plane) {
    CHECK(simulation.fabric().plane(plane).packets_inside() == 0);
  }
  CHECK(simulation.parts_held() == 0);
}

netsim::Effects ev_loss(std::uint32_t ev) {
  netsim::Effects effects;
  effects.ev_losses.push_back({ev, kPartsPerBillion});
  return effects;
}

std::uint64_t drops(Simulation& simulation, DropCause cause) {
  std::uint64_t sum = 0;
  for (std::uint32_t plane = 0; plane < simulation.shape().planes; ++plane) {
    for (LinkId link = 0; link < simulation.shape().links_per_plane(); ++link) {
      sum += simulation.fabric().plane(plane).counters(link).drops[static_cast<std::size_t>(cause)];
    }
  }
  return sum;
}

}  // namespace

TEST_CASE(a_host_port_that_goes_down_is_left_at_that_instant_and_used_again_when_it_is_up) {
  for (const std::uint32_t threads : {1U, 3U}) {
    Cluster cluster;
    cluster.config.threads = threads;
    cluster.send(0, 2, 16'000'000);
    const auto simulation = cluster.start();
    const TimePs down = 10 * kPsPerMs, lasts = 10 * kPsPerMs;
    (void)simulation->add_fault(fault_on(link_of_host(0, 0), carrier_loss(), down, lasts));
    CHECK(!simulation->run_until(down - kPsPerMs));
    CHECK(used_permille(*simulation, 0, 0, 1) > 900 && used_permille(*simulation, 0, 1, 1) > 900);
    CHECK(!simulation->fabric().carrier(0, 0) && simulation->now() == down + kPsPerMs);
    const std::uint64_t at_loss = sent_on(*simulation, 0, 0);
    CHECK(used_permille(*simulation, 0, 1, 8) > 900);
    CHECK(sent_on(*simulation, 0, 0) == at_loss);
    simulation->run_until(down + lasts + 3 * kPsPerMs);
    CHECK(used_permille(*simulation, 0, 0, 3) > 900 && used_permille(*simulation, 0, 1, 3) > 900);
    CHECK(simulation->run_until(kLong) && simulation->all_done());
    CHECK(totals(*simulation).received == 16'000'000);
  }
}

TEST_CASE(nothing_leaves_a_port_after_the_instant_of_its_carrier_loss) {
  Cluster cluster = one_plane();
  cluster.send(0, 1, 50 * kPayload);
  const auto simulation = cluster.start();
  const TimePs packet = wire_time(kFullPacket);
  (void)simulation->add_fault(fault_on(link_of_host(0, 0), carrier_loss(), 7 * packet + 1, 5 * kPsPerMs));
  CHECK(!simulation->run_until(5 * kPsPerMs));
  CHECK(simulation->nic(0).traffic()[0].tx_packets == 8);  // the eighth had begun
  CHECK(simulation->run_until(kLong) && simulation->all_done());
}

TEST_CASE(a_lost_packet_that_many_messages_wait_for_brings_all_of_them_when_it_comes_again) {
  constexpr std::uint32_t kMessages = 500;
  Cluster cluster;
  cluster.mrc.wimm_max = 512;
  cluster.mrc.controller = "none";
  cluster.port(LinkKind::kNicUp).delay = 200 * kPsPerUs;
  for (std::uint32_t i = 0; i < kMessages; ++i) cluster.send(0, 2, 500);
  const auto simulation = cluster.start();
  // Only the first packet of each plane is lost: it reaches the T0 5 us after the cable's delay, the next at 10.
  (void)simulation->add_fault(fault_on({.host = 0}, silence(), 0, 207 * kPsPerUs));
  CHECK(simulation->run_until(kLong) && simulation->all_done() && simulation->failed() == 0);
  CHECK(drops(*simulation, DropCause::kBlackhole) == 2 && totals(*simulation).received == 500 * kMessages);
}

TEST_CASE(a_plane_that_swallows_packets_is_given_up_and_comes_back_by_probes) {
  Cluster cluster;
  cluster.send(0, 2, 24'000'000);
  cluster.compute(3, kLong / 2);
  const auto simulation = cluster.start();
  (void)simulation->add_fault(fault_on({.plane = 0}, silence(), 10 * kPsPerMs, 40 * kPsPerMs));
  simulation->run_until(10 * kPsPerMs);
  (void)path_events(*simulation, 0);
  simulation->run_until(20 * kPsPerMs);
  std::vector<PathEvent> events = path_events(*simulation, 0);
  const auto bad = states(events);
  CHECK(bad.size() == 2);
  for (const auto& [ev, state] : bad) CHECK(state == EvState::kAssumedBad && ev < 2);  // port 0 has EVs 0 and 1
  for (const PathEvent& event : events) CHECK(event.time >= 10 * kPsPerMs && event.port == 0);
  CHECK(used_permille(*simulation, 0, 0, 10) < 100 && used_permille(*simulation, 0, 1, 10) > 900);
  simulation->run_until(60 * kPsPerMs);
  CHECK(used_permille(*simulation, 0, 0, 5) > 900 && used_permille(*simulation, 0, 1, 5) > 900);
  CHECK(!simulation->run_until(2 * kPsPerSecond) && simulation->finished() == 1);
  for (const auto& [ev, state] : states(path_events(*simulation, 0))) CHECK(state != EvState::kAssumedBad);
  CHECK(drops(*simulation, DropCause::kBlackhole) > 0 && totals(*simulation).received == 24'000'000);
  come_to_rest(*simulation);
}

TEST_CASE(a_t1_that_is_down_costs_only_the_paths_through_it) {
  Cluster cluster;
  cluster.send(0, 2, 8'000'000);
  const auto simulation = cluster.start();
  (void)simulation->add_fault(fault_on({.plane = 1, .t1 = 0}, carrier_loss(), 5 * kPsPerMs));
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const auto last = states(path_events(*simulation, 0));
  CHECK(last.contains(2) && last.at(2) == EvState::kAssumedBad);  // plane 1, uplink 0
  for (const auto& [ev, state] : last) CHECK(ev == 2 || state != EvState::kAssumedBad);
  const ClosShape& shape = simulation->shape();
  const std::uint64_t alive = simulation->fabric().plane(1).counters(shape.t0_up(0, 1)).packets;
  CHECK(alive > 2 * simulation->fabric().plane(1).counters(shape.t0_up(0, 0)).packets);
  CHECK(simulation->fabric().carrier(0, 1) && totals(*simulation).received == 8'000'000);
}

TEST_CASE(a_slower_uplink_takes_longer_by_exactly_its_share) {
  Cluster cluster = one_plane();
  const std::uint32_t slow = cluster.send(0, 1, 3 * kPayload), again = cluster.send(0, 1, 3 * kPayload, 10 * kPsPerMs);
  const auto simulation = cluster.start();
  netsim::Effects quarter;
  quarter.rate_ppm = 250'000;
  (void)simulation->add_fault(
      fault_on({.plane = 0, .host = 0, .direction = FaultDirection::kTx}, quarter, 0, kPsPerMs));
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const TimePs full = wire_time(kFullPacket), last = wire_time(kLastPacket);
  CHECK(simulation->workload().received[slow] == 4 * (2 * full + last) + last + 2 * kDelay);
  CHECK(simulation->workload().received[again] == 10 * kPsPerMs + 2 * full + 2 * last + 2 * kDelay);
}

TEST_CASE(loss_on_one_ev_is_blamed_on_that_ev) {
  for (std::uint32_t ev = 0; ev < 4; ++ev) {
    Cluster cluster;
    cluster.send(0, 2, 2'000'000);
    const auto simulation = cluster.start();
    (void)simulation->add_fault(
        fault_on({.plane = ev / 2, .host = 0, .direction = FaultDirection::kTx}, ev_loss(ev), kPsPerMs));
    CHECK(simulation->run_until(kLong) && simulation->all_done());
    bool bad = false;
    for (const PathEvent& event : path_events(*simulation, 0)) {
      if (event.state == 0 || state_of(event) != EvState::kAssumedBad) continue;
      CHECK(event.ev == ev && event.port == ev / 2);
      bad = true;
    }
    CHECK(bad && totals(*simulation).received == 2'000'000);
  }
}

TEST_CASE(duplicates_and_damage_cost_no_byte_and_leave_nothing_behind) {
  for (const std::string transport : {"mrc", "roce", "dctcp"}) {
    for (const bool queued : {false, true}) {
      for (const std::uint32_t threads : {1U, 3U}) {
        Cluster cluster;
        cluster.config.threads = threads;
        if (queued) cluster.config.fabric.queued = SharedQueues{};
        for (std::uint32_t host = 0; host < 4; ++host) cluster.send(host, (host + 2) % 4, 300'000);
        cluster.compute(0, 10 * kPsPerSecond);
        const auto simulation = cluster.start(transport);
        netsim::Effects bad;
        bad.duplicate_ppb = 100'000'000;
        bad.corrupt_ppb = 20'000'000;
        bad.loss_ppb = 10'000'000;
        (void)simulation->add_fault(fault_on({}, bad, 0));
        CHECK(!simulation->run_until(8 * kPsPerSecond));
        CHECK(simulation->finished() == 4 && simulation->failed() == 0);
        CHECK(totals(*simulation).received == 4 * 300'000 && totals(*simulation).duplicates > 0);
        std::uint64_t corrupted = 0;
        for (std::uint32_t host = 0; host < 4; ++host) corrupted += simulation->nic(host).corrupted();
        CHECK(corrupted > 0 && drops(*simulation, DropCause::kLoss) > 0);
        come_to_rest(*simulation);
      }
    }
  }
}

TEST_CASE(a_pause_stops_the_data_of_a_nic_until_it_is_lifted) {
  for (const std::uint32_t threads : {1U, 3U}) {
    Cluster cluster = one_plane();
    cluster.config.threads = threads;
    cluster.config.fabric.queued =
        SharedQueues{.pfc = true, .pfc_xoff_bytes = 20 * kFullPacket, .pfc_xon_bytes = 5 * kFullPacket};
    for (netsim::PortConfig& port : cluster.config.fabric.ports)
      port.queue_bytes = 10'000;  // PFC, not this, is the limit
    cluster.send(0, 1, 1'000'000);
    cluster.send(2, 1, 1'000'000);
    cluster.send(3, 1, 1'000'000);
    const auto simulation = cluster.start("roce");
    CHECK(simulation->run_until(kLong) && simulation->all_done() && simulation->failed() == 0);
    CHECK(drops(*simulation, DropCause::kQueueFull) == 0 && totals(*simulation).retransmitted == 0);
    PlaneModel& plane = simulation->fabric().plane(0);
    const PauseCounters near = plane.pause_counters(simulation->now(), simulation->shape().nic_up(0));
    CHECK(near.pauses > 0 && near.paused > 0);
    // Data behind a pause stayed in the NIC: the T0 never held more than xoff plus the data in flight. The link of the
    // receiver was busy from the first packet to the last.
    const std::uint64_t in_flight = 2 * static_cast<std::uint64_t>(kDelay / kBytePs) + 3 * kFullPacket;
    const LinkId to_receiver = simulation->shape().nic_down(1);
    CHECK(plane.queue_peak_bytes(to_receiver) < 3 * (20 * kFullPacket + in_flight));
    const TimePs wire = wire_time(static_cast<std::uint32_t>(plane.counters(to_receiver).bytes));
    TimePs last = 0;
    for (const TimePs received : simulation->workload().received) last = std::max(last, received);
    CHECK(last < wire + wire / 20);
  }
}

TEST_CASE(traffic_that_has_no_way_left_fails_and_the_run_ends) {
  for (const std::string transport : {"mrc", "roce", "dctcp"}) {
    for (const bool down : {false, true}) {
      Cluster cluster;
      const std::uint32_t lost = cluster.send(0, 2, 500'000), fine = cluster.send(1, 3, 1'000);
      const std::uint32_t never = cluster.send(0, 1, 10);
      cluster.after(never, lost);
      const auto simulation = cluster.start(transport);
      (void)simulation->add_fault(fault_on({.host = 2}, down ? carrier_loss() : silence(), kPsPerMs));
      CHECK(simulation->run_until(1000 * kPsPerSecond));
      CHECK(simulation->stalled() && !simulation->all_done() && simulation->failed() == 1);
      const Workload& work = simulation->workload();
      CHECK(work.failed[lost] == 1 && work.completed[lost] == -1 && work.received[lost] == -1);
      CHECK(work.completed[fine] > 0 && work.started[never] == -1 && work.failed[never] == 0);
      CHECK(simulation->parts_held() == 0);
    }
  }
}

TEST_CASE(a_sender_that_has_lost_all_its_ports_for_good_fails_too) {
  for (const std::string transport : {"mrc", "roce", "dctcp"}) {
    Cluster cluster;
    cluster.send(0, 2, 500'000);
    const auto simulation = cluster.start(transport);
    (void)simulation->add_fault(fault_on({.host = 0}, carrier_loss(), kPsPerMs));
    CHECK(simulation->run_until(1000 * kPsPerSecond));
    CHECK(simulation->stalled() && simulation->failed() == 1 && simulation->parts_held() == 0);
  }
}

TEST_CASE(denied_paths_carry_nothing) {
  Cluster cluster = three_tier_cluster();
  cluster.mrc.denied = {{0, 0, 0}, {0, 0, 1}, {1, 1, 1}};  // plane 0: all through T1 0
  for (std::uint32_t host = 0; host < 4; ++host) cluster.send(host, host + 4, 200'000);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const ClosShape& shape = simulation->shape();
  const auto packets = [&](std::uint32_t plane, LinkId link) {
    return simulation->fabric().plane(plane).counters(link).packets;
  };
  for (std::uint32_t t0 = 0; t0 < 4; ++t0) {
    CHECK(packets(0, shape.t0_up(t0, 0)) == 0);
    // Only acknowledgements go up from the other pod, by their few preferred paths.
    if (t0 < 2) CHECK(packets(0, shape.t0_up(t0, 1)) > 0);
  }
  for (std::uint32_t pod = 0; pod < 2; ++pod) {
    CHECK(packets(1, shape.t1_up(2 * pod + 1, 1)) == 0);
  }
  // Of three paths of plane 1 a QP uses two, as many as it has on plane 0; the choice differs between hosts.
  CHECK(packets(1, shape.t1_up(1, 0)) > 0 && packets(1, shape.t1_up(0, 0)) > 0 && packets(1, shape.t1_up(0, 1)) > 0);
}

TEST_CASE(path_events_are_in_order_and_each_changes_the_state) {
  Cluster cluster;
  cluster.port(LinkKind::kNicDown).ecn = true;
  cluster.port(LinkKind::kNicDown).ecn_min_bytes = cluster.port(LinkKind::kNicDown).ecn_max_bytes = 20'000;
  for (const std::uint32_t host : {0U, 1U, 3U}) cluster.send(host, 2, 6'000'000);
  const auto simulation = cluster.start();
  netsim::FaultSpec flap = fault_on({.plane = 0, .t0 = 0, .t1 = 1}, silence(), 5 * kPsPerMs, 100 * kPsPerMs);
  flap.period = 40 * kPsPerMs;
  (void)simulation->add_fault(flap);
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  std::uint32_t revived = 0;
  for (const std::uint32_t host : {0U, 1U}) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, EvState> state;
    TimePs last = 0;
    for (const PathEvent& event : path_events(*simulation, host)) {
      CHECK(event.time >= last && event.port == event.ev / 2);
      last = event.time;
      if (event.state == 0) continue;
      EvState& now = state.try_emplace({event.connection, event.ev}, EvState::kGood).first->second;
      CHECK(now != state_of(event));
      if (now == EvState::kAssumedBad) ++revived;
      now = state_of(event);
    }
  }
  CHECK(revived > 0);
}
