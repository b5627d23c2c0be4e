// Whole simulated clusters: times computed by hand, ops with dependencies, lanes, and results that depend neither on
// the number of threads nor on the stops of run_until.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/rng.hpp"
#include "tests/check.hpp"
#include "tests/simulate_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr TimePs kFull = kFullPacket * kBytePs, kLast = kLastPacket * kBytePs;
constexpr std::uint32_t kAckBytes = 102, kSackBytes = 134;  // on the wire

// Arrival time of the only op of the cluster.
TimePs arrival(Cluster& cluster) {
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  return simulation->workload().received[0];
}

TimePs arrival(Cluster cluster, std::uint32_t peer, std::uint64_t bytes) {
  cluster.send(0, peer, bytes);
  return arrival(cluster);
}

constexpr TimePs kAtRest = 3 * kPsPerSecond;

// A mesh of sends with computations and dependencies in between.
Cluster busy_cluster(std::uint64_t seed) {
  Cluster cluster = three_tier_cluster(seed);
  cluster.lanes = 2;
  for (netsim::PortConfig& port : cluster.config.fabric.ports) {
    port.queue_bytes = 40'000;
    port.ecn = true;
    port.ecn_min_bytes = 8'000;
    port.ecn_max_bytes = 24'000;
  }
  Rng rng(seed);
  for (std::uint32_t host = 0; host < 8; ++host) {
    const std::uint32_t before = cluster.compute(host, static_cast<TimePs>(rng.below(100)) * kPsPerUs);
    for (std::uint32_t step = 1; step < 8; ++step) {
      const std::uint32_t op = cluster.send(host, (host + step) % 8, 1 + rng.below(20'000));
      cluster.after(op, before);
    }
  }
  cluster.compute(0, kAtRest + 1);  // so that the run continues until everything else is at rest
  return cluster;
}

struct Outcome {
  std::uint64_t trace = 0, events = 0, packets = 0;
  std::vector<TimePs> started, received, completed;

  bool operator==(const Outcome&) const = default;
};

Outcome outcome(Simulation& simulation) {
  const Workload& work = simulation.workload();
  return {simulation.trace(), simulation.events(), simulation.data_packets(),
          work.started,       work.received,       work.completed};
}

Outcome run(Cluster& cluster, const std::string& transport, std::uint32_t threads) {
  cluster.config.threads = threads;
  const auto simulation = cluster.start(transport);
  CHECK(!simulation->run_until(kAtRest) && simulation->finished() + 1 == cluster.ops.size());
  return outcome(*simulation);
}

Outcome run_in_pieces(Cluster& cluster, const std::string& transport, Rng& rng) {
  const auto simulation = cluster.start(transport);
  TimePs until = 0;
  while (until < kAtRest) {
    CHECK(!simulation->run_until(until) && simulation->now() == until);
    // From single instants to more than a millisecond.
    until += static_cast<TimePs>(rng.below(1ULL << rng.below(31)));
    if (simulation->finished() + 1 == cluster.ops.size()) until += kAtRest / 8;
  }
  CHECK(!simulation->run_until(kAtRest) && simulation->finished() + 1 == cluster.ops.size());
  return outcome(*simulation);
}

// One plane as in the fabric, one slower and farther away with a single FIFO.
void make_unlike(Cluster& cluster) {
  FabricConfig& fabric = cluster.config.fabric;
  fabric.unlike = {fabric.ports, fabric.ports};
  for (netsim::PortConfig& port : fabric.unlike[1]) {
    port.rate_bps = kRateBps / 4;
    port.delay = 7 * kDelay;
    port.ecn = port.priority = false;
  }
}

void make_queued(Cluster& cluster) {
  cluster.config.fabric.queued =
      SharedQueues{.buffer_bytes = 200'000, .pfc = true, .pfc_xoff_bytes = 20'000, .pfc_xon_bytes = 10'000};
}

}  // namespace

TEST_CASE(one_packet_takes_its_wire_time_on_each_link_and_the_delays) {
  CHECK(arrival(one_plane(), 1, kPayload) == 2 * kLast + 2 * kDelay);  // same T0
  CHECK(arrival(one_plane(), 2, kPayload) == 4 * kLast + 4 * kDelay);  // across a T1
  Cluster pods = three_tier_cluster();
  pods.shape().planes = 1;
  CHECK(arrival(pods, 2, kPayload) == 4 * kLast + 4 * kDelay);  // same pod
  CHECK(arrival(pods, 4, kPayload) == 6 * kLast + 6 * kDelay);  // across a T2
  CHECK(arrival(one_plane(), 1, 0) == 2 * wire_time(kLastPacket - kPayload) + 2 * kDelay);
  CHECK(arrival(one_plane(), 1, 1) == 2 * wire_time(kLastPacket - kPayload + 4) + 2 * kDelay);  // padded
}

TEST_CASE(several_packets_follow_each_other_without_a_gap) {
  CHECK(arrival(one_plane(), 1, 2 * kPayload) == kFull + 2 * kLast + 2 * kDelay);
  CHECK(arrival(one_plane(), 1, 10 * kPayload) == 9 * kFull + 2 * kLast + 2 * kDelay);
  CHECK(arrival(one_plane(), 2, 10 * kPayload) == 9 * kFull + 4 * kLast + 4 * kDelay);
  // A short last packet waits behind the full one before it, at the NIC and at the T0.
  CHECK(arrival(one_plane(), 1, kPayload + 100) == 2 * kFull + wire_time(kLastPacket - kPayload + 100) + 2 * kDelay);
}

TEST_CASE(two_planes_carry_two_packets_at_once) {
  CHECK(arrival(Cluster(), 1, 2 * kPayload) == std::max(2 * kFull, 2 * kLast) + 2 * kDelay);
  CHECK(arrival(Cluster(), 1, 8 * kPayload) == 3 * kFull + 2 * kLast + 2 * kDelay);
}

TEST_CASE(a_packet_takes_the_time_of_the_plane_that_carries_it) {
  Cluster cluster;
  make_unlike(cluster);
  CHECK(arrival(cluster, 1, 2 * kPayload) == std::max(2 * kFull + 2 * kDelay, 8 * kLast + 14 * kDelay));
  cluster.config.nic_latency = 3 * kPsPerUs;
  CHECK(arrival(cluster, 1, 2 * kPayload) == 8 * kLast + 14 * kDelay + 6 * kPsPerUs);
  cluster.config.fabric.unlike[1] =
      cluster.config.fabric.unlike[0];  // its own settings again, and equal to the other's
  CHECK(arrival(cluster, 1, 2 * kPayload) == 2 * kLast + 2 * kDelay + 6 * kPsPerUs);
}

TEST_CASE(latency_of_nics_doorbell_and_long_links_adds_up) {
  Cluster cluster = one_plane();
  cluster.config.nic_latency = 700'000;
  cluster.doorbell = 300'000;
  const std::uint32_t op = cluster.send(0, 1, kPayload, 5 * kPsPerUs);
  CHECK(arrival(cluster) == 5 * kPsPerUs + 300'000 + 2 * 700'000 + 2 * kLast + 2 * kDelay);
  const auto simulation = cluster.start();
  simulation->run_until(kLong);
  CHECK(simulation->workload().started[op] == 5 * kPsPerUs);

  Cluster sites = three_tier_cluster();
  sites.shape().planes = 1;
  sites.port(LinkKind::kT1Up).delay = sites.port(LinkKind::kT2Down).delay = 3 * kPsPerMs;
  sites.port(LinkKind::kT1Up).rate_bps = kRateBps / 4;
  CHECK(arrival(sites, 4, kPayload) == (5 + 4) * kLast + 4 * kDelay + 6 * kPsPerMs);
}

TEST_CASE(a_send_is_complete_when_its_acknowledgement_is_back) {
  Cluster cluster = one_plane();
  const std::uint32_t empty = cluster.send(0, 1, 0), full = cluster.send(2, 3, kPayload);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const Workload& work = simulation->workload();
  CHECK(work.completed[empty] - work.received[empty] == 2 * wire_time(kAckBytes) + 2 * kDelay);
  // The SACK of the payload waits for the acknowledgement of the message.
  CHECK(work.completed[full] - work.received[full] == wire_time(kAckBytes + 2 * kSackBytes) + 2 * kDelay);
  CHECK(simulation->nic(0).traffic()[0].tx_bytes == kLastPacket - kPayload);
  CHECK(simulation->nic(1).traffic()[0].tx_bytes == kAckBytes);
  CHECK(simulation->data_packets() == 1 && simulation->now() >= work.completed[full]);
}

TEST_CASE(two_senders_share_the_receivers_link) {
  Cluster cluster = one_plane();
  cluster.send(0, 1, kPayload);
  cluster.send(2, 1, kPayload, kLast);  // its packet would come two hops later without the head start of the other
  cluster.send(3, 1, kPayload, kLast);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong));
  std::vector<TimePs> received = simulation->workload().received;
  CHECK(received[0] == 2 * kLast + 2 * kDelay);
  // Both cross the fabric alone and meet at the T0 of host 1.
  CHECK(std::min(received[1], received[2]) == 5 * kLast + 4 * kDelay);
  CHECK(std::max(received[1], received[2]) == 6 * kLast + 4 * kDelay);
}

