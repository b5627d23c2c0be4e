// Shared fixtures of the `QueuedPlane` tests: the small fabric of the other netsim tests with real queues, and an edge
// that also records pauses.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "netsim/queued_plane.hpp"
#include "tests/netsim_fixture.hpp"

namespace openmrc::test {

struct Pause {
  TimePs when = 0;
  std::uint32_t host = 0;
  bool paused = false;

  bool operator==(const Pause&) const = default;
};

class PausedEdge final : public netsim::Edge {
 public:
  void deliver(TimePs when, std::uint32_t plane, const netsim::Packet& packet) override {
    deliveries.push_back({when, plane, packet});
    --references[packet.payload];
  }
  void share(const netsim::Packet& packet) override { ++references[packet.payload]; }
  void release(const netsim::Packet& packet) override {
    ++lost;
    --references[packet.payload];
  }
  void pause(TimePs when, std::uint32_t /*plane*/, std::uint32_t host, bool paused) override {
    pauses.push_back({when, host, paused});
  }

  std::vector<Delivery> deliveries;
  std::vector<Pause> pauses;
  std::map<std::uint32_t, int> references;  // by payload: packets still inside
  std::uint32_t lost = 0;
};

inline netsim::PortConfig& ports_of(netsim::QueuedPlaneConfig& config, netsim::LinkKind kind) {
  return config.ports[static_cast<std::size_t>(kind)];
}

inline netsim::QueuedPlaneConfig queued_config(std::uint64_t seed = 1) {
  const netsim::FabricConfig fabric = fabric_config(seed);
  netsim::QueuedPlaneConfig config;
  config.shape = fabric.shape;
  config.ports = fabric.ports;
  config.seed = seed;
  return config;
}

// Eight hosts, two under each T0, two T0s in each of two pods, two T1s a pod, two T2s above each of them.
inline netsim::QueuedPlaneConfig three_tiers(std::uint64_t seed = 1) {
  netsim::QueuedPlaneConfig config = queued_config(seed);
  config.shape.hosts = 8;
  config.shape.t0s_per_pod = 2;
  config.shape.t1_uplinks = 2;
  return config;
}

// One plane with its edge; payloads are numbered in the order of entry.
struct QueuedRun {
  explicit QueuedRun(const netsim::QueuedPlaneConfig& plane_config, std::uint32_t index = 0)
      : config(plane_config), plane(plane_config, index) {}

  netsim::Packet prepared(netsim::Packet packet) {
    packet.payload = entered++;
    edge.references[packet.payload] = 1;
    packet.link = config.shape.nic_up(packet.source_host);
    packet.route = netsim::route_of(config.shape, packet.source_host, packet.destination_host, packet.ev);
    return packet;
  }
  // The emulator's entry: the host's uplink is a port of the plane.
  void enter(TimePs when, const netsim::Packet& packet) { plane.enter(when, prepared(packet), edge); }
  // The simulator's entry: leaves the uplink at `when`.
  void arrive(TimePs when, const netsim::Packet& packet) { plane.arrive(when, prepared(packet)); }
  void arrive_many(TimePs when, std::uint32_t count, const netsim::Packet& packet) {
    for (std::uint32_t i = 0; i < count; ++i) arrive(when, packet);
  }
  // False if events remain.
  bool run_dry() {
    for (int rounds = 0; rounds < 1'000'000 && plane.next_event() != kNever; ++rounds) {
      plane.run_until(plane.next_event(), edge);
    }
    return plane.next_event() == kNever && plane.packets_inside() == 0;
  }
  std::uint64_t total_drops() const {
    std::uint64_t drops = 0;
    for (netsim::LinkId link = 0; link < config.shape.links_per_plane(); ++link) {
      drops += plane.counters(link).dropped();
    }
    return drops;
  }

  netsim::QueuedPlaneConfig config;
  netsim::QueuedPlane plane;
  PausedEdge edge;
  std::uint32_t entered = 0;
};

inline netsim::Packet control_between(std::uint32_t source, std::uint32_t destination, std::uint32_t bytes) {
  netsim::Packet packet = packet_between(source, destination);
  packet.bytes = bytes;
  packet.traffic_class = TrafficClass::kControl;
  return packet;
}

}  // namespace openmrc::test
