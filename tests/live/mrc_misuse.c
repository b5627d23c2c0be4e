/* Misuse of the MRC API: every call has to return the error that docs/reference/c-api.md lists. */
#include "mrc_program.h"

static int junk[64];
#define WRONG(type) ((type *)(void *)junk)

static void contexts_and_queues(struct program *p) {
  int number = 0;
  struct mrc_device_attr device;
  FAILS(mrc_query_device(NULL, &device, &number), EINVAL);
  FAILS(mrc_query_device(p->verbs, NULL, &number), EINVAL);
  FAILS(mrc_query_device(p->verbs, &device, NULL), EINVAL);
  FAILS(mrc_query_device_ex(p->verbs, WRONG(struct mrc_context), &device, &number), EINVAL);
  FAILS(mrc_query_device_ex(p->verbs, NULL, &device, &number), EINVAL);
  mrc_query_version(NULL, NULL, NULL, NULL);
  mrc_ctl_query_version(NULL, NULL, NULL, NULL);

  struct mrc_context_attr future = {MRC_API_VER(9, 0, 0), 0}, vendor = {0, MRC_API_VER(9, 0, 0)};
  IS_NULL(mrc_create_context(NULL, NULL), EINVAL);
  IS_NULL(mrc_create_context(p->verbs, &future), EINVAL);
  IS_NULL(mrc_create_context(p->verbs, &vendor), EINVAL);
  FAILS(mrc_destroy_context(NULL), EINVAL);
  FAILS(mrc_destroy_context(WRONG(struct mrc_context)), EINVAL);
  FAILS(mrc_destroy_context(p->mrc), EBUSY);

  REFUSES(mrc_create_comp_channel(NULL, &p->channel), EINVAL);
  REFUSES(mrc_create_comp_channel(p->mrc, NULL), EINVAL);
  FAILS(mrc_get_comp_channel_fd(p->channel, NULL), EINVAL);
  FAILS(mrc_get_comp_channel_fd(WRONG(struct mrc_comp_channel), &number), EINVAL);
  REFUSES(mrc_destroy_comp_channel(NULL), EINVAL);
  REFUSES(mrc_destroy_comp_channel(p->channel), EBUSY);

  IS_NULL(mrc_create_cq(NULL, 16, NULL, NULL, 0), EINVAL);
  IS_NULL(mrc_create_cq(p->mrc, 0, NULL, NULL, 0), EINVAL);
  IS_NULL(mrc_create_cq(p->mrc, 16, NULL, WRONG(struct mrc_comp_channel), 0), EINVAL);
  IS_NULL(mrc_create_cq(p->mrc, 16, NULL, NULL, 7), EINVAL);
  REFUSES(mrc_destroy_cq(NULL), EINVAL);
  REFUSES(mrc_destroy_cq(p->cq), EBUSY);
  REFUSES(mrc_req_notify_cq(NULL, 0), EINVAL);
  struct ibv_wc done;
  FAILS(mrc_poll_cq(NULL, 1, &done), EINVAL);
  FAILS(mrc_poll_cq(p->cq, -1, &done), EINVAL);
  struct mrc_cq *cq;
  void *user;
  FAILS(mrc_get_cq_event(NULL, &cq, &user), EINVAL);
  FAILS(mrc_get_cq_event(p->channel, NULL, &user), EINVAL);
  mrc_ack_cq_events(NULL, 1);
  struct mrc_async_event event;
  FAILS(mrc_get_async_event(NULL, &event), EINVAL);
  FAILS(mrc_get_async_event(p->mrc, NULL), EINVAL);
  mrc_ack_async_event(NULL);
}

