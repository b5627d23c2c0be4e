#include "engine/endpoint.hpp"

#include <algorithm>
#include <array>

#include "engine/base/assert.hpp"
#include "engine/qp/packet_builder.hpp"
#include "engine/qp/timestamp.hpp"

namespace openmrc {
namespace {

constexpr auto kResolution = wire::TimestampResolution::k1Us;
constexpr std::size_t kResponsesMax = 1024;
constexpr std::size_t kRequestsMax = 1U << 16;
constexpr std::uint32_t kAnswersAtOncePeer = 1024, kAnswersAtOnce = 4096, kStrangersAtOnce = 256;
constexpr TimePs kStrangerInterval = kPsPerMs;
constexpr std::uint32_t kPortChecksMax = 256;  // probes at a time
constexpr std::array<std::uint8_t, kProbePaddingMax> kPadding{};
constexpr std::uint32_t kResponseGrowth = 20;  // EETH 36 instead of ERTH 16

wire::Bth endpoint_bth(const EngineConfig& config, wire::Opcode opcode, std::uint16_t id) {
  wire::Bth bth;
  bth.opcode = opcode;
  bth.partition_key = config.partition_key;
  bth.destination_qp = kEndpointQp;  // A.3.10
  bth.psn = id;
  return bth;
}

// `wanted` if this port can send from it, else a substitute; different arguments give different paths.
std::uint32_t own_ev(const PortConfig& port, std::uint32_t wanted) {
  if (port.evs.empty() || std::find(port.evs.begin(), port.evs.end(), wanted) != port.evs.end()) return wanted;
  return port.evs[wanted % port.evs.size()];
}

// The response to a padded request has the same size (X.3.1): it also tests the return path, and nothing is amplified.
std::uint32_t padding_of_response(std::uint32_t request_padding) {
  return request_padding - std::min(request_padding, kResponseGrowth);
}

}  // namespace

// --- requests

void EndpointOperations::add(const Request& request) {
  requests_.push_back(request);
  ++unsent_;
  next_deadline_ = std::min(next_deadline_, request.deadline);
}

// A.12.2: EV probe.
bool EndpointOperations::send_ev_probe(TimePs now, const Asker& asker, PeerId peer, const Ev& ev, TimePs timeout,
                                       std::uint32_t padding_bytes) {
  MRC_ASSERT(padding_bytes <= kProbePaddingMax && padding_bytes % 4 == 0);
  if (requests_.size() >= kRequestsMax) return false;
  Request request;
  request.wire_id = next_wire_id_++;
  request.op = wire::EndpointOp::kEvProbe;
  request.asker = asker;
  request.peer = peer;
  request.ev = ev;
  // The nonce keeps third parties from answering in the peer's place, and one rank of a host from answering for
  // another.
  request.nonce = static_cast<std::uint32_t>(keyed_hash(secret_, {kProbeNonceHash, ++nonces_drawn_}));
  request.padding_bytes = padding_bytes;
  request.deadline = now + timeout;
  add(request);
  return true;
}

// A.12.3: port status update.
void EndpointOperations::send_port_status(TimePs now, PortMask ports_up) {
  // A newer status supersedes older ones in flight.
  std::erase_if(requests_, [&](const Request& request) {
    const bool status = request.op == wire::EndpointOp::kPortStatusUpdate;
    if (status && request.unsent) --unsent_;
    return status;
  });
  ++status_id_;
  peers_.for_each([&](const Peer& peer) {
    if (peer.users.empty()) return;
    Request request;
    request.wire_id = status_id_;
    request.op = wire::EndpointOp::kPortStatusUpdate;
    request.peer = peer.id;
    request.ports = ports_up;
    request.deadline = now + config_.endpoint_retry;
    request.attempts_left = peer.answered ? config_.endpoint_retries : std::uint8_t{0};
    add(request);
  });
}

// X.4.12: repeated like a port status.
void EndpointOperations::check_kernel(TimePs now, std::uint32_t qp, PeerId peer, std::uint32_t nonce) {
  Request request;
  request.wire_id = next_wire_id_++;
  request.op = wire::EndpointOp::kKernelCheck;
  request.asker = {.qp = qp, .nonce = nonce};
  request.peer = peer;
  request.nonce = nonce;
  request.ports = kernel_proof(kKernelAskHash, nonce);
  request.deadline = now + config_.endpoint_retry;
  request.attempts_left = config_.endpoint_retries;
  add(request);
}

// Never 0.
std::uint32_t EndpointOperations::kernel_proof(std::uint64_t purpose, std::uint32_t nonce) const {
  const auto proof = static_cast<std::uint32_t>(keyed_hash(config_.kernel, {purpose, nonce}));
  return proof == 0 ? 1 : proof;
}

void EndpointOperations::check_ports(TimePs now) {
  if (port_check_at_ != kNever || config_.port_check_interval == kNever) return;
  port_check_at_ = now + config_.port_check_interval;
}

// X.2.6. A status may have been forged, or its correction lost; without data traffic only a probe can reveal that.
void EndpointOperations::probe_down_ports(TimePs now, PortMask ports_up) {
  port_check_at_ = kNever;
  std::uint32_t left = kPortChecksMax;
  peers_.for_each([&](const Peer& peer) {
    const PortMask down = peer.existing_ports() & ~peer.ports_up;
    if (down == 0 || peer.users.empty()) return;
    check_ports(now);
    for (PortId port = 0; port < peer.ports.size() && left > 0; ++port) {
      if ((down & ports_up) >> port == 0) break;
      if ((down & ports_up & PortMask{1} << port) == 0) continue;
      const Ev ev{own_ev(config_.ports[port], next_wire_id_), port};
      if (send_ev_probe(now, {.port_check = true}, peer.id, ev, config_.port_check_interval)) --left;
    }
  });
}

void EndpointOperations::forget(PeerId peer) {
  std::erase_if(requests_, [&](const Request& request) {
    if (request.peer != peer) return false;
    if (request.unsent) --unsent_;
    finish(request, unanswered(request));
    return true;
  });
}

// --- arrivals

Peer* EndpointOperations::handle_request(TimePs now, const RxDatagram& datagram, const wire::Packet& packet,
                                         PortMask ports_up) {
  const std::uint16_t udp_port = packet.erth.udp_port == 0 ? config_.udp_port : packet.erth.udp_port;
  Peer* peer = peers_.by_address(datagram.port, datagram.source, udp_port);
  const wire::EndpointOp op = packet.erth.op;
  if (peer == nullptr && (op != wire::EndpointOp::kEvProbe || !config_.answer_strangers)) {  // X.2.3
    ++unknown_peer_;
  } else if (op == wire::EndpointOp::kPortStatusUpdate) {
    return take_port_status(now, *peer, datagram, packet, ports_up);
  } else if (op == wire::EndpointOp::kKernelCheck) {
    answer_kernel_check(now, *peer, datagram, packet);
  } else if (peer != nullptr) {
    queue_response(now,
                   {.budget = peer->answers, .interval = config_.answer_interval_peer, .burst = kAnswersAtOncePeer},
                   datagram, packet);
  } else {
    queue_response(now, {.budget = strangers_, .interval = kStrangerInterval, .burst = kStrangersAtOnce}, datagram,
                   packet);
  }
  return nullptr;
}

void EndpointOperations::queue_response(TimePs now, Ration own, const RxDatagram& datagram, const wire::Packet& packet,
                                        std::uint32_t proof) {
  // X.2.4: rate limits.
  const bool allowed =
      own.budget.has(now, own.interval, own.burst) && answers_.has(now, config_.answer_interval, kAnswersAtOnce);
  if (!allowed || responses_.size() >= kResponsesMax) {
    ++unanswered_;
    return;
  }
  own.budget.take(now, own.interval);
  answers_.take(now, config_.answer_interval);
  Response response;
  response.destination = datagram.source;
  response.udp_port = packet.erth.udp_port == 0 ? config_.udp_port : packet.erth.udp_port;
  response.port = datagram.port;
  response.wire_id = static_cast<std::uint16_t>(packet.bth.psn);
  response.eeth.op = packet.erth.op;
  response.eeth.port_status_mask = proof;
  response.eeth.entropy = wire::ev_of_fields(datagram.fields, config_.ev_format);
  response.eeth.nonce = packet.erth.nonce;
  response.eeth.timestamp = packet.erth.timestamp;
  response.eeth.marked = datagram.ecn == Ecn::kCe;
  response.padding_bytes = std::min<std::uint32_t>(padding_of_response(packet.payload_bytes), kProbePaddingMax);
  response.arrived = now;
  responses_.push_back(response);
}

Peer* EndpointOperations::take_port_status(TimePs now, Peer& peer, const RxDatagram& datagram,
                                           const wire::Packet& packet, PortMask ports_up) {
  // X.2.1: nonce of a connection.
  const bool authentic = std::any_of(peer.users.begin(), peer.users.end(),
                                     [&](const QpContext* user) { return user->nonce_in == packet.erth.nonce; });
  if (!authentic) {
    ++wrong_nonce_;
    return nullptr;
  }
  // The port that carries a status is up (X.2.2). A mask that denies this, such as an empty one, is invalid for the
  // other ports, too.
  if ((packet.erth.port_status_mask >> datagram.port & 1U) == 0) {
    ++contradictory_;
    return nullptr;
  }
  queue_response(now, {.budget = peer.answers, .interval = config_.answer_interval_peer, .burst = kAnswersAtOncePeer},
                 datagram, packet);
  const auto id = static_cast<std::uint16_t>(packet.bth.psn);
  if (peer.status_seen && static_cast<std::int16_t>(id - peer.status_id) < 0)
    return nullptr;  // a newer one overtook it
  peer.status_seen = true;
  peer.status_id = id;
  // A peer that shares no port with this NIC cannot have sent it.
  PortMask reported = packet.erth.port_status_mask & peer.existing_ports();
  if ((reported & ports_up) == 0) reported |= peer.ports_up;
  if (reported == peer.ports_up) return nullptr;
  peer.ports_up = reported;
  return &peer;
}

// X.4.12. The peer omits its ICRCs when it has the answer, so that they are accepted from now on.
void EndpointOperations::answer_kernel_check(TimePs now, Peer& peer, const RxDatagram& datagram,
                                             const wire::Packet& packet) {
  const std::uint32_t nonce = packet.erth.nonce;
  const auto asked = std::find_if(peer.users.begin(), peer.users.end(),
                                  [nonce](const QpContext* user) { return user->nonce_in == nonce; });
  if (asked == peer.users.end()) {
    ++wrong_nonce_;
    return;
  }
  const bool same = (*asked)->may_check_kernel() && packet.erth.port_status_mask == kernel_proof(kKernelAskHash, nonce);
  if (same) (*asked)->accepts_no_icrc = true;
  queue_response(now, {.budget = peer.answers, .interval = config_.answer_interval_peer, .burst = kAnswersAtOncePeer},
                 datagram, packet, same ? kernel_proof(kKernelAnswerHash, nonce) : 0);
}

Peer* EndpointOperations::handle_response(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  const auto id = static_cast<std::uint16_t>(packet.bth.psn);
  // X.2.5: result to the originator.
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const Request& request) {
    return request.wire_id == id && !request.unsent && request.op == packet.eeth.op &&
           request.nonce == packet.eeth.nonce && packet.payload_bytes == padding_of_response(request.padding_bytes);
  });
  if (found == requests_.end()) return nullptr;
  Peer* peer = peers_.find(found->peer);
  MRC_ASSERT(peer != nullptr);
  if (datagram.port >= peer->ports.size() || peer->ports[datagram.port] != datagram.source) {
    ++unknown_peer_;
    return nullptr;
  }
  EndpointResult answer = unanswered(*found);
  answer.answered = true;
  answer.marked = packet.eeth.marked;
  answer.same_kernel = found->op == wire::EndpointOp::kKernelCheck &&
                       packet.eeth.port_status_mask == kernel_proof(kKernelAnswerHash, found->nonce);
  answer.rtt = now - found->sent;  // A.10.3
  if (packet.eeth.service_time_removed) {
    const auto held = static_cast<std::uint16_t>(packet.eeth.timestamp - timestamp_at(found->sent, kResolution));
    const TimePs service = held * timestamp_unit(kResolution);
    answer.service_time_removed = service < answer.rtt;
    if (answer.service_time_removed) answer.rtt -= service;
  }
  finish(*found, answer);
  const bool found_up =
      found->asker.port_check && found->ev.port == datagram.port && (peer->ports_up >> datagram.port & 1) == 0;
  requests_.erase(found);
  peer->answered = true;
  if (!found_up) return nullptr;
  peer->ports_up |= PortMask{1} << datagram.port;
  return peer;
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
  const bool probe = request.op == wire::EndpointOp::kEvProbe && !request.asker.port_check;
  if (probe || answer.same_kernel) results_.push_back({request.asker, answer});
}

