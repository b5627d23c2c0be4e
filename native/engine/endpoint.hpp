// Endpoint operations: EV probes, port status updates and checks of kernels between NICs, without a QP (A.12, A.13,
// X.4.12).
//
// Such packets can come from anyone, with any source address. An EV probe is answered, at a bounded rate, if a known
// peer has its address and UDP port; a port status counts if it carries the nonce of a connection with its sender; a
// response counts if it echoes the nonce of the request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/base/keyed_hash.hpp"
#include "engine/config.hpp"
#include "engine/datagram.hpp"
#include "engine/engine_services.hpp"
#include "engine/peer.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc {

struct EndpointResult {
  std::uint16_t request_id = 0;
  wire::EndpointOp op{};
  PortId port = 0;
  PeerId peer = 0;
  std::uint32_t ev = 0;
  bool answered = false;  // false: timed out
  bool same_kernel = false;
  bool marked = false;
  bool service_time_removed = false;
  TimePs rtt = 0;
};

class EndpointOperations final : public PathProber {
 public:
  EndpointOperations(const EngineConfig& config, PeerTable& peers, const HashKey& secret)
      : config_(config), peers_(peers), secret_(secret) {}

  // Originator of a probe and destination of its result: the application (request id), a QP's reverse paths (QP
  // number) or search for a payload (QP number and id), or the check of a port that the peer has reported down.
  struct Asker {
    std::uint32_t qp = 0;  // 0: the application, unless `port_check`
    std::uint16_t request_id = 0;
    bool port_check = false;
    std::uint32_t nonce = 0;  // of the connection, for a check of the kernel
  };
  struct Result {
    Asker asker;
    EndpointResult answer;
  };

  // Pads request and response by `padding_bytes`, a multiple of 4, to test packets of that size. False: too many
  // requests are unanswered.
  bool send_ev_probe(TimePs now, const Asker& asker, PeerId peer, const Ev& ev, TimePs timeout,
                     std::uint32_t padding_bytes = 0);
  // The result goes to the QP. None follows if too many requests are unanswered.
  void probe_reverse_path(TimePs now, std::uint32_t qp, PeerId peer, const Ev& ev, TimePs timeout) override {
    (void)send_ev_probe(now, {.qp = qp}, peer, ev, timeout);
  }
  bool probe_payload(TimePs now, std::uint32_t qp, std::uint16_t id, PeerId peer, const Ev& ev, TimePs timeout,
                     std::uint32_t padding_bytes) override {
    return send_ev_probe(now, {.qp = qp, .request_id = id}, peer, ev, timeout, padding_bytes);
  }
  // A result follows if it is the same.
  void check_kernel(TimePs now, std::uint32_t qp, PeerId peer, std::uint32_t nonce) override;
  // Reports the state of the local ports to every connected peer; repeated over the remaining ports until answered. A
  // peer that has never answered gets a single datagram, because its address is unverified.
  void send_port_status(TimePs now, PortMask ports_up);
  // Probes the ports of peers that are believed down, at `port_check_interval`.
  void check_ports(TimePs now);
  // Ends the requests to a peer that is about to be removed.
  void forget(PeerId peer);

  // Return the peer whose port state changed; nullptr if none did.
  Peer* handle_request(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, PortMask ports_up);
  Peer* handle_response(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void handle_timer(TimePs now, PortMask ports_up);
  void rebase(TimePs by);
  TimePs next_timer() const { return std::min(next_deadline_, port_check_at_); }
  bool build_request(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst);
  bool build_response(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst);
  // Responses leave after data, but within a bounded time.
  bool response_overdue(TimePs now) const {
    return !responses_.empty() && now - responses_.front().arrived >= config_.answer_patience;
  }
  bool poll_result(Result& result);

  std::uint64_t unknown_peer() const { return unknown_peer_; }
  std::uint64_t wrong_nonce() const { return wrong_nonce_; }
  std::uint64_t contradictory() const { return contradictory_; }
  std::uint64_t unanswered() const { return unanswered_; }

 private:
  struct Request {
    std::uint16_t wire_id = 0;
    wire::EndpointOp op{};
    Asker asker;
    PeerId peer = 0;
    Ev ev;
    std::uint32_t nonce = 0;
    std::uint32_t padding_bytes = 0;
    PortMask ports = 0;
    TimePs sent = 0;
    TimePs deadline = 0;
    std::uint8_t attempts_left = 0;
    bool unsent = true;
  };
  struct Response {
    Address destination;
    std::uint16_t udp_port = 0;
    PortId port = 0;
    std::uint16_t wire_id = 0;
    wire::Eeth eeth;
    std::uint32_t padding_bytes = 0;
    TimePs arrived = 0;
  };

  // Budget and limits of the responses to one peer.
  struct Ration {
    Budget& budget;
    TimePs interval = 0;
    std::uint32_t burst = 0;
  };

  void add(const Request& request);
  bool place_status(Request& request, const Peer& peer, PortMask possible) const;
  bool place(Request& request, const Peer& peer, PortMask possible) const;
  void queue_response(TimePs now, Ration own, const RxDatagram& datagram, const wire::Packet& packet,
                      std::uint32_t proof = 0);
  Peer* take_port_status(TimePs now, Peer& peer, const RxDatagram& datagram, const wire::Packet& packet,
                         PortMask ports_up);
  void answer_kernel_check(TimePs now, Peer& peer, const RxDatagram& datagram, const wire::Packet& packet);
  std::uint32_t kernel_proof(std::uint64_t purpose, std::uint32_t nonce) const;
  void probe_down_ports(TimePs now, PortMask ports_up);
  void finish(const Request& request, const EndpointResult& answer);
  EndpointResult unanswered(const Request& request) const;

  const EngineConfig& config_;
  PeerTable& peers_;
  const HashKey& secret_;
  std::vector<Request> requests_;
  std::deque<Response> responses_;
  std::deque<Result> results_;
  Budget answers_, strangers_;
  TimePs next_deadline_ = kNever;
  TimePs port_check_at_ = kNever;
  std::size_t unsent_ = 0;
  std::uint64_t unknown_peer_ = 0;
  std::uint64_t wrong_nonce_ = 0;
  std::uint64_t contradictory_ = 0;  // port statuses
  std::uint64_t unanswered_ = 0;     // requests over the limit
  std::uint64_t nonces_drawn_ = 0;
  std::uint16_t next_wire_id_ = 1;
  std::uint16_t status_id_ = 0;
};

}  // namespace openmrc
