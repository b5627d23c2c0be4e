// QPs of identifiers, and their states: the program need not know them.
#include <algorithm>
#include <cstring>

#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint8_t kDefaultTimeout = 14;
constexpr std::uint8_t kHopLimit = 64;

int to_init(ibv_qp_attr& to, int& mask) {
  to.pkey_index = 0;
  to.port_num = 1;
  to.qp_access_flags = kAccess;
  mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return 0;
}

int to_ready_to_receive(const Id& id, ibv_qp_attr& to, int& mask) {
  const Parameters& remote = id.link->received().parameters;
  to.ah_attr = {};
  to.ah_attr.is_global = 1;
  to.ah_attr.port_num = 1;
  std::memcpy(to.ah_attr.grh.dgid.raw, remote.gid.data(), remote.gid.size());
  to.ah_attr.grh.hop_limit = kHopLimit;
  to.ah_attr.grh.traffic_class = id.type_of_service.value_or(0);
  to.path_mtu = static_cast<ibv_mtu>(std::min(id.local.mtu, remote.mtu));
  to.dest_qp_num = remote.qp_number;
  to.rq_psn = remote.psn;
  to.max_dest_rd_atomic = id.local.responder_resources;
  to.min_rnr_timer = id.min_rnr_timer;
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER;
  return 0;
}

int to_ready_to_send(const Id& id, ibv_qp_attr& to, int& mask) {
  const Parameters& remote = id.link->received().parameters;
  to.sq_psn = id.local.psn;
  to.timeout = id.ack_timeout.value_or(kDefaultTimeout);
  to.retry_cnt = id.local.retry_count;
  to.rnr_retry = remote.rnr_retry_count;  // how long the peer wants to be waited for
  to.max_rd_atomic = std::min(id.local.initiator_depth, remote.responder_resources);
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return 0;
}

int fill_attributes(const Id& id, ibv_qp_attr& to, int& mask) {
  if (id.device == nullptr) return EINVAL;
  if (to.qp_state == IBV_QPS_INIT) return to_init(to, mask);
  if (id.link == nullptr || id.link->received().parameters.qp_number == 0) return EINVAL;
  if (to.qp_state == IBV_QPS_RTR) return to_ready_to_receive(id, to, mask);
  return to.qp_state == IBV_QPS_RTS ? to_ready_to_send(id, to, mask) : EINVAL;
}

int move_qp(Id& id, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  const int error = with(&id.api, [&](Id& live) { return fill_attributes(live, attributes, mask); });
  return error == 0 ? ibv_modify_qp(id.api.qp, &attributes, mask) : error;
}

int create_cq(Id& id, std::uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& cq) {
  channel = ibv_create_comp_channel(id.api.verbs);
  if (channel == nullptr) return errno;
  cq = ibv_create_cq(id.api.verbs, static_cast<int>(std::max(entries, 1U)), &id.api, channel, 0);
  return cq == nullptr ? errno : 0;
}

void destroy_cq(ibv_comp_channel*& channel, ibv_cq*& cq) {
  if (cq != nullptr) ibv_destroy_cq(cq);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
  cq = nullptr;
  channel = nullptr;
}

void destroy_cqs(Id& id) {
  destroy_cq(id.api.recv_cq_channel, id.api.recv_cq);
  destroy_cq(id.api.send_cq_channel, id.api.send_cq);
}

int create_with_cqs(Id& id, ibv_qp_init_attr_ex& wanted) {
  if (wanted.recv_cq == nullptr) {
    if (const int error = create_cq(id, wanted.cap.max_recv_wr, id.api.recv_cq_channel, id.api.recv_cq)) return error;
    wanted.recv_cq = id.api.recv_cq;
  }
  if (wanted.send_cq == nullptr) {
    if (const int error = create_cq(id, wanted.cap.max_send_wr, id.api.send_cq_channel, id.api.send_cq)) return error;
    wanted.send_cq = id.api.send_cq;
  }
  if (wanted.srq == nullptr) wanted.srq = id.api.srq;
  id.api.qp = ibv_create_qp_ex(id.api.verbs, &wanted);
  if (id.api.qp == nullptr) return errno;
  const int error = move_qp(id, IBV_QPS_INIT);
  if (error != 0) {
    ibv_destroy_qp(id.api.qp);
    id.api.qp = nullptr;
  }
  return error;
}

int create_srq(Id& id, ibv_pd* pd, ibv_srq_init_attr& wanted) {
  if (id.api.verbs == nullptr || id.api.srq != nullptr) return EINVAL;
  if (pd != nullptr && pd->context != id.api.verbs) return EINVAL;
  if (pd != nullptr) id.api.pd = pd;
  id.api.srq = ibv_create_srq(id.api.pd, &wanted);
  return id.api.srq == nullptr ? errno : 0;
}

}  // namespace

