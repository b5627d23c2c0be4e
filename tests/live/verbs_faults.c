/* Faults of programs and of their threads. Usage: verbs_faults CASE. Prints the first expectation that fails. */
#define _GNU_SOURCE
#include "verbs_program.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct ibv_qp *make_qp(struct ibv_cq *cq) {
  struct ibv_qp_init_attr init = qp_attributes(cq, NULL);
  return ibv_create_qp(pd, &init);
}

/* Work that waits for the other lane is checked when it is posted, and again when its turn comes. */
static int held(void) {
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0), *far = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *a = make_qp(cq), *b = make_qp(far);
  EXPECT(a && b && to_init(a) == 0 && to_init(b) == 0 && to_rtr(a, b->qp_num) == 0 && to_rts(a) == 0);
  EXPECT(post(a, IBV_WR_RDMA_WRITE, 1, mr->rkey) == 0); /* without an answer until the peer is ready */
  static char other[64];
  struct ibv_mr *gone = ibv_reg_mr(pd, other, sizeof other, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_sge sges[3] = {part(0, 8), part(8, 8), part(16, 8)};
  struct ibv_send_wr wr = {.wr_id = 2, .sg_list = sges, .num_sge = 3, .opcode = IBV_WR_SEND}, *bad = NULL;
  REFUSES(ibv_post_send(a, &wr, &bad), EINVAL);
  EXPECT(bad == &wr);
  wr.num_sge = 1;
  sges[0].lkey ^= 0x5A5A5A5A;
  REFUSES(ibv_post_send(a, &wr, &bad), EINVAL);
  sges[0] = part(sizeof memory - 4, 8);
  REFUSES(ibv_post_send(a, &wr, &bad), EINVAL);
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD; /* of 16 bytes */
  sges[0] = part(0, 16);
  REFUSES(ibv_post_send(a, &wr, &bad), EINVAL);
  EXPECT(gone && post(a, IBV_WR_RDMA_WRITE, 3, mr->rkey) == 0);
  wr = (struct ibv_send_wr){.wr_id = 4, .sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND};
  sges[0] = (struct ibv_sge){.addr = (uintptr_t)other, .length = sizeof other, .lkey = gone->lkey};
  EXPECT(ibv_post_send(a, &wr, &bad) == 0 && ibv_dereg_mr(gone) == 0);
  EXPECT(post(a, IBV_WR_RDMA_WRITE, 5, mr->rkey) == 0);
  EXPECT(to_rtr(b, a->qp_num) == 0 && to_rts(b) == 0);
  for (uint64_t id = 1; id <= 3; id += 2) {
    const struct ibv_wc wc = next_of(cq);
    EXPECT(wc.wr_id == id && wc.status == IBV_WC_SUCCESS);
  }
  struct ibv_wc wc = next_of(cq);
  EXPECT(wc.wr_id == 4 && wc.status == IBV_WC_LOC_PROT_ERR);
  wc = next_of(cq);
  EXPECT(wc.wr_id == 5 && wc.status == IBV_WC_WR_FLUSH_ERR);
  return 0;
}

