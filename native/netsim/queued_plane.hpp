// A plane with real queues: every packet waits in one, so that the ports of a switch can share its buffer and a full
// switch can stop its senders (PFC). For the lossless and shared-buffer baselines; `ArithmeticPlane` is faster where ports are
// independent.
//
// A port serves its control class first (control packets and trimmed ones), then data, without preemption. A queue's
// content includes the packet in service, which leaves the buffer with its last byte. Shared buffers and PFC apply to
// data only; control has the limit of its port.
//
// PFC as in IEEE 802.1Q, one lossless class: a switch counts the waiting data that came over each of its links. Above
// pfc_xoff_bytes it pauses the sender of that link, which receives the pause one link delay later and then finishes the
// packet in service; at pfc_xon_bytes or below it lets the sender resume. Pause frames take no capacity, do not wait
// behind other packets and are exempt from faults.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "netsim/output_port.hpp"
#include "netsim/packet.hpp"
#include "netsim/plane_model.hpp"
#include "netsim/queued_events.hpp"
#include "netsim/routing_tables.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

struct QueuedPlaneConfig {
  ClosShape shape;
  std::array<PortConfig, kLinkKinds> ports;  // by LinkKind
  std::uint64_t buffer_bytes = 0;            // data capacity of one switch; 0: limited by the ports only
  std::uint32_t alpha_permille = 1000;       // without PFC: limit of a queue as a share of the free buffer
      // (dynamic thresholds, Choudhury and Hahne 1998), and up to its port's limit
  bool pfc = false;                  // data is then bounded by the buffer only
  std::uint64_t pfc_xoff_bytes = 0;  // of one link
  std::uint64_t pfc_xon_bytes = 0;   // at most xoff
  TimePs delivery_lead = 0;          // as in PlaneConfig
  std::uint64_t seed = 0;
  const RoutingTables* tables = nullptr;  // as in PlaneConfig
};

class QueuedPlane final : public PlaneModel {
 public:
  QueuedPlane(const QueuedPlaneConfig& config, std::uint32_t index);

  void enter(TimePs when, const Packet& packet, Edge& edge) override;
  void arrive(TimePs when, const Packet& packet) override;
  void run_until(TimePs until, Edge& edge) override;
  // A packet in service at a change of rate is finished at the old rate.
  void set_effects(TimePs now, LinkId link, const Effects& effects) override;
  Effects effects(LinkId link) const override;

  TimePs next_event() const override { return events_.next_time(); }
  std::uint32_t packets_inside() const override { return packets_.in_use(); }
  LinkCounters& counters(LinkId link) override { return queues_[link].counters; }
  const LinkCounters& counters(LinkId link) const override { return queues_[link].counters; }
  std::uint64_t queue_bytes(TimePs now, LinkId link) const override;
  std::uint64_t queue_peak_bytes(LinkId link) const override {
    return port_of(link).bytes_in(queues_[link].counters.queue_peak);
  }
  std::uint64_t trace() const override { return trace_; }
  std::uint64_t events() const override { return events_passed_; }
  std::size_t memory_bytes() const override;

  PauseCounters pause_counters(TimePs now, LinkId link) const override;

 private:
  // The port that feeds a link, and the data from it that the switch at the far end holds.
  struct Queue {
    PacketFifo data, control;
    std::uint64_t data_bytes = 0, control_bytes = 0;
    std::uint64_t held_beyond_bytes = 0;  // data that came over the link and waits in the switch at its end
    std::uint32_t in_service = kNoPacket;
    std::uint32_t switch_index = kNoSwitch;  // owner of the port
    bool paused = false;                     // the pause has reached the port
    bool pause_sent = false;                 // by the switch at the end of the link
    TimePs paused_since = 0;
    PauseCounters pauses;
    Rng marking{0};
    LinkCounters counters;
  };
  static constexpr std::uint32_t kNoSwitch = ~std::uint32_t{0};  // a host's port

  std::uint32_t sending_switch(LinkId link) const;
  const Port& port_of(LinkId link) const { return ports_[static_cast<std::size_t>(config_.shape.kind_of(link))]; }
  FaultState* faults_of(LinkId link);

  void finish_crossing(std::uint32_t id, Edge& edge);
  void go_on(std::uint32_t id, Edge& edge);
  void choose_uplink(Packet& packet);
  std::uint32_t least_waiting(const Packet& packet, LinkId first, std::uint32_t count);

  void offer(std::uint32_t id, LinkId link, Edge& edge);
  bool admits(const Queue& queue, const PortConfig& config, std::uint32_t bytes) const;
  void hold_data(std::uint32_t id, Queue& queue, const Port& port, Edge& edge);
  void let_go_of_data(const HeldPacket& held, Queue& queue, Edge& edge);
  void serve(LinkId link);
  void depart(LinkId link, Edge& edge);

  void send_pause(LinkId link, bool pause, Edge& edge);
  void receive_pause(LinkId link, bool pause);
  void discard(std::uint32_t id, Edge& edge);

  QueuedPlaneConfig config_;
  std::array<Port, kLinkKinds> ports_;
  std::uint32_t index_;
  PacketStore packets_;
  QueuedEvents events_;
  std::vector<Queue> queues_;                // by link
  std::vector<std::uint64_t> switch_bytes_;  // data that each switch holds: T0s, T1s, T2s
  std::vector<std::unique_ptr<FaultState>>
      fault_states_;  // empty until the first fault; random streams outlive their fault
  Rng adaptive_;
  TimePs now_ = 0;
  std::uint64_t trace_ = 0;
  std::uint64_t events_passed_ = 0;
};

}  // namespace openmrc::netsim
