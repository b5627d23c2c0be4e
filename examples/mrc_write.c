/* One process writes into its own memory by MRC: two queue pairs of one device, connected to each other.
 *
 *   cc examples/mrc_write.c -o mrc_write $(pkg-config --cflags --libs openmrc)
 *   openmrc run --ports 127.0.0.1,127.0.0.2 -- ./mrc_write
 */
#include <mrc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int holds, const char *what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static void connect_to(struct mrc_qp *qp, uint32_t peer, union ibv_gid gid) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer};
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
  struct mrc_qp_attr receiving = {.mpr = {.mpr_dest = 64}, .wimm = {.max_wimm_dest = 128}};
  struct mrc_qp_attr sending = {.mpr = {.mpr = 64}, .wimm = {.max_wimm = 128}, .timeout = 13,
                                .retry = {.linear_cnt = 7, .exp_cnt = 10}};
  rtr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}};
  need(!mrc_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, NULL, 0), "INIT");
  need(!mrc_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
                      &receiving, MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM_DEST), "RTR");
  need(!mrc_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN, &sending,
                      MRC_QP_MPR | MRC_QP_MAX_WIMM | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT), "RTS");
}

int main(void) {
  static char source[1 << 20], target[1 << 20];
  memset(source, 42, sizeof source);
  struct ibv_device **devices = ibv_get_device_list(NULL);
  need(devices && devices[0], "no RDMA device");
  struct ibv_context *verbs = ibv_open_device(devices[0]);
  struct mrc_device_attr abilities;
  int supported = 0;
  need(verbs && !mrc_query_device(verbs, &abilities, &supported) && supported, "MRC");
  struct mrc_context *context = mrc_create_context(verbs, NULL);
  struct ibv_pd *pd = ibv_alloc_pd(verbs);
  struct mrc_cq *cq = mrc_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_mr *from = ibv_reg_mr(pd, source, sizeof source, 0);
  struct ibv_mr *to = ibv_reg_mr(pd, target, sizeof target, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  need(context && cq && from && to, "memory");
  struct mrc_qp_init_attr attributes = {.send_cq = cq, .recv_cq = cq, .pd = pd,
                                        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
  struct mrc_qp *left = mrc_create_qp(context, &attributes), *right = mrc_create_qp(context, &attributes);
  uint32_t left_number = 0, right_number = 0;
  union ibv_gid gid;
  need(!mrc_get_qpn(left, &left_number) && !mrc_get_qpn(right, &right_number) && !ibv_query_gid(verbs, 1, 3, &gid), "QPs");
  connect_to(right, left_number, gid);
  connect_to(left, right_number, gid);
  struct ibv_sge sge = {.addr = (uintptr_t)source, .length = sizeof source, .lkey = from->lkey};
  struct ibv_send_wr write = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = {.remote_addr = (uintptr_t)target, .rkey = to->rkey}}, *bad;
  need(!mrc_post_send(left, &write, &bad), "post");
  struct ibv_wc done = {0};
  while (mrc_poll_cq(cq, 1, &done) == 0) continue;
  printf("%s: %s, contents %s\n", ibv_get_device_name(devices[0]), ibv_wc_status_str(done.status),
         memcmp(source, target, sizeof source) ? "differ" : "equal");
  return done.status != IBV_WC_SUCCESS || memcmp(source, target, sizeof source);
}
