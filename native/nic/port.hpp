// One port (plane) of the software NIC: its sockets. Two receive sockets bound to the well-known UDP port, one of them for
// endpoint operations, and one transmit socket per source port, because in EV format UDP the source port is the EV. Never blocks, never throws while packets
// flow: what the kernel refuses is counted or kept for later.
//
// In EV format SRV6 the destination address of a packet is its path. No UDP checksum survives that address being eaten up
// on the way, so datagrams have none (the ICRC covers them), and the kernel offers no offloads for such.
//
// Not thread safe; the device's lock covers it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "nic/clock.hpp"
#include "nic/file_descriptor.hpp"
#include "nic/settings.hpp"

struct mmsghdr;

namespace openmrc::nic {

struct SocketStats {
  std::uint64_t send_calls = 0, sent_datagrams = 0, sent_bytes = 0, segmented_sends = 0;
  std::uint64_t receive_calls = 0, received_datagrams = 0, received_bytes = 0, coalesced_receives = 0;
  std::uint64_t would_block = 0;        // EAGAIN, ENOBUFS: the burst was kept and the port rested
  std::uint64_t send_errors = 0;        // any other refusal: the datagrams were dropped, as a broken link would
  std::uint64_t dropped_datagrams = 0;  // not sent because of send_errors, a deregistered region, or no path
  std::uint64_t too_long = 0;           // of these: larger than the path MTU
  std::uint64_t no_path = 0;            // of these: EV format SRV6, to a peer that no path rule knows
  std::uint64_t receive_errors = 0;     // pending ICMP errors and the like
  std::uint64_t truncated = 0;          // datagrams longer than any packet of ours
  std::uint64_t kernel_drops = 0;       // receive buffer full
  std::uint64_t endpoint_drops = 0;     // endpoint operations: more than this port reads
  std::uint32_t receive_buffer_bytes = 0, send_buffer_bytes = 0;  // as the kernel granted them
  std::int32_t last_send_error = 0;                               // errno
  std::int32_t refusal = 0;  // errno, if the kernel has refused and taken or given nothing since
  bool segmentation_offload = false, receive_offload = false;
};

// Memory that received datagrams pass through; one for all ports of a device.
class ReceiveBuffers;
struct ReceiveBuffersDeleter {
  void operator()(ReceiveBuffers* buffers) const;
};
using ReceiveBuffersPtr = std::unique_ptr<ReceiveBuffers, ReceiveBuffersDeleter>;
ReceiveBuffersPtr make_receive_buffers();

// What came at a look; no datagrams: nothing was there.
struct Received {
  std::uint32_t datagrams = 0;
  std::uint64_t bytes = 0;
  bool refused = false;      // by the kernel, though something may be there: looking again at once is no use
  TimeNs waited = kNeverNs;  // the latest of the larger messages, in its socket; kNeverNs: none came
};

class Port {
 public:
  // Opens everything. `next_source_port` is where to look for free source ports and moves on, so that no two ports of
  // a device share an EV value. `device` outlives the port. Throws NicError.
  Port(PortId id, const PortSettings& settings, const Settings& device, std::uint32_t& next_source_port);

  // Hands the burst to the kernel. What it does not take now is kept; then blocked() is true until retry() succeeds.
  void send(const TxBurst& burst);
  bool retry();
  bool blocked() const { return pending_ != nullptr; }
  // Becomes writable when retry() may succeed; -1: nothing announces that, such as memory that is short.
  int blocked_fd() const { return blocked_fd_; }
  // errno of the first refusal after the kernel last took or gave something; 0: none since the last call.
  int take_fault() { return std::exchange(fault_, 0); }
  // Forgets what is kept.
  void drop_pending();
  // Whether what is kept points into this memory.
  bool pending_reads(const std::uint8_t* base, std::uint64_t length_bytes) const;
  void drop(std::uint32_t datagrams) { stats_.dropped_datagrams += datagrams; }