void EndpointOperations::rebase(TimePs by) {
  for (Request& request : requests_) {
    request.sent = rebased(request.sent, by);
    request.deadline = rebased(request.deadline, by);
  }
  for (Response& response : responses_) response.arrived = rebased(response.arrived, by);
  for (TimePs* time : {&next_deadline_, &port_check_at_}) *time = rebased(*time, by);
  for (Budget* budget : {&answers_, &strangers_}) budget->rebase(by);
  peers_.for_each([by](Peer& peer) { peer.answers.rebase(by); });
}

bool EndpointOperations::poll_result(Result& result) {
  if (results_.empty()) return false;
  result = results_.front();
  results_.pop_front();
  return true;
}

// --- time

void EndpointOperations::handle_timer(TimePs now, PortMask ports_up) {
  if (port_check_at_ <= now) probe_down_ports(now, ports_up);
  if (next_deadline_ > now) return;
  for (Request& request : requests_) {
    if (request.deadline > now || request.attempts_left == 0) continue;
    --request.attempts_left;
    if (!request.unsent) ++unsent_;
    request.unsent = true;
    if (request.op == wire::EndpointOp::kPortStatusUpdate) request.ports = ports_up;
    request.deadline = now + config_.endpoint_retry;
  }
  const auto expired = std::stable_partition(requests_.begin(), requests_.end(),
                                             [&](const Request& request) { return request.deadline > now; });
  for (auto at = expired; at != requests_.end(); ++at) {
    if (at->unsent) --unsent_;
    finish(*at, unanswered(*at));
  }
  requests_.erase(expired, requests_.end());
  next_deadline_ = kNever;
  for (const Request& request : requests_) next_deadline_ = std::min(next_deadline_, request.deadline);
}

