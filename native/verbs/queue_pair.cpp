// Queue pairs: creation and destruction.
#include <algorithm>
#include <cstring>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"
#include "verbs/settings.hpp"

namespace openmrc::verbs {
namespace {

// Network cards round up, and programs such as rdma_xclient rely on some bytes that they have not asked for.
constexpr std::uint32_t kInlineBytesMin = 64;

int check(const ibv_pd* pd, const ibv_qp_init_attr& wanted) {
  if (!is_live(pd) || !is_live(wanted.send_cq) || !is_live(wanted.recv_cq)) return EINVAL;
  const Nic* nic = Context::of(pd->context).nic.get();
  for (const ibv_cq* cq : {wanted.send_cq, wanted.recv_cq}) {
    if (Context::of(cq->context).nic.get() != nic) return EINVAL;
  }
  if (wanted.qp_type != IBV_QPT_RC) return EOPNOTSUPP;
  const ibv_qp_cap& cap = wanted.cap;
  if (cap.max_send_wr > kWrMax || cap.max_send_sge > kSgeMax || cap.max_inline_data > kInlineBytesMax) return EINVAL;
  if (wanted.srq != nullptr) {
    return is_live(wanted.srq) && Context::of(wanted.srq->context).nic.get() == nic ? 0 : EINVAL;
  }
  return cap.max_recv_wr > kWrMax || cap.max_recv_sge > kSgeMax ? EINVAL : 0;
}

Status create_lane(Qp& qp, Transport transport, std::uint32_t number) {
  QpInitAttributes attributes;
  attributes.transport = transport;
  attributes.send_cq = Cq::of(qp.init.send_cq).id;
  attributes.recv_cq = Cq::of(qp.init.recv_cq).id;
  attributes.send_wr_max = qp.init.cap.max_send_wr;
  attributes.recv_wr_max = qp.init.cap.max_recv_wr;
  attributes.domain = Pd::of(qp.api.qp_base.pd).domain;
  attributes.number = number;
  if (qp.init.srq != nullptr) {
    attributes.srq = Srq::of(qp.init.srq).id;
  } else if (number != qp.number()) {
    attributes.receives_of = qp.number();
  }
  return qp.nic().device().command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, number); });
}

void destroy_lanes(Qp& qp) {
  const std::array lanes{qp.rc, qp.mrc};
  qp.nic().device().end_qps(lanes, [&](Engine& engine, TimePs now) {
    for (const std::uint32_t lane : lanes) {
      if (lane != 0) engine.destroy_qp(now, lane);
    }
    return 0;
  });
  qp.mrc = qp.rc = 0;
}

// The QP of a pair that programs know is MRC's; RC's number differs in the lowest bit, at both ends.
Status create_lanes(Qp& qp, Lanes lanes) {
  const std::uint32_t number = qp.number();
  Status status = Status::kOk;
  if (lanes != Lanes::kRc) {
    status = create_lane(qp, Transport::kMrc, number);
    if (status == Status::kOk) qp.mrc = number;
  }
  if (status == Status::kOk && lanes != Lanes::kMrc) {
    const std::uint32_t companion = lanes == Lanes::kPair ? number | 1U : number;
    status = create_lane(qp, Transport::kRc, companion);
    if (status == Status::kOk) qp.rc = companion;
  }
  if (status != Status::kOk) destroy_lanes(qp);
  return status;
}

void attach(ibv_cq* api, Qp& qp) {
  Cq& cq = Cq::of(api);
  const std::lock_guard guard(cq.mutex);
  for (const std::uint32_t lane : {qp.mrc, qp.rc}) {
    if (lane != 0) cq.qps[lane] = &qp;
  }
  ++cq.users;
}

// Completions of a destroyed QP are gone, as the verbs require.
void detach(ibv_cq* api, const Qp& qp) {
  Cq& cq = Cq::of(api);
  const std::lock_guard guard(cq.mutex);
  drop_completions(cq, qp);
  cq.latest_lane = 0;
  std::erase_if(cq.qps, [&](const auto& one) { return one.second == &qp; });
  --cq.users;
}

int destroy_qp(Qp& qp) {
  qp.nic().device().check_process();
  if (!remove_live(&qp)) return EINVAL;
  qp.nic().events().remove(qp);
  // Acknowledgements wait for a reply of a polling program, which may have received its last message: without them the
  // peer's work would fail.
  qp.nic().device().progress(0);
  {
    const std::lock_guard guard(qp.mutex);
    qp.failed = true;
    qp.held.clear();
    destroy_lanes(qp);
  }
  ibv_qp& api = qp.api.qp_base;
  detach(api.send_cq, qp);
  if (api.recv_cq != api.send_cq) detach(api.recv_cq, qp);
  qp.nic().free_qp_number(qp.number());
  --Pd::of(api.pd).children;
  ::pthread_cond_destroy(&api.cond);
  ::pthread_mutex_destroy(&api.mutex);
  delete &qp;
  return 0;
}

}  // namespace

int create_qp(ibv_pd* pd, ibv_qp_init_attr& wanted, Lanes lanes, Qp*& out) {
  if (const int error = check(pd, wanted)) return error;
  auto qp = std::make_unique<Qp>();
  ibv_qp& api = qp->api.qp_base;
  qp->init = wanted;
  ibv_qp_cap& cap = qp->init.cap;
  cap.max_send_wr = std::max(cap.max_send_wr, 1U);
  cap.max_send_sge = std::max(cap.max_send_sge, 1U);
  cap.max_inline_data = std::max(cap.max_inline_data, kInlineBytesMin);
  if (wanted.srq != nullptr) cap.max_recv_wr = cap.max_recv_sge = 0;
  qp->sends.resize(cap.max_send_wr);
  api.context = pd->context;
  api.qp_context = wanted.qp_context;
  api.pd = pd;
  api.send_cq = wanted.send_cq;
  api.recv_cq = wanted.recv_cq;
  api.srq = wanted.srq;
  api.state = qp->attributes.qp_state = IBV_QPS_RESET;
  api.qp_type = wanted.qp_type;
  if (!qp->nic().draw_qp_number(api.qp_num)) return ENOMEM;
  api.handle = api.qp_num;
  const Status status = create_lanes(*qp, lanes);
  if (status != Status::kOk) {
    qp->nic().free_qp_number(api.qp_num);
    return errno_of(status);
  }
  qp->nic().events().add(*qp);
  ::pthread_mutex_init(&api.mutex, nullptr);
  ::pthread_cond_init(&api.cond, nullptr);
  attach(api.send_cq, *qp);
  if (api.recv_cq != api.send_cq) attach(api.recv_cq, *qp);
  ++Pd::of(pd).children;
  wanted.cap = cap;
  out = qp.release();
  add_live(out);
  return 0;
}

VERBS_API ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  Qp* qp = made<Qp>(
      [&](Qp*& out) { return wanted == nullptr ? EINVAL : create_qp(pd, *wanted, lanes_of_environment(), out); });
  return reinterpret_cast<ibv_qp*>(qp);
}

VERBS_API int ibv_destroy_qp(ibv_qp* qp) {
  if (!is_live(qp)) return EINVAL;
  return guarded([&] { return destroy_qp(Qp::of(qp)); });
}

}  // namespace openmrc::verbs
