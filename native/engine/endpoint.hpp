// Endpoint operations: EV probes and port status updates between NICs, without a QP (A.12, A.13).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/engine.hpp"
#include "engine/peer.hpp"
#include "engine/qp/context.hpp"

namespace openmrc {

class EndpointOperations {
 public:
  EndpointOperations(const EngineConfig& config, PeerTable& peers) : config_(config), peers_(peers) {}

  // Who asked, so that the answer finds its way: the application (request id) or a QP's reverse paths (QP number).
  struct Asker {
    std::uint32_t qp = 0;  // 0: the application
    std::uint16_t request_id = 0;
  };
  struct Result {
    Asker asker;
    EndpointResult answer;
  };

  void send_ev_probe(TimePs now, const Asker& asker, PeerId peer, const Ev& ev, TimePs timeout);
  // Tells the peer which of our ports are up; repeated over the remaining ports until answered.
  void send_port_status(TimePs now, PeerId peer, PortMask ports_up);

  // Returns the peer whose port state changed, if any.
  Peer* handle_request(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void handle_response(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  void handle_timer(TimePs now, PortMask ports_up);
  TimePs next_timer() const;
  void rebase(TimePs by);
  bool build(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst) {
    if (requests_.empty() && responses_.empty()) [[likely]]
      return false;
    return build_response(now, free_ports, ports_up, burst) || build_request(now, free_ports, ports_up, burst);
  }
  bool poll_result(Result& result);

  std::uint64_t unknown_peer() const { return unknown_peer_; }

 private:
  struct Request {
    std::uint16_t wire_id = 0;
    wire::EndpointOp op{};
    Asker asker;
    PeerId peer = 0;
    Ev ev;
    PortMask ports = 0;
    TimePs sent = 0;
    TimePs deadline = 0;
    TimePs interval = 0;
    std::uint8_t attempts_left = 0;
    bool unsent = true;
  };
  struct Response {
    Address destination;
    std::uint16_t udp_port = 0;
    PortId port = 0;
    std::uint16_t wire_id = 0;
    wire::Eeth eeth;
    TimePs arrived = 0;
  };

  bool build_request(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst);
  bool build_response(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst);
  void finish(const Request& request, const EndpointResult& answer);
  EndpointResult unanswered(const Request& request) const;

  const EngineConfig& config_;
  PeerTable& peers_;
  std::vector<Request> requests_;
  std::deque<Response> responses_;
  std::deque<Result> results_;
  std::uint64_t unknown_peer_ = 0;
  std::uint16_t next_wire_id_ = 1;
};

}  // namespace openmrc
