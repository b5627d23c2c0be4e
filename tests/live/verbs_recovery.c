/* Resets, failures, events, forks and signals. Usage: verbs_recovery CASE. Prints the first expectation that fails. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)                                  \
  do {                                                     \
    if (!(condition)) {                                    \
      printf("line %d: %s is false\n", __LINE__, #condition); \
      return 1;                                            \
    }                                                      \
  } while (0)

enum { kDepth = 8, kBytes = 64 };

static char memory[4096];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static union ibv_gid gid;
static uint32_t psn; /* another one after each reset: packets from before it may still arrive */

static struct ibv_qp *make_qp(struct ibv_cq *cq) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = kDepth, .max_recv_wr = kDepth, .max_send_sge = 1, .max_recv_sge = 1}};
  return ibv_create_qp(pd, &init);
}

static int move(struct ibv_qp *qp, enum ibv_qp_state state) {
  struct ibv_qp_attr attr = {.qp_state = state};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int to_init(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* INIT to RTS. */
static int connect_to(struct ibv_qp *qp, uint32_t peer) {
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
                            .rq_psn = psn};
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.dgid = gid;
  const int error = ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) return error;
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
  return ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t id, uint32_t rkey) {
  struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = kBytes, .lkey = mr->lkey};
  struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
  wr.wr.rdma.rkey = rkey;
  return ibv_post_send(qp, &wr, &bad);
}

static int post_receive(struct ibv_qp *qp, uint64_t id, uint32_t bytes) {
  struct ibv_sge sge = {.addr = (uintptr_t)memory + 1024, .length = bytes, .lkey = mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(qp, &wr, &bad);
}

static struct ibv_wc next_of(struct ibv_cq *cq) {
  struct ibv_wc wc = {0};
  while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
  return wc;
}

/* Completions from before a reset are gone, and the queue has its whole depth again. */
static int reset(void) {
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *qp = make_qp(cq), *other = make_qp(cq);
  EXPECT(qp && other);
  EXPECT(to_init(other) == 0 && connect_to(other, other->qp_num) == 0);
  for (uint64_t round = 0; round < 3; ++round) {
    psn += 100000;
    EXPECT(to_init(qp) == 0 && connect_to(qp, qp->qp_num) == 0);
    for (uint64_t i = 0; i < kDepth; ++i) EXPECT(post(qp, IBV_WR_RDMA_WRITE, 100 * round + i, mr->rkey) == 0);
    for (uint64_t i = 0; i < kDepth; ++i) EXPECT(next_of(cq).wr_id == 100 * round + i);
    for (uint64_t i = 0; i < 5; ++i) EXPECT(post(qp, IBV_WR_RDMA_WRITE, 50 + i, mr->rkey) == 0);
    EXPECT(post(other, IBV_WR_RDMA_WRITE, 77, mr->rkey) == 0);
    usleep(200000); /* until they have completed */
    EXPECT(move(qp, IBV_QPS_RESET) == 0);
    EXPECT(next_of(cq).wr_id == 77); /* of the other QP */
    struct ibv_wc wc;
    for (int i = 0; i < 100; ++i) EXPECT(ibv_poll_cq(cq, 1, &wc) == 0);
  }
  EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(other) == 0 && ibv_destroy_cq(cq) == 0);
  return 0;
}

/* Work posted to a failed pair is flushed, whichever lane it is for; a reset makes the pair usable. */
static int failed(void) {
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *qp = make_qp(cq);
  EXPECT(qp && to_init(qp) == 0 && connect_to(qp, qp->qp_num) == 0);
  EXPECT(post(qp, IBV_WR_RDMA_WRITE, 1, mr->rkey ^ 0x5A5A5A5A) == 0);
  EXPECT(post(qp, IBV_WR_SEND, 2, 0) == 0); /* waits for the WRITE */
  struct ibv_wc wc = next_of(cq);
  EXPECT(wc.wr_id == 1 && wc.status != IBV_WC_SUCCESS);
  wc = next_of(cq);
  EXPECT(wc.wr_id == 2 && wc.status == IBV_WC_WR_FLUSH_ERR);
  for (uint64_t id = 3; id < 3 + 2 * kDepth; ++id) {
    EXPECT(post(qp, id % 2 != 0 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, id, mr->rkey) == 0);
    wc = next_of(cq);
    EXPECT(wc.wr_id == id && wc.status == IBV_WC_WR_FLUSH_ERR);
  }
  psn += 100000;
  EXPECT(move(qp, IBV_QPS_RESET) == 0 && to_init(qp) == 0 && connect_to(qp, qp->qp_num) == 0);
  EXPECT(post(qp, IBV_WR_RDMA_WRITE, 9, mr->rkey) == 0);
  wc = next_of(cq);
  EXPECT(wc.wr_id == 9 && wc.status == IBV_WC_SUCCESS);
  return 0;
}

