/* One process writes into its own memory by RDMA: two queue pairs of one device, connected to each other.
 *
 *   cc examples/rdma_write.c -o rdma_write -libverbs
 *   openmrc run --ports 127.0.0.1 -- ./rdma_write
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .min_rnr_timer = 12};
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
  rtr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}};
  need(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
  need(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
  need(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

int main(void) {
  static char source[1 << 20], target[1 << 20];
  memset(source, 42, sizeof source);
  struct ibv_device **devices = ibv_get_device_list(NULL);
  need(devices && devices[0], "no RDMA device");
  struct ibv_context *context = ibv_open_device(devices[0]);
  need(context != NULL, "open");
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_mr *from = ibv_reg_mr(pd, source, sizeof source, 0);
  struct ibv_mr *to = ibv_reg_mr(pd, target, sizeof target, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(pd && cq && from && to, "memory");
  struct ibv_qp_init_attr attributes = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp *left = ibv_create_qp(pd, &attributes), *right = ibv_create_qp(pd, &attributes);
  union ibv_gid gid;
  need(left && right && !ibv_query_gid(context, 1, 0, &gid), "queue pairs");
  connect_to(right, left->qp_num, gid);
  connect_to(left, right->qp_num, gid);
  struct ibv_sge sge = {.addr = (uintptr_t)source, .length = sizeof source, .lkey = from->lkey};
  struct ibv_send_wr write = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = {.remote_addr = (uintptr_t)target, .rkey = to->rkey}}, *bad;
  need(!ibv_post_send(left, &write, &bad), "post");
  struct ibv_wc done = {0};
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  printf("%s: %s, contents %s\n", ibv_get_device_name(devices[0]), ibv_wc_status_str(done.status),
         memcmp(source, target, sizeof source) ? "differ" : "equal");
  return done.status != IBV_WC_SUCCESS || memcmp(source, target, sizeof source);
}
