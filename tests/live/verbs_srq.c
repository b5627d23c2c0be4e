/* Shared receive queues. Usage: verbs_srq CASE. Prints the first expectation that fails. */
#include "verbs_program.h"

static struct ibv_srq *make_srq(uint32_t receives) {
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = receives, .max_sge = 1}};
  return ibv_create_srq(pd, &attr);
}

static int post_receive(struct ibv_srq *srq, uint64_t id, uint32_t offset, uint32_t bytes) {
  struct ibv_sge sge = part(offset, bytes);
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

static int misuse(void) {
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = 0, .max_sge = 1}};
  IS_NULL(ibv_create_srq(pd, NULL), EINVAL);
  IS_NULL(ibv_create_srq(NULL, &attr), EINVAL);
  IS_NULL(ibv_create_srq(pd, &attr), EINVAL);
  attr.attr.max_wr = 1U << 31;
  IS_NULL(ibv_create_srq(pd, &attr), EINVAL);
  attr.attr.max_wr = 2;
  attr.attr.max_sge = 1000;
  IS_NULL(ibv_create_srq(pd, &attr), EINVAL);
  attr.attr.max_sge = 2;
  attr.srq_context = memory;
  struct ibv_srq *srq = ibv_create_srq(pd, &attr);
  EXPECT(srq && srq->srq_context == memory && srq->pd == pd && srq->context == context);

  struct ibv_sge sges[3] = {part(0, 8), part(8, 8), part(16, 8)};
  struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = sges, .num_sge = 3}, *bad = NULL;
  REFUSES(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  EXPECT(bad == &wr);
  wr.num_sge = -1;
  REFUSES(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  wr.num_sge = 1;
  wr.sg_list = NULL;
  REFUSES(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  wr.sg_list = sges;
  sges[0].lkey ^= 0x5A5A5A5A;
  REFUSES(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
  sges[0].lkey = mr->lkey;
  struct ibv_recv_wr third = {.wr_id = 3}, second = {.wr_id = 2, .next = &third};
  wr.next = &second;
  REFUSES(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM); /* the queue has room for two */
  EXPECT(bad == &third);
  REFUSES(ibv_post_srq_recv(srq, &third, NULL), ENOMEM);

  struct ibv_srq_attr now = {.max_wr = 4, .srq_limit = 3};
  REFUSES(ibv_modify_srq(srq, NULL, IBV_SRQ_LIMIT), EINVAL);
  REFUSES(ibv_modify_srq(NULL, &now, IBV_SRQ_LIMIT), EINVAL);
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT), EINVAL); /* above its size */
  REFUSES(ibv_modify_srq(srq, &now, 64), EINVAL);
  now.srq_limit = 2;
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT), 0);
  REFUSES(ibv_query_srq(srq, NULL), EINVAL);
  REFUSES(ibv_query_srq(NULL, &now), EINVAL);
  REFUSES(ibv_query_srq(srq, &now), 0);
  EXPECT(now.max_wr == 2 && now.max_sge == 2 && now.srq_limit == 2);

  struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr init = qp_attributes(cq, (struct ibv_srq *)memory);
  IS_NULL(ibv_create_qp(pd, &init), EINVAL);
  init.srq = srq;
  init.cap.max_recv_wr = 1U << 31; /* ignored */
  struct ibv_qp *qp = ibv_create_qp(pd, &init);
  EXPECT(qp && qp->srq == srq && to_init(qp) == 0);
  wr.next = NULL;
  REFUSES(ibv_post_recv(qp, &wr, &bad), EINVAL);
  REFUSES(to_error(qp), 0);
  REFUSES(ibv_post_recv(qp, &wr, &bad), EINVAL);
  REFUSES(ibv_dealloc_pd(pd), EBUSY);
  REFUSES(ibv_destroy_srq(srq), EBUSY);
  REFUSES(ibv_destroy_qp(qp), 0);
  REFUSES(ibv_destroy_srq(srq), 0);
  REFUSES(ibv_destroy_srq(srq), EINVAL);
  REFUSES(ibv_destroy_srq(NULL), EINVAL);
  REFUSES(ibv_query_srq(srq, &now), EINVAL);
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_LIMIT), EINVAL);
  init.srq = srq;
  IS_NULL(ibv_create_qp(pd, &init), EINVAL);
  return 0;
}

/* A queue with two receives and a limit of 2 grows, and shrinks again as far as both allow. */
static int resized(void) {
  struct ibv_srq *srq = make_srq(2);
  struct ibv_srq_attr now = {.max_wr = 4, .srq_limit = 5};
  struct ibv_device_attr device;
  EXPECT(ibv_query_device(context, &device) == 0 && (device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0);
  EXPECT(post_receive(srq, 0, 0, 8) == 0 && post_receive(srq, 1, 0, 8) == 0);
  REFUSES(post_receive(srq, 2, 0, 8), ENOMEM);
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL); /* changes nothing */
  REFUSES(post_receive(srq, 2, 0, 8), ENOMEM);
  now.srq_limit = 3;
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  EXPECT(post_receive(srq, 2, 0, 8) == 0 && post_receive(srq, 3, 0, 8) == 0);
  REFUSES(post_receive(srq, 4, 0, 8), ENOMEM);
  REFUSES(ibv_query_srq(srq, &now), 0);
  EXPECT(now.max_wr == 4 && now.srq_limit == 3);
  now.max_wr = 3; /* four are posted */
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR), EINVAL);
  now.max_wr = 0;
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR), EINVAL);
  now.max_wr = (uint32_t)device.max_srq_wr + 1;
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR), EINVAL);
  now.max_wr = (uint32_t)device.max_srq_wr;
  REFUSES(ibv_modify_srq(srq, &now, IBV_SRQ_MAX_WR), 0);
  REFUSES(ibv_query_srq(srq, &now), 0);
  EXPECT(now.max_wr == (uint32_t)device.max_srq_wr && now.srq_limit == 3); /* the limit stays */
  for (uint64_t id = 4; id < 300; ++id) EXPECT(post_receive(srq, id, 0, 8) == 0);
  return ibv_destroy_srq(srq);
}