TEST_CASE(a_chain_starts_each_send_at_the_instant_the_one_before_arrives) {
  Cluster cluster;
  for (std::uint32_t i = 0; i < 6; ++i) cluster.send(i % 4, (i + 1) % 4, 5'000);
  for (std::uint32_t i = 1; i < 6; ++i) cluster.after(i, i - 1, OpEvent::kReceived);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const Workload& work = simulation->workload();
  CHECK(work.started[0] == 0);
  for (std::uint32_t i = 1; i < 6; ++i) CHECK(work.started[i] == work.received[i - 1] && work.received[i] > 0);
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(work.completed[i] > work.received[i]);
}

TEST_CASE(a_barrier_ends_after_the_last_rank_has_arrived) {
  Cluster cluster;
  std::vector<std::uint32_t> gather, release, work_after;
  for (std::uint32_t host = 1; host < 4; ++host) {
    const std::uint32_t slow = cluster.compute(host, host * 300 * kPsPerUs);
    gather.push_back(cluster.send(host, 0, 8));
    cluster.after(gather.back(), slow);
  }
  for (std::uint32_t host = 1; host < 4; ++host) {
    release.push_back(cluster.send(0, host, 8));
    for (const std::uint32_t op : gather) cluster.after(release.back(), op, OpEvent::kReceived);
    work_after.push_back(cluster.compute(host, 7 * kPsPerUs));
    cluster.after(work_after.back(), release.back(), OpEvent::kReceived);
  }
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const Workload& work = simulation->workload();
  TimePs last = 0;
  for (const std::uint32_t op : gather) last = std::max(last, work.received[op]);
  CHECK(last > 900 * kPsPerUs);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(work.started[release[i]] == last);
    CHECK(work.started[work_after[i]] == work.received[release[i]]);
    CHECK(work.completed[work_after[i]] == work.received[release[i]] + 7 * kPsPerUs);
  }
}

