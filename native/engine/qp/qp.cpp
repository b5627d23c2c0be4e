#include "engine/qp/qp.hpp"
#include "engine/generated/event_records.hpp"

#include <algorithm>

#include "engine/endpoint.hpp"
#include "engine/qp/mrc_requester.hpp"
#include "engine/qp/mrc_responder.hpp"
#include "engine/qp/rc_requester.hpp"
#include "engine/qp/rc_responder.hpp"

namespace openmrc {
namespace {

bool universe_valid(const std::vector<Ev>& universe, std::size_t port_count) {
  return !universe.empty() && EvSet::valid_universe(universe) &&
         std::all_of(universe.begin(), universe.end(), [&](const Ev& ev) { return ev.port < port_count; });
}

// The limits must accept the bounds of the specification.
static_assert(in_range(QpToRtr{.payload_mtu = kPayloadMtuMin}) &&
              !in_range(QpToRtr{.payload_mtu = kPayloadMtuMin - 4}));
static_assert(in_range(QpToRtr{.payload_mtu = kPayloadMtuMax}) &&
              !in_range(QpToRtr{.payload_mtu = kPayloadMtuMax + 4}));
static_assert(in_range(QpToRtr{.rq_psn = kPsnSpace - 1}) && !in_range(QpToRtr{.rq_psn = kPsnSpace}));

// Status of the first unfinished work request; the ones behind it are flushed.
WcStatus status_of(QpErrorCause cause) {
  switch (cause) {
    case QpErrorCause::kRetryExceeded:
      return WcStatus::kRetryExceeded;
    case QpErrorCause::kBadResponse:
      return WcStatus::kBadResponse;
    case QpErrorCause::kRnrRetryExceeded:
      return WcStatus::kRnrRetryExceeded;
    case QpErrorCause::kLocalProtection:
      return WcStatus::kLocalProtection;
    case QpErrorCause::kRemoteAccess:
      return WcStatus::kRemoteAccess;
    case QpErrorCause::kRemoteOperational:
      return WcStatus::kRemoteOperational;
    case QpErrorCause::kRemoteInvalid:
      return WcStatus::kRemoteInvalidRequest;
    default:
      return WcStatus::kFlushed;
  }
}

}  // namespace

Qp::~Qp() {
  if (requester_ != nullptr) requester_->discard_all();
}

void Qp::announce(TimePs now) const {
  context_.services.events.emit(qp_state_event(now, context_.qpn, context_.state, context_.error));
}

// --- states (F.1.1)

Status Qp::to_init(TimePs now, const QpToInit& attributes) {
  if (context_.state != QpState::kReset) return Status::kInvalidState;
  const std::size_t ports = context_.services.config.ports.size();
  if (!universe_valid(attributes.ev_universe, ports)) return Status::kInvalidArgument;
  const std::uint64_t seed = context_.services.config.seed;
  if (context_.init.transport == Transport::kRc) {
    const RcPaths paths(attributes.ev_universe, attributes.rc_plane_move);
    requester_ = std::make_unique<RcRequester>(context_, paths);
    responder_ = std::make_unique<RcResponder>(context_, paths);
  } else {
    auto selector = make_ev_selector(attributes.ev_selector, Rng::for_component(seed, "ev_selector", context_.qpn));
    auto controller = make_controller(attributes.controller, attributes.cc);
    if (selector == nullptr || controller == nullptr) return Status::kInvalidArgument;
    context_.cc = std::move(controller);
    context_.fabric_trims = attributes.cc.trimming;
    context_.path_signal = attributes.signal;
    context_.plane_buffer_bytes = attributes.plane_buffer_bytes;
    context_.ev_set = std::make_unique<EvSet>(attributes.ev_universe, attributes.ev_set, std::move(selector),
                                              Rng::for_component(seed, "ev_set", context_.qpn),
                                              &context_.services.events, context_.qpn);
    context_.reverse.start(*context_.ev_set, static_cast<std::uint32_t>(ports),
                           Rng::for_component(seed, "reverse_paths", context_.qpn));
    requester_ = std::make_unique<MrcRequester>(context_);
    responder_ = std::make_unique<MrcResponder>(context_);
  }
  context_.state = QpState::kInit;
  announce(now);
  return Status::kOk;
}

Status Qp::to_rtr(TimePs now, const QpToRtr& attributes, Peer* peer) {
  if (context_.state != QpState::kInit) return Status::kInvalidState;
  if (peer == nullptr) return Status::kNotFound;
  if (!in_range(attributes)) return Status::kInvalidArgument;
  const bool mrc = context_.init.transport == Transport::kMrc;
  if (attributes.payload_mtu_max > 0 && (!mrc || attributes.payload_mtu_max < attributes.payload_mtu))
    return Status::kInvalidArgument;
  context_.peer = peer;
  context_.heard = now;
  peer->users.push_back(&context_);
  peer->status_seen = false;  // a new process may restart its count of port states
  context_.nonce_in = QpContext::connection_nonce(attributes.destination_qp, context_.qpn, attributes.rq_psn);
  context_.destination_qp = attributes.destination_qp;
  context_.payload_mtu = attributes.payload_mtu;
  // A peer that searches, too, has its own largest payload, which is not announced.
  context_.payload_accepted = attributes.payload_mtu_max > 0 ? kPayloadMtuMax : attributes.payload_mtu;
  context_.payload.start(attributes.payload_mtu, attributes.payload_mtu_max);
  context_.capabilities = attributes.capabilities;
  context_.omits_icrc = context_.accepts_no_icrc = attributes.capabilities.no_icrc;
  context_.peer_accepts_joined = false;
  responder_->start(now, attributes);
  context_.state = QpState::kRtr;
  announce(now);
  return Status::kOk;
}

Status Qp::to_rts(TimePs now, const QpToRts& attributes) {
  if (context_.state != QpState::kRtr) return Status::kInvalidState;
  if (!in_range(attributes)) return Status::kInvalidArgument;
  context_.nonce_out = QpContext::connection_nonce(context_.qpn, context_.destination_qp, attributes.sq_psn);
  requester_->start(now, attributes);
  context_.checks_kernel = context_.may_check_kernel() && !context_.omits_icrc;
  context_.state = QpState::kRts;
  announce(now);
  return Status::kOk;
}

void Qp::to_error(TimePs now, QpErrorCause cause) {
  if (context_.state == QpState::kReset || context_.state == QpState::kError) return;
  context_.state = QpState::kError;
  context_.error = cause;
  announce(now);
  // A refused request of the peer says nothing about the work posted here.
  requester_->fail_all(responder_->refusing() ? WcStatus::kFlushed : status_of(cause));
  flush_receives();
}

// The receive whose message was under way comes first; it alone may have caused the error.
void Qp::flush_receives() {
  Completion flushed{0, 0, context_.qpn, 0, WcStatus::kFlushed, WcOpcode::kRecvWriteImm};
  if (context_.receive_under_way.has_value()) {
    flushed.wr_id = context_.receive_under_way->wr_id;
    flushed.status = context_.receive_status;
    flushed.opcode = WcOpcode::kRecv;
    context_.receive_under_way.reset();
    context_.recv_cq->push(flushed);
    flushed.status = WcStatus::kFlushed;
    flushed.opcode = WcOpcode::kRecvWriteImm;
  }
  if (context_.shared_receives != nullptr) return;
  while (!context_.receives->empty()) {
    flushed.wr_id = context_.receives->take_id();
    context_.recv_cq->push(flushed);
  }
}

// Ends the QP if a half failed it during the call that just returned.
void Qp::settle(TimePs now) {
  if (context_.failure == QpErrorCause::kNone || context_.state == QpState::kError) return;
  if (context_.failure == QpErrorCause::kCqOverrun) {  // F.1.7
    context_.services.events.emit(cq_overrun_event(now, context_.qpn));
  }
  to_error(now, context_.failure);
}

// --- work (F.1.6)

Status Qp::post_send(TimePs now, const SendWr& wr) {
  if (context_.state != QpState::kRts) return Status::kInvalidState;
  return requester_->post(now, wr);
}

Status Qp::check_send(const SendWr& wr) {
  return context_.state == QpState::kRts ? requester_->check(wr) : Status::kInvalidState;
}

Status Qp::ask_peer() {
  return context_.state == QpState::kRts && requester_->ask_peer() ? Status::kOk : Status::kInvalidState;
}

Status Qp::post_recv(std::uint64_t wr_id, std::span<const Sge> sges) {
  if (context_.state == QpState::kReset || context_.state == QpState::kError) return Status::kInvalidState;
  if (context_.shared_receives != nullptr) return Status::kInvalidArgument;
  return context_.receives->post(context_.services.memory, wr_id, sges);
}

// --- what happens to it

bool Qp::handle_packet(TimePs now, const RxDatagram& datagram, const wire::Packet& packet, DropStats& drops) {
  // A QP that failed before RTR has no peer yet.
  if (context_.state == QpState::kReset || context_.state == QpState::kInit || context_.peer == nullptr) {
    ++drops.qp_not_ready;
    return false;
  }
  const auto& ports = context_.peer->ports;
  if (datagram.port >= ports.size() || datagram.source != ports[datagram.port]) {
    ++drops.wrong_source;  // A.15.2
    return false;
  }
  if (packet.bth.no_icrc && !context_.accepts_no_icrc) {
    ++drops.missing_icrc;  // X.4.10
    return false;
  }
  const wire::Opcode opcode = packet.bth.opcode;
  if (wire::is_rc(opcode) != (context_.init.transport == Transport::kRc)) {
    ++drops.wrong_transport;  // A.1.4
    return false;
  }
  context_.heard = now;
  check_kernel(now);
  if (wire::is_data(opcode) || wire::is_rc_request(opcode) || opcode == wire::Opcode::kProbe) {
    if (context_.state != QpState::kError || responder_->refusing()) receive(now, datagram, packet);
  } else if (context_.state == QpState::kRts) {
    requester_->handle_acknowledgement(now, datagram, packet);
  } else {
    ++drops.qp_not_ready;
  }
  settle(now);
  return true;
}

std::uint32_t Qp::handle_run(TimePs now, const RxDatagram& train, const wire::Packet& first, std::uint32_t count,
                             std::size_t datagram_bytes) {
  if (context_.state == QpState::kError) return 0;
  const std::uint32_t taken = responder_->handle_run(now, train, first, count, datagram_bytes);
  settle(now);
  return taken;
}

// X.4.12: once the peer's QP has sent a packet, it can answer.
void Qp::check_kernel(TimePs now) {
  if (!context_.checks_kernel || context_.state != QpState::kRts) return;
  context_.checks_kernel = false;
  context_.services.prober.check_kernel(now, context_.qpn, context_.peer->id, context_.nonce_out);
}

void Qp::on_same_kernel(std::uint32_t nonce) {
  if (context_.state == QpState::kRts && context_.nonce_out == nonce) context_.omits_icrc = true;
}

void Qp::receive(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  const bool first = context_.stats.received_packets == 0;
  responder_->handle_data(now, datagram, packet);
  const bool taken = context_.stats.received_packets > 0 && context_.failure == QpErrorCause::kNone;
  if (first && taken && context_.state == QpState::kRtr) {
    context_.services.events.emit(peer_active_event(now, context_.qpn));
  }
}

// Results that an earlier incarnation of this QP asked for differ in the peer, or in the size.
void Qp::handle_payload_probe(TimePs now, const EndpointResult& result) {
  if (context_.state != QpState::kRts || context_.peer->id != result.peer || context_.payload.id() != result.request_id)
    return;
  requester_->handle_payload_probe(now, result.port, result.answered);
}

void Qp::handle_timer(TimePs now) {
  if (sends()) requester_->handle_timer(now);
  if (context_.state == QpState::kRtr || context_.state == QpState::kRts) responder_->handle_timer(now);
  settle(now);
}

void Qp::handle_ports(TimePs now) {
  if (context_.state == QpState::kRts) requester_->handle_ports(now);
}

TimePs Qp::next_timer() const {
  TimePs next = kNever;
  if (sends()) next = requester_->next_timer();
  if (context_.state == QpState::kRtr || context_.state == QpState::kRts)
    next = std::min(next, responder_->next_timer());
  return next;
}

void Qp::resume(TimePs now) {
  if (sends()) requester_->resume(now);
}

UnderWay Qp::under_way() const {
  return context_.state == QpState::kRts ? requester_->under_way() : UnderWay::kNothing;
}
// More unsent data than a short message.
bool Qp::has_backlog() const {
  constexpr std::uint64_t kShortMessagePackets = 16;
  return context_.state == QpState::kRts && requester_->unsent_packets() > kShortMessagePackets;
}

void Qp::rebase(TimePs by) {
  timer_entry = rebased(timer_entry, by);
  context_.heard = rebased(context_.heard, by);
  context_.answered = rebased(context_.answered, by);
  if (context_.ev_set != nullptr) context_.ev_set->rebase(by);
  if (context_.cc != nullptr) context_.cc->rebase(by);
  context_.reverse.rebase(by);
  if (requester_ != nullptr) requester_->rebase(by);
  if (responder_ != nullptr) responder_->rebase(by);
}

void Qp::hot_memory(HotMemory& memory) const {
  memory.push_back(bytes_of(*this));
  if (context_.peer != nullptr) {
    memory.push_back(bytes_of(*context_.peer));
    memory.push_back(bytes_of(context_.peer->ports));
  }
  if (context_.cc != nullptr) context_.cc->hot_memory(memory);
  if (requester_ != nullptr) requester_->hot_memory(memory);
  if (responder_ != nullptr) responder_->hot_memory(memory);
  if (context_.ev_set != nullptr) context_.ev_set->hot_memory(memory);
}

BuildResult Qp::build_control(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (responder_ == nullptr || context_.peer == nullptr) return BuildResult::kNothing;
  return responder_->build(now, free_ports, burst_max, burst);
}

// Conservative: true also if what waits cannot leave yet.
bool Qp::may_build_data() const {
  if (context_.peer != nullptr && responder_->answering()) return true;
  return context_.state == QpState::kRts && requester_->may_build();
}

// Answers to the peer take turns with requests: a peer that always reads must not starve the work posted here.
BuildResult Qp::build_data(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  const bool request_first = answered_ && context_.state == QpState::kRts;
  answered_ = false;
  BuildResult request = BuildResult::kNothing;
  if (request_first) request = requester_->build(now, free_ports, burst_max, burst);
  if (request == BuildResult::kBuilt) return request;
  if (context_.peer != nullptr && responder_->answering()) {
    const BuildResult result = responder_->build_answers(free_ports, burst_max, burst);
    settle(now);
    answered_ = result == BuildResult::kBuilt;
    if (result != BuildResult::kNothing) return result;
  }
  if (request_first || context_.state != QpState::kRts) return request;
  return requester_->build(now, free_ports, burst_max, burst);
}

}  // namespace openmrc
