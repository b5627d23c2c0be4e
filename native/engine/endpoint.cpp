#include "engine/endpoint.hpp"

#include <algorithm>

#include "engine/qp/packet_builder.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

constexpr auto kResolution = wire::TimestampResolution::k1Us;
constexpr std::size_t kResponsesMax = 1024;

wire::Bth endpoint_bth(const EngineConfig& config, wire::Opcode opcode, std::uint16_t id) {
  wire::Bth bth;
  bth.opcode = opcode;
  bth.partition_key = config.partition_key;
  bth.destination_qp = kEndpointQp;
  bth.psn = id;
  return bth;
}

// `wanted` where this port can send from it, else one that stands for it: other wishes, other paths.
std::uint32_t own_ev(const PortConfig& port, std::uint32_t wanted) {
  if (port.evs.empty() || std::find(port.evs.begin(), port.evs.end(), wanted) != port.evs.end()) return wanted;
  return port.evs[wanted % port.evs.size()];
}

}  // namespace

void EndpointOperations::send_ev_probe(TimePs now, const Asker& asker, PeerId peer, const Ev& ev, TimePs timeout) {
  Request request;
  request.wire_id = next_wire_id_++;
  request.op = wire::EndpointOp::kEvProbe;
  request.asker = asker;
  request.peer = peer;
  request.ev = ev;
  request.deadline = now + timeout;
  requests_.push_back(request);
}

void EndpointOperations::send_port_status(TimePs now, PeerId peer, PortMask ports_up) {
  // A newer status makes an older one that is still on its way worthless.
  std::erase_if(requests_, [&](const Request& request) {
    return request.op == wire::EndpointOp::kPortStatusUpdate && request.peer == peer;
  });
  Request request;
  request.wire_id = next_wire_id_++;
  request.op = wire::EndpointOp::kPortStatusUpdate;
  request.peer = peer;
  request.ports = ports_up;
  request.interval = config_.endpoint_retry;
  request.deadline = now + config_.endpoint_retry;
  request.attempts_left = config_.endpoint_retries;
  requests_.push_back(request);
}

Peer* EndpointOperations::handle_request(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  Peer* peer = peers_.by_address(datagram.port, datagram.source);
  const bool status_update = packet.erth.op == wire::EndpointOp::kPortStatusUpdate;
  if (status_update && peer == nullptr) {
    ++unknown_peer_;
    return nullptr;
  }
  if (responses_.size() < kResponsesMax) {
    Response response;
    response.destination = datagram.source;
    response.udp_port = peer == nullptr ? config_.udp_port : peer->udp_port;
    response.port = datagram.port;
    response.wire_id = static_cast<std::uint16_t>(packet.bth.psn);
    response.eeth.op = packet.erth.op;
    response.eeth.entropy = wire::ev_of_fields(datagram.fields, config_.ev_format);
    response.eeth.timestamp = packet.erth.timestamp;
    response.eeth.marked = datagram.ecn == Ecn::kCe;
    response.arrived = now;
    responses_.push_back(response);
  }
  if (!status_update) return nullptr;
  const PortMask existing = peer->ports.size() >= 32 ? ~PortMask{0} : (PortMask{1} << peer->ports.size()) - 1;
  const PortMask told = packet.erth.port_status_mask & existing;
  if (told == peer->ports_up) return nullptr;
  peer->ports_up = told;
  return peer;
}

void EndpointOperations::handle_response(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  const auto id = static_cast<std::uint16_t>(packet.bth.psn);
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const Request& request) {
    return request.wire_id == id && !request.unsent && request.op == packet.eeth.op;
  });
  if (found == requests_.end()) return;
  const Peer* peer = peers_.find(found->peer);
  if (datagram.port >= peer->ports.size() || peer->ports[datagram.port] != datagram.source) {
    ++unknown_peer_;
    return;
  }
  EndpointResult answer = unanswered(*found);
  answer.answered = true;
  answer.marked = packet.eeth.marked;
  answer.rtt = now - found->sent;
  if (packet.eeth.service_time_removed) {
    const auto held = static_cast<std::uint16_t>(packet.eeth.timestamp - timestamp_at(found->sent, kResolution));
    const TimePs service = held * timestamp_unit(kResolution);
    answer.service_time_removed = service < answer.rtt;
    if (answer.service_time_removed) answer.rtt -= service;
  }
  finish(*found, answer);
  requests_.erase(found);
}