/* A receive that fails takes the whole pair with it. */
static int failed_receive(void) {
  struct ibv_cq *near = ibv_create_cq(context, 64, NULL, NULL, 0), *far = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *a = make_qp(near), *b = make_qp(far);
  EXPECT(a && b && to_init(a) == 0 && to_init(b) == 0);
  EXPECT(connect_to(a, b->qp_num) == 0 && connect_to(b, a->qp_num) == 0);
  EXPECT(post_receive(b, 1, kBytes / 2) == 0);
  EXPECT(post(a, IBV_WR_SEND, 2, 0) == 0);
  EXPECT(next_of(far).status == IBV_WC_LOC_LEN_ERR);
  EXPECT(post(b, IBV_WR_RDMA_WRITE, 3, mr->rkey) == 0);
  const struct ibv_wc wc = next_of(far);
  EXPECT(wc.wr_id == 3 && wc.status == IBV_WC_WR_FLUSH_ERR);
  return 0;
}

/* Two requests for notification give two events, even if none has been taken in between. */
static int events(void) {
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, channel, 0), *from = NULL;
  struct ibv_qp *qp = make_qp(cq);
  void *user = NULL;
  EXPECT(qp && to_init(qp) == 0 && connect_to(qp, qp->qp_num) == 0);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT(ibv_req_notify_cq(cq, 0) == 0);
    EXPECT(post(qp, IBV_WR_RDMA_WRITE, i, mr->rkey) == 0);
    EXPECT(next_of(cq).wr_id == i);
  }
  for (int i = 0; i < 2; ++i) EXPECT(ibv_get_cq_event(channel, &from, &user) == 0 && from == cq);
  ibv_ack_cq_events(cq, 2);
  EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
  return 0;
}

static void *take_events(void *channel) {
  struct ibv_cq *cq = NULL;
  void *user = NULL;
  while (ibv_get_cq_event(channel, &cq, &user) == 0) ibv_ack_cq_events(cq, 1);
  return NULL;
}

/* CQs come and go while other threads take their events. */
static int closing(void) {
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  pthread_t takers[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&takers[i], NULL, take_events, channel) == 0);
  for (uint64_t i = 0; i < 500; ++i) {
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0);
    struct ibv_qp *qp = make_qp(cq);
    EXPECT(qp && to_init(qp) == 0 && move(qp, IBV_QPS_ERR) == 0);
    EXPECT(ibv_req_notify_cq(cq, 0) == 0);
    EXPECT(post(qp, IBV_WR_RDMA_WRITE, i, mr->rkey) == 0); /* flushed: an event */
    EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
  }
  return 0;
}

/* A forked child may not take events of its parent. */
static int forked(void) {
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0), *from = NULL;
  struct ibv_qp *qp = make_qp(cq);
  void *user = NULL;
  EXPECT(qp && to_init(qp) == 0 && move(qp, IBV_QPS_ERR) == 0);
  EXPECT(ibv_req_notify_cq(cq, 0) == 0 && post(qp, IBV_WR_RDMA_WRITE, 1, mr->rkey) == 0);
  const pid_t child = fork();
  if (child == 0) _exit(ibv_get_cq_event(channel, &from, &user) == -1 && errno == EPERM ? 0 : 1);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(ibv_get_cq_event(channel, &from, &user) == 0 && from == cq);
  return 0;
}

/* Signals that the program blocks and takes by sigwait() do not end it in a thread of the library. */
static int signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  int number = 0;
  EXPECT(kill(getpid(), SIGUSR1) == 0);
  usleep(100000); /* for a thread that would take it */
  EXPECT(sigwait(&set, &number) == 0 && number == SIGUSR1);
  return 0;
}

/* A QP's CQs belong to the device of its protection domain. */
static int devices(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  EXPECT(list[0] && list[1]);
  struct ibv_context *second = ibv_open_device(list[1]);
  struct ibv_cq *own = ibv_create_cq(context, 4, NULL, NULL, 0), *cq = ibv_create_cq(second, 4, NULL, NULL, 0);
  EXPECT(own && cq && make_qp(cq) == NULL && errno == EINVAL);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"reset", reset},     {"failed", failed}, {"failed_receive", failed_receive}, {"events", events},
               {"closing", closing}, {"forked", forked}, {"signals", signals},               {"devices", devices}};
  struct ibv_device **list = ibv_get_device_list(NULL);
  context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  pd = ibv_alloc_pd(context);
  mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (count != 2 || !context || !pd || !mr || ibv_query_gid(context, 1, 0, &gid) != 0) return 2;
  alarm(120);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(words[1], cases[i].name) != 0) continue;
    if (cases[i].run() != 0) return 1;
    puts("as expected");
    return 0;
  }
  return 2;
}
