// The applications of both ends: they connect QPs, post work, take completions, and restart occasionally.
#include <algorithm>

#include "tests/sim/world.hpp"

namespace openmrc::sim {

namespace {

std::size_t at(int end) { return static_cast<std::size_t>(end); }

constexpr std::size_t kTargetBytes = 512 * 1024;

}  // namespace

void World::set_up_memory(std::uint32_t index, Link& link) {
  link.plan = &scenario_.qps[index];
  link.psn = link.plan->psn;
  link.budget = link.plan->packets;
  for (int end = 0; end < kEnds; ++end) {
    Engine& engine = ends_[at(end)]->engine();
    link.target[at(end)] = std::make_unique<TargetMemory>(kTargetBytes);
    link.target_key[at(end)] = 0x2000 + index;
    RegionConfig region{link.target[at(end)]->base(), (std::uint64_t{index} + 1) << 32, kTargetBytes,
                        link.target_key[at(end)], kRemoteWrite};
    SIM_REQUIRE(engine.register_memory(region) == Status::kOk, "register_memory");
    if (scenario_.shared_cq && index > 0) {
      link.send_cq[at(end)] = link.recv_cq[at(end)] = links_[0].send_cq[at(end)];
    } else {
      SIM_REQUIRE(engine.create_cq(1 << 13, link.send_cq[at(end)]) == Status::kOk, "create_cq");
      link.recv_cq[at(end)] = link.send_cq[at(end)];
      if (!scenario_.shared_cq)
        SIM_REQUIRE(engine.create_cq(1 << 13, link.recv_cq[at(end)]) == Status::kOk, "create_cq");
    }
  }
}

void World::create(std::uint32_t index, int end) {
  Link& link = links_[index];
  QpInitAttributes attributes;
  attributes.transport = link.plan->transport;
  attributes.send_cq = link.send_cq[at(end)];
  attributes.recv_cq = link.recv_cq[at(end)];
  attributes.send_wr_max = link.plan->send_wr_max[at(end)];
  attributes.recv_wr_max = link.plan->recv_wr_max;
  SIM_REQUIRE(ends_[at(end)]->engine().create_qp(attributes, link.qpn[at(end)]) == Status::kOk, "create_qp");
}

void World::new_streams(std::uint32_t index) {
  Link& link = links_[index];
  for (int sender = 0; sender < kEnds; ++sender) {
    StreamMemory memory;
    memory.source = &source_[at(sender)];
    memory.source_address = 0x10'0000'0000ULL;
    memory.lkey = 0x1000;
    memory.target = link.target[at(1 - sender)].get();
    memory.target_address = (std::uint64_t{index} + 1) << 32;
    memory.rkey = link.target_key[at(1 - sender)];
    const std::uint64_t name = std::uint64_t{index} * 64 + link.incarnation * 2 + static_cast<std::uint64_t>(sender);
    link.stream[at(sender)] =
        std::make_unique<Stream>(*link.plan, sender, memory, link.psn[at(sender)], link.budget[at(sender)],
                                 Rng::for_component(scenario_.seed, "stream", name), name << 44);
  }
  ++link.incarnation;
  link.ready = link.broken = link.commanded = {};
}

void World::connect(std::uint32_t index, int end) {
  Link& link = links_[index];
  Engine& engine = ends_[at(end)]->engine();
  const TimePs local = ends_[at(end)]->local(now_);
  SIM_REQUIRE(engine.modify_qp(local, link.qpn[at(end)], link.plan->init) == Status::kOk, "RST -> INIT");
  QpToRtr rtr = link.plan->rtr;
  rtr.peer = peers_[at(end)];
  rtr.destination_qp = link.qpn[at(1 - end)];
  rtr.rq_psn = link.psn[at(1 - end)];
  rtr.mpr_units = link.plan->mpr_units[at(end)];
  rtr.wimm_max_dest = link.plan->wimm_max[at(end)];
  SIM_REQUIRE(engine.modify_qp(local, link.qpn[at(end)], rtr) == Status::kOk, "INIT -> RTR");
  post_receives(link, end);
  QpToRts rts = link.plan->rts;
  rts.sq_psn = link.psn[at(end)];
  rts.mpr_units = link.plan->mpr_units[at(1 - end)];
  rts.wimm_max = link.plan->wimm_max[at(1 - end)];
  SIM_REQUIRE(engine.modify_qp(local, link.qpn[at(end)], rts) == Status::kOk, "RTR -> RTS");
  link.ready[at(end)] = true;
  if (!stalled(end)) step(end);
}

void World::post_receives(Link& link, int end) {
  Stream& stream = *link.stream[at(1 - end)];
  while (stream.recvs_posted() < link.plan->recv_wr_max) {
    const Status status = ends_[at(end)]->engine().post_recv(link.qpn[at(end)], stream.next_recv_wr_id());
    SIM_REQUIRE(status == Status::kOk, "post_recv answered %u", static_cast<unsigned>(status));
  }
}

bool World::feed(int end) {
  if (stopped_) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (!link.ready[at(end)] || link.closed()) continue;
    Engine& engine = ends_[at(end)]->engine();
    while (engine.sends_outstanding(link.qpn[at(end)]) < link.plan->send_wr_max[at(end)]) {
      if (rng_.chance(link.plan->think_permille, 1000)) {
        schedule(now_ + static_cast<TimePs>(rng_.below(200 * kPsPerUs)), Kind::kAppTick, end, i);
        break;
      }
      if (!post_one(i, end)) break;
      any = true;
    }
  }
  return any;
}