/* Operations of the peer that the access flags of a QP do not grant. */
static int access_flags(void) {
  static const struct {
    enum ibv_wr_opcode opcode;
    int flag;
  } cases[] = {{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
               {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
               {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}};
  const int all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0), *far = ibv_create_cq(context, 64, NULL, NULL, 0);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    struct ibv_qp *a = make_qp(cq), *b = make_qp(far);
    EXPECT(a && b && connect_pair(a, b) == 0);
    struct ibv_sge sge = part(0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = cases[i].opcode,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = wr.wr.atomic.remote_addr = (uintptr_t)memory + 4096;
    wr.wr.rdma.rkey = mr->rkey;
    if (cases[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) wr.wr.atomic.rkey = mr->rkey;
    for (int granted = 1; granted >= 0; --granted) {
      struct ibv_qp_attr attr = {.qp_access_flags = granted ? cases[i].flag : all & ~cases[i].flag};
      EXPECT(ibv_modify_qp(b, &attr, IBV_QP_ACCESS_FLAGS) == 0);
      EXPECT(ibv_post_send(a, &wr, &bad) == 0);
      EXPECT(next_of(cq).status == (granted ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR));
    }
    EXPECT(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
  }
  return 0;
}

/* Memory that cannot be written may be registered for reading only. */
static int read_only(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(pages != MAP_FAILED);
  memset(pages, 'x', 2 * page);
  struct ibv_mr *whole = ibv_reg_mr(pd, pages, 2 * page, writes);
  EXPECT(whole && ibv_dereg_mr(whole) == 0);
  for (size_t i = 0; i < 2 * page; ++i) EXPECT(pages[i] == 'x');
  EXPECT(mprotect(pages + page, page, PROT_READ) == 0);
  IS_NULL(ibv_reg_mr(pd, pages, 2 * page, writes), EFAULT);
  IS_NULL(ibv_reg_mr(pd, pages + page, page, writes), EFAULT);
  IS_NULL(ibv_reg_mr(pd, pages + page - 1, 2, writes), EFAULT);
  struct ibv_mr *first = ibv_reg_mr(pd, pages, page, writes);
  struct ibv_mr *reading = ibv_reg_mr(pd, pages, 2 * page, IBV_ACCESS_REMOTE_READ);
  EXPECT(first && reading && ibv_dereg_mr(first) == 0 && ibv_dereg_mr(reading) == 0);
  return 0;
}

static struct ibv_comp_channel *channel;
static struct ibv_qp *own_qp;
static struct ibv_cq *own_cq;

static void *wait_for_event(void *unused) {
  struct ibv_cq *cq = NULL;
  void *user = NULL;
  ibv_get_cq_event(channel, &cq, &user);
  return unused;
}

static void *wait_for_async_event(void *unused) {
  struct ibv_async_event event;
  ibv_get_async_event(context, &event);
  return unused;
}

static void *work(void *unused) {
  struct ibv_wc wc;
  for (;;) {
    post(own_qp, IBV_WR_RDMA_WRITE, 1, mr->rkey);
    post(own_qp, IBV_WR_RDMA_READ, 1, mr->rkey);
    while (ibv_poll_cq(own_cq, 1, &wc) > 0) continue;
    pthread_testcancel();
  }
  return unused;
}

/* A thread may be cancelled while it calls, and takes no lock with it. */
static int cancelled(void) {
  void *result = NULL;
  pthread_t thread;
  channel = ibv_create_comp_channel(context);
  own_cq = ibv_create_cq(context, 64, NULL, channel, 0);
  own_qp = make_qp(own_cq);
  EXPECT(own_qp && to_init(own_qp) == 0 && to_rtr(own_qp, own_qp->qp_num) == 0 && to_rts(own_qp) == 0);
  for (int i = 0; i < 20; ++i) {
    EXPECT(pthread_create(&thread, NULL, i % 2 ? wait_for_event : wait_for_async_event, NULL) == 0);
    usleep(1000);
    EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
    usleep(500 + 37 * (useconds_t)i);
    EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  struct ibv_wc wc;
  int found = 0;
  for (int i = 0; i < 100000 && found >= 0; ++i) found = ibv_poll_cq(own_cq, 1, &wc);
  EXPECT(found == 0 && ibv_req_notify_cq(own_cq, 0) == 0);
  EXPECT(post(own_qp, IBV_WR_RDMA_WRITE, 7, mr->rkey) == 0);
  struct ibv_cq *from = NULL;
  void *user = NULL;
  EXPECT(ibv_get_cq_event(channel, &from, &user) == 0 && from == own_cq);
  EXPECT(next_of(own_cq).wr_id == 7);
  return 0;
}

static volatile int stop;

static void *open_and_close(void *list) {
  while (!stop) {
    struct ibv_context *other = ibv_open_device(((struct ibv_device **)list)[0]);
    struct ibv_pd *domain = ibv_alloc_pd(other);
    ibv_dealloc_pd(domain);
    ibv_close_device(other);
  }
  return NULL;
}

static int child_works(struct ibv_device *device) {
  struct ibv_wc wc;
  alarm(20); /* instead of a hang */
  if (ibv_poll_cq(own_cq, 1, &wc) != -EPERM || ibv_destroy_qp(own_qp) != EPERM) return 1;
  context = ibv_open_device(device);
  pd = context ? ibv_alloc_pd(context) : NULL;
  mr = pd ? ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
  struct ibv_cq *cq = mr ? ibv_create_cq(context, 64, NULL, NULL, 0) : NULL;
  struct ibv_qp *qp = cq ? make_qp(cq) : NULL;
  if (!qp || to_init(qp) || to_rtr(qp, qp->qp_num) || to_rts(qp)) return 2;
  if (post(qp, IBV_WR_RDMA_WRITE, 1, mr->rkey) || next_of(cq).status != IBV_WC_SUCCESS) return 3;
  return 0;
}

/* A child works on its own, whatever the threads of its parent were doing at the fork. */
static int forked_while_busy(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  pthread_t threads[2], worker;
  own_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  own_qp = make_qp(own_cq);
  EXPECT(own_qp && to_init(own_qp) == 0 && to_rtr(own_qp, own_qp->qp_num) == 0 && to_rts(own_qp) == 0);
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&threads[i], NULL, open_and_close, list) == 0);
  EXPECT(pthread_create(&worker, NULL, work, NULL) == 0);
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(child_works(list[0]));
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  return 0;
}

static void *list_devices(void *unused) {
  ibv_get_device_list(NULL);
  return unused;
}

static int child_lists(void) {
  alarm(20); /* instead of a hang */
  int count = 0;
  return ibv_get_device_list(&count) == NULL || count == 0;
}

static int forks_while_listing(int pause) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, list_devices, NULL) == 0);
  for (volatile int i = 0; i < pause; ++i) continue;
  const pid_t child = fork();
  if (child == 0) _exit(child_lists());
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return pthread_join(thread, NULL);
}

/* A fork while another thread makes the first list of devices, in processes that have made none. */
static int forked_at_first(void) {
  for (int i = 0; i < 200; ++i) {
    const pid_t fresh = fork();
    if (fresh == 0) _exit(forks_while_listing(i * 1000));
    int status = -1;
    EXPECT(waitpid(fresh, &status, 0) == fresh && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"held", held},           {"access_flags", access_flags},           {"read_only", read_only},
               {"cancelled", cancelled}, {"forked_while_busy", forked_while_busy}, {"forked_at_first", forked_at_first}};
  if (count != 2) return 2;
  if (strcmp(words[1], "forked_at_first") != 0 && open_first_device() != 0) return 2;
  alarm(120);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(words[1], cases[i].name) != 0) continue;
    if (cases[i].run() != 0) return 1;
    puts("as expected");
    return 0;
  }
  return 2;
}
