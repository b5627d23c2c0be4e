// A port on UDP sockets. Two receive sockets bound to the well-known UDP port, one of them for endpoint operations, and
// one transmit socket per source port, because in EV format UDP the source port is the EV.
//
// In EV format SRV6 the destination address of a packet is its path. The switches shift that address, which no UDP
// checksum survives, so datagrams have none (the ICRC covers them), and kernel offloads are unavailable.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "nic/file_descriptor.hpp"
#include "nic/port.hpp"

namespace openmrc::nic {

class SocketPort final : public Port {
 public:
  // Opens all sockets; see PortFactory.
  SocketPort(PortId id, const Settings& device, std::uint32_t& next_source_port);

  std::uint32_t send(const TxBurst& burst, std::uint32_t first) override;
  int blocked_fd() const override { return blocked_fd_; }
  void drop(std::uint32_t datagrams) override { sent_.dropped_datagrams += datagrams; }

  Received receive(ReceiveBuffers& buffers, TrainSink& sink) override;
  Received receive_endpoint(ReceiveBuffers& buffers, TrainSink& sink) override;
  TimeNs endpoint_rests_until() const override { return endpoint_rests_until_; }
  int receive_fd() const override { return receive_socket_.get(); }
  int endpoint_fd() const override { return endpoint_socket_.get(); }

  bool interface_gone() const override;
  int rebind() override;
  void close() override;
  SocketStats stats() const override;

  std::uint32_t path_mtu(const Address& peer, std::uint16_t udp_port) const override;
  const std::vector<Ev>& evs() const override { return evs_; }

 private:
  struct Route;  // parameters shared by all datagrams of one burst
  // A second socket with the same source port, for lone small datagrams to a steady peer on the same kernel: cheaper, as
  // the kernel looks up no route. But it numbers IPv4 headers, which the ICRC covers, and draws another IPv6 flow label,
  // so that the EV would lead over another path.
  struct ConnectedSocket {
    struct Target {
      Address peer;
      std::uint16_t peer_port = 0;  // 0: none
      int traffic_class = 0;
      bool operator==(const Target&) const = default;
    };
    FileDescriptor fd;
    Target target;              // of the socket
    Target latest;              // of the latest such datagram that was for something else
    std::uint8_t in_a_row = 0;  // number of those
  };
  struct TransmitSocket {
    FileDescriptor fd;
    int traffic_class = -1;         // of the socket itself, for datagrams without a control message; -1: not set
    int latest_traffic_class = -1;  // of the latest lone small datagram
    ConnectedSocket connected;
  };
  enum class Outcome : std::uint8_t { kSent, kBlocked, kShort, kFallback };  // kShort: of memory

  bool is_srv6() const { return ev_format_ == wire::EvFormat::kSrv6; }
  FileDescriptor open_receive_socket();
  FileDescriptor open_endpoint_socket(int receive_fd) const;
  void set_receive_options(int fd) const;
  // Opens a socket on the first free source port from `source_port` on and stores the port there; invalid: none is free
  // before `end`.
  TransmitSocket open_transmit_socket(std::uint32_t& source_port, std::uint32_t end);
  void open_transmit_sockets(std::uint32_t& next_source_port);
  std::uint32_t source_ports_for(std::uint32_t evs) const;
  std::uint32_t make_ev(std::uint32_t index) const;
  bool find_path(const Address& peer, std::uint16_t selector, Address& destination) const;
  FileDescriptor open_second_socket(const TransmitSocket& transmit, std::uint16_t source_port) const;
  bool connect(TransmitSocket& transmit, std::uint16_t source_port);
  bool prepare_connected(TransmitSocket& transmit, const TxBurst& burst);
  bool send_connected(TransmitSocket& transmit, const TxBurst& burst);
  Outcome send_segmented(const Route& route, std::span<const TxPacket> packets);
  Outcome send_small(const Route& route, const TxPacket& packet, std::uint32_t& sent);
  std::uint32_t send_joined(const Route& route, const TxBurst& burst);
  Outcome send_flat(const Route& route, std::span<std::uint8_t> datagram);
  Outcome send_singly(const Route& route, std::span<const TxPacket> packets, std::uint32_t& sent);
  Outcome refused(int error, std::size_t datagrams, bool segmented);
  int send_batch(const Route& route, std::span<mmsghdr> messages);
  bool send_lone(const Route& route, std::span<std::uint8_t> datagram);
  bool socket_has_class_of(const Route& route);
  int receive_batch(int fd, std::span<mmsghdr> messages);
  Received receive_refused();
  Received hand_over(std::span<mmsghdr> messages, ReceiveBuffers& buffers, TrainSink& sink);
  bool open_message(mmsghdr& message, Train& train, Received& found);
  void note_size(std::size_t bytes);
  TimeNs waited(TimeNs stamp) const;
  void note_fault(int error);
  void note_sent(std::size_t datagrams, std::uint64_t bytes);
  TransmitSocket& socket_of(std::uint16_t source_port);

  static constexpr std::size_t kShortBytes = 1024;  // of a read or a burst, up to which latency matters most

  PortId id_;
  const Settings& device_;
  PortSettings settings_;
  std::uint16_t udp_port_;
  wire::EvFormat ev_format_;
  const PathRules& paths_;
  std::atomic<std::uint32_t> scope_{0};  // of the interface
  std::vector<Ev> evs_;
  std::atomic<int> refusal_{0};      // errno of the latest refusal
  std::atomic<bool> faulty_{false};  // the kernel has refused, and no packet has passed since

  // The sending half.
  std::vector<TransmitSocket> transmit_sockets_;
  std::vector<std::uint16_t> source_ports_;  // sorted, parallel to transmit_sockets_
  int blocked_fd_ = -1;
  bool sends_batches_ = true;  // sendmmsg: a sandbox may forbid it
  bool sends_plain_ = true;    // sendto, from sockets whose traffic class may be set: the same
  SocketStats sent_;
  std::atomic<bool> sent_large_{false};  // or data and its ACK at once, since the receiving half looked

  // The receiving half.
  FileDescriptor receive_socket_, endpoint_socket_;
  TimeNs endpoint_paid_until_ = 0, endpoint_rests_until_ = 0;
  bool receives_batches_ = true;   // recvmmsg: the same
  std::uint8_t single_looks_ = 2;  // single-message reads before reads of batches
  bool stamps_ = false;            // the kernel timestamps arrivals
  bool coalesced_ = false;         // it coalesced datagrams of the latest read
  bool joins_ = true;              // and may do so
  std::uint32_t short_looks_ = 0;  // reads that found few bytes while few were sent; less those of joined datagrams
  TimeNs looked_ = 0;              // time of the latest read that returned messages
  TimeNs emptied_ = 0;             // time of the latest read that emptied the socket
  SocketStats received_;
};

}  // namespace openmrc::nic