bool World::post_one(std::uint32_t index, int end) {
  Link& link = links_[index];
  if (stopped_ || !link.ready[at(end)] || link.closed()) return false;
  Engine& engine = ends_[at(end)]->engine();
  Stream& stream = *link.stream[at(end)];
  const std::uint32_t qpn = link.qpn[at(end)];
  if (engine.sends_outstanding(qpn) >= link.plan->send_wr_max[at(end)]) {
    SendWr extra;
    extra.lkey = 0x1000;
    const Status refused = engine.post_send(ends_[at(end)]->local(now_), qpn, extra);
    SIM_REQUIRE(refused == Status::kQueueFull, "a full send queue answered %u", static_cast<unsigned>(refused));
    return false;
  }
  Message message;
  if (!stream.draw(message)) return false;
  const Status status = engine.post_send(ends_[at(end)]->local(now_), qpn, message.wr);
  SIM_REQUIRE(status == Status::kOk, "post_send answered %u", static_cast<unsigned>(status));
  stream.posted(message);
  ++outcome_.messages;
  return true;
}

void World::drain(int end) {
  Engine& engine = ends_[at(end)]->engine();
  ends_[at(end)]->drain_events();
  CqId cq = 0;
  while (engine.poll_signaled_cq(cq)) {
    std::array<Completion, 16> completions;
    while (const std::size_t count = engine.poll_completions(cq, completions)) {
      for (std::size_t i = 0; i < count; ++i) on_completion(end, completions[i]);
    }
  }
  for (Link& link : links_) {
    if (link.ready[at(end)] && !link.broken[at(end)] && engine.qp_state(link.qpn[at(end)]) == QpState::kRts) {
      link.stream[at(end)]->on_outstanding(engine.sends_outstanding(link.qpn[at(end)]));
    }
  }
  EndpointResult result;
  while (engine.poll_endpoint_result(result)) trace_.add(static_cast<std::uint64_t>(result.rtt) ^ result.ev);
  notice_errors(end);
}

void World::on_completion(int end, const Completion& completion) {
  trace_.add(completion.wr_id);
  trace_.add((std::uint64_t{completion.qp} << 32) ^ (static_cast<std::uint64_t>(completion.status) << 8) ^
             completion.bytes);
  Link* link = find_link(end, completion.qp);
  SIM_REQUIRE(link != nullptr, "completion of QP %u, which does not exist", completion.qp);
  const bool broken = ends_[at(end)]->engine().qp_state(completion.qp) == QpState::kError;
  if (completion.opcode == WcOpcode::kRecvWriteImm) {
    link->stream[at(1 - end)]->on_recv_completion(completion, broken);
    if (!broken) post_receives(*link, end);
    return;
  }
  if (canary_ == Canary::kMemory && completion.status == WcStatus::kSuccess) {
    for (std::size_t i = 0; i < kTargetBytes; ++i) link->target[at(1 - end)]->base()[i] ^= 0x10;
  }
  link->stream[at(end)]->on_send_completion(completion, broken);
  if (canary_ == Canary::kOrder) link->stream[at(end)]->on_send_completion(completion, broken);
}

