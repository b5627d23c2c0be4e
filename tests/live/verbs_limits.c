/* Limits of a process: many QPs, open files, and the longest messages. Usage: verbs_limits CASE. Prints the first expectation that fails. */
#define _GNU_SOURCE
#include "verbs_program.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { kPairs = 256, kPart = 16 };

static struct ibv_qp *make_qp(struct ibv_cq *cq) {
  struct ibv_qp_init_attr init = qp_attributes(cq, NULL);
  return ibv_create_qp(pd, &init);
}

static enum ibv_mtu mtu_of_port(void) {
  struct ibv_port_attr port = {0};
  return ibv_query_port(context, 1, &port) == 0 ? port.active_mtu : 0;
}

static int next_succeeds(struct ibv_cq *cq) { return next_of(cq).status == IBV_WC_SUCCESS; }

static void fill(char *part, int pair, int byte) { memset(part, (pair * 7 + byte) % 251 + 1, kPart); }

/* 512 QPs write to each other all at once, each in both directions and to a place of its own. */
static int many_qps(void) {
  static char from[2 * kPairs * kPart], to[2 * kPairs * kPart];
  static struct ibv_qp *qps[2 * kPairs];
  static int rounds_of[2 * kPairs];
  struct ibv_cq *cq = ibv_create_cq(context, 2 * kPairs, NULL, NULL, 0);
  struct ibv_mr *source = ibv_reg_mr(pd, from, sizeof from, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr *sink = ibv_reg_mr(pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  EXPECT(cq && source && sink);
  for (int i = 0; i < 2 * kPairs; ++i) EXPECT((qps[i] = make_qp(cq)) != NULL);
  for (int i = 0; i < 2 * kPairs; i += 2) EXPECT(connect_pair(qps[i], qps[i + 1]) == 0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2 * kPairs; ++i) {
      fill(from + i * kPart, i, round);
      struct ibv_sge sge = {.addr = (uintptr_t)from + (uint64_t)i * kPart, .length = kPart, .lkey = source->lkey};
      struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                               .send_flags = IBV_SEND_SIGNALED}, *bad;
      wr.wr.rdma.remote_addr = (uintptr_t)to + (uint64_t)i * kPart;
      wr.wr.rdma.rkey = sink->rkey;
      EXPECT(ibv_post_send(qps[i], &wr, &bad) == 0);
    }
    for (int i = 0; i < 2 * kPairs; ++i) {
      const struct ibv_wc wc = next_of(cq);
      EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id < 2 * kPairs && wc.qp_num == qps[wc.wr_id]->qp_num);
      EXPECT(rounds_of[wc.wr_id]++ == round);
    }
    EXPECT(memcmp(from, to, sizeof from) == 0);
  }
  for (int i = 0; i < 2 * kPairs; ++i) EXPECT(ibv_destroy_qp(qps[i]) == 0);
  EXPECT(ibv_destroy_cq(cq) == 0);
  return 0;
}

static int open_files(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder != NULL && readdir(folder) != NULL) ++count;
  closedir(folder);
  return count - 3; /* without ".", ".." and the folder itself */
}

static int allow_files(rlim_t count) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return -1;
  limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit);
}

/* Every number of files that is left lets a device be opened, or refuses it with the errno and keeps nothing open. */
static int files_at_open(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  const int before = open_files();
  int refused = 0;
  for (int left = 0;; ++left) {
    EXPECT(left < 200 && allow_files((rlim_t)(before + left)) == 0);
    errno = 0;
    context = ibv_open_device(devices[0]);
    const int error = errno;
    EXPECT(allow_files(1024) == 0);
    if (context != NULL) break;
    EXPECT(error == EMFILE);
    EXPECT(open_files() == before);
    ++refused;
  }
  const enum ibv_mtu mtu = mtu_of_port();
  EXPECT(refused > 0 && ibv_close_device(context) == 0 && open_first_device() == 0);
  EXPECT(mtu_of_port() == mtu); /* the interface was measured, with the last file as well */
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *a = make_qp(cq), *b = make_qp(cq);
  EXPECT(a && b && connect_pair(a, b) == 0 && post(a, IBV_WR_RDMA_WRITE, 1, mr->rkey) == 0);
  EXPECT(next_succeeds(cq));
  return 0;
}

