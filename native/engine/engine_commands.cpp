// Commands of the application and of the controller.
#include <algorithm>

#include "engine/engine.hpp"
#include "engine/qp/mrc_responder.hpp"
#include "engine/qp/qp.hpp"
#include "engine/qp/rnr_time.hpp"

namespace openmrc {
namespace {

MrcResponder* mrc_responder(Qp& qp) {
  return qp.context().init.transport == Transport::kMrc ? static_cast<MrcResponder*>(qp.responder()) : nullptr;
}

}  // namespace

template <typename Command>
Status Engine::on_qp(std::uint32_t qpn, Command command) {
  Qp* qp = find(qpn);
  if (qp == nullptr) return Status::kNotFound;
  const Status status = command(*qp);
  touch(*qp);
  return status;
}

// --- objects

Status Engine::create_cq(std::uint32_t capacity, CqId& cq) {
  if (capacity == 0) return Status::kInvalidArgument;
  cq = next_cq_++;
  cqs_.emplace(cq, std::make_unique<CompletionQueue>(cq, capacity, signaled_cqs_));
  return Status::kOk;
}

Status Engine::destroy_cq(CqId cq) {
  const auto found = cqs_.find(cq);
  if (found == cqs_.end()) return Status::kNotFound;
  if (found->second->users > 0) return Status::kBusy;
  std::erase(signaled_cqs_, cq);
  cqs_.erase(found);
  return Status::kOk;
}

Status Engine::create_srq(const SrqAttributes& attributes, SrqId& srq) {
  if (attributes.wr_max == 0) return Status::kInvalidArgument;
  srq = next_srq_++;
  srqs_.emplace(srq, std::make_shared<SharedReceives>(srq, attributes.domain, attributes.wr_max));
  return Status::kOk;
}

Status Engine::set_srq_limit(SrqId srq, std::uint32_t limit) {
  const auto found = srqs_.find(srq);
  if (found == srqs_.end()) return Status::kNotFound;
  return found->second->queue.set_limit(limit) ? Status::kOk : Status::kInvalidArgument;
}

Status Engine::resize_srq(SrqId srq, std::uint32_t wr_max, std::uint32_t limit) {
  const auto found = srqs_.find(srq);
  if (found == srqs_.end()) return Status::kNotFound;
  return found->second->queue.resize(wr_max, limit) ? Status::kOk : Status::kInvalidArgument;
}

Status Engine::destroy_srq(SrqId srq) {
  const auto found = srqs_.find(srq);
  if (found == srqs_.end()) return Status::kNotFound;
  if (found->second->users > 0) return Status::kBusy;
  srqs_.erase(found);
  return Status::kOk;
}

bool Engine::srq_stats(SrqId srq, SrqStats& stats) const {
  const auto found = srqs_.find(srq);
  if (found == srqs_.end()) return false;
  stats = {.posted = found->second->queue.size(), .limit = found->second->queue.limit()};
  return true;
}

Status Engine::register_memory(const RegionConfig& region) { return memory_.add(region); }
Status Engine::deregister_memory(std::uint32_t key) { return memory_.remove(key); }
Status Engine::add_peer(const PeerConfig& peer, PeerId& id) { return peers_.add(peer, config_.ports.size(), id); }

Status Engine::remove_peer(PeerId id) {
  const Status status = peers_.release(id);
  if (status == Status::kOk && peers_.remove_unused(id)) endpoint_.forget(id);
  return status;
}

// --- QPs

// An observer of a few QP numbers could compute the next ones from the state of the generator. A simulation, which
// gives no secret, keeps the numbers that follow from its seed.
std::uint32_t Engine::draw_qp_number() {
  constexpr std::uint32_t kCount = kPsnSpace - kQpNumberMin;
  if (config_.secret == HashKey{}) return kQpNumberMin + static_cast<std::uint32_t>(qpn_rng_.below(kCount));
  const std::uint64_t drawn = keyed_hash(secret_, {kQpNumberHash, ++qp_numbers_drawn_});
  return kQpNumberMin + static_cast<std::uint32_t>(drawn % kCount);
}

Status Engine::create_qp(const QpInitAttributes& attributes, std::uint32_t& qpn) {
  const auto send_cq = cqs_.find(attributes.send_cq);
  const auto recv_cq = cqs_.find(attributes.recv_cq);
  if (send_cq == cqs_.end() || recv_cq == cqs_.end()) return Status::kNotFound;
  const auto srq = srqs_.find(attributes.srq);
  if (attributes.srq != 0 && srq == srqs_.end()) return Status::kNotFound;
  if (attributes.send_wr_max == 0) return Status::kInvalidArgument;
  if (qps_.size() >= config_.qps_max) return Status::kLimit;
  qpn = attributes.number;
  if (qpn != 0 && (qpn < kQpNumberMin || qpn >= kPsnSpace)) return Status::kInvalidArgument;
  if (qps_.contains(qpn)) return Status::kBusy;
  while (qpn == 0 || qps_.contains(qpn)) qpn = draw_qp_number();
  if (attributes.receives_of != 0 && !qps_.contains(attributes.receives_of)) return Status::kNotFound;
  auto qp = std::make_unique<Qp>(services_, attributes, qpn);
  qp->context().send_cq = send_cq->second.get();
  qp->context().recv_cq = recv_cq->second.get();
  share_receives(*qp);
  ++send_cq->second->users;
  ++recv_cq->second->users;
  if (attributes.srq != 0) ++srq->second->users;
  in_order_.push_back(qp.get());
  index_.add(qpn, qp.get());
  qps_.emplace(qpn, std::move(qp));
  return Status::kOk;
}

void Engine::share_receives(Qp& qp) {
  QpContext& context = qp.context();
  if (const auto srq = srqs_.find(context.init.srq); srq != srqs_.end()) {
    context.shared_receives = srq->second.get();
    context.receives = std::shared_ptr<ReceiveQueue>(srq->second, &srq->second->queue);
    return;
  }
  const auto other = qps_.find(context.init.receives_of);
  if (other == qps_.end()) return;
  context.receives = other->second->context().receives;
  context.shared_receives = other->second->context().shared_receives;
}

Status Engine::modify_qp(TimePs now, std::uint32_t qp, const QpToInit& attributes) {
  return on_qp(qp, [&](Qp& target) { return target.to_init(now, attributes); });
}
Status Engine::modify_qp(TimePs now, std::uint32_t qp, const QpToRtr& attributes) {
  return on_qp(qp, [&](Qp& target) { return target.to_rtr(now, attributes, peers_.find(attributes.peer)); });
}
Status Engine::modify_qp(TimePs now, std::uint32_t qp, const QpToRts& attributes) {
  return on_qp(qp, [&](Qp& target) { return target.to_rts(now, attributes); });
}
Status Engine::set_remote_access(std::uint32_t qp, std::uint8_t access) {
  Qp* target = find(qp);
  if (target == nullptr) return Status::kNotFound;
  target->context().remote_access = access;
  return Status::kOk;
}

Status Engine::set_rnr_timer(std::uint32_t qp, std::uint8_t code) {
  if (code > kRnrTimerMax) return Status::kInvalidArgument;
  return on_qp(qp, [&](Qp& target) {
    target.context().rc_rnr_timer = code;
    return Status::kOk;
  });
}

Status Engine::move_to_error(TimePs now, std::uint32_t qp) {
  return on_qp(qp, [&](Qp& target) {
    if (target.context().state == QpState::kReset) return Status::kInvalidState;
    target.to_error(now, QpErrorCause::kFlushed);
    return Status::kOk;
  });
}

void Engine::unlist(Qp& qp) {
  count(qp, UnderWay::kNothing);
  count_backlog(qp, false);
  control_ready_.erase(&qp);
  data_ready_.erase(&qp);
  urgent_ready_.erase(&qp);
  std::erase(changed_, &qp);
}

void Engine::leave_peer(Qp& qp) {
  QpContext& context = qp.context();
  if (context.peer == nullptr) return;
  std::erase(context.peer->users, &context);
  const PeerId id = context.peer->id;
  context.peer = nullptr;
  if (peers_.remove_unused(id)) endpoint_.forget(id);
}

Status Engine::reset_qp(TimePs /*now*/, std::uint32_t qpn) {
  const auto found = qps_.find(qpn);
  if (found == qps_.end()) return Status::kNotFound;
  add(retired_, found->second->context().stats);
  unlist(*found->second);
  leave_peer(*found->second);
  auto fresh = std::make_unique<Qp>(services_, found->second->context().init, qpn);
  fresh->context().send_cq = found->second->context().send_cq;
  fresh->context().recv_cq = found->second->context().recv_cq;
  share_receives(*fresh);
  std::replace(in_order_.begin(), in_order_.end(), found->second.get(), fresh.get());
  index_.remove(qpn);
  index_.add(qpn, fresh.get());
  found->second = std::move(fresh);
  return Status::kOk;
}

Status Engine::destroy_qp(TimePs /*now*/, std::uint32_t qpn) {
  const auto found = qps_.find(qpn);
  if (found == qps_.end()) return Status::kNotFound;
  Qp& qp = *found->second;
  add(retired_, qp.context().stats);
  unlist(qp);
  leave_peer(qp);
  --qp.context().send_cq->users;
  --qp.context().recv_cq->users;
  if (qp.context().init.srq != 0) --qp.context().shared_receives->users;
  std::erase(in_order_, &qp);
  index_.remove(qpn);
  qps_.erase(found);
  return Status::kOk;
}

// --- work

Status Engine::post_send(TimePs now, std::uint32_t qp, const SendWr& wr) {
  return on_qp(qp, [&](Qp& target) { return target.post_send(now, wr); });
}
Status Engine::check_send(std::uint32_t qp, const SendWr& wr) {
  Qp* target = find(qp);
  return target == nullptr ? Status::kNotFound : target->check_send(wr);
}
Status Engine::post_recv(std::uint32_t qp, std::uint64_t wr_id, std::span<const Sge> sges) {
  Qp* target = find(qp);
  return target == nullptr ? Status::kNotFound : target->post_recv(wr_id, sges);
}
Status Engine::post_srq_recv(SrqId srq, std::uint64_t wr_id, std::span<const Sge> sges) {
  const auto found = srqs_.find(srq);
  return found == srqs_.end() ? Status::kNotFound : found->second->queue.post(memory_, wr_id, sges);
}
Status Engine::ask_peer(std::uint32_t qp) {
  return on_qp(qp, [](Qp& target) { return target.ask_peer(); });
}

// --- controller

Status Engine::deny_ev(TimePs now, std::uint32_t qp, std::uint32_t ev) {
  return on_qp(qp, [&](Qp& target) {
    EvSet* set = target.context().ev_set.get();
    if (set == nullptr || !set->deny(now, ev)) return Status::kNotFound;
    target.context().reverse.leave_denied(*set);
    return Status::kOk;
  });
}
Status Engine::enable_ev(TimePs now, std::uint32_t qp, std::uint32_t ev) {
  return on_qp(qp, [&](Qp& target) {
    EvSet* set = target.context().ev_set.get();
    return set != nullptr && set->enable(now, ev) ? Status::kOk : Status::kNotFound;
  });
}
Status Engine::set_receive_penalty(std::uint32_t qp, std::uint8_t penalty, bool restore) {
  if (penalty > 127) return Status::kInvalidArgument;
  return on_qp(qp, [&](Qp& target) {
    MrcResponder* responder = mrc_responder(target);
    if (responder == nullptr) return Status::kInvalidState;
    responder->set_penalty(penalty, restore);
    return Status::kOk;
  });
}
Status Engine::set_receive_window(std::uint32_t qp, std::uint8_t mpr_units) {
  return on_qp(qp, [&](Qp& target) {
    MrcResponder* responder = mrc_responder(target);
    if (responder == nullptr || !target.context().capabilities.dynamic_mpr) return Status::kInvalidState;
    return responder->set_window(mpr_units) ? Status::kOk : Status::kInvalidArgument;
  });
}
Status Engine::send_ev_probe(TimePs now, PeerId peer, PortId port, std::uint32_t ev, std::uint16_t request_id,
                             TimePs timeout, std::uint32_t padding_bytes) {
  const Peer* target = peers_.find(peer);
  if (target == nullptr) return Status::kNotFound;
  if (port >= target->ports.size() || timeout <= 0) return Status::kInvalidArgument;
  if (padding_bytes > kProbePaddingMax || padding_bytes % 4 != 0) return Status::kInvalidArgument;
  const EndpointOperations::Asker asker{.request_id = request_id};
  const bool taken = endpoint_.send_ev_probe(now, asker, peer, {ev, port}, timeout, padding_bytes);
  return taken ? Status::kOk : Status::kQueueFull;
}

}  // namespace openmrc
