// Shared fixtures of the tests of whole simulated clusters: small fabrics with round numbers, workloads in a compact
// form.
//
// 1 Gb/s, that is 8,000 ps per byte; 10 us per link; NICs and doorbells take no time unless a test sets one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netsim/simulate/dctcp_endpoint.hpp"
#include "netsim/simulate/mrc_endpoint.hpp"
#include "netsim/simulate/roce_endpoint.hpp"
#include "netsim/simulate/simulation.hpp"
#include "tests/netsim_fixture.hpp"

namespace openmrc::test {

inline constexpr std::uint32_t kPayload = 1024;
inline constexpr std::uint32_t kAround = 82;  // bytes of the fabric's headers around a datagram
// BTH, METH, TSETH, RETH and ICRC; the last packet of a message also has the immediate.
inline constexpr std::uint32_t kMrcHeader = 12 + 4 + 4 + 16 + 4, kImmediate = 4;
inline constexpr std::uint32_t kFullPacket = kAround + kMrcHeader + kPayload;
inline constexpr std::uint32_t kLastPacket = kFullPacket + kImmediate;
inline constexpr TimePs kLong = 20 * kPsPerSecond;  // longer than any terminating run

struct Cluster {
  explicit Cluster(std::uint64_t seed = 1) {
    config.fabric = fabric_config(seed);
    config.fabric.packets_max = 0;
    config.surroundings.seed = seed;
    config.surroundings.payload_mtu = kPayload;
    config.surroundings.header_bytes = kAround;
    config.surroundings.port_rate_bps = kRateBps;
    config.surroundings.base_rtt = 200 * kPsPerUs;
    mrc.active_per_port = 4;
    mrc.probe_interval = kPsPerMs;
    mrc.universe_per_port = 8;
    mrc.exponential_retries = 8;
    mrc.path_events = true;
    mrc.wimm_max = 32;
    dctcp.retries = 4;  // the usual 15 would take a quarter of an hour
  }

  netsim::ClosShape& shape() { return config.fabric.shape; }
  netsim::PortConfig& port(netsim::LinkKind kind) { return config.fabric.ports[static_cast<std::size_t>(kind)]; }

  std::uint32_t send(std::uint32_t host, std::uint32_t peer, std::uint64_t bytes, TimePs earliest = 0) {
    ops.push_back({netsim::OpKind::kSend, host, peer, bytes, 0, earliest});
    return static_cast<std::uint32_t>(ops.size() - 1);
  }
  std::uint32_t compute(std::uint32_t host, TimePs duration, TimePs earliest = 0) {
    ops.push_back({netsim::OpKind::kCompute, host, host, 0, duration, earliest});
    return static_cast<std::uint32_t>(ops.size() - 1);
  }
  void after(std::uint32_t op, std::uint32_t on, netsim::OpEvent event = netsim::OpEvent::kCompleted) {
    dependencies.push_back({op, on, event});
  }

  // `transport`: "mrc", "roce" or "dctcp".
  std::unique_ptr<netsim::Simulation> start(const std::string& transport = "mrc") {
    config.surroundings.shape = config.fabric.shape;
    mrc.cc.mtu_bytes = kPayload + kMrcHeader + 48;
    mrc.cc.link_rate_bps = kRateBps * config.fabric.shape.planes;
    mrc.cc.base_rtt = config.surroundings.base_rtt;
    netsim::Workload work(ops, dependencies, config.fabric.shape.hosts, lanes, kPayload);
    work.doorbell = doorbell;
    const auto factory = [transport, settings = mrc, tcp = dctcp](const netsim::Surroundings& surroundings,
                                                                  std::uint32_t host) {
      if (transport == "roce") return netsim::make_roce_endpoint(surroundings, {}, host);
      if (transport == "dctcp") return netsim::make_dctcp_endpoint(surroundings, tcp, host);
      return netsim::make_mrc_endpoint(surroundings, settings, host, true);
    };
    return std::make_unique<netsim::Simulation>(config, std::move(work), factory);
  }

  netsim::SimulationConfig config;
  netsim::MrcSettings mrc;
  netsim::DctcpSettings dctcp;
  std::vector<netsim::Op> ops;
  std::vector<netsim::Dependency> dependencies;
  std::uint16_t lanes = 1;
  TimePs doorbell = 0;
};

// One plane, on which the duration of a message follows from arithmetic.
inline Cluster one_plane() {
  Cluster cluster;
  cluster.shape().planes = 1;
  return cluster;
}

// Two pods of two T0s with two hosts each, two T1s a pod, two T2s above each of them.
inline Cluster three_tier_cluster(std::uint64_t seed = 1) {
  Cluster cluster(seed);
  cluster.shape().hosts = 8;
  cluster.shape().t0s_per_pod = 2;
  cluster.shape().t1_uplinks = 2;
  return cluster;
}

inline TimePs wire_time(std::uint32_t bytes) { return bytes * kBytePs; }

inline netsim::FaultSpec fault_on(const netsim::FaultTarget& target, const netsim::Effects& effects, TimePs start,
                                  TimePs duration = kNever) {
  return {target, effects, start, duration, 0};
}

inline netsim::FaultTarget link_of_host(std::uint32_t host, std::uint32_t plane) {
  return {.plane = plane, .host = host};
}

inline netsim::Effects carrier_loss() {
  netsim::Effects effects;
  effects.down = true;
  return effects;
}

inline netsim::Effects silence() {
  netsim::Effects effects;
  effects.blackhole = true;
  return effects;
}

struct Totals {
  std::uint64_t sent = 0, received = 0, duplicates = 0, losses = 0, retransmitted = 0;
};

inline Totals totals(netsim::Simulation& simulation) {
  Totals sum;
  for (const netsim::ConnectionPair& pair : simulation.connections()) {
    for (const auto& [host, index] : {std::pair{pair.a, pair.index_a}, std::pair{pair.b, pair.index_b}}) {
      const netsim::ConnectionStats stats = simulation.nic(host).endpoint().stats(index);
      sum.sent += stats.sent_bytes;
      sum.received += stats.received_bytes;
      sum.duplicates += stats.duplicate_packets;
      sum.losses += stats.losses_inferred;
      sum.retransmitted += stats.retransmitted_packets;
    }
  }
  return sum;
}

inline std::vector<netsim::PathEvent> path_events(netsim::Simulation& simulation, std::uint32_t host) {
  std::vector<netsim::PathEvent> events;
  netsim::PathEvent event;
  while (simulation.nic(host).endpoint().poll_path_event(event)) events.push_back(event);
  return events;
}

}  // namespace openmrc::test