// --- sending

bool EndpointOperations::build_response(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst) {
  if (responses_.empty()) return false;
  std::erase_if(responses_, [&](const Response& response) { return (ports_up >> response.port & 1) == 0; });
  const auto found = std::find_if(responses_.begin(), responses_.end(),
                                  [&](const Response& response) { return (free_ports >> response.port & 1) != 0; });
  if (found == responses_.end()) return false;
  // The response takes the EV of the request: probes of random EVs thus test as many return paths.
  BurstBuilder builder(burst, config_, found->destination, found->udp_port, found->port,
                       own_ev(config_.ports[found->port], found->eeth.entropy), TrafficClass::kControl, 0);
  wire::Packet packet;
  packet.bth = endpoint_bth(config_, wire::Opcode::kEndpointResponse, found->wire_id);
  packet.eeth = found->eeth;
  const TimePs held = (now - found->arrived) / timestamp_unit(kResolution);
  packet.eeth.timestamp = static_cast<std::uint16_t>(found->eeth.timestamp + std::min<TimePs>(held, UINT16_MAX));
  packet.eeth.service_time_removed = true;
  builder.add(packet, kPadding.data(), found->padding_bytes);
  responses_.erase(found);
  return true;
}

// Chooses a port that is up at both ends, another one at each attempt. False: none is possible now.
bool EndpointOperations::place(Request& request, const Peer& peer, PortMask possible) const {
  if (possible == 0) return false;
  PortId port = static_cast<PortId>(request.attempts_left % peer.ports.size());
  while ((possible >> port & 1) == 0) port = static_cast<PortId>((port + 1U) % peer.ports.size());
  request.ev = {own_ev(config_.ports[port], request.wire_id), port};
  return true;
}