EndpointResult EndpointOperations::unanswered(const Request& request) const {
  EndpointResult answer;
  answer.request_id = request.asker.request_id;
  answer.op = request.op;
  answer.port = request.ev.port;
  answer.peer = request.peer;
  answer.ev = request.ev.value;
  return answer;
}

void EndpointOperations::finish(const Request& request, const EndpointResult& answer) {
  if (request.op == wire::EndpointOp::kEvProbe) results_.push_back({request.asker, answer});
}

void EndpointOperations::handle_timer(TimePs now, PortMask ports_up) {
  for (Request& request : requests_) {
    if (request.deadline > now || request.op != wire::EndpointOp::kPortStatusUpdate || request.attempts_left == 0) {
      continue;
    }
    --request.attempts_left;
    request.unsent = true;
    request.ports = ports_up;
    request.deadline = now + request.interval;
  }
  const auto expired = std::stable_partition(requests_.begin(), requests_.end(),
                                             [&](const Request& request) { return request.deadline > now; });
  for (auto at = expired; at != requests_.end(); ++at) finish(*at, unanswered(*at));
  requests_.erase(expired, requests_.end());
}

TimePs EndpointOperations::next_timer() const {
  TimePs next = kNever;
  for (const Request& request : requests_) next = std::min(next, request.deadline);
  return next;
}

void EndpointOperations::rebase(TimePs by) {
  for (Request& request : requests_) {
    request.sent = rebased(request.sent, by);
    request.deadline = rebased(request.deadline, by);
  }
  for (Response& response : responses_) response.arrived = rebased(response.arrived, by);
}

bool EndpointOperations::poll_result(Result& result) {
  if (results_.empty()) return false;
  result = results_.front();
  results_.pop_front();
  return true;
}

bool EndpointOperations::build_response(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst) {
  std::erase_if(responses_, [&](const Response& response) { return (ports_up >> response.port & 1) == 0; });
  const auto found = std::find_if(responses_.begin(), responses_.end(),
                                  [&](const Response& response) { return (free_ports >> response.port & 1) != 0; });
  if (found == responses_.end()) return false;
  // Back on the EV of the request: who probes random EVs then tries as many ways back.
  BurstBuilder builder(burst, config_, found->destination, found->udp_port, found->port,
                       own_ev(config_.ports[found->port], found->eeth.entropy), TrafficClass::kControl, 0);
  wire::Packet packet;
  packet.bth = endpoint_bth(config_, wire::Opcode::kEndpointResponse, found->wire_id);
  packet.eeth = found->eeth;
  const TimePs held = (now - found->arrived) / timestamp_unit(kResolution);
  packet.eeth.timestamp = static_cast<std::uint16_t>(found->eeth.timestamp + std::min<TimePs>(held, UINT16_MAX));
  packet.eeth.service_time_removed = true;
  builder.add(packet, nullptr, 0);
  responses_.erase(found);
  return true;
}

bool EndpointOperations::build_request(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst) {
  for (Request& request : requests_) {
    if (!request.unsent) continue;
    const Peer* peer = peers_.find(request.peer);
    Ev path = request.ev;
    TrafficClass traffic_class = TrafficClass::kNoTrim;
    if (request.op == wire::EndpointOp::kPortStatusUpdate) {
      // Any port that is up at both ends, another one at each attempt.
      const PortMask possible = ports_up & peer->ports_up & free_ports;
      if (possible == 0) continue;
      path.port = static_cast<PortId>(request.attempts_left % peer->ports.size());
      while ((possible >> path.port & 1) == 0) path.port = static_cast<PortId>((path.port + 1U) % peer->ports.size());
      path.value = own_ev(config_.ports[path.port], request.wire_id);
      traffic_class = TrafficClass::kControl;
    }
    if (path.port >= peer->ports.size() || ((free_ports & ports_up) >> path.port & 1) == 0) continue;
    BurstBuilder builder(burst, config_, peer->ports[path.port], peer->udp_port, path.port, path.value, traffic_class,
                         0);
    wire::Packet packet;
    packet.bth = endpoint_bth(config_, wire::Opcode::kEndpointRequest, request.wire_id);
    packet.erth = {request.op, request.ports, timestamp_at(now, kResolution), kResolution};
    builder.add(packet, nullptr, 0);
    request.sent = now;
    request.unsent = false;
    return true;
  }
  return false;
}

}  // namespace openmrc