static void hints(struct program *p) {
  struct mrc_qp_hint_init_attr wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.attr.num_send_peers = -1;
  IS_NULL(mrc_create_qp_hint(p->mrc, &wanted), EINVAL);
  wanted.attr.num_send_peers = 1;
  IS_NULL(mrc_create_qp_hint(NULL, &wanted), EINVAL);
  IS_NULL(mrc_create_qp_hint(p->mrc, NULL), EINVAL);
  struct mrc_qp_hint *hint = mrc_create_qp_hint(p->mrc, &wanted);
  NEED(hint != NULL);
  FAILS(mrc_query_qp_hint(hint, NULL, MRC_QP_HINT_NUM_SEND_PEERS), EINVAL);
  FAILS(mrc_query_qp_hint(hint, &wanted.attr, 1 << 9), EINVAL);
  FAILS(mrc_query_qp_hint(NULL, &wanted.attr, MRC_QP_HINT_NUM_SEND_PEERS), EINVAL);
  wanted.attr.num_remote_recv_peers = -5;
  FAILS(mrc_modify_qp_hint(hint, &wanted.attr, MRC_QP_HINT_NUM_REMOTE_RECV_PEERS), EINVAL);
  NEED(mrc_destroy_qp_hint(hint) == 0);
  FAILS(mrc_destroy_qp_hint(hint), EINVAL);
  FAILS(mrc_destroy_qp_hint(NULL), EINVAL);
}

static void creation_of_qps(struct program *p) {
  struct mrc_qp_init_attr good, wanted;
  memset(&good, 0, sizeof good);
  good.send_cq = good.recv_cq = p->cq;
  good.pd = p->pd;
  good.cap.max_send_wr = 1;
  IS_NULL(mrc_create_qp(NULL, &good), EINVAL);
  IS_NULL(mrc_create_qp(p->mrc, NULL), EINVAL);
  wanted = good;
  wanted.pd = NULL;
  IS_NULL(mrc_create_qp(p->mrc, &wanted), EINVAL);
  wanted = good;
  wanted.recv_cq = NULL;
  IS_NULL(mrc_create_qp(p->mrc, &wanted), EINVAL);
  wanted = good;
  wanted.cap.max_send_wr = 1U << 30;
  IS_NULL(mrc_create_qp(p->mrc, &wanted), EINVAL);
  wanted = good;
  wanted.protocol_version = (enum mrc_protocol_version)2;
  IS_NULL(mrc_create_qp(p->mrc, &wanted), EINVAL);
  wanted = good;
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND;
  IS_NULL(mrc_create_qp(p->mrc, &wanted), EOPNOTSUPP);
  uint32_t number;
  FAILS(mrc_get_qpn(NULL, &number), EINVAL);
  FAILS(mrc_get_qpn(p->left.qp, NULL), EINVAL);
  REFUSES(mrc_destroy_qp(NULL), EINVAL);
  REFUSES(mrc_destroy_qp(WRONG(struct mrc_qp)), EINVAL);
}