  // Receives one batch and hands every datagram in it to `engine`.
  Received receive(Engine& engine, const EngineClock& clock, ReceiveBuffers& buffers);
  // The same from the socket for endpoint operations, as far as their share allows.
  Received receive_endpoint(Engine& engine, const EngineClock& clock, ReceiveBuffers& buffers);
  // Their share is used up: nothing is read from their socket until then. 0: it is not.
  TimeNs endpoint_rests_until() const { return endpoint_rests_until_; }

  // The smallest MTU that the kernel knows on the ways to a peer. Throws NicError when there is none.
  std::uint32_t path_mtu(const Address& peer, std::uint16_t udp_port) const;

  // Whether the interface that the sockets are bound to is gone. One of the same name is another one.
  bool interface_gone() const;
  // Binds to the interface that has the name now, with the same addresses and UDP ports; receive_fd() changes. 0 or the
  // errno: then the port is as it was.
  int rebind();

  int receive_fd() const { return receive_socket_.get(); }
  // -1: the kernel does not sort, and all datagrams come by receive_fd().
  int endpoint_fd() const { return endpoint_socket_.get(); }
  const std::vector<Ev>& evs() const { return evs_; }
  const PortSettings& settings() const { return settings_; }
  SocketStats stats() const;

 private:
  struct Route;                                                              // what all datagrams of one burst share
  enum class Outcome : std::uint8_t { kSent, kBlocked, kShort, kFallback };  // kShort: of memory

  bool is_srv6() const { return ev_format_ == wire::EvFormat::kSrv6; }
  FileDescriptor open_receive_socket();
  FileDescriptor open_endpoint_socket(int receive_fd) const;
  void set_receive_options(int fd) const;
  // On the first free source port from `source_port` on, which becomes that one; invalid: none is free before `end`.
  FileDescriptor open_transmit_socket(std::uint32_t& source_port, std::uint32_t end);
  void open_transmit_sockets(std::uint32_t& next_source_port);
  std::uint32_t source_ports_for(std::uint32_t evs) const;
  std::uint32_t make_ev(std::uint32_t index) const;
  bool find_path(const Address& peer, std::uint16_t selector, Address& destination) const;
  std::uint32_t send_from(const TxBurst& burst, std::uint32_t first);
  Outcome send_segmented(const Route& route, std::span<const TxPacket> packets);
  Outcome send_small(const Route& route, const TxPacket& packet, std::uint32_t& sent);
  Outcome send_singly(const Route& route, std::span<const TxPacket> packets, std::uint32_t& sent);
  Outcome refused(int error, std::size_t datagrams, bool segmented);
  int send_batch(const Route& route, std::span<mmsghdr> messages);
  int receive_batch(int fd, std::span<mmsghdr> messages);
  Received receive_refused();
  void hand_over(mmsghdr& message, Engine& engine, const EngineClock& clock, Received& found);
  void begin_stamps();
  TimeNs waited(TimeNs stamp) const;
  void note_fault(int error);
  int socket_of(std::uint16_t source_port) const;

  PortId id_;
  PortSettings settings_;
  const Settings& device_;
  std::uint16_t udp_port_;
  wire::EvFormat ev_format_;
  const PathRules& paths_;
  std::uint32_t scope_ = 0;
  FileDescriptor receive_socket_, endpoint_socket_;
  TimeNs endpoint_paid_until_ = 0, endpoint_rests_until_ = 0;
  std::vector<FileDescriptor> transmit_sockets_;
  std::vector<std::uint16_t> source_ports_;  // sorted, parallel to transmit_sockets_
  std::vector<Ev> evs_;
  std::unique_ptr<TxBurst> pending_;
  std::uint32_t pending_first_ = 0;
  int blocked_fd_ = -1;
  int fault_ = 0;
  int refusal_ = 0;                // errno of the latest refusal
  bool faulty_ = false;            // the kernel has refused, and taken nothing since
  bool batches_ = true;            // sendmmsg and recvmmsg: a sandbox may forbid them
  std::uint8_t single_looks_ = 2;  // at the socket, for one message each, before looks for many
  bool stamps_ = false;            // the kernel stamps what arrives
  TimeNs handed_ = 0;              // when the engine got the latest message
  TimeNs emptied_ = 0;             // the same of one that left the socket empty
  SocketStats stats_;
};

}  // namespace openmrc::nic
