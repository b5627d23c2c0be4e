// Queue pairs: MRC alone.
#include <algorithm>

#include "mrc_api/controller.hpp"
#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

constexpr int kToInit = MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID | MRC_QP_HINT;
constexpr int kToRtr = MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR_DEST | MRC_QP_CAP;
constexpr int kToRts = MRC_QP_MAX_WIMM | MRC_QP_MPR | MRC_QP_RETRY_CNT | MRC_QP_TIMEOUT;
constexpr std::uint32_t kCapabilities =
    MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | MRC_QP_CAP_DYNAMIC_MPR | MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
constexpr std::uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

// Attributes of verbs that MRC replaces or lacks: programs set them all the same, and they have no effect.
constexpr int kWithoutEffect = IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
constexpr int kOfVerbs = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_ACCESS_FLAGS |
                         IBV_QP_PKEY_INDEX | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
                         IBV_QP_ALT_PATH | IBV_QP_SQ_PSN | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_DEST_QPN |
                         IBV_QP_RATE_LIMIT | kWithoutEffect;
constexpr int kOfVerbsRefused =
    IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_QKEY | IBV_QP_CAP | IBV_QP_RATE_LIMIT;

constexpr std::uint8_t kTimeoutMax = 24, kLinearMax = 7, kExponentialMax = 25;

int create_qp(mrc_context* context, mrc_qp_init_attr* wanted, mrc_qp*& out) {
  if (!is_live(context) || wanted == nullptr) return EINVAL;
  for (const mrc_cq* cq : {wanted->send_cq, wanted->recv_cq}) {
    if (!is_live(cq) || cq->context->controller != context->controller || cq->of_events) return EINVAL;
  }
  if (wanted->protocol_version != MRC_PROTOCOL_VERSION_0 && wanted->protocol_version != MRC_PROTOCOL_VERSION_1) {
    return EINVAL;
  }
  if ((wanted->send_ops_flags & ~kOperations) != 0) return EOPNOTSUPP;
  auto qp = std::make_unique<mrc_qp>();
  ibv_qp_init_attr init{};
  init.qp_context = qp.get();
  init.send_cq = wanted->send_cq->verbs;
  init.recv_cq = wanted->recv_cq->verbs;
  init.cap = wanted->cap;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = wanted->sq_sig_all;
  if (const int error = seam()->create_qp(wanted->pd, init, qp->verbs)) return error;
  wanted->cap = init.cap;
  qp->context = context;
  qp->init = *wanted;
  qp->init.protocol_version = MRC_PROTOCOL_VERSION_1;
  if (qp->init.send_ops_flags == 0) qp->init.send_ops_flags = kOperations;
  ++wanted->send_cq->users;
  ++wanted->recv_cq->users;
  ++context->children;
  add_live(qp.get());
  out = qp.release();
  return 0;
}

void release_hint(mrc_qp& qp) {
  if (qp.hint != nullptr) --qp.hint->users;
  qp.hint = nullptr;
}

int destroy_qp(mrc_qp* qp) {
  if (!is_live(qp)) return EINVAL;
  qp->context->controller->detach(*qp);
  if (const int error = ::ibv_destroy_qp(qp->verbs)) return error;
  remove_live(qp);
  release_hint(*qp);
  --qp->init.send_cq->users;
  --qp->init.recv_cq->users;
  --qp->context->children;
  delete qp;
  return 0;
}

// --- states

int check(const mrc_qp_attr& attr, int mask) {
  if ((mask & MRC_QP_MPR) != 0 && attr.mpr.mpr == 0) return EINVAL;
  if ((mask & MRC_QP_MPR_DEST) != 0 && attr.mpr.mpr_dest == 0) return EINVAL;
  if ((mask & MRC_QP_MAX_WIMM) != 0 && attr.wimm.max_wimm == 0) return EINVAL;
  if ((mask & MRC_QP_MAX_WIMM_DEST) != 0 && attr.wimm.max_wimm_dest == 0) return EINVAL;
  if ((mask & MRC_QP_TIMEOUT) != 0 && attr.timeout > kTimeoutMax) return EINVAL;
  if ((mask & MRC_QP_RETRY_CNT) != 0 && (attr.retry.linear_cnt > kLinearMax || attr.retry.exp_cnt > kExponentialMax)) {
    return EINVAL;
  }
  return (mask & MRC_QP_CAP) != 0 && (attr.cap & ~kCapabilities) != 0 ? EINVAL : 0;
}

int settable_at(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_INIT:
      return kToInit;
    case IBV_QPS_RTR:
      return kToRtr;
    case IBV_QPS_RTS:
      return kToRts;
    default:
      return 0;
  }
}

ibv_qp_state state_of(mrc_qp& qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  return ::ibv_query_qp(qp.verbs, &attr, IBV_QP_STATE, &init) == 0 ? attr.qp_state : IBV_QPS_ERR;
}