static void states(struct program *p) {
  struct mrc_qp *qp = p->left.qp;
  struct ibv_qp_attr verbs;
  struct mrc_qp_attr attr;
  memset(&verbs, 0, sizeof verbs);
  memset(&attr, 0, sizeof attr);
  REFUSES(mrc_modify_qp(NULL, &verbs, IBV_QP_STATE, NULL, 0), EINVAL);
  REFUSES(mrc_modify_qp(qp, NULL, IBV_QP_STATE, NULL, 0), EINVAL);
  REFUSES(mrc_modify_qp(qp, &verbs, 0, NULL, MRC_QP_MPR), EINVAL);
  REFUSES(mrc_modify_qp(qp, &verbs, 1 << 30, NULL, 0), EINVAL);
  REFUSES(mrc_modify_qp(qp, &verbs, IBV_QP_ALT_PATH, NULL, 0), EOPNOTSUPP);
  REFUSES(mrc_modify_qp(qp, &verbs, 0, &attr, 1 << 20), EINVAL);
  REFUSES(to_init(qp, &attr, MRC_QP_VENDOR_CFG), EOPNOTSUPP);
  REFUSES(to_init(qp, &attr, MRC_QP_EV_PROFILE_ID), EINVAL);
  REFUSES(to_init(qp, &attr, MRC_QP_CC_PROFILE_ID), EINVAL);
  REFUSES(to_init(qp, &attr, MRC_QP_MPR), EINVAL);
  attr.qp_hint = WRONG(struct mrc_qp_hint);
  REFUSES(to_init(qp, &attr, MRC_QP_HINT), EINVAL);
  REFUSES(to_rts(qp, NULL, 0), EINVAL);
  NEED(to_init(qp, NULL, 0) == 0);
  verbs.qp_state = IBV_QPS_RTR;
  REFUSES(mrc_modify_qp(qp, &verbs, IBV_QP_STATE, NULL, 0), EINVAL);
  REFUSES(to_rtr(p, qp, p->right.number, &attr, MRC_QP_MPR_DEST), EINVAL);
  REFUSES(to_rtr(p, qp, p->right.number, &attr, MRC_QP_MAX_WIMM_DEST), EINVAL);
  attr.cap = 1 << 8;
  REFUSES(to_rtr(p, qp, p->right.number, &attr, MRC_QP_CAP), EINVAL);
  NEED(to_rtr(p, qp, p->right.number, NULL, 0) == 0);
  attr.timeout = 25;
  REFUSES(to_rts(qp, &attr, MRC_QP_TIMEOUT), EINVAL);
  attr.retry.linear_cnt = 8;
  REFUSES(to_rts(qp, &attr, MRC_QP_RETRY_CNT), EINVAL);
  REFUSES(to_rts(qp, &attr, MRC_QP_MPR), EINVAL);
  REFUSES(to_rts(qp, &attr, MRC_QP_MAX_WIMM), EINVAL);
  attr.mpr.mpr_dest = 8;
  REFUSES(mrc_modify_qp(qp, NULL, 0, &attr, MRC_QP_MPR_DEST), EINVAL); /* the MPR is not dynamic */
  verbs.qp_state = IBV_QPS_SQD;
  REFUSES(mrc_modify_qp(qp, &verbs, IBV_QP_STATE, NULL, 0), EOPNOTSUPP);
  REFUSES(mrc_query_qp(NULL, &verbs, 0, &attr, 0, NULL), EINVAL);
  REFUSES(mrc_query_qp(qp, NULL, IBV_QP_STATE, &attr, 0, NULL), EINVAL);
  REFUSES(mrc_query_qp(qp, &verbs, 0, &attr, 1 << 20, NULL), EINVAL);
}

static void work(struct program *p) {
  struct ibv_send_wr send, *bad_send = NULL;
  struct ibv_recv_wr receive, *bad_receive = NULL;
  memset(&send, 0, sizeof send);
  memset(&receive, 0, sizeof receive);
  REFUSES(mrc_post_send(NULL, &send, &bad_send), EINVAL);
  FAILS(mrc_post_recv(NULL, &receive, &bad_receive), EINVAL);
  send.opcode = IBV_WR_SEND;
  REFUSES(mrc_post_send(p->left.qp, &send, &bad_send), EOPNOTSUPP);
  NEED(bad_send == &send);
  receive.num_sge = 9;
  FAILS(mrc_post_recv(p->left.qp, &receive, &bad_receive), EINVAL);
  NEED(bad_receive == &receive);
}

