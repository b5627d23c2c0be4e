// Interface of all models of a plane. `ArithmeticPlane` needs one event per packet and hop; `QueuedPlane` has real queues, which
// shared buffers and PFC need, at about twice the events.
//
// Order of calls: enter or arrive the packets up to some instant, then run_until that instant; next_event returns the
// time of the next call. A plane never accesses another one, so planes may run in parallel.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "netsim/output_port.hpp"
#include "netsim/packet.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

// Receiver of the packets that leave the fabric.
class Edge {
 public:
  // The packet reaches its host at `when`, up to `delivery_lead` ahead.
  virtual void deliver(TimePs when, std::uint32_t plane, const Packet& packet) = 0;  // takes ownership of the payload
  virtual void share(const Packet& packet) = 0;                                      // a duplicate shares the payload
  virtual void release(const Packet& packet) = 0;                                    // it was lost
  // PFC: the host's uplink must stop sending data at `when`, or may resume.
  virtual void pause(TimePs /*when*/, std::uint32_t /*plane*/, std::uint32_t /*host*/, bool /*paused*/) {}

 protected:
  ~Edge() = default;
};

// Number and total duration of the pauses of a link's sender (PFC).
struct PauseCounters {
  std::uint64_t pauses = 0;
  TimePs paused = 0;
};

class PlaneModel {
 public:
  virtual ~PlaneModel() = default;

  // Emulator: the host sends at `when`, possibly in the future; its uplink's queue is part of the plane.
  virtual void enter(TimePs when, const Packet& packet, Edge& edge) = 0;
  // Simulator: the packet reaches the far end of `packet.link`, the host's uplink, at the future time `when`. The NIC
  // has modelled the uplink's queue.
  virtual void arrive(TimePs when, const Packet& packet) = 0;
  // Runs all events up to and including `until`.
  virtual void run_until(TimePs until, Edge& edge) = 0;

  // Sets the effects on a link from `now` on; Effects{} for none.
  virtual void set_effects(TimePs now, LinkId link, const Effects& effects) = 0;
  virtual Effects effects(LinkId link) const = 0;

  virtual TimePs next_event() const = 0;
  virtual std::uint32_t packets_inside() const = 0;
  virtual LinkCounters& counters(LinkId link) = 0;
  virtual const LinkCounters& counters(LinkId link) const = 0;
  // Bytes waiting at the port that feeds the link.
  virtual std::uint64_t queue_bytes(TimePs now, LinkId link) const = 0;
  // Maximum number of bytes that a data packet found waiting there (LinkCounters::queue_peak).
  virtual std::uint64_t queue_peak_bytes(LinkId link) const = 0;
  virtual PauseCounters pause_counters(TimePs /*now*/, LinkId /*link*/) const { return {}; }
  // Hash over all events so far: equal runs have equal traces.
  virtual std::uint64_t trace() const = 0;
  virtual std::uint64_t events() const = 0;
  virtual std::size_t memory_bytes() const = 0;
};

}  // namespace openmrc::netsim