// Any connection is the originator, since a given one may have ended at the peer.
bool EndpointOperations::place_status(Request& request, const Peer& peer, PortMask possible) const {
  if (possible == 0) return false;
  std::vector<const QpContext*> connected;
  for (const QpContext* user : peer.users) {
    if (user->state == QpState::kRts) connected.push_back(user);
  }
  if (connected.empty()) return false;
  request.nonce = connected[request.attempts_left % connected.size()]->nonce_out;
  return place(request, peer, possible);
}

bool EndpointOperations::build_request(TimePs now, PortMask free_ports, PortMask ports_up, TxBurst& burst) {
  if (unsent_ == 0) return false;
  for (Request& request : requests_) {
    if (!request.unsent) continue;
    const Peer* peer = peers_.find(request.peer);
    MRC_ASSERT(peer != nullptr);
    const bool probe = request.op == wire::EndpointOp::kEvProbe;
    const bool status = request.op == wire::EndpointOp::kPortStatusUpdate;
    const PortMask possible = ports_up & peer->ports_up & free_ports;
    if (!probe && !(status ? place_status(request, *peer, possible) : place(request, *peer, possible))) continue;
    const Ev path = request.ev;
    if (path.port >= peer->ports.size() || ((free_ports & ports_up) >> path.port & 1) == 0) continue;
    BurstBuilder builder(burst, config_, peer->ports[path.port], peer->udp_port, path.port, path.value,
                         probe ? TrafficClass::kNoTrim : TrafficClass::kControl, 0);
    wire::Packet packet;
    packet.bth = endpoint_bth(config_, wire::Opcode::kEndpointRequest, request.wire_id);
    packet.erth = {request.op, config_.udp_port, request.ports, request.nonce, timestamp_at(now, kResolution),
                   kResolution};
    builder.add(packet, kPadding.data(), request.padding_bytes);
    request.sent = now;
    request.unsent = false;
    --unsent_;
    return true;
  }
  return false;
}

}  // namespace openmrc
