/* Extended queue pairs. Usage: verbs_extended CASE. Prints the first expectation that fails. */
#include <pthread.h>
#include <sys/wait.h>

#include "verbs_program.h"

enum {
  kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
  kAll = kWrites | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
         IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
  kTarget = 4096
};

static struct ibv_cq *near_cq, *far_cq;

static struct ibv_qp_init_attr_ex attributes(struct ibv_cq *cq, uint64_t operations) {
  const struct ibv_qp_init_attr plain = qp_attributes(cq, NULL);
  return (struct ibv_qp_init_attr_ex){.send_cq = cq, .recv_cq = cq, .cap = plain.cap, .qp_type = IBV_QPT_RC, .pd = pd,
                                      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                      .send_ops_flags = operations};
}

static struct ibv_qp_ex *make(struct ibv_cq *cq, uint64_t operations) {
  struct ibv_qp_init_attr_ex init = attributes(cq, operations);
  struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
  return qp ? ibv_qp_to_qp_ex(qp) : NULL;
}

static int is_empty(struct ibv_cq *cq) {
  struct ibv_wc wc;
  for (int i = 0; i < 200; ++i) {
    if (ibv_poll_cq(cq, 1, &wc) != 0) return 0;
  }
  return 1;
}

static int completes(uint64_t id, enum ibv_wc_opcode opcode) {
  const struct ibv_wc wc = next_of(near_cq);
  if (wc.wr_id == id && wc.opcode == opcode && wc.status == IBV_WC_SUCCESS) return 1;
  printf("completion %d, opcode %d: %s\n", (int)wc.wr_id, wc.opcode, ibv_wc_status_str(wc.status));
  return 0;
}

static void write_one(struct ibv_qp_ex *qp, uint64_t id, uint32_t bytes) {
  qp->wr_id = id;
  ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + kTarget);
  ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, bytes);
}

static int creation(void) {
  struct ibv_qp_init_attr_ex init = attributes(near_cq, kAll);
  struct ibv_qp_init_attr plain = qp_attributes(near_cq, NULL);
  struct ibv_qp *qp = ibv_create_qp(pd, &plain);
  EXPECT(qp && ibv_qp_to_qp_ex(qp) == NULL);
  EXPECT(ibv_destroy_qp(qp) == 0);
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  qp = ibv_create_qp_ex(context, &init);
  EXPECT(qp && ibv_qp_to_qp_ex(qp) == NULL && ibv_destroy_qp(qp) == 0);
  init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
  IS_NULL(ibv_create_qp_ex(context, &init), EOPNOTSUPP);
  init.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  IS_NULL(ibv_create_qp_ex(context, &init), EINVAL); /* no domain */
  init.comp_mask |= IBV_QP_INIT_ATTR_PD;
  init.send_ops_flags = kAll | IBV_QP_EX_WITH_BIND_MW;
  IS_NULL(ibv_create_qp_ex(context, &init), EOPNOTSUPP);
  init.send_ops_flags = kAll;
  init.pd = NULL;
  IS_NULL(ibv_create_qp_ex(context, &init), EINVAL);
  init.pd = pd;
  init.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
  IS_NULL(ibv_create_qp_ex(context, &init), EOPNOTSUPP);
  init = attributes(near_cq, kAll);
  init.qp_type = IBV_QPT_UD;
  IS_NULL(ibv_create_qp_ex(context, &init), EOPNOTSUPP);
  struct ibv_qp_ex *extended = make(near_cq, kAll);
  EXPECT(extended && ibv_destroy_qp(&extended->qp_base) == 0);
  EXPECT(ibv_qp_to_qp_ex(&extended->qp_base) == NULL); /* gone */
  return 0;
}

/* MRC alone writes only. */
static int writes_only(void) {
  EXPECT(make(near_cq, kWrites));
  struct ibv_qp_init_attr_ex init = attributes(near_cq, kAll);
  IS_NULL(ibv_create_qp_ex(context, &init), EOPNOTSUPP);
  return 0;
}

