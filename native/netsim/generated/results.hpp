// Written by tools/spec.py from spec/results.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc::netsim {

// Counters of the simulator.
struct SimulationCounters {
  // Data packets handled.
  std::uint64_t data_packets = 0;
  // Events handled.
  std::uint64_t events = 0;
  // Time windows simulated.
  std::uint64_t windows = 0;
  // Sends and computations that ended well.
  std::uint64_t ops_finished = 0;
  // Sends that a transport gave up.
  std::uint64_t ops_failed = 0;
  // Packets that arrived corrupted.
  std::uint64_t corrupted = 0;
};

// `path_events.parquet`, written if `watch.series` has `paths` and the state of an EV changed. An EV without a row
// was GOOD throughout.
struct PathEventRow {
  // Time of the change.
  TimePs time = 0;
  // Host that sends over the EV.
  std::uint32_t host = 0;
  // Number of the QP at this host.
  std::uint32_t connection = 0;
  // The EV.
  std::uint32_t ev = 0;
  // Its port, which is its plane.
  std::uint8_t port = 0;
  // 1 GOOD, 2 ASSUMED_BAD, 3 SKIP, 4 DENIED; 0: the EV has left the set and `replacement` took its place.
  std::uint8_t state = 0;
  // An `EvCause`.
  std::uint8_t cause = 0;
  // The EV that took its place.
  std::uint32_t replacement = 0;
  // Uplink of the T0 that the path takes.
  std::uint16_t t0_uplink = 0;
  // Uplink of the T1 that the path takes.
  std::uint16_t t1_uplink = 0;
};

// `Simulation.op_times()`: one row per send or computation of the graph. A time of -1 means that the event has not
// occurred.
struct OpTimeRow {
  // Start at its host.
  TimePs started = 0;
  // A send: complete at the receiver.
  TimePs received = 0;
  // A send: acknowledged; a computation: its end.
  TimePs completed = 0;
  // 1: the transport gave it up.
  std::uint8_t failed = 0;
};

// `Simulation.links(plane, kind)`: one row per link of a kind, with the queue of the port that feeds it.
struct LinkRow {
  // Sent.
  std::uint64_t packets = 0;
  // Sent.
  std::uint64_t bytes = 0;
  // Marked.
  std::uint64_t marks = 0;
  // Trimmed.
  std::uint64_t trims = 0;
  // Lost: the queue was full.
  std::uint64_t drop_queue = 0;
  // Lost: the queue of control packets was full.
  std::uint64_t drop_control_queue = 0;
  // Lost: the link was down.
  std::uint64_t drop_down = 0;
  // Lost silently by the link, as all are.
  std::uint64_t drop_blackhole = 0;
  // Lost at random.
  std::uint64_t drop_loss = 0;
  // Longest queue since the call before.
  std::uint64_t queue_peak_bytes = 0;
  // Current queue.
  std::uint64_t queue_bytes = 0;
  // Pauses of the link (PFC).
  std::uint64_t pauses = 0;
  // Their total duration.
  TimePs paused = 0;
};

// `Simulation.ports()`: one row per port of a NIC, host by host, in the order of the planes.
struct PortRow {
  // Sent, headers included.
  std::uint64_t tx_bytes = 0;
  // Received, headers included.
  std::uint64_t rx_bytes = 0;
  // Sent.
  std::uint64_t tx_packets = 0;
  // Received.
  std::uint64_t rx_packets = 0;
};

// `Simulation.hosts()`: one row per host.
struct HostRow {
  // Payload received, each byte once.
  std::uint64_t goodput_bytes = 0;
};

// `Simulation.connections()`: one row per direction of a connection, the sender's view.
struct ConnectionRow {
  // Sender.
  std::uint32_t host = 0;
  // Receiver.
  std::uint32_t peer = 0;
  // Number among the connections of the two.
  std::uint32_t lane = 0;
  // Data packets sent, retransmissions included.
  std::uint64_t sent_packets = 0;
  // Payload sent, retransmissions included.
  std::uint64_t sent_bytes = 0;
  // Data packets sent again.
  std::uint64_t retransmitted_packets = 0;
  // Payload received by the peer, each byte once.
  std::uint64_t received_bytes = 0;
  // Data packets that the peer received again.
  std::uint64_t duplicate_packets = 0;
  // Marks that the sender knows of.
  std::uint64_t marks = 0;
  // Trimmed packets that the sender knows of.
  std::uint64_t trims = 0;
  // Packets that the sender took for lost.
  std::uint64_t losses_inferred = 0;
  // Expiries of the retransmission timer.
  std::uint64_t timeouts = 0;
  // Current window; 0: not applicable.
  std::uint64_t window_bytes = 0;
  // Current rate; 0: not applicable.
  std::uint64_t rate_bps = 0;
  // Smoothed round trip; 0: not applicable.
  TimePs smoothed_rtt = 0;
};

}  // namespace openmrc::netsim
