// Packets across planes and tiers: paths, times, determinism, and a count for every loss.
#include "netsim/fabric.hpp"

#include <set>

#include "tests/check.hpp"
#include "tests/netsim_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr TimePs kPacketTime = kPacketBytes * kBytePs;

TEST_CASE(netsim_links_of_a_plane_are_numbered_without_gaps) {
  const ClosShape shape = fabric_config().shape;
  std::set<LinkId> links;
  for (std::uint32_t host = 0; host < shape.hosts; ++host) {
    links.insert(shape.nic_up(host));
    links.insert(shape.nic_down(host));
    CHECK(ends_of(shape, shape.nic_up(host)).host == host);
    CHECK(ends_of(shape, shape.nic_down(host)).t0 == host / 2);
  }
  for (std::uint32_t t0 = 0; t0 < shape.t0s(); ++t0) {
    for (std::uint32_t t1 = 0; t1 < shape.t1s; ++t1) {
      links.insert(shape.t0_up(t0, t1));
      links.insert(shape.t1_down(t0, t1));
      CHECK(ends_of(shape, shape.t0_up(t0, t1)).t0 == t0 && ends_of(shape, shape.t0_up(t0, t1)).t1 == t1);
      CHECK(ends_of(shape, shape.t1_down(t0, t1)).t0 == t0 && ends_of(shape, shape.t1_down(t0, t1)).t1 == t1);
    }
  }
  CHECK(links.size() == shape.links_per_plane());
  CHECK(*links.rbegin() == shape.links_per_plane() - 1);
}

TEST_CASE(netsim_between_t0s_a_packet_crosses_four_links_within_a_t0_two) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  fabric.enter(0, 1, packet_between(0, 3), edge);
  fabric.enter(0, 0, packet_between(0, 1), edge);
  fabric.run_until(kPsPerSecond, edge);
  CHECK(edge.deliveries.size() == 2);
  for (const Delivery& delivery : edge.deliveries) {
    const int links = delivery.plane == 1 ? 4 : 2;
    CHECK(delivery.time == links * (kPacketTime + kDelay));
  }
  CHECK(fabric.packets_inside() == 0);
}

TEST_CASE(netsim_the_ev_names_the_t1) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  for (std::uint32_t ev = 0; ev < 10; ++ev) fabric.enter(0, 0, packet_between(0, 2, 49'152 + ev % 2), edge);
  fabric.run_until(kPsPerSecond, edge);
  const ClosShape& shape = fabric.shape();
  for (std::uint32_t t1 = 0; t1 < 2; ++t1) {
    CHECK(fabric.plane(0).counters(shape.t0_up(0, t1)).packets == 5);
    CHECK(fabric.plane(0).counters(shape.t1_down(1, t1)).packets == 5);
  }
}

TEST_CASE(netsim_hashed_evs_use_every_t1_and_one_flow_only_one) {
  FabricConfig config = fabric_config();
  config.shape.routing = Routing::kHash;
  config.shape.t1s = 4;
  Packet packet = packet_between(0, 2);
  std::array<int, 4> uses{};
  for (packet.ev = 0; packet.ev < 400; ++packet.ev) {
    const std::uint32_t t1 = route_of(config.shape, 0, 2, packet.ev).t0_uplink;
    CHECK(t1 == route_of(config.shape, 0, 2, packet.ev).t0_uplink);
    ++uses[t1];
  }
  for (const int use : uses) CHECK(use > 60 && use < 140);
}

TEST_CASE(netsim_two_senders_share_the_port_of_one_receiver_at_its_rate) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  for (std::uint32_t i = 0; i < 200; ++i) {
    fabric.enter(0, 0, packet_between(0, 3, i), edge);
    fabric.enter(0, 0, packet_between(1, 3, i), edge);
  }
  fabric.run_until(kPsPerSecond, edge);
  CHECK(edge.deliveries.size() == 400);
  const TimePs span = edge.deliveries.back().time - edge.deliveries.front().time;
  CHECK(span == 399 * kPacketTime);
}