/* Objects that need a file are refused without one, those that need none are not, and existing ones work on. */
static int files_of_objects(void) {
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *a = make_qp(cq), *b = make_qp(cq);
  EXPECT(a && b && connect_pair(a, b) == 0);
  const int before = open_files();
  EXPECT(allow_files(3) == 0);
  for (int i = 0; i < 3; ++i) {
    IS_NULL(ibv_create_comp_channel(context), EMFILE);
    IS_NULL(ibv_create_cq(context, 64, NULL, NULL, 0), EMFILE);
  }
  struct ibv_qp *c = make_qp(cq), *d = make_qp(cq);
  EXPECT(c && d && post(a, IBV_WR_RDMA_WRITE, 1, mr->rkey) == 0 && next_succeeds(cq));
  EXPECT(allow_files(1024) == 0 && open_files() == before);
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  struct ibv_cq *later = channel ? ibv_create_cq(context, 64, NULL, channel, 0) : NULL;
  EXPECT(later && connect_pair(c, d) == 0 && post(c, IBV_WR_RDMA_WRITE, 2, mr->rkey) == 0 && next_succeeds(cq));
  EXPECT(ibv_destroy_cq(later) == 0 && ibv_destroy_comp_channel(channel) == 0);
  return 0;
}

enum { kLong = 1 << 30, kWords = kLong / sizeof(uint64_t) };

static uint64_t word_of(uint64_t round, uint64_t index) { return (round << 32 | index) * 0x9E3779B97F4A7C15U; }

/* A message of 1 GiB by each operation; every word of it is checked. */
static int gibibyte(void) {
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};
  uint64_t *all = mmap(NULL, 2UL * kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(all != MAP_FAILED);
  struct ibv_mr *both = ibv_reg_mr(pd, all, 2UL * kLong, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                             IBV_ACCESS_REMOTE_READ);
  struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0), *far_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp *near = make_qp(cq), *far = make_qp(far_cq);
  EXPECT(both && near && far && connect_pair(near, far) == 0);
  for (uint64_t round = 0; round < sizeof opcodes / sizeof *opcodes; ++round) {
    const int reads = opcodes[round] == IBV_WR_RDMA_READ;
    uint64_t *from = reads ? all + kWords : all, *to = reads ? all : all + kWords;
    for (uint64_t i = 0; i < kWords; ++i) from[i] = word_of(round, i);
    memset(to, 0, kLong);
    struct ibv_sge sge = {.addr = (uintptr_t)all, .length = kLong, .lkey = both->lkey};
    struct ibv_sge sink = {.addr = (uintptr_t)to, .length = kLong, .lkey = both->lkey};
    struct ibv_recv_wr receive = {.sg_list = &sink, .num_sge = 1}, *bad_receive;
    struct ibv_send_wr wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[round],
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)(all + kWords);
    wr.wr.rdma.rkey = both->rkey;
    if (opcodes[round] == IBV_WR_SEND) EXPECT(ibv_post_recv(far, &receive, &bad_receive) == 0);
    EXPECT(ibv_post_send(near, &wr, &bad) == 0);
    const struct ibv_wc sent = next_of(cq);
    EXPECT(sent.status == IBV_WC_SUCCESS && sent.wr_id == round);
    if (opcodes[round] == IBV_WR_SEND) {
      const struct ibv_wc received = next_of(far_cq);
      EXPECT(received.status == IBV_WC_SUCCESS && received.byte_len == kLong);
    }
    for (uint64_t i = 0; i < kWords; ++i) EXPECT(to[i] == word_of(round, i));
  }
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
    int opens;
  } cases[] = {{"many_qps", many_qps, 1}, {"files_at_open", files_at_open, 0}, {"files_of_objects", files_of_objects, 1},
               {"gibibyte", gibibyte, 1}};
  for (size_t i = 0; count == 2 && i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(words[1], cases[i].name) != 0) continue;
    if (cases[i].opens && open_first_device()) return 2;
    if (cases[i].run() != 0) return 1;
    printf("as expected\n");
    return 0;
  }
  return 2;
}
