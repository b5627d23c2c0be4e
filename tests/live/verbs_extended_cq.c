/* Extended completion queues. Usage: verbs_extended_cq CASE. Prints the first expectation that fails. */
#include <pthread.h>
#include <sys/wait.h>

#include "verbs_program.h"

static struct ibv_cq_ex *make_cq(void) {
  struct ibv_cq_init_attr_ex attr = {.cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS};
  return ibv_create_cq_ex(context, &attr);
}

static struct ibv_qp *make_qp(struct ibv_cq_ex *cq) {
  struct ibv_qp_init_attr init = qp_attributes(ibv_cq_ex_to_cq(cq), NULL);
  return ibv_create_qp(pd, &init);
}

static int start(struct ibv_cq_ex *cq) {
  struct ibv_poll_cq_attr attr = {0};
  return ibv_start_poll(cq, &attr);
}

static int await(struct ibv_cq_ex *cq) {
  int error = ENOENT;
  while (error == ENOENT) error = start(cq);
  return error;
}

static int creation(void) {
  struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS, .cq_context = memory};
  IS_NULL(ibv_create_cq_ex(context, NULL), EINVAL);
  static const uint64_t refused[] = {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
                                     IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO, 1ULL << 40};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    attr.wc_flags = IBV_WC_STANDARD_FLAGS | refused[i];
    IS_NULL(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
  }
  attr.wc_flags = 0;
  attr.cqe = 0;
  IS_NULL(ibv_create_cq_ex(context, &attr), EINVAL);
  attr.cqe = UINT32_MAX;
  IS_NULL(ibv_create_cq_ex(context, &attr), EINVAL);
  attr.cqe = 16;
  attr.comp_vector = 3;
  IS_NULL(ibv_create_cq_ex(context, &attr), EINVAL);
  attr.comp_vector = 0;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  attr.parent_domain = pd;
  IS_NULL(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  IS_NULL(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);
  EXPECT(cq && cq->cq_context == memory && cq->cqe >= 16);
  struct ibv_device_attr_ex device;
  EXPECT(ibv_query_device_ex(context, NULL, &device) == 0 && device.completion_timestamp_mask == 0);

  struct ibv_poll_cq_attr unknown = {.comp_mask = 1};
  REFUSES(ibv_start_poll(cq, NULL), EINVAL);
  REFUSES(ibv_start_poll(cq, &unknown), EINVAL);
  REFUSES(ibv_next_poll(cq), EINVAL);
  ibv_end_poll(cq); /* nothing to end */
  REFUSES(start(cq), ENOENT);
  REFUSES(ibv_next_poll(cq), EINVAL);
  REFUSES(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  return 0;
}

/* Each completion in its order with its fields, and an error with its status. */
static int reading(void) {
  struct ibv_cq_ex *near_cq = make_cq(), *far_cq = make_cq();
  struct ibv_qp *from = make_qp(near_cq), *to = make_qp(far_cq);
  EXPECT(from && to && connect_pair(from, to) == 0);
  for (uint64_t id = 0; id < 4; ++id) {
    struct ibv_sge sge = part(1024, kBytes);
    struct ibv_recv_wr wr = {.wr_id = 100 + id, .sg_list = &sge, .num_sge = 1}, *bad;
    EXPECT(ibv_post_recv(to, &wr, &bad) == 0);
  }
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                               IBV_WR_SEND_WITH_IMM};
  static const enum ibv_wc_opcode sent[] = {IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND};
  for (uint64_t id = 0; id < 4; ++id) EXPECT(post(from, opcodes[id], id, mr->rkey) == 0);
  usleep(300000); /* until all have completed */
  REFUSES(await(near_cq), 0);
  for (uint64_t id = 0; id < 4; ++id) {
    EXPECT(near_cq->wr_id == id && near_cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(near_cq) == sent[id]);
    EXPECT(ibv_wc_read_qp_num(near_cq) == from->qp_num);
    REFUSES(start(near_cq), EINVAL); /* twice */
    REFUSES(ibv_next_poll(near_cq), id < 3 ? 0 : ENOENT);
  }
  ibv_end_poll(near_cq);
  for (uint64_t id = 0; id < 3; ++id) {
    REFUSES(await(far_cq), 0);
    EXPECT(far_cq->wr_id == 100 + id && far_cq->status == IBV_WC_SUCCESS);
    EXPECT(ibv_wc_read_byte_len(far_cq) == kBytes && ibv_wc_read_qp_num(far_cq) == to->qp_num);
    EXPECT(ibv_wc_read_wc_flags(far_cq) == (id > 0 ? IBV_WC_WITH_IMM : 0));
    EXPECT(ibv_wc_read_opcode(far_cq) == (id == 1 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
    EXPECT(id == 0 || ibv_wc_read_imm_data(far_cq) == id + 1);
    EXPECT(ibv_wc_read_vendor_err(far_cq) == 0 && ibv_wc_read_sl(far_cq) == 0 && ibv_wc_read_slid(far_cq) == 0);
    ibv_end_poll(far_cq);
  }
  EXPECT(post(from, IBV_WR_RDMA_WRITE, 9, mr->rkey ^ 0x5A5A5A5A) == 0);
  REFUSES(await(near_cq), 0);
  EXPECT(near_cq->wr_id == 9 && near_cq->status == IBV_WC_REM_ACCESS_ERR);
  ibv_end_poll(near_cq);

  struct ibv_wc wc; /* the plain call works on it, too */
  EXPECT(post(from, IBV_WR_RDMA_WRITE, 10, mr->rkey) == 0);
  while (ibv_poll_cq(ibv_cq_ex_to_cq(near_cq), 1, &wc) == 0) continue;
  EXPECT(wc.wr_id == 10 && wc.status == IBV_WC_WR_FLUSH_ERR);
  return 0;
}

/* A QP that is destroyed while a poll is open takes its completions along. */
static int destroyed(void) {
  struct ibv_cq_ex *cq = make_cq();
  struct ibv_qp *qp = make_qp(cq), *other = make_qp(cq);
  EXPECT(qp && other && to_init(qp) == 0 && to_init(other) == 0 && to_error(qp) == 0 && to_error(other) == 0);
  for (uint64_t id = 0; id < 3; ++id) EXPECT(post(qp, IBV_WR_RDMA_WRITE, id, mr->rkey) == 0);
  EXPECT(post(other, IBV_WR_RDMA_WRITE, 7, mr->rkey) == 0);
  REFUSES(await(cq), 0);
  EXPECT(cq->wr_id == 0 && cq->status == IBV_WC_WR_FLUSH_ERR);
  REFUSES(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), EBUSY);
  REFUSES(ibv_destroy_qp(qp), 0);
  REFUSES(ibv_next_poll(cq), 0);
  EXPECT(cq->wr_id == 7);
  REFUSES(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
  EXPECT(ibv_destroy_qp(other) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  return 0;
}

/* A forked child is refused, also while its parent has a poll open. */
static int forked(void) {
  struct ibv_cq_ex *cq = make_cq();
  struct ibv_qp *qp = make_qp(cq);
  EXPECT(qp && to_init(qp) == 0 && to_error(qp) == 0 && post(qp, IBV_WR_RDMA_WRITE, 1, mr->rkey) == 0);
  REFUSES(await(cq), 0);
  const pid_t child = fork();
  if (child == 0) _exit(start(cq) == EPERM ? 0 : 1);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  ibv_end_poll(cq);
  return 0;
}

enum { kMessages = 2000 };
static struct ibv_cq_ex *shared_cq;
static uint64_t next_id;   /* protected by the poll itself, which is one thread's at a time */
static volatile int wrong, finished;

static void *poll_some(void *unused) {
  while (!finished) {
    if (start(shared_cq) != 0) continue;
    int error = 0;
    while (error == 0) {
      if (shared_cq->wr_id != next_id++ || shared_cq->status != IBV_WC_SUCCESS) wrong = 1;
      if (next_id == kMessages) finished = 1;
      error = ibv_next_poll(shared_cq);
    }
    ibv_end_poll(shared_cq);
  }
  return unused;
}

static int threads(void) {
  struct ibv_cq_ex *far_cq = make_cq();
  shared_cq = make_cq();
  struct ibv_qp *from = make_qp(shared_cq), *to = make_qp(far_cq);
  pthread_t pollers[3];
  EXPECT(from && to && connect_pair(from, to) == 0);
  for (int i = 0; i < 3; ++i) EXPECT(pthread_create(&pollers[i], NULL, poll_some, NULL) == 0);
  for (uint64_t id = 0; id < kMessages;) {
    const int error = post(from, IBV_WR_RDMA_WRITE, id, mr->rkey);
    EXPECT(error == 0 || error == ENOMEM);
    if (error == 0) ++id;
  }
  for (int i = 0; i < 3; ++i) EXPECT(pthread_join(pollers[i], NULL) == 0);
  EXPECT(!wrong && next_id == kMessages);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"creation", creation}, {"reading", reading}, {"destroyed", destroyed}, {"threads", threads},
               {"forked", forked}};
  if (count != 2 || open_first_device()) return 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(cases[i].name, words[1]) != 0) continue;
    const int failed = cases[i].run();
    if (!failed) puts("as expected");
    return failed;
  }
  return 3;
}
