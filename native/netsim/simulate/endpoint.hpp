// The transport of one simulated NIC: MRC (the engine), RoCEv2, DCTCP. Sans-IO like the engine: time is an argument.
//
// Set-up: open every connection, then connect every connection with the number that the peer's `open` returned. At run
// time the order of calls is the engine's: after any post or handle_*, poll_transmit until false for the free ports,
// then next_timer; poll_done until false. `now` never goes backwards.
//
// A connection joins two NICs and carries messages both ways. Two NICs may have several (lanes: "QPs per peer"); the
// NIC splits each message over the lanes, invisibly to endpoints.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/hot_memory.hpp"
#include "engine/base/time.hpp"
#include "netsim/output_port.hpp"
#include "netsim/packet.hpp"
#include "netsim/routing_tables.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

using MessageId = std::uint32_t;  // the same at both ends: carried in the packets

inline constexpr std::uint32_t kHeaderRoom = 56;  // size of the longest transport header of a simulated host

// The fields of a packet for its two ends, which the fabric does not use: one cache line, written once and read once.
struct alignas(64) TransportPart {
  std::uint16_t payload_bytes = 0;  // lengths only
  std::uint8_t header_bytes = 0;    // used bytes of `header`
  std::array<std::uint8_t, kHeaderRoom> header{};
};

// A packet at a host.
struct HostPacket : Packet, TransportPart {};

// Parameters of a run for every transport, shared by all endpoints.
struct Surroundings {
  ClosShape shape;
  std::uint64_t seed = 0;
  std::uint32_t payload_mtu = 4096;
  std::uint32_t header_bytes = 126;  // of every packet on the wire around the transport's own header and payload: UDP,
                                     // IP, encapsulation, Ethernet framing; the ICRC is the transport's
  std::uint64_t port_rate_bps = 0;   // of the fastest plane
  TimePs base_rtt = 0;               // of a full packet and its acknowledgement across the longest path
  const RoutingTables* routing = nullptr;  // peers reachable from a host over each plane; nullptr: all
};

// One connection from the view of one of its ends.
struct ConnectionEnd {
  std::uint32_t peer_host = 0;
  std::uint64_t bytes_out = 0;  // total that the workload will send over it, and
  std::uint64_t bytes_in = 0;   // receive; directions without data need no state
  std::uint32_t messages_out = 0;
  std::uint32_t messages_in = 0;
};

struct Done {
  enum class Kind : std::uint8_t {
    kReceived,   // at the receiver: all bytes are there
    kCompleted,  // at the sender: acknowledged
    kFailed,     // at the sender: given up; no further changes follow
  };
  MessageId message = 0;
  Kind kind{};
};

struct ConnectionStats {
  std::uint64_t sent_packets = 0, sent_bytes = 0, retransmitted_packets = 0;      // data, payload bytes
  std::uint64_t received_packets = 0, received_bytes = 0, duplicate_packets = 0;  // data; bytes without duplicates
  std::uint64_t acknowledgements = 0, negative_acknowledgements = 0;              // received
  std::uint64_t marks = 0, trims = 0, losses_inferred = 0, timeouts = 0;          // known to the sender
  std::uint64_t window_bytes = 0, rate_bps = 0;  // current values of the sender; 0: not applicable
  TimePs smoothed_rtt = 0;
};

// A change of a path of a connection.
struct PathEvent {
  TimePs time = 0;
  std::uint32_t connection = 0;
  std::uint32_t ev = 0;
  std::uint8_t port = 0;
  std::uint8_t state = 0;  // EvState; 0 for a replacement
  std::uint8_t cause = 0;  // EvCause
  std::uint32_t replacement = 0;
};

// A packet for a port. The NIC fills in its `link`, `source_host`, `payload` and `route`.
struct Outbound {
  HostPacket packet;
  PortId port = 0;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Opens a connection; they are numbered 0, 1, 2... in the order of the calls. Returns the number for the peer.
  virtual std::uint32_t open(const ConnectionEnd& end) = 0;
  virtual void connect(std::uint32_t connection, std::uint32_t peer_number) = 0;

  // Posts a message of `bytes` (0 is allowed) to the peer.
  virtual void post(TimePs now, std::uint32_t connection, MessageId message, std::uint64_t bytes) = 0;
  virtual void handle_packet(TimePs now, PortId port, const HostPacket& packet) = 0;
  virtual void handle_timer(TimePs now) = 0;
  virtual void handle_port_state(TimePs now, PortId port, bool up) = 0;

  // The next packet for one of the free ports; false: nothing now. `paused_ports` (PFC) may carry control only.
  virtual bool poll_transmit(TimePs now, PortMask free_ports, PortMask paused_ports, Outbound& out) = 0;
  virtual bool poll_done(Done& done) = 0;
  virtual bool poll_path_event(PathEvent& /*event*/) { return false; }

  // Adds the addresses of the state that traffic touches, as a hint for prefetching.
  virtual void hot_memory(HotMemory& /*memory*/) const {}
  virtual TimePs next_timer() const = 0;
  virtual ConnectionStats stats(std::uint32_t connection) const = 0;
  virtual std::uint64_t memory_bytes() const = 0;
};

}  // namespace openmrc::netsim