static int extended(void) {
  struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1}, .pd = pd,
                                      .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE};
  attr.srq_type = IBV_SRQT_BASIC;
  struct ibv_srq *one = ibv_create_srq_ex(context, &attr), *other = ibv_create_srq_ex(context, &attr);
  uint32_t number = 0, other_number = 0;
  EXPECT(one && other && ibv_get_srq_num(one, &number) == 0 && ibv_get_srq_num(other, &other_number) == 0);
  EXPECT(number != other_number);
  attr.srq_type = IBV_SRQT_XRC;
  IS_NULL(ibv_create_srq_ex(context, &attr), EOPNOTSUPP);
  attr.srq_type = IBV_SRQT_TM;
  IS_NULL(ibv_create_srq_ex(context, &attr), EOPNOTSUPP);
  attr.comp_mask = 0;
  IS_NULL(ibv_create_srq_ex(context, &attr), EINVAL);
  EXPECT(ibv_destroy_srq(one) == 0 && ibv_destroy_srq(other) == 0);
  return 0;
}

/* SENDs and WRITE_IMMs of two QPs consume the receives in their order. */
static int shared(void) {
  struct ibv_cq *near = ibv_create_cq(context, 64, NULL, NULL, 0), *far = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_srq *srq = make_srq(kDepth);
  struct ibv_qp_init_attr send_side = qp_attributes(near, NULL), receive_side = qp_attributes(far, srq);
  struct ibv_qp *from[2], *to[2];
  for (int i = 0; i < 2; ++i) {
    from[i] = ibv_create_qp(pd, &send_side);
    to[i] = ibv_create_qp(pd, &receive_side);
    EXPECT(from[i] && to[i] && connect_pair(from[i], to[i]) == 0);
  }
  for (uint64_t id = 0; id < kDepth; ++id) EXPECT(post_receive(srq, id, 1024 + kBytes * (uint32_t)id, kBytes) == 0);
  REFUSES(post_receive(srq, kDepth, 0, kBytes), ENOMEM);
  for (uint64_t id = 0; id < kDepth; ++id) {
    const int write = id / 2 % 2;
    memset(memory, (int)id + 1, kBytes);
    EXPECT(post(from[id % 2], write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, id, mr->rkey) == 0);
    struct ibv_wc wc = next_of(near);
    EXPECT(wc.wr_id == id && wc.status == IBV_WC_SUCCESS);
    wc = next_of(far);
    EXPECT(wc.wr_id == id && wc.status == IBV_WC_SUCCESS && wc.qp_num == to[id % 2]->qp_num && wc.byte_len == kBytes);
    EXPECT(wc.opcode == (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
    EXPECT(!write || wc.imm_data == (uint32_t)id);
    EXPECT(memcmp(memory, memory + (write ? 4096 : 1024 + kBytes * id), kBytes) == 0);
  }
  EXPECT(post_receive(srq, 99, 0, kBytes) == 0);
  return 0;
}

/* Receives belong to the queue: a failed or destroyed QP leaves them to the others, and they lie in the queue's domain. */
static int survivors(void) {
  struct ibv_pd *own = pd, *queue_domain = ibv_alloc_pd(context);
  struct ibv_mr *own_mr = mr, *queue_mr = ibv_reg_mr(queue_domain, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0), *sent = ibv_create_cq(context, 64, NULL, NULL, 0);
  EXPECT(queue_mr);
  pd = queue_domain;
  mr = queue_mr;
  struct ibv_srq *srq = make_srq(4);
  EXPECT(srq && post_receive(srq, 1, 1024, kBytes) == 0 && post_receive(srq, 2, 2048, kBytes) == 0);
  pd = own;
  mr = own_mr;
  REFUSES(post_receive(srq, 3, 1024, kBytes), EINVAL); /* of another domain */
  struct ibv_qp_init_attr init = qp_attributes(cq, srq), sender = qp_attributes(sent, NULL);
  struct ibv_qp *fails = ibv_create_qp(pd, &init), *goes = ibv_create_qp(pd, &init), *stays = ibv_create_qp(pd, &init);
  struct ibv_qp *from = ibv_create_qp(pd, &sender);
  EXPECT(fails && goes && stays && from && to_init(fails) == 0 && connect_pair(from, stays) == 0);
  EXPECT(to_error(fails) == 0 && ibv_destroy_qp(goes) == 0);
  struct ibv_wc wc;
  for (int i = 0; i < 100; ++i) EXPECT(ibv_poll_cq(cq, 1, &wc) == 0); /* nothing is flushed */
  memset(memory, 7, kBytes);
  EXPECT(post(from, IBV_WR_SEND, 5, 0) == 0);
  wc = next_of(cq);
  EXPECT(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS && memcmp(memory, memory + 1024, kBytes) == 0);
  EXPECT(next_of(sent).wr_id == 5);
  EXPECT(ibv_destroy_qp(fails) == 0 && ibv_destroy_qp(stays) == 0 && ibv_destroy_srq(srq) == 0);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"misuse", misuse}, {"extended", extended}, {"resized", resized}, {"shared", shared}, {"survivors", survivors}};
  if (count != 2 || open_first_device()) return 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(cases[i].name, words[1]) != 0) continue;
    const int failed = cases[i].run();
    if (!failed) puts("as expected");
    return failed;
  }
  return 3;
}