void World::notice_errors(int end) {
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (!link.ready[at(end)] || link.broken[at(end)]) continue;
    if (ends_[at(end)]->engine().qp_state(link.qpn[at(end)]) != QpState::kError) continue;
    judge_error(link, end);
    link.broken[at(end)] = true;
    ++outcome_.errors;
    if (verbosity_ > 0) {
      std::printf("%lld us: end %d QP %u in ERR, cause %u\n", static_cast<long long>(now_ / kPsPerUs), end, i,
                  static_cast<unsigned>(ends_[at(end)]->engine().qp_error(link.qpn[at(end)])));
    }
    SIM_REQUIRE(ends_[at(end)]->engine().sends_outstanding(link.qpn[at(end)]) == 0, "sends outstanding on a QP in ERR");
    link.stream[at(end)]->on_broken();
    link.stream[at(1 - end)]->on_receiver_broken();
    schedule(now_ + static_cast<TimePs>(rng_.below(3 * kPsPerMs)), Kind::kPeerBreak, 1 - end, i, link.incarnation);
  }
}

// An error is legitimate if it was requested, if the peer had one, or if nothing arrived during all retries.
void World::judge_error(const Link& link, int end) const {
  const QpErrorCause cause = ends_[at(end)]->engine().qp_error(link.qpn[at(end)]);
  if (link.commanded[at(end)]) {
    SIM_REQUIRE(cause == QpErrorCause::kFlushed, "moved to ERR by command, cause %u", static_cast<unsigned>(cause));
    return;
  }
  if (link.broken[at(1 - end)]) return;
  SIM_REQUIRE(cause == QpErrorCause::kRetryExceeded, "end %d: QP error, cause %u, with a healthy peer", end,
              static_cast<unsigned>(cause));
  const QpToRts& rts = link.plan->rts;
  SIM_REQUIRE(rts.exponential_retries < 25, "retries ran out although they are unlimited");
  const TimePs timeout = TimePs{1'024'000} << rts.timeout_exponent;
  const TimePs silent = now_ - link.stream[at(end)]->last_progress();
  const TimePs least = timeout * (rts.linear_retries + rts.exponential_retries) * 9 / 10;
  SIM_REQUIRE(silent >= least, "retries ran out %lld us after the last progress, %u of %lld us should take longer",
              static_cast<long long>(silent / kPsPerUs),
              static_cast<unsigned>(rts.linear_retries + rts.exponential_retries),
              static_cast<long long>(timeout / kPsPerUs));
}

void World::break_peer(std::uint32_t index, int end) {
  Link& link = links_[index];
  if (!link.broken[at(end)] && link.ready[at(end)]) {
    if (stalled(end)) {
      schedule(stalled_until_[at(end)], Kind::kPeerBreak, end, index, link.incarnation);
      return;
    }
    link.commanded[at(end)] = true;
    SIM_REQUIRE(ends_[at(end)]->engine().move_to_error(ends_[at(end)]->local(now_), link.qpn[at(end)]) == Status::kOk,
                "move_to_error");
    step(end);
  }
  if (!link.ready[at(end)]) link.broken[at(end)] = true;
  if (link.restarting && link.broken[0] && link.broken[1]) {
    schedule(now_ + static_cast<TimePs>(rng_.below(kPsPerMs)), Kind::kReconnect, 0, index, link.incarnation);
  }
}

// Creates a new incarnation of both QPs while packets of the old one are still in flight.
void World::reconnect(std::uint32_t index) {
  Link& link = links_[index];
  if (!link.restarting) return;
  link.restarting = false;
  for (int sender = 0; sender < kEnds; ++sender) {
    link.stream[at(sender)]->abandon();
    link.budget[at(sender)] = stopped_ ? 0 : link.plan->packets[at(sender)] / 2;
    // Far from the old PSNs, as connection managers choose them; otherwise old packets would be indistinguishable from
    // new ones.
    const std::uint64_t step = kPsnSpace / 4 + rng_.below(kPsnSpace / 4);
    link.psn[at(sender)] = static_cast<std::uint32_t>((link.psn[at(sender)] + step) & (kPsnSpace - 1));
  }
  for (int end = 0; end < kEnds; ++end) {
    Engine& engine = ends_[at(end)]->engine();
    const TimePs local = ends_[at(end)]->local(now_);
    drain(end);
    if (rng_.chance(1, 2)) {
      SIM_REQUIRE(engine.reset_qp(local, link.qpn[at(end)]) == Status::kOk, "reset_qp");
      ends_[at(end)]->drain_events();
      ends_[at(end)]->forget_qp(link.qpn[at(end)]);
    } else {
      SIM_REQUIRE(engine.destroy_qp(local, link.qpn[at(end)]) == Status::kOk, "destroy_qp");
      ends_[at(end)]->drain_events();
      ends_[at(end)]->forget_qp(link.qpn[at(end)]);
      create(index, end);
    }
  }
  new_streams(index);
  for (int end = 0; end < kEnds; ++end) connect(index, end);
}

}  // namespace openmrc::sim