int create_qp(Id& id, ibv_qp_init_attr_ex& wanted) {
  ibv_pd* const named = (wanted.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? wanted.pd : nullptr;
  const int refused = with(&id.api, [&](Id& live) {
    if (live.api.verbs == nullptr || live.api.qp != nullptr) return EINVAL;
    return named != nullptr && named->context != live.api.verbs ? EINVAL : 0;
  });
  if (refused != 0) return refused;
  if (wanted.qp_type != IBV_QPT_RC) return EOPNOTSUPP;
  ibv_qp_init_attr_ex attributes = wanted;
  ibv_pd* const before = id.api.pd;
  if (named != nullptr) id.api.pd = named;
  attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
  attributes.pd = id.api.pd;
  const int error = create_with_cqs(id, attributes);
  if (error != 0) {
    destroy_cqs(id);
    id.api.pd = before;
    return error;
  }
  // Not the whole structure: a program may have been built with a shorter one.
  wanted.cap = attributes.cap;
  wanted.send_cq = attributes.send_cq;
  wanted.recv_cq = attributes.recv_cq;
  wanted.srq = attributes.srq;
  return 0;
}

// The longer structure begins with the members of the other one.
int create_qp(Id& id, ibv_pd* pd, ibv_qp_init_attr& wanted) {
  ibv_qp_init_attr_ex attributes{};
  std::memcpy(static_cast<void*>(&attributes), &wanted, sizeof wanted);
  attributes.comp_mask = pd != nullptr ? IBV_QP_INIT_ATTR_PD : 0;
  attributes.pd = pd;
  const int error = create_qp(id, attributes);
  if (error == 0) std::memcpy(&wanted, &attributes, sizeof wanted);
  return error;
}

void destroy_qp(Id& id) {
  if (id.api.qp != nullptr) ibv_destroy_qp(id.api.qp);
  id.api.qp = nullptr;
  destroy_cqs(id);
}

void destroy_srq(Id& id) {
  if (id.api.srq != nullptr) ibv_destroy_srq(id.api.srq);
  id.api.srq = nullptr;
}

// The passive end tries smaller packets if the way to the peer has no room for those of both interfaces; the reply
// carries the size that is left.
int qp_to_ready_to_receive(Id& id) {
  int error = move_qp(id, IBV_QPS_RTR);
  const bool accepts = with(&id.api, [](Id& live) {
                         return live.link != nullptr && live.link->state() == LinkState::kAsked ? 0 : EINVAL;
                       }) == 0;
  while (error == EINVAL && accepts && id.local.mtu > IBV_MTU_256) {
    --id.local.mtu;
    error = move_qp(id, IBV_QPS_RTR);
  }
  return error;
}

int qp_to_ready_to_send(Id& id) { return move_qp(id, IBV_QPS_RTS); }

void qp_to_error(Id& id) {
  if (id.api.qp == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(id.api.qp, &attributes, IBV_QP_STATE);
}

CM_API int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (id == nullptr || attributes == nullptr) return result_of(EINVAL);
  return guarded([&] { return create_qp(Id::of(id), pd, *attributes); });
}

CM_API int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
  if (id == nullptr || attributes == nullptr) return result_of(EINVAL);
  return guarded([&] { return create_qp(Id::of(id), *attributes); });
}

CM_API void rdma_destroy_qp(rdma_cm_id* id) {
  if (with(id, [](Id&) { return 0; }) == 0) destroy_qp(Id::of(id));
}

CM_API int rdma_init_qp_attr(rdma_cm_id* api, ibv_qp_attr* attributes, int* mask) {
  if (attributes == nullptr || mask == nullptr) return result_of(EINVAL);
  return guarded([&] { return with(api, [&](Id& id) { return fill_attributes(id, *attributes, *mask); }); });
}

CM_API int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
  if (attributes == nullptr) return result_of(EINVAL);
  return guarded([&] {
    const int error = with(id, [](Id&) { return 0; });
    return error == 0 ? create_srq(Id::of(id), pd, *attributes) : error;
  });
}

CM_API int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
  if (attributes == nullptr) return result_of(EINVAL);
  const std::uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  if ((attributes->comp_mask & ~known) != 0) return result_of(EOPNOTSUPP);
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attributes->srq_type != IBV_SRQT_BASIC) {
    return result_of(EOPNOTSUPP);
  }
  ibv_pd* pd = (attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 ? attributes->pd : nullptr;
  ibv_srq_init_attr wanted{attributes->srq_context, attributes->attr};
  const int failed = rdma_create_srq(id, pd, &wanted);
  if (failed == 0) attributes->attr = wanted.attr;
  return failed;
}

CM_API void rdma_destroy_srq(rdma_cm_id* id) {
  if (with(id, [](Id&) { return 0; }) == 0) destroy_srq(Id::of(id));
}

}  // namespace openmrc::rdmacm