void apply(verbs::MrcNumbers& to, const mrc_qp_attr& attr, int mask) {
  if ((mask & MRC_QP_MPR) != 0) to.mpr_units = attr.mpr.mpr;
  if ((mask & MRC_QP_MPR_DEST) != 0) to.mpr_units_dest = attr.mpr.mpr_dest;
  if ((mask & MRC_QP_MAX_WIMM) != 0) to.wimm_max = attr.wimm.max_wimm;
  if ((mask & MRC_QP_MAX_WIMM_DEST) != 0) to.wimm_max_dest = attr.wimm.max_wimm_dest;
  if ((mask & MRC_QP_TIMEOUT) != 0) to.timeout_exponent = attr.timeout;
  if ((mask & MRC_QP_RETRY_CNT) != 0) {
    to.linear_retries = attr.retry.linear_cnt;
    to.exponential_retries = attr.retry.exp_cnt;
  }
  if ((mask & MRC_QP_CAP) != 0) {
    to.trim_nack = (attr.cap & MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED) == 0;
    to.dynamic_mpr = (attr.cap & MRC_QP_CAP_DYNAMIC_MPR) != 0;
    to.service_time = (attr.cap & MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED) == 0;
  }
}

// Verbs ask for attributes that MRC has no use for.
void complete(ibv_qp_attr& attr, int& mask) {
  mask &= ~kWithoutEffect;
  attr.port_num = 1;
  attr.timeout = attr.min_rnr_timer = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
  if ((mask & IBV_QP_STATE) == 0) return;
  if (attr.qp_state == IBV_QPS_INIT) {
    if ((mask & IBV_QP_ACCESS_FLAGS) == 0) attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    if ((mask & IBV_QP_PKEY_INDEX) == 0) attr.pkey_index = 0;
    mask |= IBV_QP_PORT | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
  }
  if (attr.qp_state == IBV_QPS_RTR) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (attr.qp_state == IBV_QPS_RTS) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
}

int to_init(mrc_qp& qp, ibv_qp_attr& verbs, int verbs_mask, const mrc_qp_attr& attr, int mask) {
  mrc_qp_hint* hint = (mask & MRC_QP_HINT) != 0 ? attr.qp_hint : nullptr;
  if (hint != nullptr && (!is_live(hint) || hint->context->controller != qp.context->controller)) return EINVAL;
  qp.hint = hint;
  if (hint != nullptr) ++hint->users;
  Controller& controller = *qp.context->controller;
  int error = controller.attach(qp, attr, mask);
  if (error == 0) error = ::ibv_modify_qp(qp.verbs, &verbs, verbs_mask);
  if (error == 0) {
    controller.deny(qp);
    return 0;
  }
  controller.detach(qp);
  release_hint(qp);
  return error;
}

int change_window(mrc_qp& qp, const mrc_qp_attr& attr, int mask) {
  if (mask != MRC_QP_MPR_DEST) return mask == 0 ? 0 : EINVAL;
  verbs::MrcNumbers numbers = seam()->numbers(qp.verbs);
  if (!numbers.dynamic_mpr) return EINVAL;
  if (const int error = seam()->set_receive_window(qp.verbs, attr.mpr.mpr_dest)) return error;
  apply(numbers, attr, mask);
  return seam()->set_numbers(qp.verbs, numbers);
}

int move(mrc_qp& qp, ibv_qp_attr& verbs, int verbs_mask, const mrc_qp_attr& attr, int mask) {
  const ibv_qp_state from = state_of(qp), to = verbs.qp_state;
  if (from == to && to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
    if (const int error = ::ibv_modify_qp(qp.verbs, &verbs, verbs_mask)) return error;
    return change_window(qp, attr, mask);
  }
  if ((mask & ~settable_at(to)) != 0) return EINVAL;
  if (to == IBV_QPS_INIT) return to_init(qp, verbs, verbs_mask, attr, mask);
  const verbs::MrcNumbers before = seam()->numbers(qp.verbs);
  verbs::MrcNumbers numbers = before;
  apply(numbers, attr, mask);
  if (const int error = seam()->set_numbers(qp.verbs, numbers)) return error;
  if (const int error = ::ibv_modify_qp(qp.verbs, &verbs, verbs_mask)) {
    seam()->set_numbers(qp.verbs, before);
    return error;
  }
  if (to == IBV_QPS_RESET) {
    qp.context->controller->detach(qp);
    release_hint(qp);
    seam()->reset_numbers(qp.verbs);
  }
  return 0;
}