static int misuse(void) {
  struct ibv_qp_ex *qp = make(near_cq, kAll & ~IBV_QP_EX_WITH_RDMA_READ), *to = make(far_cq, kAll);
  EXPECT(qp && to && connect_pair(&qp->qp_base, &to->qp_base) == 0);
  struct ibv_sge sges[20];
  for (int i = 0; i < 20; ++i) sges[i] = part(0, 1);
  write_one(qp, 1, kBytes); /* without ibv_wr_start() */
  ibv_wr_set_inline_data(qp, memory, 8);
  ibv_wr_abort(qp);
  REFUSES(ibv_wr_complete(qp), EINVAL);
#define LIST_REFUSES(calls, error) \
  do {                             \
    ibv_wr_start(qp);              \
    write_one(qp, 1, kBytes);      \
    calls;                         \
    REFUSES(ibv_wr_complete(qp), error); \
  } while (0)
  LIST_REFUSES(ibv_wr_start(qp), EINVAL);
  LIST_REFUSES(ibv_wr_rdma_read(qp, mr->rkey, (uintptr_t)memory), EINVAL); /* not asked for */
  LIST_REFUSES(ibv_wr_local_inv(qp, 1), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_send_inv(qp, 1), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_send_tso(qp, memory, 8, 8), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_bind_mw(qp, NULL, 1, NULL), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_atomic_write(qp, 1, 0, memory), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_set_ud_addr(qp, NULL, 1, 1), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_set_xrc_srqn(qp, 1), EOPNOTSUPP);
  LIST_REFUSES(ibv_wr_set_sge_list(qp, 3, sges), EINVAL);
  LIST_REFUSES(ibv_wr_set_sge_list(qp, SIZE_MAX, sges), EINVAL);
  LIST_REFUSES(ibv_wr_set_sge_list(qp, 1, NULL), EINVAL);
  LIST_REFUSES(ibv_wr_set_inline_data(qp, memory, kBytes + 1), EINVAL);
  LIST_REFUSES(ibv_wr_set_inline_data(qp, memory, SIZE_MAX), EINVAL);
  LIST_REFUSES(ibv_wr_set_inline_data(qp, NULL, 1), EINVAL);
  const struct ibv_data_buf halves[2] = {{memory, kBytes}, {memory, 1}};
  LIST_REFUSES(ibv_wr_set_inline_data_list(qp, 2, halves), EINVAL);
  LIST_REFUSES(ibv_wr_set_inline_data_list(qp, 1, NULL), EINVAL);
  LIST_REFUSES(for (int i = 0; i < kDepth; ++i) write_one(qp, 2, 8), ENOMEM);
  LIST_REFUSES((qp->wr_flags = 1U << 20, ibv_wr_send(qp), qp->wr_flags = 0), EOPNOTSUPP);
  ibv_wr_start(qp);
  ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8); /* of no request */
  REFUSES(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  write_one(qp, 1, kBytes);
  ibv_wr_abort(qp);
  REFUSES(ibv_wr_complete(qp), EINVAL);
  ibv_wr_start(qp);
  REFUSES(ibv_wr_complete(qp), 0); /* nothing to do */
  usleep(100000);
  EXPECT(is_empty(near_cq)); /* nothing of all this was posted */
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  write_one(qp, 7, kBytes);
  REFUSES(ibv_wr_complete(qp), 0);
  EXPECT(completes(7, IBV_WC_RDMA_WRITE));

  struct ibv_qp_ex *idle = make(near_cq, kAll);
  ibv_wr_start(idle);
  write_one(idle, 1, kBytes);
  REFUSES(ibv_wr_complete(idle), EINVAL); /* not connected */
  ibv_wr_start(idle);
  REFUSES(ibv_destroy_qp(&idle->qp_base), 0);
  return 0;
}

