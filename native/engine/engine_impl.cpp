#include "engine/engine_impl.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"
#include "engine/generated/event_records.hpp"
#include "engine/seal.hpp"

namespace openmrc {

namespace {

bool given(const HashKey& secret) { return secret.low != 0 || secret.high != 0; }

HashKey secret_of(const EngineConfig& config) {
  if (given(config.secret)) return config.secret;
  Rng rng = Rng::for_component(config.seed, "secret");
  return {rng.next(), rng.next()};
}

}  // namespace

EngineImpl::EngineImpl(const EngineConfig& engine_config)
    : config(engine_config),
      secret(secret_of(engine_config)),
      events(config.events_max),
      endpoint(config, peers, secret),
      services{.config = config, .memory = memory, .events = events, .prober = *this},
      port_stats(config.ports.size()),
      qpn_rng_(Rng::for_component(config.seed, "qp_numbers")) {
  MRC_ASSERT(!config.ports.empty() && config.ports.size() <= kPortCountMax);
  for (std::size_t port = 0; port < config.ports.size(); ++port) {
    if (config.ports[port].up) services.local_ports_up |= PortMask{1} << port;
  }
}

// --- what happens to the NIC

bool EngineImpl::parse(const RxDatagram& datagram, wire::Packet& packet) {
  const bool trimmed = is_trimmed(datagram.traffic_class);
  const wire::ParseError error =
      wire::parse(datagram.bytes, trimmed ? wire::Extent::kTrimmed : wire::Extent::kWhole, packet);
  if (error != wire::ParseError::kNone) {  // A.3.11
    ++drops.parse_errors[static_cast<std::size_t>(error)];
    return false;
  }
  packet.payload_bytes = static_cast<std::uint16_t>(packet.payload_bytes + datagram.phantom_bytes);
  // A.3.8: ICRC; A.6.9: trimmed headers.
  const bool sealed = !trimmed || !(wire::is_data(packet.bth.opcode) || wire::is_rc_data(packet.bth.opcode));
  if (config.icrc && sealed && !datagram.checked) {
    icrc_.set_flow(datagram.source, config.ports[datagram.port].local, datagram.fields.source_port, config.udp_port);
    if (!icrc_.matches(datagram.bytes)) {
      ++drops.bad_icrc;
      return false;
    }
  }
  // The top bit of a partition key is the membership type, not part of the partition (A.15.1).
  if (((packet.bth.partition_key ^ config.partition_key) & 0x7FFF) != 0) {
    ++drops.wrong_partition_key;
    return false;
  }
  return true;
}

void EngineImpl::handle_datagram(TimePs now, const RxDatagram& datagram) {
  if (Qp* qp = deliver(now, datagram); qp != nullptr) touch(*qp);
}

// The deadlines of a QP are checked once for all consecutive packets to it.
void EngineImpl::handle_train(TimePs now, const RxDatagram& train, std::size_t datagram_bytes) {
  MRC_ASSERT(datagram_bytes > 0);
  RxDatagram datagram = train;
  Qp* latest = nullptr;
  for (std::size_t offset = 0; offset < train.bytes.size(); offset += datagram_bytes) {
    datagram.bytes = train.bytes.subspan(offset, std::min(datagram_bytes, train.bytes.size() - offset));
    Qp* qp = deliver(now, datagram);
    if (qp == nullptr || qp == latest) continue;
    if (latest != nullptr) touch(*latest);
    latest = qp;
  }
  if (latest != nullptr) touch(*latest);
}

// Passes a datagram to its QP, which is returned; nullptr: no such QP.
Qp* EngineImpl::deliver(TimePs now, const RxDatagram& datagram) {
  MRC_ASSERT(datagram.port < config.ports.size());
  PortStats& stats = port_stats[datagram.port];
  ++stats.received_packets;
  stats.received_bytes += datagram.bytes.size() + datagram.phantom_bytes;
  if (!parse(datagram, packet_)) return nullptr;
  if (packet_.bth.destination_qp == kEndpointQp) {
    handle_endpoint(now, datagram, packet_);
    return nullptr;
  }
  Qp* qp = find(packet_.bth.destination_qp);
  if (qp == nullptr) {  // A.15.2
    ++drops.unknown_qp;
    return nullptr;
  }
  qp->handle_packet(now, datagram, packet_, drops);
  const wire::Opcode opcode = packet_.bth.opcode;
  if (qp->urgent() && (wire::is_data(opcode) || wire::is_rc_data(opcode))) urgent_.note(now);
  if (services.peer_ports_changed != nullptr) {
    peer_ports_changed(now, *services.peer_ports_changed);
    services.peer_ports_changed = nullptr;
  }
  return qp;
}

void EngineImpl::handle_endpoint(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  if (packet.bth.opcode == wire::Opcode::kEndpointRequest) {
    Peer* changed = endpoint.handle_request(now, datagram, packet, services.local_ports_up);
    if (changed != nullptr) peer_ports_changed(now, *changed);
  } else if (packet.bth.opcode == wire::Opcode::kEndpointResponse) {
    Peer* changed = endpoint.handle_response(now, datagram, packet);
    if (changed != nullptr) peer_ports_changed(now, *changed);
    drain_reverse_probes(now);
  } else {
    ++drops.unknown_qp;
  }
}

void EngineImpl::drain_reverse_probes(TimePs now) {
  EndpointOperations::Result result;
  while (endpoint.poll_result(result)) {
    if (result.asker.qp == 0) {
      endpoint_results_.push_back(result.answer);
      continue;
    }
    Qp* qp = find(result.asker.qp);
    if (qp == nullptr || qp->context().ev_set == nullptr) continue;
    QpContext& context = qp->context();
    context.reverse.on_probe_result(now, *context.ev_set, {result.answer.ev, result.answer.port},
                                    result.answer.answered ? std::max<TimePs>(result.answer.rtt, 1) : 0);
    touch(*qp);
  }
}

void EngineImpl::peer_ports_changed(TimePs now, Peer& peer) {
  for (PortId port = 0; port < peer.ports.size(); ++port) {
    const std::uint32_t up = peer.ports_up >> port & 1;
    if (up != (peer.ports_announced >> port & 1)) events.emit(port_state_event(now, port, up, true, 0));
  }
  peer.ports_announced = peer.ports_up;
  if (peer.ports_up != peer.existing_ports()) endpoint.check_ports(now);
  for (Qp* qp : in_order_) {
    if (qp->context().peer != &peer) continue;
    qp->handle_ports(now);
    touch(*qp);
  }
}

void EngineImpl::handle_port_state(TimePs now, PortId port, bool up) {
  MRC_ASSERT(port < config.ports.size());
  const PortMask bit = PortMask{1} << port;
  if (((services.local_ports_up & bit) != 0) == up) return;
  services.local_ports_up ^= bit;
  events.emit(port_state_event(now, port, up, false, 0));
  for (Qp* qp : in_order_) {
    qp->handle_ports(now);
    touch(*qp);
  }
  endpoint.send_port_status(now, services.local_ports_up);  // A.13.2
}

void EngineImpl::handle_timer(TimePs now) {
  endpoint.handle_timer(now, services.local_ports_up);
  drain_reverse_probes(now);
  end_urgent_time(now);
  std::vector<Qp*> due;
  while (!timers_.empty() && timers_.top().time <= now) {
    const TimerEntry entry = timers_.top();
    timers_.pop();
    Qp* qp = find(entry.qpn);
    if (qp == nullptr || qp->timer_entry != entry.time) continue;  // superseded by an earlier one, already handled
    qp->timer_entry = kNever;
    due.push_back(qp);
  }
  for (Qp* qp : due) {
    if (qp->next_timer() <= now) qp->handle_timer(now);
    touch(*qp);
  }
}

// Every stored instant has to move: the simulated pairs compare runs with and without.
void EngineImpl::handle_clock_rebase(TimePs by) {
  MRC_ASSERT(by > 0 && by % kClockRebase == 0);
  events.rebase(by);
  endpoint.rebase(by);
  urgent_.rebase(by);
  decltype(timers_) moved;
  for (; !timers_.empty(); timers_.pop()) moved.push({rebased(timers_.top().time, by), timers_.top().qpn});
  timers_ = std::move(moved);
  for (Qp* qp : in_order_) qp->rebase(by);
}

TimePs EngineImpl::next_timer() const {
  const TimePs next = std::min(endpoint.next_timer(), services.ordinary_data_waits ? urgent_.end() : kNever);
  return timers_.empty() ? next : std::min(next, timers_.top().time);
}

void EngineImpl::probe_reverse_path(TimePs now, std::uint32_t qp, PeerId peer, const Ev& ev, TimePs timeout) {
  (void)endpoint.send_ev_probe(now, {.qp = qp}, peer, ev, timeout);
}

bool EngineImpl::poll_endpoint_result(EndpointResult& result) {
  if (endpoint_results_.empty()) return false;
  result = endpoint_results_.front();
  endpoint_results_.pop_front();
  return true;
}

void EngineImpl::hot_memory(HotMemory& hot) const {
  hot.push_back(bytes_of(*this));
  hot.push_back(bytes_of(port_stats));
  index_.hot_memory(hot);
  for (const Qp* qp : in_order_) qp->hot_memory(hot);
}

// --- sending

void EngineImpl::touch(Qp& qp) {
  if (!qp.control_listed) {
    qp.control_listed = true;
    control_ready_.push_back(&qp);
  }
  if (!qp.data_listed) {
    qp.data_listed = true;
    (qp.urgent() ? urgent_ready_ : data_ready_).push_back(&qp);
  }
  arm(qp);
}

// Deadlines mostly move later while traffic flows. An entry that is too early costs one check when it fires, and then
// moves; only an earlier deadline needs an entry of its own.
void EngineImpl::arm(Qp& qp) {
  count(qp, qp.under_way());
  const TimePs next = qp.next_timer();
  if (next >= qp.timer_entry) return;
  qp.timer_entry = next;
  timers_.push({next, qp.context().qpn});
}

void EngineImpl::count(Qp& qp, UnderWay under_way) {
  if (qp.counted == under_way) return;
  const auto add = [this](UnderWay what, std::uint32_t by) {
    if (what == UnderWay::kStream) streams_ += by;
    if (what == UnderWay::kEnd) ends_ += by;
  };
  add(qp.counted, ~0U);
  add(under_way, 1);
  qp.counted = under_way;
}

TimePs EngineImpl::patience() const {
  if (ends_ > 0) return 0;
  TimePs least = kNever;
  std::uint32_t left = streams_;
  for (auto qp = in_order_.begin(); left > 0 && qp != in_order_.end(); ++qp) {
    if ((*qp)->counted != UnderWay::kStream) continue;
    least = std::min(least, (*qp)->requester()->patience());
    --left;
  }
  return least;
}

bool EngineImpl::build_from(Ring<Qp*>& list, bool Qp::* listed, TimePs now, PortMask free_ports,
                            std::uint32_t burst_max, TxBurst& burst) {
  const bool control = &list == &control_ready_;
  for (std::size_t left = list.size(); left > 0; --left) {
    Qp* qp = list.front();
    list.pop_front();
    const BuildResult result = control ? qp->build_control(now, free_ports, burst_max, burst)
                                       : qp->build_data(now, free_ports, burst_max, burst);
    if (result == BuildResult::kNothing) {
      qp->*listed = false;
      arm(*qp);  // due packets that could not be built may depend on time again
      continue;
    }
    list.push_back(qp);
    if (result != BuildResult::kBuilt) continue;
    arm(*qp);
    // Also an idle QP sends probes of dead paths, which are not urgent.
    if (qp->urgent() && !control && qp->under_way() != UnderWay::kNothing) urgent_.note(now);
    return true;
  }
  return false;
}

bool EngineImpl::build_control(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst) {
  const PortMask up = services.local_ports_up;
  if (endpoint.response_overdue(now) && endpoint.build_response(now, free_ports, up, burst)) return true;
  return endpoint.build_request(now, free_ports, up, burst) ||
         build_from(control_ready_, &Qp::control_listed, now, free_ports, limit, burst);
}

void EngineImpl::end_urgent_time(TimePs now) {
  if (!services.ordinary_data_waits || urgent_.holds(now)) return;
  services.ordinary_data_waits = false;
  for (Qp* qp : in_order_) {
    if (qp->urgent()) continue;
    qp->resume(now);
    touch(*qp);
  }
}

// Urgent QPs come first, and data of the others waits for them (X.9.1).
bool EngineImpl::build_data(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst) {
  if (build_from(urgent_ready_, &Qp::data_listed, now, free_ports, limit, burst)) return true;
  end_urgent_time(now);
  if (urgent_.holds(now) && data_ready_.size() > 0) services.ordinary_data_waits = true;
  return !services.ordinary_data_waits && build_from(data_ready_, &Qp::data_listed, now, free_ports, limit, burst);
}

bool EngineImpl::poll_transmit(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst,
                               Outgoing what) {
  const std::uint32_t limit = std::clamp(burst_max, 1U, kBurstPacketsMax);
  const bool everything = what == Outgoing::kEverything;
  const bool built = (everything && build_control(now, free_ports, limit, burst)) ||
                     build_data(now, free_ports, limit, burst) ||
                     (everything && endpoint.build_response(now, free_ports, services.local_ports_up, burst));
  if (!built) return false;
  if (config.icrc && !config.driver_seals) seal(burst, config.ports[burst.port].local);
  PortStats& stats = port_stats[burst.port];
  stats.sent_packets += burst.count;
  for (std::uint32_t i = 0; i < burst.count; ++i) stats.sent_bytes += burst.packets[i].datagram_bytes();
  return true;
}

// --- QPs

// An observer of a few QP numbers could compute the next ones from the state of the generator. A simulation, which
// gives no secret, keeps the numbers that follow from its seed.
std::uint32_t EngineImpl::draw_qp_number() {
  constexpr std::uint32_t kCount = kPsnSpace - kQpNumberMin;
  if (!given(config.secret)) return kQpNumberMin + static_cast<std::uint32_t>(qpn_rng_.below(kCount));
  const std::uint64_t drawn = keyed_hash(secret, {kQpNumberHash, ++qp_numbers_drawn_});
  return kQpNumberMin + static_cast<std::uint32_t>(drawn % kCount);
}

Status EngineImpl::remove_peer(PeerId id) {
  const Status status = peers.release(id);
  if (status == Status::kOk && peers.remove_unused(id)) endpoint.forget(id);
  return status;
}

void EngineImpl::leave_peer(Qp& qp) {
  QpContext& context = qp.context();
  if (context.peer == nullptr) return;
  std::erase(context.peer->users, &context);
  const PeerId id = context.peer->id;
  context.peer = nullptr;
  if (peers.remove_unused(id)) endpoint.forget(id);
}

Status EngineImpl::create_qp(const QpInitAttributes& attributes, std::uint32_t& qpn) {
  const auto send_cq = cqs.find(attributes.send_cq);
  const auto recv_cq = cqs.find(attributes.recv_cq);
  if (send_cq == cqs.end() || recv_cq == cqs.end()) return Status::kNotFound;
  if (attributes.send_wr_max == 0) return Status::kInvalidArgument;
  if (qps_.size() >= config.qps_max) return Status::kLimit;
  do {
    qpn = draw_qp_number();
  } while (qps_.contains(qpn));
  auto qp = std::make_unique<Qp>(services, attributes, qpn);
  qp->context().send_cq = send_cq->second.get();
  qp->context().recv_cq = recv_cq->second.get();
  ++send_cq->second->users;
  ++recv_cq->second->users;
  in_order_.push_back(qp.get());
  index_.add(qpn, qp.get());
  qps_.emplace(qpn, std::move(qp));
  return Status::kOk;
}

void EngineImpl::unlist(Qp& qp) {
  count(qp, UnderWay::kNothing);
  control_ready_.erase(&qp);
  data_ready_.erase(&qp);
  urgent_ready_.erase(&qp);
}

// Summed on request, so that packets pay for no second set of counters.
QpTotals EngineImpl::qp_totals() const {
  QpTotals totals = retired_;
  for (const Qp* qp : in_order_) add(totals, qp->context().stats);
  return totals;
}

Status EngineImpl::reset_qp(std::uint32_t qpn) {
  const auto found = qps_.find(qpn);
  if (found == qps_.end()) return Status::kNotFound;
  add(retired_, found->second->context().stats);
  unlist(*found->second);
  leave_peer(*found->second);
  auto fresh = std::make_unique<Qp>(services, found->second->context().init, qpn);
  fresh->context().send_cq = found->second->context().send_cq;
  fresh->context().recv_cq = found->second->context().recv_cq;
  std::replace(in_order_.begin(), in_order_.end(), found->second.get(), fresh.get());
  index_.remove(qpn);
  index_.add(qpn, fresh.get());
  found->second = std::move(fresh);
  return Status::kOk;
}

Status EngineImpl::destroy_qp(std::uint32_t qpn) {
  const auto found = qps_.find(qpn);
  if (found == qps_.end()) return Status::kNotFound;
  Qp& qp = *found->second;
  add(retired_, qp.context().stats);
  unlist(qp);
  leave_peer(qp);
  --qp.context().send_cq->users;
  --qp.context().recv_cq->users;
  std::erase(in_order_, &qp);
  index_.remove(qpn);
  qps_.erase(found);
  return Status::kOk;
}

}  // namespace openmrc