int modify_qp(mrc_qp* qp, const ibv_qp_attr* verbs, int verbs_mask, const mrc_qp_attr* attr, int mask) {
  if (!is_live(qp) || (verbs == nullptr && verbs_mask != 0) || (attr == nullptr && mask != 0)) return EINVAL;
  if ((mask & MRC_QP_VENDOR_CFG) != 0 || (verbs_mask & kOfVerbsRefused) != 0) return EOPNOTSUPP;
  if ((mask & ~(kToInit | kToRtr | kToRts)) != 0 || (verbs_mask & ~kOfVerbs) != 0) return EINVAL;
  const mrc_qp_attr own = attr == nullptr ? mrc_qp_attr{} : *attr;
  ibv_qp_attr of_verbs = verbs == nullptr ? ibv_qp_attr{} : *verbs;
  if (const int error = check(own, mask)) return error;
  complete(of_verbs, verbs_mask);
  const std::lock_guard guard(qp->mutex);
  if ((verbs_mask & IBV_QP_STATE) != 0) return move(*qp, of_verbs, verbs_mask, own, mask);
  if (verbs_mask != 0) {
    if (const int error = ::ibv_modify_qp(qp->verbs, &of_verbs, verbs_mask)) return error;
  }
  return change_window(*qp, own, mask);
}

// --- queries

void describe(mrc_qp& qp, mrc_qp_attr& attr) {
  const verbs::MrcNumbers numbers = seam()->numbers(qp.verbs);
  attr = {};
  attr.mpr.mpr = numbers.mpr_units;
  attr.mpr.mpr_dest = numbers.mpr_units_dest;
  attr.wimm.max_wimm = numbers.wimm_max;
  attr.wimm.max_wimm_dest = numbers.wimm_max_dest;
  attr.timeout = numbers.timeout_exponent;
  attr.profile.ev_profile_id = qp.ev_profile;
  attr.profile.cc_profile_id = qp.cc_profile;
  attr.retry.linear_cnt = numbers.linear_retries;
  attr.retry.exp_cnt = numbers.exponential_retries;
  attr.qp_hint = qp.hint;
  if (!numbers.trim_nack) attr.cap |= MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED;
  if (numbers.dynamic_mpr) attr.cap |= MRC_QP_CAP_DYNAMIC_MPR;
  if (!numbers.service_time) attr.cap |= MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
}

int query_qp(mrc_qp* qp, ibv_qp_attr* verbs, int verbs_mask, mrc_qp_attr* attr, int mask, mrc_qp_init_attr* init) {
  if (!is_live(qp) || (verbs == nullptr && verbs_mask != 0) || (attr == nullptr && mask != 0)) return EINVAL;
  if ((mask & ~(kToInit | kToRtr | kToRts | MRC_QP_VENDOR_CFG)) != 0 || (verbs_mask & ~kOfVerbs) != 0) return EINVAL;
  const std::lock_guard guard(qp->mutex);
  if (verbs != nullptr) {
    ibv_qp_init_attr ignored{};
    if (const int error = ::ibv_query_qp(qp->verbs, verbs, verbs_mask, &ignored)) return error;
  }
  if (attr != nullptr) describe(*qp, *attr);
  if (init != nullptr) *init = qp->init;
  return 0;
}

}  // namespace

MRC_API mrc_qp* mrc_create_qp(mrc_context* context, mrc_qp_init_attr* wanted) {
  return made<mrc_qp>([&](mrc_qp*& out) { return create_qp(context, wanted, out); });
}

MRC_API int mrc_destroy_qp(mrc_qp* qp) {
  return guarded([&] { return destroy_qp(qp); });
}

MRC_API int mrc_query_qp(mrc_qp* qp, ibv_qp_attr* verbs, int verbs_mask, mrc_qp_attr* attr, int mask,
                         mrc_qp_init_attr* init) {
  return guarded([&] { return query_qp(qp, verbs, verbs_mask, attr, mask, init); });
}

MRC_API int mrc_modify_qp(mrc_qp* qp, ibv_qp_attr* verbs, int verbs_mask, mrc_qp_attr* attr, int mask) {
  return guarded([&] { return modify_qp(qp, verbs, verbs_mask, attr, mask); });
}

MRC_API int mrc_get_qpn(mrc_qp* qp, std::uint32_t* number) {
  return zero_or_minus_one([&] {
    if (!is_live(qp) || number == nullptr) return EINVAL;
    *number = qp->verbs->qp_num;
    return 0;
  });
}

// On the path of data: pointers are not looked up.
MRC_API int mrc_post_send(mrc_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
  const int error = qp == nullptr ? EINVAL : ::ibv_post_send(qp->verbs, first, bad);
  if (error != 0) errno = error;
  return error;
}

MRC_API int mrc_post_recv(mrc_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad) {
  const int error = qp == nullptr ? EINVAL : ::ibv_post_recv(qp->verbs, first, bad);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace openmrc::mrc_api
