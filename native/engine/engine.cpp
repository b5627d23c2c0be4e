#include "engine/engine.hpp"

#include "engine/cc/nscc.hpp"
#include "engine/engine_impl.hpp"
#include "engine/qp/mrc_requester.hpp"
#include "engine/qp/mrc_responder.hpp"

namespace openmrc {
namespace {

// Runs a command on a QP, after which the QP may have packets to send.
template <typename Command>
Status on_qp(EngineImpl& impl, std::uint32_t qpn, Command command) {
  Qp* qp = impl.find(qpn);
  if (qp == nullptr) return Status::kNotFound;
  const Status status = command(*qp);
  impl.touch(*qp);
  return status;
}

MrcResponder* mrc_responder(Qp& qp) {
  return qp.context().init.transport == Transport::kMrc ? static_cast<MrcResponder*>(qp.responder()) : nullptr;
}

}  // namespace

Engine::Engine(const EngineConfig& config) : impl_(std::make_unique<EngineImpl>(config)) {}
Engine::~Engine() = default;

void Engine::handle_datagram(TimePs now, const RxDatagram& datagram) { impl_->handle_datagram(now, datagram); }
void Engine::handle_train(TimePs now, const RxDatagram& train, std::size_t datagram_bytes) {
  impl_->handle_train(now, train, datagram_bytes);
}
void Engine::handle_timer(TimePs now) { impl_->handle_timer(now); }
void Engine::handle_port_state(TimePs now, PortId port, bool up) { impl_->handle_port_state(now, port, up); }
void Engine::handle_clock_rebase(TimePs by) { impl_->handle_clock_rebase(by); }

// --- objects

Status Engine::create_cq(std::uint32_t capacity, CqId& cq) {
  if (capacity == 0) return Status::kInvalidArgument;
  cq = impl_->next_cq++;
  impl_->cqs.emplace(cq, std::make_unique<CompletionQueue>(cq, capacity, impl_->signaled_cqs));
  return Status::kOk;
}

Status Engine::destroy_cq(CqId cq) {
  const auto found = impl_->cqs.find(cq);
  if (found == impl_->cqs.end()) return Status::kNotFound;
  if (found->second->users > 0) return Status::kBusy;
  std::erase(impl_->signaled_cqs, cq);
  impl_->cqs.erase(found);
  return Status::kOk;
}

Status Engine::register_memory(const RegionConfig& region) { return impl_->memory.add(region); }
Status Engine::deregister_memory(std::uint32_t key) { return impl_->memory.remove(key); }
Status Engine::add_peer(const PeerConfig& peer, PeerId& id) {
  return impl_->peers.add(peer, impl_->config.ports.size(), id);
}
Status Engine::remove_peer(PeerId id) { return impl_->remove_peer(id); }
Status Engine::create_qp(const QpInitAttributes& attributes, std::uint32_t& qp) {
  return impl_->create_qp(attributes, qp);
}

Status Engine::modify_qp(TimePs now, std::uint32_t qp, const QpToInit& attributes) {
  return on_qp(*impl_, qp, [&](Qp& target) { return target.to_init(now, attributes); });
}
Status Engine::modify_qp(TimePs now, std::uint32_t qp, const QpToRtr& attributes) {
  return on_qp(*impl_, qp,
               [&](Qp& target) { return target.to_rtr(now, attributes, impl_->peers.find(attributes.peer)); });
}
Status Engine::modify_qp(TimePs now, std::uint32_t qp, const QpToRts& attributes) {
  return on_qp(*impl_, qp, [&](Qp& target) { return target.to_rts(now, attributes); });
}
Status Engine::move_to_error(TimePs now, std::uint32_t qp) {
  return on_qp(*impl_, qp, [&](Qp& target) {
    if (target.context().state == QpState::kReset) return Status::kInvalidState;
    target.to_error(now, QpErrorCause::kFlushed);
    return Status::kOk;
  });
}
Status Engine::reset_qp(TimePs, std::uint32_t qp) { return impl_->reset_qp(qp); }
Status Engine::destroy_qp(TimePs, std::uint32_t qp) { return impl_->destroy_qp(qp); }

// --- work

Status Engine::post_send(TimePs now, std::uint32_t qp, const SendWr& wr) {
  return on_qp(*impl_, qp, [&](Qp& target) { return target.post_send(now, wr); });
}
Status Engine::post_recv(std::uint32_t qp, std::uint64_t wr_id) {
  Qp* target = impl_->find(qp);
  return target == nullptr ? Status::kNotFound : target->post_recv(wr_id);
}
Status Engine::ask_peer(std::uint32_t qp) {
  return on_qp(*impl_, qp, [](Qp& target) { return target.ask_peer(); });
}

// --- controller

Status Engine::deny_ev(TimePs now, std::uint32_t qp, std::uint32_t ev) {
  return on_qp(*impl_, qp, [&](Qp& target) {
    EvSet* set = target.context().ev_set.get();
    if (set == nullptr || !set->deny(now, ev)) return Status::kNotFound;
    target.context().reverse.leave_denied(*set);
    return Status::kOk;
  });
}
Status Engine::enable_ev(TimePs now, std::uint32_t qp, std::uint32_t ev) {
  return on_qp(*impl_, qp, [&](Qp& target) {
    EvSet* set = target.context().ev_set.get();
    return set != nullptr && set->enable(now, ev) ? Status::kOk : Status::kNotFound;
  });
}
Status Engine::set_receive_penalty(std::uint32_t qp, std::uint8_t penalty, bool restore) {
  if (penalty > 127) return Status::kInvalidArgument;
  return on_qp(*impl_, qp, [&](Qp& target) {
    MrcResponder* responder = mrc_responder(target);
    if (responder == nullptr) return Status::kInvalidState;
    responder->set_penalty(penalty, restore);
    return Status::kOk;
  });
}
Status Engine::set_receive_window(std::uint32_t qp, std::uint8_t mpr_units) {
  return on_qp(*impl_, qp, [&](Qp& target) {
    MrcResponder* responder = mrc_responder(target);
    if (responder == nullptr || !target.context().capabilities.dynamic_mpr) return Status::kInvalidState;
    return responder->set_window(mpr_units) ? Status::kOk : Status::kInvalidArgument;
  });
}
Status Engine::send_ev_probe(TimePs now, PeerId peer, PortId port, std::uint32_t ev, std::uint16_t request_id,
                             TimePs timeout, std::uint32_t padding_bytes) {
  const Peer* target = impl_->peers.find(peer);
  if (target == nullptr) return Status::kNotFound;
  if (port >= target->ports.size() || timeout <= 0) return Status::kInvalidArgument;
  if (padding_bytes > kProbePaddingMax || padding_bytes % 4 != 0) return Status::kInvalidArgument;
  const EndpointOperations::Asker asker{.request_id = request_id};
  const bool taken = impl_->endpoint.send_ev_probe(now, asker, peer, {ev, port}, timeout, padding_bytes);
  return taken ? Status::kOk : Status::kQueueFull;
}

// --- poll_*

bool Engine::poll_transmit(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst, Outgoing what) {
  return impl_->poll_transmit(now, free_ports, burst_max, burst, what);
}
std::size_t Engine::poll_completions(CqId cq, std::span<Completion> out) {
  const auto found = impl_->cqs.find(cq);
  return found == impl_->cqs.end() ? 0 : found->second->poll(out);
}
bool Engine::poll_signaled_cq(CqId& cq) {
  if (impl_->signaled_cqs.empty()) return false;
  cq = impl_->signaled_cqs.front();
  impl_->signaled_cqs.pop_front();
  impl_->cqs.at(cq)->signal_taken();
  return true;
}
std::size_t Engine::poll_events(std::span<Event> out) { return impl_->events.poll(out); }
bool Engine::poll_endpoint_result(EndpointResult& result) { return impl_->poll_endpoint_result(result); }

// --- nouns

TimePs Engine::next_timer() const { return impl_->next_timer(); }
TimePs Engine::patience() const { return impl_->patience(); }
QpState Engine::qp_state(std::uint32_t qp) const {
  const Qp* target = impl_->find(qp);
  return target == nullptr ? QpState::kReset : target->context().state;
}
QpErrorCause Engine::qp_error(std::uint32_t qp) const {
  const Qp* target = impl_->find(qp);
  return target == nullptr ? QpErrorCause::kNone : target->context().error;
}
TimePs Engine::qp_heard(std::uint32_t qp) const {
  const Qp* target = impl_->find(qp);
  return target == nullptr ? kLongAgo : target->context().heard;
}
TimePs Engine::qp_answered(std::uint32_t qp) const {
  const Qp* target = impl_->find(qp);
  return target == nullptr ? kLongAgo : target->context().answered;
}
bool Engine::qp_stats(std::uint32_t qp, QpStats& stats) const {
  const Qp* target = impl_->find(qp);
  if (target == nullptr) return false;
  stats = target->context().stats;
  if (target->requester() != nullptr) target->requester()->fill(stats);
  return true;
}
QpTotals Engine::qp_totals() const { return impl_->qp_totals(); }
bool Engine::cc_stats(std::uint32_t qp, CcStats& stats) const {
  const Qp* target = impl_->find(qp);
  if (target == nullptr || target->context().cc == nullptr) return false;
  stats = target->context().cc->stats();
  return true;
}
bool Engine::plane_stats(std::uint32_t qp, PortId plane, PlaneStats& stats) const {
  const Qp* target = impl_->find(qp);
  return target != nullptr && target->requester() != nullptr && target->requester()->fill_plane(plane, stats);
}
const EvSet* Engine::ev_set(std::uint32_t qp) const {
  const Qp* target = impl_->find(qp);
  return target == nullptr ? nullptr : target->context().ev_set.get();
}
std::uint32_t Engine::sends_outstanding(std::uint32_t qp) const {
  const Qp* target = impl_->find(qp);
  return target == nullptr || target->requester() == nullptr ? 0 : target->requester()->outstanding();
}
PortMask Engine::ports_up() const { return impl_->services.local_ports_up; }
PortMask Engine::peer_ports_up(PeerId peer) const {
  const Peer* target = impl_->peers.find(peer);
  return target == nullptr ? 0 : target->ports_up;
}
std::size_t Engine::peer_count() const { return impl_->peers.size(); }
const PortStats& Engine::port_stats(PortId port) const { return impl_->port_stats.at(port); }
DropStats Engine::drops() const {
  DropStats drops = impl_->drops;
  drops.unknown_peer = impl_->endpoint.unknown_peer();
  drops.wrong_nonce = impl_->endpoint.wrong_nonce();
  drops.contradictory_port_status = impl_->endpoint.contradictory();
  drops.unanswered_probes = impl_->endpoint.unanswered();
  drops.events_dropped = impl_->events.dropped();
  return drops;
}
const EngineConfig& Engine::config() const { return impl_->config; }

void Engine::hot_memory(HotMemory& memory) const { impl_->hot_memory(memory); }

std::vector<QpFootprint> qp_footprint() {
  return {{"Qp and context", sizeof(Qp)},
          {"MRC requester", sizeof(MrcRequester)},
          {"MRC responder", sizeof(MrcResponder)},
          {"congestion control", sizeof(Nscc)},
          {"receive queue, first block", 512 + 8 * sizeof(void*)},
          {"send queue, first block", 512 + 8 * sizeof(void*)}};
}

}  // namespace openmrc
