/* Objects and connections of the test programs. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      printf("%s line %d: %s is false\n", __FILE__, __LINE__, #condition);           \
      return 1;                                                                      \
    }                                                                                \
  } while (0)
#define REFUSES(call, error)                                                         \
  do {                                                                               \
    const int got = (call);                                                          \
    if (got != (error)) {                                                            \
      printf("%s: %d (%s), expected %s\n", #call, got, strerror(got), #error);       \
      return 1;                                                                      \
    }                                                                                \
  } while (0)
#define IS_NULL(call, error)                                                         \
  do {                                                                               \
    errno = 0;                                                                       \
    if ((call) != NULL || errno != (error)) {                                        \
      printf("%s: errno %d, expected NULL and %s\n", #call, errno, #error);          \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

enum { kDepth = 16, kBytes = 64 };

static char memory[8192];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static union ibv_gid gid;

static int open_first_device(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  context = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  pd = ibv_alloc_pd(context);
  mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                 IBV_ACCESS_REMOTE_ATOMIC);
  return !context || !pd || !mr || ibv_query_gid(context, 1, 0, &gid);
}

static inline struct ibv_qp_init_attr qp_attributes(struct ibv_cq *cq, struct ibv_srq *srq) {
  return (struct ibv_qp_init_attr){
      .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = kDepth, .max_recv_wr = kDepth, .max_send_sge = 2, .max_recv_sge = 1,
              .max_inline_data = kBytes}};
}

static inline int to_init(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int to_rtr(struct ibv_qp *qp, uint32_t peer) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
                             .max_dest_rd_atomic = 4, .min_rnr_timer = 1};
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static inline int to_rts(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline int to_error(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static inline int connect_pair(struct ibv_qp *one, struct ibv_qp *other) {
  return to_init(one) || to_init(other) || to_rtr(one, other->qp_num) || to_rtr(other, one->qp_num) || to_rts(one) ||
         to_rts(other);
}

static inline struct ibv_sge part(uint32_t offset, uint32_t bytes) {
  return (struct ibv_sge){.addr = (uintptr_t)memory + offset, .length = bytes, .lkey = mr->lkey};
}

/* Sends or writes the first `kBytes` of the memory, to offset 4096. */
static inline int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t id, uint32_t rkey) {
  struct ibv_sge sge = part(0, kBytes);
  struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .imm_data = (uint32_t)id,
                           .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
  wr.wr.rdma.rkey = rkey;
  return ibv_post_send(qp, &wr, &bad);
}

static inline struct ibv_wc next_of(struct ibv_cq *cq) {
  struct ibv_wc wc = {0};
  while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
  return wc;
}
