/* Two processes on one interface. Usage: verbs_processes CASE. Prints the first expectation that fails. */
#define _GNU_SOURCE
#include "verbs_program.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct end {
  uint32_t number, rkey;
  uint64_t address;
};

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct end peer;

/* Opens the device, which no process has done before the fork, and connects to the process at the other end. */
static int join(int to_peer) {
  EXPECT(open_first_device() == 0);
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp_init_attr init = qp_attributes(cq, NULL);
  qp = ibv_create_qp(pd, &init);
  EXPECT(qp != NULL && to_init(qp) == 0);
  const struct end own = {qp->qp_num, mr->rkey, (uintptr_t)memory};
  EXPECT(write(to_peer, &own, sizeof own) == sizeof own && read(to_peer, &peer, sizeof peer) == sizeof peer);
  EXPECT(to_rtr(qp, peer.number) == 0 && to_rts(qp) == 0);
  char ready = 0;
  EXPECT(write(to_peer, &ready, 1) == 1 && read(to_peer, &ready, 1) == 1);
  return 0;
}

static int write_to_peer(uint64_t id) {
  struct ibv_sge sge = part(0, kBytes);
  struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.wr.rdma.remote_addr = peer.address + 4096;
  wr.wr.rdma.rkey = peer.rkey;
  return ibv_post_send(qp, &wr, &bad);
}

static pid_t start(int *to_peer, int (*run)(int)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return -1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    _exit(run(ends[1]));
  }
  close(ends[1]);
  *to_peer = ends[0];
  return child;
}

/* Writes its own letter to the peer, and expects the peer's. */
static int exchange(int to_peer, char own, char other) {
  EXPECT(join(to_peer) == 0 && peer.number != qp->qp_num);
  memset(memory, own, kBytes);
  for (uint64_t id = 0; id < 100; ++id) {
    EXPECT(write_to_peer(id) == 0);
    const struct ibv_wc wc = next_of(cq);
    EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == id);
  }
  char done = 0;
  EXPECT(write(to_peer, &done, 1) == 1 && read(to_peer, &done, 1) == 1);
  for (int i = 0; i < kBytes; ++i) EXPECT(memory[4096 + i] == other);
  return 0;
}

static int exchange_as_child(int to_peer) { return exchange(to_peer, 'c', 'p'); }

static int one_interface(void) {
  int to_peer = -1, status = -1;
  const pid_t child = start(&to_peer, exchange_as_child);
  EXPECT(child > 0 && exchange(to_peer, 'p', 'c') == 0);
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 0;
}

enum { kLastMessages = 16, kLastRounds = 10 };

/* Polls its last receive completion, and ends as programs do that destroy nothing. */
static int receive_and_end(int to_peer) {
  if (join(to_peer)) return 1;
  struct ibv_sge sge = part(1024, kBytes);
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  for (int i = 0; i < kLastMessages; ++i) EXPECT(ibv_post_recv(qp, &wr, &bad) == 0);
  const char ready = 0;
  EXPECT(write(to_peer, &ready, 1) == 1);
  for (int i = 0; i < kLastMessages; ++i) EXPECT(next_of(cq).status == IBV_WC_SUCCESS);
  exit(0);
}

static int send_all(int to_peer) {
  char ready = 0;
  if (join(to_peer)) return 1;
  EXPECT(read(to_peer, &ready, 1) == 1);
  for (uint64_t id = 0; id < kLastMessages; ++id) {
    EXPECT(post(qp, IBV_WR_SEND, id, 0) == 0);
    EXPECT(next_of(cq).status == IBV_WC_SUCCESS);
  }
  return 0;
}

static int last_receive(void) {
  for (int round = 0; round < kLastRounds; ++round) {
    int ends[2], status = -1;
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    for (int end = 0; end < 2; ++end) {
      if (fork() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[1 - end]);
      const int failed = end == 0 ? receive_and_end(ends[end]) : send_all(ends[end]);
      fflush(stdout);
      _exit(failed);
    }
    close(ends[0]);
    close(ends[1]);
    for (int end = 0; end < 2; ++end) {
      EXPECT(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
  }
  return 0;
}

static int stay(int to_peer) {
  if (join(to_peer)) return 1;
  for (;;) pause();
}

/* The peer is killed between writes: what was posted fails, in order, and so does what is posted later. */
static int killed(void) {
  int to_peer = -1, status = -1;
  const pid_t child = start(&to_peer, stay);
  EXPECT(child > 0 && join(to_peer) == 0);
  uint64_t posted = 0, completed = 0;
  struct ibv_wc wc;
  do {
    while (posted - completed < kDepth) EXPECT(write_to_peer(posted++) == 0);
    wc = next_of(cq);
    EXPECT(wc.wr_id == completed++);
    if (completed == 200) EXPECT(kill(child, SIGKILL) == 0);
  } while (wc.status == IBV_WC_SUCCESS);
  EXPECT(completed > 200 && wc.status == IBV_WC_RETRY_EXC_ERR);
  while (completed < posted) {
    wc = next_of(cq);
    EXPECT(wc.wr_id == completed++ && wc.status == IBV_WC_WR_FLUSH_ERR);
  }
  EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  EXPECT(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR);
  EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"one_interface", one_interface}, {"last_receive", last_receive}, {"killed", killed}};
  for (size_t i = 0; count == 2 && i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(words[1], cases[i].name) != 0) continue;
    if (cases[i].run() != 0) return 1;
    printf("as expected\n");
    return 0;
  }
  return 2;
}
