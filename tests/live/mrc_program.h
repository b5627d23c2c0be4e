/* Common parts of the test programs of the MRC API: a connected pair of QPs, in C and in C++. */
#ifndef MRC_PROGRAM_H
#define MRC_PROGRAM_H

#include <errno.h>
#include <mrc_ctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(holds)                                                                                        \
  do {                                                                                                     \
    if (!(holds)) {                                                                                        \
      printf("line %d: %s (errno %d, %s)\n", __LINE__, #holds, errno, strerror(errno));                    \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)
/* A call that returns an error number, and sets errno to it. */
#define REFUSES(call, error)                                                                               \
  do {                                                                                                     \
    errno = 0;                                                                                             \
    const int got = (call);                                                                                \
    if (got != (error) || errno != (error)) {                                                              \
      printf("line %d: %s: %d (errno %d), expected %s\n", __LINE__, #call, got, errno, #error);            \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)
/* A call that returns -1 with errno. */
#define FAILS(call, error)                                                                                 \
  do {                                                                                                     \
    errno = 0;                                                                                             \
    const int got = (call);                                                                                \
    if (got != -1 || errno != (error)) {                                                                   \
      printf("line %d: %s: %d (errno %d), expected -1 and %s\n", __LINE__, #call, got, errno, #error);     \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)
#define IS_NULL(call, error)                                                                               \
  do {                                                                                                     \
    errno = 0;                                                                                             \
    if ((call) != NULL || errno != (error)) {                                                              \
      printf("line %d: %s: errno %d, expected NULL and %s\n", __LINE__, #call, errno, #error);             \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)

enum { BYTES = 1 << 18 };

struct side {
  struct mrc_qp *qp;
  uint32_t number;
};

struct program {
  struct ibv_context *verbs;
  struct mrc_context *mrc;
  struct ibv_pd *pd;
  struct mrc_comp_channel *channel;
  struct mrc_cq *cq;
  struct ibv_mr *mr;
  union ibv_gid gid;
  char *memory; /* one half is the source, the other the target */
  struct side left, right;
};

static inline void make_side(struct program *p, struct side *side) {
  struct mrc_qp_init_attr wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.send_cq = wanted.recv_cq = p->cq;
  wanted.pd = p->pd;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 64;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  side->qp = mrc_create_qp(p->mrc, &wanted);
  NEED(side->qp != NULL);
  NEED(mrc_get_qpn(side->qp, &side->number) == 0);
}

static inline void begin_on(struct program *p, int device) {
  memset(p, 0, sizeof *p);
  int count = 0;
  struct ibv_device **devices = ibv_get_device_list(&count);
  NEED(devices != NULL && device < count);
  p->verbs = ibv_open_device(devices[device]);
  ibv_free_device_list(devices);
  NEED(p->verbs != NULL);
  p->mrc = mrc_create_context(p->verbs, NULL);
  p->pd = ibv_alloc_pd(p->verbs);
  NEED(p->mrc != NULL && p->pd != NULL);
  NEED(mrc_create_comp_channel(p->mrc, &p->channel) == 0);
  p->cq = mrc_create_cq(p->mrc, 256, p, p->channel, 0);
  p->memory = (char *)calloc(2, BYTES);
  p->mr = ibv_reg_mr(p->pd, p->memory, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  NEED(p->cq != NULL && p->memory != NULL && p->mr != NULL);
  NEED(ibv_query_gid(p->verbs, 1, 3, &p->gid) == 0);
  make_side(p, &p->left);
  make_side(p, &p->right);
}

static inline void begin(struct program *p) { begin_on(p, 0); }

static inline int to_init(struct mrc_qp *qp, struct mrc_qp_attr *attr, int mask) {
  struct ibv_qp_attr init;
  memset(&init, 0, sizeof init);
  init.qp_state = IBV_QPS_INIT;
  return mrc_modify_qp(qp, &init, IBV_QP_STATE, attr, mask);
}

static inline int to_rtr(struct program *p, struct mrc_qp *qp, uint32_t peer, struct mrc_qp_attr *attr, int mask) {
  struct ibv_qp_attr rtr;
  memset(&rtr, 0, sizeof rtr);
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = IBV_MTU_1024;
  rtr.dest_qp_num = peer;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.grh.dgid = p->gid;
  return mrc_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, attr,
                       mask);
}

/* With the attributes that OCP's example sets, although MRC has others for them. */
static inline int to_rts(struct mrc_qp *qp, struct mrc_qp_attr *attr, int mask) {
  struct ibv_qp_attr rts;
  memset(&rts, 0, sizeof rts);
  rts.qp_state = IBV_QPS_RTS;
  rts.timeout = 7;
  rts.retry_cnt = rts.rnr_retry = 14;
  return mrc_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
                       attr, mask);
}

static inline void connect_all(struct program *p) {
  NEED(to_rtr(p, p->right.qp, p->left.number, NULL, 0) == 0);
  NEED(to_rtr(p, p->left.qp, p->right.number, NULL, 0) == 0);
  NEED(to_rts(p->right.qp, NULL, 0) == 0);
  NEED(to_rts(p->left.qp, NULL, 0) == 0);
}

static inline void start_write(struct program *p, struct mrc_qp *qp, char value, enum ibv_wr_opcode opcode) {
  memset(p->memory, value, BYTES);
  struct ibv_sge sge;
  sge.addr = (uintptr_t)p->memory;
  sge.length = BYTES;
  sge.lkey = p->mr->lkey;
  struct ibv_send_wr write, *bad = NULL;
  memset(&write, 0, sizeof write);
  write.wr_id = 7;
  write.sg_list = &sge;
  write.num_sge = 1;
  write.opcode = opcode;
  write.send_flags = IBV_SEND_SIGNALED;
  write.wr.rdma.remote_addr = (uintptr_t)(p->memory + BYTES);
  write.wr.rdma.rkey = p->mr->rkey;
  NEED(mrc_post_send(qp, &write, &bad) == 0);
}

static inline struct ibv_wc next_completion(struct program *p) {
  struct ibv_wc done;
  int count = 0;
  while ((count = mrc_poll_cq(p->cq, 1, &done)) == 0) continue;
  NEED(count == 1);
  return done;
}

/* A WRITE from the left side to the right one, with its contents checked. */
static inline void write_and_check(struct program *p, char value) {
  start_write(p, p->left.qp, value, IBV_WR_RDMA_WRITE);
  const struct ibv_wc done = next_completion(p);
  NEED(done.status == IBV_WC_SUCCESS && done.wr_id == 7);
  NEED(memcmp(p->memory, p->memory + BYTES, BYTES) == 0);
}

static inline void end(struct program *p) {
  NEED(mrc_destroy_qp(p->left.qp) == 0);
  NEED(mrc_destroy_qp(p->right.qp) == 0);
  NEED(mrc_destroy_cq(p->cq) == 0);
  NEED(mrc_destroy_comp_channel(p->channel) == 0);
  NEED(ibv_dereg_mr(p->mr) == 0);
  NEED(ibv_dealloc_pd(p->pd) == 0);
  NEED(mrc_destroy_context(p->mrc) == 0);
  NEED(ibv_close_device(p->verbs) == 0);
  free(p->memory);
}

#endif
