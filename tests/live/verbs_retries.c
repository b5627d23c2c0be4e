/* Timeouts and retries of QPs. Usage: verbs_retries CASE. Prints the first expectation that fails. */
#include "verbs_program.h"

static struct ibv_cq *cq;
static enum ibv_wr_opcode opcode;

struct limits {
  uint8_t timeout, retry_cnt, rnr_retry;
};

static int to_rts_with(struct ibv_qp *qp, struct limits limits) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = limits.timeout, .retry_cnt = limits.retry_cnt,
                             .rnr_retry = limits.rnr_retry, .max_rd_atomic = 4};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_qp *make_qp(void) {
  struct ibv_qp_init_attr init = qp_attributes(cq, NULL);
  return ibv_create_qp(pd, &init);
}

/* A QP whose peer drops every packet: it has no QP of that number. */
static struct ibv_qp *unheard(struct limits limits) {
  struct ibv_qp *qp = make_qp(), *gone = make_qp();
  if (!qp || !gone || to_init(qp) || to_rtr(qp, gone->qp_num) || ibv_destroy_qp(gone)) return NULL;
  return to_rts_with(qp, limits) ? NULL : qp;
}

/* The QP with the shorter time fails first, though its work was posted last. */
static int order(void) {
  static const struct limits of[] = {{0, 0, 0}, {14, 1, 7}, {8, 7, 7}, {8, 0, 7}};
  enum { kCount = sizeof of / sizeof *of };
  struct ibv_qp *qps[kCount];
  for (uint64_t i = 0; i < kCount; ++i) {
    qps[i] = unheard(of[i]);
    EXPECT(qps[i] != NULL && post(qps[i], opcode, i, mr->rkey) == 0);
  }
  for (uint64_t i = kCount - 1; i > 0; --i) {
    const struct ibv_wc wc = next_of(cq);
    EXPECT(wc.wr_id == i && wc.status == IBV_WC_RETRY_EXC_ERR && wc.qp_num == qps[i]->qp_num);
  }
  struct ibv_wc wc; /* without a timeout there is no end */
  EXPECT(ibv_poll_cq(cq, 1, &wc) == 0);
  EXPECT(to_error(qps[0]) == 0 && next_of(cq).status == IBV_WC_WR_FLUSH_ERR);
  return 0;
}

/* A receiver that is not ready is waited for as long as the sender says. */
static int receiver_not_ready(void) {
  struct ibv_qp *patient = make_qp(), *hasty = make_qp(), *far[2] = {make_qp(), make_qp()};
  EXPECT(connect_pair(patient, far[0]) == 0);
  EXPECT(to_init(hasty) == 0 && to_init(far[1]) == 0 && to_rtr(hasty, far[1]->qp_num) == 0);
  EXPECT(to_rtr(far[1], hasty->qp_num) == 0 && to_rts_with(hasty, (struct limits){14, 7, 2}) == 0);
  EXPECT(post(patient, opcode, 1, mr->rkey) == 0 && post(hasty, opcode, 2, mr->rkey) == 0);
  struct ibv_wc wc = next_of(cq);
  EXPECT(wc.wr_id == 2 && wc.status == IBV_WC_RNR_RETRY_EXC_ERR);
  struct ibv_sge sge = part(1024, kBytes);
  struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad;
  EXPECT(ibv_post_recv(far[0], &wr, &bad) == 0);
  for (int i = 0; i < 2; ++i) {
    wc = next_of(cq);
    EXPECT((wc.wr_id == 1 || wc.wr_id == 3) && wc.status == IBV_WC_SUCCESS);
  }
  return 0;
}

static int set(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask) { return ibv_modify_qp(qp, &attr, mask); }

/* Queries return what was set; what would have no effect is refused. */
static int attributes(void) {
  struct ibv_qp *qp = make_qp();
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  EXPECT(to_init(qp) == 0 && to_rtr(qp, qp->qp_num) == 0);
  REFUSES(to_rts_with(qp, (struct limits){32, 7, 7}), EINVAL);
  EXPECT(to_rts_with(qp, (struct limits){19, 3, 9}) == 0);
  const int all = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER;
  EXPECT(ibv_query_qp(qp, &attr, all, &init) == 0);
  EXPECT(attr.timeout == 19 && attr.retry_cnt == 3 && attr.rnr_retry == 7 && attr.min_rnr_timer == 1);
  REFUSES(set(qp, (struct ibv_qp_attr){.timeout = 14}, IBV_QP_TIMEOUT), EINVAL);
  REFUSES(set(qp, (struct ibv_qp_attr){.retry_cnt = 1}, IBV_QP_RETRY_CNT), EINVAL);
  REFUSES(set(qp, (struct ibv_qp_attr){.min_rnr_timer = 32}, IBV_QP_MIN_RNR_TIMER), EINVAL);
  REFUSES(set(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR, .timeout = 1}, IBV_QP_STATE | IBV_QP_TIMEOUT), EINVAL);
  EXPECT(set(qp, (struct ibv_qp_attr){.min_rnr_timer = 12}, IBV_QP_MIN_RNR_TIMER) == 0);
  EXPECT(ibv_query_qp(qp, &attr, all, &init) == 0);
  EXPECT(attr.timeout == 19 && attr.retry_cnt == 3 && attr.min_rnr_timer == 12 && attr.qp_state == IBV_QPS_RTS);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
    enum ibv_wr_opcode opcode;
  } cases[] = {{"order_of_writes", order, IBV_WR_RDMA_WRITE},
               {"order_of_sends", order, IBV_WR_SEND},
               {"not_ready_for_sends", receiver_not_ready, IBV_WR_SEND},
               {"not_ready_for_writes", receiver_not_ready, IBV_WR_RDMA_WRITE_WITH_IMM},
               {"attributes", attributes, IBV_WR_SEND}};
  if (count != 2 || open_first_device()) return 2;
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(cases[i].name, words[1]) != 0) continue;
    opcode = cases[i].opcode;
    const int failed = cases[i].run();
    if (!failed) puts("as expected");
    return failed;
  }
  return 3;
}
