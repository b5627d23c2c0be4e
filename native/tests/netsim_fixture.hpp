// Shared fixtures of the netsim tests: a small fabric with round numbers, and an edge that records departures.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "netsim/fabric.hpp"

namespace openmrc::test {

// 1 Gb/s: 8,000 ps a byte, 8 us for a packet of 1,000 bytes. 10 us a link.
inline constexpr std::uint64_t kRateBps = 1'000'000'000;
inline constexpr TimePs kBytePs = 8'000;
inline constexpr TimePs kDelay = 10 * kPsPerUs;
inline constexpr std::uint32_t kPacketBytes = 1'000;

struct Delivery {
  TimePs time = 0;
  std::uint32_t plane = 0;
  netsim::Packet packet;
};

class RecordingEdge final : public netsim::Edge {
 public:
  void deliver(TimePs now, std::uint32_t plane, const netsim::Packet& packet) override {
    deliveries.push_back({now, plane, packet});
    if (packet.payload != netsim::kNoPayload) --references[packet.payload];
  }
  void share(const netsim::Packet& packet) override { ++references[packet.payload]; }
  void release(const netsim::Packet& packet) override {
    ++lost;
    --references[packet.payload];
  }

  std::vector<Delivery> deliveries;
  std::map<std::uint32_t, int> references;  // by payload: packets still inside
  std::uint32_t lost = 0;
};

inline netsim::PortConfig port_config() {
  netsim::PortConfig port;
  port.rate_bps = kRateBps;
  port.delay = kDelay;
  port.queue_bytes = 1'000'000;
  port.control_queue_bytes = 1'000'000;
  return port;
}

// Two planes, four hosts, two under each T0, two T1s.
inline netsim::FabricConfig fabric_config(std::uint64_t seed = 1) {
  netsim::FabricConfig config;
  config.shape.planes = 2;
  config.shape.hosts = 4;
  config.shape.hosts_per_t0 = 2;
  config.shape.t1s = 2;
  config.ports.fill(port_config());
  config.ports[static_cast<std::size_t>(netsim::LinkKind::kNicDown)].last_hop = true;
  config.packets_max = 4096;
  config.seed = seed;
  return config;
}

inline netsim::Packet packet_between(std::uint32_t source, std::uint32_t destination, std::uint32_t ev = 0) {
  netsim::Packet packet;
  packet.source_host = source;
  packet.destination_host = destination;
  packet.ev = ev;
  packet.bytes = kPacketBytes;
  packet.traffic_class = TrafficClass::kTrimmable;
  packet.ecn = Ecn::kEct0;
  return packet;
}

// Sends `count` packets back to back and gives each payload handle its own number.
inline void send_many(netsim::Fabric& fabric, RecordingEdge& edge, TimePs start, TimePs gap, std::uint32_t count,
                      netsim::Packet packet, std::uint32_t plane = 0, std::uint32_t first_payload = 0) {
  for (std::uint32_t i = 0; i < count; ++i) {
    packet.payload = first_payload + i;
    edge.references[packet.payload] = 1;
    const TimePs when = start + gap * i;
    fabric.run_until(when, edge);
    fabric.enter(when, plane, packet, edge);
  }
}

}  // namespace openmrc::test