/* A request with a bad key: refused as the first of its list, otherwise an error of its own. */
static int bad_key(void) {
  struct ibv_qp_ex *qp = make(near_cq, kAll), *to = make(far_cq, kAll);
  EXPECT(qp && to && connect_pair(&qp->qp_base, &to->qp_base) == 0);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(qp);
  write_one(qp, 1, kBytes);
  ibv_wr_set_sge(qp, mr->lkey ^ 0x5A5A5A5A, (uintptr_t)memory, kBytes);
  write_one(qp, 2, kBytes);
  REFUSES(ibv_wr_complete(qp), EINVAL);
  EXPECT(is_empty(near_cq));
  ibv_wr_start(qp);
  for (uint64_t id = 0; id < 4; ++id) {
    write_one(qp, id, kBytes);
    if (id == 1) ibv_wr_set_sge(qp, mr->lkey ^ 0x5A5A5A5A, (uintptr_t)memory, kBytes);
  }
  REFUSES(ibv_wr_complete(qp), 0);
  for (uint64_t id = 0; id < 4; ++id) {
    const struct ibv_wc wc = next_of(near_cq);
    EXPECT(wc.wr_id == id && (id == 0 || wc.status == (id == 1 ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR)));
  }
  EXPECT(is_empty(near_cq));
  return 0;
}

static int post_receive(struct ibv_qp_ex *qp, uint64_t id) {
  struct ibv_sge sge = part(6144, kBytes);
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(&qp->qp_base, &wr, &bad);
}

/* Every operation, in one list, with each way to name its data. */
static int operations(void) {
  struct ibv_qp_ex *qp = make(near_cq, kAll), *to = make(far_cq, kAll);
  EXPECT(qp && to && connect_pair(&qp->qp_base, &to->qp_base) == 0);
  for (uint64_t id = 0; id < 3; ++id) EXPECT(post_receive(to, id) == 0);
  for (int i = 0; i < kBytes; ++i) memory[i] = (char)i;
  uint64_t *counter = (uint64_t *)(memory + 7168), *results = (uint64_t *)(memory + 7232);
  *counter = 5;
  char inlined[8] = "inlined";
  struct ibv_sge halves[2] = {part(0, 16), part(32, 16)};
  const struct ibv_data_buf buffers[2] = {{inlined, 4}, {inlined + 4, 4}};
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  write_one(qp, 0, kBytes);
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 5120);
  ibv_wr_set_sge_list(qp, 2, halves);
  qp->wr_flags = 0; /* not signaled */
  qp->wr_id = 2;
  ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 5200);
  ibv_wr_set_inline_data(qp, inlined, sizeof inlined);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 3;
  ibv_wr_rdma_write_imm(qp, mr->rkey, (uintptr_t)memory + 5300, 33);
  ibv_wr_set_inline_data_list(qp, 2, buffers);
  qp->wr_id = 4;
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, inlined, sizeof inlined);
  qp->wr_id = 5;
  ibv_wr_send_imm(qp, 55);
  qp->wr_id = 6;
  ibv_wr_rdma_read(qp, mr->rkey, (uintptr_t)memory + 5300);
  ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory + 3000, 8);
  qp->wr_id = 7;
  ibv_wr_atomic_fetch_add(qp, mr->rkey, (uintptr_t)counter, 3);
  ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)results, 8);
  qp->wr_id = 8;
  ibv_wr_atomic_cmp_swp(qp, mr->rkey, (uintptr_t)counter, 8, 99);
  ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)(results + 1), 8);
  REFUSES(ibv_wr_complete(qp), 0);
  memset(inlined, 0, sizeof inlined); /* copied before */
  static const enum ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
                                               IBV_WC_SEND, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP};
  for (uint64_t id = 0; id < 9; ++id) EXPECT(id == 2 || completes(id, opcodes[id]));
  EXPECT(memcmp(memory, memory + kTarget, kBytes) == 0);
  EXPECT(memcmp(memory, memory + 5120, 16) == 0 && memcmp(memory + 32, memory + 5136, 16) == 0);
  EXPECT(strcmp(memory + 5200, "inlined") == 0 && strcmp(memory + 5300, "inlined") == 0);
  EXPECT(strcmp(memory + 3000, "inlined") == 0 && strcmp(memory + 6144, "inlined") == 0);
  EXPECT(results[0] == 5 && results[1] == 8 && *counter == 99);
  struct ibv_wc wc = next_of(far_cq);
  EXPECT(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 33 && wc.byte_len == 8);
  wc = next_of(far_cq);
  EXPECT(wc.opcode == IBV_WC_RECV && wc.byte_len == 8 && wc.wc_flags == 0);
  wc = next_of(far_cq);
  EXPECT(wc.opcode == IBV_WC_RECV && wc.byte_len == 0 && wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == 55);
  return 0;
}

