// One plane: its links, the packets on them, and their event queue. Planes meet only in the NICs, so each one is a unit
// of its own, with its own time and its own random streams.
//
// Order of calls: inject what enters until some instant, then run_until that instant; next_event says when to come back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "netsim/event_queue.hpp"
#include "netsim/link.hpp"
#include "netsim/packet.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

// Where packets leave the fabric. Payload handles are the edge's own.
class Edge {
 public:
  virtual void deliver(TimePs now, std::uint32_t plane, const Packet& packet) = 0;  // takes the payload over
  virtual void share(std::uint32_t payload) = 0;    // one more packet (a duplicate) refers to it
  virtual void release(std::uint32_t payload) = 0;  // a packet that referred to it was lost

 protected:
  ~Edge() = default;
};

struct PlaneConfig {
  ClosShape shape;
  std::array<PortConfig, kLinkKinds> ports;  // by LinkKind
  std::uint32_t packets_max = 1U << 15;
  std::uint64_t seed = 0;
};

class Plane {
 public:
  Plane(const PlaneConfig& config, std::uint32_t index);

  // The source host's NIC sends at `when`, which may lie ahead; instants already past count as now. The packet's payload
  // is released through `edge` when there is no room for it.
  void inject(TimePs when, const Packet& packet, Edge& edge);
  // Everything that happens up to and including `until`.
  void run_until(TimePs until, Edge& edge);

  // What is wrong with a link from `now` on; Effects{} when nothing is.
  void set_effects(TimePs now, LinkId link, const Effects& effects);
  Effects effects(LinkId link) const;

  TimePs next_event() const { return events_.next_time(); }
  std::uint32_t packets_inside() const { return pool_.in_use(); }
  const ClosShape& shape() const { return shape_; }
  const Port& port_of(LinkId link) const { return ports_[static_cast<std::size_t>(shape_.kind_of(link))]; }
  const Link& link(LinkId link) const { return links_[link]; }
  TimePs now() const { return now_; }

 private:
  FaultState* faults_of(LinkId link) { return fault_states_[link].get(); }
  void send(PacketId id, LinkId link, Edge& edge);
  void arrive(PacketId id, Edge& edge);
  void duplicate(PacketId id, Edge& edge);
  void discard(PacketId id, Edge& edge);

  ClosShape shape_;
  std::array<Port, kLinkKinds> ports_;
  std::uint32_t index_;
  PacketPool pool_;
  EventQueue events_;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<FaultState>> fault_states_;  // nullptr: healthy
  Rng marking_;
  Rng fault_seeds_;
  TimePs now_ = 0;
};

}  // namespace openmrc::netsim
