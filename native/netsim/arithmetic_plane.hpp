// One plane by arithmetic: its output ports, the packets on links, and their event queue, with one event per packet and
// hop (see output_port.hpp). `QueuedPlane` is the other model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/rng.hpp"
#include "netsim/event_queue.hpp"
#include "netsim/huge_memory.hpp"
#include "netsim/plane_model.hpp"
#include "netsim/routing_tables.hpp"

namespace openmrc::netsim {

struct PlaneConfig {
  ClosShape shape;
  std::array<PortConfig, kLinkKinds> ports;  // by LinkKind
  std::uint32_t packets_max = 0;             // inside at once; 0: no limit
  TimePs delivery_lead = 0;                  // packets reach the edge this long before they reach their host;
                                             // at most the delay of that link
  std::uint64_t seed = 0;
  const RoutingTables* tables = nullptr;  // links that adaptive switches avoid, besides their own dead links
};

class ArithmeticPlane final : public PlaneModel {
 public:
  ArithmeticPlane(const PlaneConfig& config, std::uint32_t index);

  void enter(TimePs when, const Packet& packet, Edge& edge) override;
  void arrive(TimePs when, const Packet& packet) override;
  void run_until(TimePs until, Edge& edge) override;
  void set_effects(TimePs now, LinkId link, const Effects& effects) override;
  Effects effects(LinkId link) const override;

  TimePs next_event() const override { return events_.next_time(); }
  std::uint32_t packets_inside() const override { return static_cast<std::uint32_t>(events_.size()); }
  LinkCounters& counters(LinkId link) override { return links_[link].counters(); }
  const LinkCounters& counters(LinkId link) const override { return links_[link].counters(); }
  std::uint64_t queue_bytes(TimePs now, LinkId link) const override;
  std::uint64_t queue_peak_bytes(LinkId link) const override {
    return port_of(link).bytes_in(links_[link].counters().queue_peak);
  }
  std::uint64_t trace() const override { return trace_; }
  std::uint64_t events() const override { return passed_; }
  std::size_t memory_bytes() const override;

 private:
  const Port& port_of(LinkId link) const { return ports_[static_cast<std::size_t>(config_.shape.kind_of(link))]; }
  FaultState* faults_of(LinkId link) { return faulty_links_ == 0 ? nullptr : fault_states_[link].get(); }
  void prefetch(const Packet& packet) const;
  void send(TimePs now, Packet& packet, LinkId link, Edge& edge);
  void pass(TimePs now, const Packet& packet, Edge& edge);
  bool crossed(TimePs now, Packet& packet, FaultState& faults, Edge& edge);
  void go_on(TimePs now, Packet& packet, Edge& edge);
  void choose_uplink(TimePs now, Packet& packet);
  std::uint32_t least_busy(TimePs now, const Packet& packet, LinkId first, std::uint32_t count);
  bool knows_dead(const Packet& packet, LinkId link, std::uint32_t uplink) const;
  bool crowded(const Packet& packet, Edge& edge);

  PlaneConfig config_;
  std::array<Port, kLinkKinds> ports_;
  std::uint32_t index_;
  EventQueue events_;
  HugeVector<OutputPort> links_;
  bool fetch_links_;                                       // true if too many to stay in the cache
  std::vector<std::unique_ptr<FaultState>> fault_states_;  // empty while the plane is healthy
  std::uint32_t faulty_links_ = 0;
  std::uint64_t faults_begun_ = 0;
  Rng marking_;
  Rng adaptive_;
  TimePs now_ = 0;
  std::uint64_t trace_ = 0;
  std::uint64_t passed_ = 0;
};

}  // namespace openmrc::netsim