enum { kRounds = 300 };
static struct ibv_qp_ex *shared_qp;

/* Each list is three requests with the same thread's ids in order. */
static void *build_lists(void *first) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    int error = ENOMEM;
    while (error == ENOMEM) { /* until the other thread's have completed */
      ibv_wr_start(shared_qp);
      for (uint64_t i = 0; i < 3; ++i) write_one(shared_qp, (uint64_t)(uintptr_t)first + 3 * round + i, 8);
      error = ibv_wr_complete(shared_qp);
      if (error == ENOMEM) usleep(50);
    }
    if (error != 0) return (void *)1;
  }
  return NULL;
}

static int threads(void) {
  struct ibv_qp_ex *to = make(far_cq, kAll);
  pthread_t builders[2];
  shared_qp = make(near_cq, kAll);
  EXPECT(shared_qp && to && connect_pair(&shared_qp->qp_base, &to->qp_base) == 0);
  shared_qp->wr_flags = IBV_SEND_SIGNALED;
  uint64_t next[2] = {0, 1000000};
  for (int i = 0; i < 2; ++i) {
    EXPECT(pthread_create(&builders[i], NULL, build_lists, (void *)(uintptr_t)next[i]) == 0);
  }
  for (int list = 0; list < 2 * kRounds; ++list) {
    struct ibv_wc wc = next_of(near_cq);
    const int which = wc.wr_id >= 1000000;
    for (int i = 0; i < 3; ++i) {
      EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == next[which]++);
      if (i < 2) wc = next_of(near_cq);
    }
  }
  for (int i = 0; i < 2; ++i) {
    void *failed = NULL;
    EXPECT(pthread_join(builders[i], &failed) == 0 && failed == NULL);
  }
  return 0;
}

static volatile int list_is_open;

static void *leave_open(void *qp) {
  ibv_wr_start(qp);
  list_is_open = 1;
  for (;;) pause();
  return NULL;
}

/* A forked child is refused, also while a thread of its parent builds a list. */
static int forked(void) {
  struct ibv_qp_ex *qp = make(near_cq, kAll);
  pthread_t builder;
  EXPECT(qp && pthread_create(&builder, NULL, leave_open, qp) == 0);
  while (!list_is_open) usleep(100);
  const pid_t child = fork();
  if (child == 0) {
    ibv_wr_start(qp);
    write_one(qp, 1, kBytes);
    _exit(ibv_wr_complete(qp) == EPERM ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"creation", creation}, {"writes_only", writes_only}, {"misuse", misuse}, {"bad_key", bad_key},
               {"operations", operations}, {"threads", threads}, {"forked", forked}};
  if (count != 2 || open_first_device()) return 2;
  near_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  far_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(cases[i].name, words[1]) != 0) continue;
    const int failed = cases[i].run();
    if (!failed) puts("as expected");
    return failed;
  }
  return 3;
}