TEST_CASE(a_send_after_a_send_waits_for_its_acknowledgement) {
  Cluster cluster;
  const std::uint32_t first = cluster.send(0, 2, 30'000), think = cluster.compute(0, 11 * kPsPerUs);
  const std::uint32_t second = cluster.send(0, 3, 100);
  cluster.after(think, first);
  cluster.after(second, think);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const Workload& work = simulation->workload();
  CHECK(work.started[think] == work.completed[first] && work.started[second] == work.completed[think]);
  CHECK(work.completed[think] == work.started[think] + 11 * kPsPerUs);
}

TEST_CASE(a_send_is_split_over_lanes_and_joined_again) {
  for (const std::uint16_t lanes : {std::uint16_t{1}, std::uint16_t{3}, std::uint16_t{4}}) {
    Cluster cluster;
    cluster.lanes = lanes;
    cluster.send(0, 2, 100 * kPayload + 1);
    const auto simulation = cluster.start();
    CHECK(simulation->run_until(kLong) && simulation->all_done() && simulation->connections().size() == lanes);
    std::uint64_t sum = 0, least = ~std::uint64_t{0}, most = 0;
    for (const ConnectionPair& pair : simulation->connections()) {
      const std::uint64_t bytes = simulation->nic(2).endpoint().stats(pair.index_b).received_bytes;
      sum += bytes;
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    CHECK(sum == 100 * kPayload + 1 && most - least <= 1);
  }
}

TEST_CASE(messages_to_several_hosts_go_in_the_order_of_posting) {
  Cluster cluster = one_plane();
  cluster.shape().hosts = 8;
  const std::vector<std::uint32_t> peers{6, 3, 7, 2, 5, 4};  // all in other racks than the sender
  for (const std::uint32_t peer : peers) cluster.send(0, peer, kPayload);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  const std::vector<TimePs>& received = simulation->workload().received;
  for (std::size_t i = 1; i < peers.size(); ++i) CHECK(received[i] > received[i - 1]);
}

TEST_CASE(more_messages_than_a_queue_holds_wait_and_arrive_in_order) {
  for (const std::string transport : {"mrc", "roce", "dctcp"}) {
    Cluster cluster;
    for (std::uint32_t i = 0; i < 700; ++i) cluster.send(0, 1, i % 3 * 40);
    for (std::uint32_t i = 0; i < 300; ++i) cluster.send(1, 0, 10);
    const auto simulation = cluster.start(transport);
    CHECK(simulation->run_until(kLong) && simulation->all_done() && simulation->connections().size() == 1);
    const Workload& work = simulation->workload();
    for (std::uint32_t i = 1; i < 700; ++i) CHECK(work.received[i] >= work.received[i - 1]);
    CHECK(totals(*simulation).received == 700 / 3 * 120 + 300 * 10);
  }
}

TEST_CASE(a_message_longer_than_the_standards_largest_arrives_as_one) {
  Cluster cluster;
  cluster.config.surroundings.payload_mtu = 8192;
  cluster.send(0, 1, kMessageBytesMax + 5);
  const auto simulation = cluster.start();
  CHECK(simulation->run_until(kLong) && simulation->all_done());
  CHECK(totals(*simulation).received == kMessageBytesMax + 5);
  // Two planes at the line rate: faster than two messages one after the other.
  CHECK(simulation->workload().received[0] < 105 * wire_time(8192 + kFullPacket - kPayload) * 131'073 / 200);
}

TEST_CASE(threads_change_nothing) {
  for (const bool queued : {false, true}) {
    for (const std::string transport : {"mrc", "roce", "dctcp"}) {
      Cluster cluster = busy_cluster(11);
      if (queued) make_queued(cluster);
      const Outcome one = run(cluster, transport, 1);
      CHECK(one == run(cluster, transport, 2) && one == run(cluster, transport, 3));
      Cluster other = busy_cluster(12);
      CHECK(one.trace != run(other, transport, 1).trace);
      make_unlike(cluster);
      const Outcome unlike = run(cluster, transport, 1);
      CHECK(unlike.trace != one.trace && unlike == run(cluster, transport, 3));
    }
  }
}

TEST_CASE(where_run_until_stops_changes_nothing) {
  Rng rng(77);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const bool queued : {false, true}) {
      for (const std::string transport : {"mrc", "roce", "dctcp"}) {
        Cluster cluster = busy_cluster(seed);
        if (queued) make_queued(cluster);
        if (seed % 2 == 0) make_unlike(cluster);
        const Outcome whole = run(cluster, transport, 1);
        cluster.config.threads = static_cast<std::uint32_t>(1 + rng.below(2));
        CHECK(whole == run_in_pieces(cluster, transport, rng));
      }
    }
  }
}

TEST_CASE(nothing_after_the_time_of_run_until_has_happened) {
  Cluster cluster = one_plane();
  cluster.send(0, 1, kPayload);
  const auto simulation = cluster.start();
  const TimePs there = 2 * kLast + 2 * kDelay;
  CHECK(!simulation->run_until(there - 1) && simulation->workload().received[0] == -1);
  CHECK(simulation->now() == there - 1 && simulation->finished() == 0);
  CHECK(!simulation->run_until(there) && simulation->workload().received[0] == there);
}

TEST_CASE(time_never_goes_backwards) {
  Cluster cluster = one_plane();
  cluster.send(0, 1, kPayload);
  const auto simulation = cluster.start();
  CHECK(!simulation->run_until(5 * kPsPerUs));
  CHECK(!simulation->run_until(2 * kPsPerUs) && simulation->now() == 5 * kPsPerUs);
}

TEST_CASE(ops_that_wait_for_each_other_stall_the_run_however_long_it_may_take) {
  for (const TimePs until : {kLong, kNever}) {
    Cluster cluster;
    const std::uint32_t a = cluster.compute(0, 5), b = cluster.compute(0, 5), c = cluster.compute(1, 40);
    cluster.after(a, b);
    cluster.after(b, a);
    const auto simulation = cluster.start();
    CHECK(simulation->run_until(until) && simulation->stalled() && !simulation->all_done());
    CHECK(simulation->failed() == 0 && simulation->finished() == 1 && simulation->workload().completed[c] == 40);
    CHECK(simulation->run_until(until));
  }
}