TEST_CASE(netsim_an_entry_in_the_future_waits_and_one_in_the_past_counts_as_now) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  fabric.run_until(kPsPerMs, edge);
  fabric.enter(0, 0, packet_between(0, 1), edge);
  fabric.enter(5 * kPsPerMs, 0, packet_between(2, 3), edge);
  fabric.run_until(kPsPerSecond, edge);
  CHECK(edge.deliveries.size() == 2);
  CHECK(edge.deliveries[0].time == kPsPerMs + 2 * (kPacketTime + kDelay));
  CHECK(edge.deliveries[1].time == 5 * kPsPerMs + 2 * (kPacketTime + kDelay));
}

TEST_CASE(netsim_a_crowded_plane_loses_packets_with_a_count_and_frees_their_payload) {
  FabricConfig config = fabric_config();
  config.packets_max = 8;
  Fabric fabric(config);
  RecordingEdge edge;
  for (std::uint32_t i = 0; i < 12; ++i) {
    Packet packet = packet_between(0, 2);
    packet.payload = i;
    edge.references[i] = 1;
    fabric.enter(0, 0, packet, edge);
  }
  fabric.run_until(kPsPerSecond, edge);
  CHECK(edge.deliveries.size() == 8);
  CHECK(edge.lost == 4);
  const auto& drops = fabric.plane(0).counters(fabric.shape().nic_up(0)).drops;
  CHECK(drops[static_cast<std::size_t>(DropCause::kCrowded)] == 4);
  for (const auto& [payload, count] : edge.references) CHECK(count == 0);
}

// A short run with every kind of fault at once. The hash covers the contents and times of all departures.
std::uint64_t hash_of_a_troubled_run(std::uint64_t seed) {
  FabricConfig config = fabric_config(seed);
  for (PortConfig& port : config.ports) {
    port.ecn = port.trim = true;
    port.ecn_min_bytes = 2'000;
    port.ecn_max_bytes = 20'000;
    port.trim_threshold_bytes = 30'000;
    port.trim_bytes = 128;
  }
  Fabric fabric(config);
  FaultSpec fault;
  fault.effects.loss_ppb = fault.effects.corrupt_ppb = fault.effects.duplicate_ppb = 50'000'000;
  fault.effects.burst_loss_ppb = 20'000'000;
  fault.effects.burst_packets = 5;
  fault.effects.reorder_ppb = 100'000'000;
  fault.effects.reorder_delay = 30 * kPsPerUs;
  fault.effects.jitter = 5 * kPsPerUs;
  fabric.add_fault(fault);
  RecordingEdge edge;
  Rng traffic(99);
  for (std::uint32_t i = 0; i < 4000; ++i) {
    Packet packet = packet_between(static_cast<std::uint32_t>(traffic.below(4)), 0, i);
    packet.destination_host = static_cast<std::uint32_t>(traffic.below(4));
    packet.payload = i;
    edge.references[i] = 1;
    fabric.run_until(i * 3 * kPsPerUs, edge);
    fabric.enter(i * 3 * kPsPerUs, i % 2, packet, edge);
  }
  fabric.run_until(kPsPerSecond, edge);
  CHECK(fabric.packets_inside() == 0);
  for (const auto& [payload, count] : edge.references) CHECK(count == 0);
  std::uint64_t hash = 0;
  for (const Delivery& d : edge.deliveries) {
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(d.time), std::uint64_t{d.packet.payload}, std::uint64_t{d.packet.bytes},
          static_cast<std::uint64_t>(d.packet.ecn), std::uint64_t{d.packet.corruption}}) {
      hash = (hash ^ value) * 0x100000001b3ULL;
    }
  }
  return hash;
}

TEST_CASE(netsim_same_seed_same_trace_other_seed_other_trace) {
  CHECK(hash_of_a_troubled_run(5) == hash_of_a_troubled_run(5));
  CHECK(hash_of_a_troubled_run(5) != hash_of_a_troubled_run(6));
}

}  // namespace
