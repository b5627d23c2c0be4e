// Shared receive queues. Both lanes of a pair consume from one: RC a receive per SEND and WRITE_IMM, MRC one per
// WRITE_IMM, in the order in which the messages complete.
#include <algorithm>
#include <array>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

int create_srq(ibv_pd* pd, ibv_srq_init_attr& wanted, Srq*& out) {
  if (!is_live(pd)) return EINVAL;
  if (wanted.attr.max_wr == 0 || wanted.attr.max_wr > kSrqWrMax || wanted.attr.max_sge > kSgeMax) return EINVAL;
  auto srq = std::make_unique<Srq>();
  srq->api.context = pd->context;
  srq->api.srq_context = wanted.srq_context;
  srq->api.pd = pd;
  srq->wr_max = wanted.attr.max_wr;
  srq->sge_max = std::max(wanted.attr.max_sge, 1U);
  const Status status = srq->nic().device().command([&](Engine& engine, TimePs) {
    return engine.create_srq({.wr_max = wanted.attr.max_wr, .domain = Pd::of(pd).domain}, srq->id);
  });
  if (status != Status::kOk) return errno_of(status);
  srq->nic().events().add(*srq);
  srq->api.handle = srq->id;
  ::pthread_mutex_init(&srq->api.mutex, nullptr);
  ::pthread_cond_init(&srq->api.cond, nullptr);
  ++Pd::of(pd).children;
  wanted.attr.max_sge = srq->sge_max;
  out = srq.release();
  add_live(out);
  return 0;
}

int modify_srq(Srq& srq, const ibv_srq_attr& wanted, int mask) {
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  const bool resizes = (mask & IBV_SRQ_MAX_WR) != 0, limits = (mask & IBV_SRQ_LIMIT) != 0;
  if (resizes && wanted.max_wr > kSrqWrMax) return EINVAL;
  if (!resizes && !limits) return 0;
  return errno_of(srq.nic().device().command([&](Engine& engine, TimePs) {
    if (!resizes) return engine.set_srq_limit(srq.id, wanted.srq_limit);
    SrqStats stats;
    engine.srq_stats(srq.id, stats);
    const Status status = engine.resize_srq(srq.id, wanted.max_wr, limits ? wanted.srq_limit : stats.limit);
    if (status == Status::kOk) srq.wr_max = wanted.max_wr;
    return status;
  }));
}

int destroy_srq(Srq& srq) {
  const Status status = srq.nic().device().command([&](Engine& engine, TimePs) { return engine.destroy_srq(srq.id); });
  if (status != Status::kOk) return errno_of(status);
  remove_live(&srq);
  srq.nic().events().remove(srq);
  --Pd::of(srq.api.pd).children;
  ::pthread_cond_destroy(&srq.api.cond);
  ::pthread_mutex_destroy(&srq.api.mutex);
  delete &srq;
  return 0;
}

int post(Srq& srq, const ibv_recv_wr& wr) {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > srq.sge_max) return EINVAL;
  if (wr.num_sge > 0 && wr.sg_list == nullptr) return EINVAL;
  std::array<Sge, kSgeMax> sges;
  const auto count = static_cast<std::size_t>(wr.num_sge);
  for (std::size_t i = 0; i < count; ++i) {
    sges[i] = {.address = wr.sg_list[i].addr, .length_bytes = wr.sg_list[i].length, .lkey = wr.sg_list[i].lkey};
  }
  return errno_of(srq.nic().device().post_srq_recv(srq.id, wr.wr_id, std::span(sges).first(count)));
}

}  // namespace

int post_srq_recv(ibv_srq* api, ibv_recv_wr* first, ibv_recv_wr** bad) {
  ibv_recv_wr* wr = first;
  const int error = guarded([&] {
    Srq& srq = Srq::of(api);
    for (; wr != nullptr; wr = wr->next) {
      if (const int refused = post(srq, *wr)) return refused;
    }
    return 0;
  });
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

// Called for everything that the header does not turn into ibv_create_srq() itself.
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted) {
  const std::uint32_t known = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  if (context == nullptr || wanted == nullptr || (wanted->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  const bool basic = (wanted->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || wanted->srq_type == IBV_SRQT_BASIC;
  if (basic && (wanted->comp_mask & ~known) == 0) {
    return ibv_create_srq(wanted->pd, reinterpret_cast<ibv_srq_init_attr*>(wanted));
  }
  errno = EOPNOTSUPP;
  return nullptr;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  if (!is_live(srq) || number == nullptr) return EINVAL;
  *number = Srq::of(srq).id;
  return 0;
}

VERBS_API ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* wanted) {
  Srq* srq = made<Srq>([&](Srq*& out) { return wanted == nullptr ? EINVAL : create_srq(pd, *wanted, out); });
  return reinterpret_cast<ibv_srq*>(srq);
}

VERBS_API int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  if (!is_live(srq) || attributes == nullptr) return EINVAL;
  return guarded([&] { return modify_srq(Srq::of(srq), *attributes, mask); });
}

VERBS_API int ibv_query_srq(ibv_srq* api, ibv_srq_attr* attributes) {
  if (!is_live(api) || attributes == nullptr) return EINVAL;
  return guarded([&] {
    Srq& srq = Srq::of(api);
    SrqStats stats;
    return srq.nic().device().look([&](const Engine& engine) {
      if (!engine.srq_stats(srq.id, stats)) return EINVAL;
      *attributes = {.max_wr = srq.wr_max, .max_sge = srq.sge_max, .srq_limit = stats.limit};
      return 0;
    });
  });
}

VERBS_API int ibv_destroy_srq(ibv_srq* srq) {
  if (!is_live(srq)) return EINVAL;
  return guarded([&] { return destroy_srq(Srq::of(srq)); });
}

}  // namespace openmrc::verbs