static void controllers(struct program *p) {
  struct mrc_ctl_device_attr device;
  struct mrc_ctl_port_attr port;
  int supported = 0;
  FAILS(mrc_ctl_query_device(NULL, &device), EINVAL);
  FAILS(mrc_ctl_query_device(p->verbs, NULL), EINVAL);
  FAILS(mrc_ctl_query_device_ex(p->verbs, NULL, &device, &supported), EINVAL);
  FAILS(mrc_ctl_query_device_ex(p->verbs, p->mrc, &device, NULL), EINVAL);
  FAILS(mrc_ctl_query_port(NULL, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
  FAILS(mrc_ctl_query_port(p->mrc, 0, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
  FAILS(mrc_ctl_query_port(p->mrc, 3, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
  FAILS(mrc_ctl_query_port(p->mrc, 1, NULL, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
  FAILS(mrc_ctl_query_port(p->mrc, 1, &port, 2), EINVAL);
  port.port_admin_state = (enum mrc_ctl_port_admin_state)3;
  FAILS(mrc_ctl_modify_port(p->mrc, 1, &port, MRC_CTL_PORT_ADMIN_STATE), EINVAL);
  FAILS(mrc_ctl_modify_port(p->mrc, 1, NULL, MRC_CTL_PORT_ADMIN_STATE), EINVAL);

  IS_NULL(mrc_ctl_create_ev_event_cq(NULL, 16, NULL, NULL, 0), EINVAL);
  IS_NULL(mrc_ctl_create_ev_event_cq(p->mrc, 0, NULL, NULL, 0), EINVAL);
  struct mrc_ctl_ev_event event;
  struct ibv_wc done;
  struct mrc_cq *events = mrc_ctl_create_ev_event_cq(p->mrc, 16, NULL, NULL, 0);
  NEED(events != NULL);
  NEED(mrc_ctl_poll_ev_event(NULL, 1, &event) == -EINVAL);
  NEED(mrc_ctl_poll_ev_event(p->cq, 1, &event) == -EINVAL);
  NEED(mrc_ctl_poll_ev_event(events, -1, &event) == -EINVAL);
  NEED(mrc_ctl_poll_ev_event(events, 1, NULL) == -EINVAL);
  NEED(mrc_ctl_poll_ev_event(events, 1, &event) == 0);
  FAILS(mrc_poll_cq(events, 1, &done), EINVAL);
  struct mrc_qp_init_attr wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.send_cq = wanted.recv_cq = events;
  wanted.pd = p->pd;
  IS_NULL(mrc_create_qp(p->mrc, &wanted), EINVAL);
  NEED(mrc_destroy_cq(events) == 0);
}

static void probes(struct program *p) {
  struct mrc_ctl_ep_req requests[2];
  struct mrc_ctl_ep_rsp answers[2];
  int count = 0;
  memset(requests, 0, sizeof requests);
  requests[0].sgid = requests[0].dgid = p->gid;
  requests[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
  requests[1] = requests[0];
#define PROBE(context, type, number, timeout) \
  mrc_ctl_ep_batch_send_wait(context, 0, type, requests, number, timeout, answers, &count)
  FAILS(PROBE(NULL, MRC_CTL_EP_OP_EV_PROBE, 1, 1000), EINVAL);
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_EV_PROBE, 0, 1000), EINVAL);
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_EV_PROBE, 1, 0), EINVAL);
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_PORT_STATUS_UPDATE, 1, 1000), ENOTSUP);
  FAILS(PROBE(p->mrc, (enum mrc_ctl_ep_op_type)7, 1, 1000), EINVAL);
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_EV_PROBE, 1, 1000), EINVAL); /* not an EV of the device */
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_EV_PROBE, 2, 1000), EINVAL); /* one request id twice */
  requests[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6;
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_EV_PROBE, 1, 1000), ENOTSUP);
  requests[0].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
  requests[0].sgid.raw[15] = 77;
  FAILS(PROBE(p->mrc, MRC_CTL_EP_OP_EV_PROBE, 1, 1000), EINVAL);
  FAILS(mrc_ctl_ep_batch_send_wait(p->mrc, 64, MRC_CTL_EP_OP_EV_PROBE, requests, 1, 1000, answers, &count), EINVAL);
  FAILS(mrc_ctl_ep_batch_send_wait(p->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, NULL, 1, 1000, answers, &count), EINVAL);
  FAILS(mrc_ctl_ep_batch_send_wait(p->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 1, 1000, NULL, &count), EINVAL);
}

int main(void) {
  struct program p;
  begin(&p);
  contexts_and_queues(&p);
  hints(&p);
  creation_of_qps(&p);
  work(&p);
  states(&p);
  controllers(&p);
  probes(&p);
  end(&p);
  puts("as expected");
  return 0;
}
