// Written by tools/spec.py from spec/fabric-statistics.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/time.hpp"

namespace openmrc::netsim {

// Subject of a notice.
enum class NoticeKind : std::uint8_t {
  kFaultBegins = 0,   // A fault begins.
  kFaultEnds = 1,     // A fault ends: its time is over, or its period pauses.
  kFaultRemoved = 2,  // A fault was repaired.
  kCarrier = 3,       // The carrier of a host's port has changed.
};

// A change in the fabric, for observers.
struct Notice {
  // Time since the fabric started.
  TimePs time = 0;
  // Subject.
  NoticeKind kind = NoticeKind::kFaultBegins;
  // Id of the fault; CARRIER: 0.
  std::uint32_t fault = 0;
  // CARRIER: the host; of hosts with several NICs, the NIC.
  std::uint32_t host = 0;
  // CARRIER: the plane.
  std::uint32_t plane = 0;
  // CARRIER: the port has a carrier.
  bool up = false;
};

// The fabric as a whole.
struct EmulatorCounters {
  // Time since the fabric started.
  TimePs time = 0;
  // Datagrams received from hosts.
  std::uint64_t received = 0;
  // Datagrams sent to hosts.
  std::uint64_t delivered = 0;
  // Bytes of these from the UDP payload on.
  std::uint64_t delivered_bytes = 0;
  // Packets in queues and on links.
  std::uint64_t inside = 0;
  // Dropped: the source is not a host of the plane.
  std::uint64_t unknown_source = 0;
  // Dropped: longer than any packet of the protocol.
  std::uint64_t oversized = 0;
  // Dropped: the memory for payloads was full.
  std::uint64_t payloads_full = 0;
  // Lost by the kernel before the fabric read them.
  std::uint64_t socket_overflow = 0;
  // System calls that send.
  std::uint64_t send_calls = 0;
  // Refused by the kernel.
  std::uint64_t send_failed = 0;
  // Dropped: no socket could be bound to the source port.
  std::uint64_t bind_failed = 0;
  // Sending sockets that are open.
  std::uint64_t sockets_open = 0;
  // Sending sockets opened.
  std::uint64_t sockets_opened = 0;
  // Sending sockets closed to make room for others.
  std::uint64_t sockets_closed = 0;
  // Iterations of the fabric's thread.
  std::uint64_t wakeups = 0;
  // Largest delay of a packet beyond its last link's departure time: a measure of the scheduling of the fabric.
  TimePs late_max = 0;
  // Processor time of the fabric's thread.
  TimePs cpu = 0;
  // Ids of the faults that act now.
  std::vector<std::uint32_t> active_faults = {};
};

// One link in one direction, with the queue of the port that feeds it.
struct LinkStatistics {
  // Plane.
  std::uint32_t plane = 0;
  // `nic_up` (host to T0), `nic_down` (T0 to host), `t0_up` (T0 to T1) or `t1_down` (T1 to T0).
  std::string kind;
  // Host at one end; None: the link connects switches.
  std::optional<std::uint32_t> host;
  // T0 at one end.
  std::optional<std::uint32_t> t0;
  // T1 at one end; None: the link connects a host.
  std::optional<std::uint32_t> t1;
  // Sent.
  std::uint64_t packets = 0;
  // Sent.
  std::uint64_t bytes = 0;
  // Marked.
  std::uint64_t marks = 0;
  // Trimmed.
  std::uint64_t trims = 0;
  // Corrupted by a fault.
  std::uint64_t corrupted = 0;
  // Duplicated by a fault.
  std::uint64_t duplicated = 0;
  // Held back by a fault.
  std::uint64_t reordered = 0;
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
  // Lost: the plane held its limit of packets.
  std::uint64_t drop_crowded = 0;
  // Longest queue.
  std::uint64_t queue_peak_bytes = 0;
};

}  // namespace openmrc::netsim
