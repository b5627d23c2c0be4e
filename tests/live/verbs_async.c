/* Asynchronous events. Usage: verbs_async CASE. Prints the first expectation that fails. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "verbs_program.h"

enum { kLongMs = 20000 };

static struct ibv_cq *near_cq, *far_cq;

static int readable(struct ibv_context *of, int wait_ms) {
  struct pollfd fd = {.fd = of->async_fd, .events = POLLIN};
  return poll(&fd, 1, wait_ms) == 1;
}

/* The next event, of this type; it is not acknowledged yet. */
static int next_is(enum ibv_event_type type, struct ibv_async_event *event) {
  if (!readable(context, kLongMs) || ibv_get_async_event(context, event) != 0) return 0;
  if (event->event_type != type) printf("event: %s\n", ibv_event_type_str(event->event_type));
  return event->event_type == type;
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, struct ibv_srq *srq) {
  struct ibv_qp_init_attr init = qp_attributes(cq, srq);
  return ibv_create_qp(pd, &init);
}

static struct ibv_srq *make_srq(void) {
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = kDepth, .max_sge = 1}};
  return ibv_create_srq(pd, &attr);
}

static int misuse(void) {
  struct ibv_async_event event = {0};
  REFUSES(ibv_get_async_event(NULL, &event), -1);
  EXPECT(errno == EINVAL);
  REFUSES(ibv_get_async_event(context, NULL), -1);
  EXPECT(errno == EINVAL);
  EXPECT(!readable(context, 0));
  EXPECT(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
  REFUSES(ibv_get_async_event(context, &event), -1);
  EXPECT(errno == EAGAIN);
  ibv_ack_async_event(NULL);
  struct ibv_qp *qp = make_qp(near_cq, NULL);
  event.element.qp = qp;
  event.event_type = IBV_EVENT_QP_FATAL;
  ibv_ack_async_event(&event); /* never taken */
  REFUSES(ibv_destroy_qp(qp), 0);
  ibv_ack_async_event(&event); /* of an object that is gone */
  return 0;
}

static int limit(void) {
  struct ibv_srq *srq = make_srq();
  struct ibv_qp *from = make_qp(near_cq, NULL), *to = make_qp(far_cq, srq);
  struct ibv_srq_attr attr = {.srq_limit = 3};
  EXPECT(from && to && connect_pair(from, to) == 0);
  struct ibv_sge sge = part(1024, kBytes);
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  for (int i = 0; i < 4; ++i) EXPECT(ibv_post_srq_recv(srq, &wr, &bad) == 0);
  EXPECT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
  EXPECT(post(from, IBV_WR_SEND, 0, 0) == 0 && next_of(far_cq).status == IBV_WC_SUCCESS);
  EXPECT(!readable(context, 300)); /* three are left */
  struct ibv_async_event event;
  for (int i = 0; i < 2; ++i) EXPECT(post(from, IBV_WR_SEND, 0, 0) == 0 && next_of(far_cq).status == IBV_WC_SUCCESS);
  EXPECT(next_is(IBV_EVENT_SRQ_LIMIT_REACHED, &event) && event.element.srq == srq);
  EXPECT(!readable(context, 300)); /* once */
  EXPECT(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 0);
  ibv_ack_async_event(&event);
  EXPECT(ibv_destroy_qp(to) == 0 && ibv_destroy_srq(srq) == 0 && ibv_destroy_qp(from) == 0);
  return 0;
}

/* A QP that receives before it may send: one event, whichever transports of a pair receive. */
static int established(void) {
  struct ibv_qp *from = make_qp(near_cq, NULL), *to = make_qp(far_cq, NULL);
  struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
  struct ibv_async_event event;
  for (int round = 0; round < 2; ++round) {
    EXPECT(to_init(from) == 0 && to_init(to) == 0 && to_rtr(from, to->qp_num) == 0 && to_rts(from) == 0);
    EXPECT(to_rtr(to, from->qp_num) == 0);
    EXPECT(!readable(context, 0));
    for (uint64_t id = 0; id < 2; ++id) {
      EXPECT(post(from, IBV_WR_RDMA_WRITE, id, mr->rkey) == 0 && next_of(near_cq).status == IBV_WC_SUCCESS);
      EXPECT(post(from, IBV_WR_RDMA_READ, id, mr->rkey) == 0 && next_of(near_cq).status == IBV_WC_SUCCESS);
    }
    EXPECT(next_is(IBV_EVENT_COMM_EST, &event) && event.element.qp == to);
    ibv_ack_async_event(&event);
    EXPECT(to_rts(to) == 0);
    EXPECT(post(to, IBV_WR_RDMA_WRITE, 9, mr->rkey) == 0 && next_of(far_cq).status == IBV_WC_SUCCESS);
    EXPECT(!readable(context, 300)); /* once, and none of a QP in RTS */
    EXPECT(ibv_modify_qp(from, &reset, IBV_QP_STATE) == 0 && ibv_modify_qp(to, &reset, IBV_QP_STATE) == 0);
  }
  EXPECT(ibv_destroy_qp(from) == 0 && ibv_destroy_qp(to) == 0);
  return 0;
}

static volatile int acknowledged;

static void *acknowledge_late(void *event) {
  usleep(300000);
  acknowledged = 1;
  ibv_ack_async_event(event);
  return NULL;
}

/* A QP that has failed takes no more receives from the shared queue. Its destruction waits for acknowledgements. */
static int last_receive(void) {
  struct ibv_srq *srq = make_srq();
  struct ibv_qp *qp = make_qp(near_cq, srq), *own = make_qp(near_cq, NULL);
  EXPECT(qp && own && to_init(qp) == 0 && to_init(own) == 0 && to_error(own) == 0 && to_error(qp) == 0);
  struct ibv_async_event event;
  EXPECT(next_is(IBV_EVENT_QP_LAST_WQE_REACHED, &event) && event.element.qp == qp);
  EXPECT(!readable(context, 300)); /* once, and not of a QP with receives of its own */
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, acknowledge_late, &event) == 0);
  EXPECT(ibv_destroy_qp(qp) == 0 && acknowledged);
  EXPECT(pthread_join(thread, NULL) == 0 && ibv_destroy_srq(srq) == 0 && ibv_destroy_qp(own) == 0);
  return 0;
}

/* Events that nobody took go with their object. */
static int dropped(void) {
  struct ibv_srq *srq = make_srq();
  struct ibv_qp *one = make_qp(near_cq, srq), *other = make_qp(near_cq, srq);
  EXPECT(one && other && to_init(one) == 0 && to_init(other) == 0 && to_error(one) == 0);
  EXPECT(readable(context, kLongMs));
  EXPECT(ibv_destroy_qp(one) == 0 && !readable(context, 0));
  EXPECT(to_error(other) == 0);
  struct ibv_async_event event;
  EXPECT(next_is(IBV_EVENT_QP_LAST_WQE_REACHED, &event) && event.element.qp == other);
  ibv_ack_async_event(&event);
  EXPECT(ibv_destroy_qp(other) == 0 && ibv_destroy_srq(srq) == 0);
  return 0;
}

/* A QP that a peer's request fails: its program has no completion of that, and both transports of a pair end. */
static int refused(enum ibv_wr_opcode opcode, enum ibv_event_type expected) {
  struct ibv_qp *from = make_qp(near_cq, NULL), *to = make_qp(far_cq, NULL);
  struct ibv_context *second = ibv_open_device(context->device);
  EXPECT(second && from && to && connect_pair(from, to) == 0);
  const uint32_t rkey = expected == IBV_EVENT_QP_ACCESS_ERR ? mr->rkey ^ 0x5A5A5A5A : mr->rkey;
  EXPECT(post(from, opcode, 1, rkey) == 0);
  struct ibv_async_event event;
  EXPECT(next_is(expected, &event) && event.element.qp == to);
  const struct ibv_wc wc = next_of(near_cq);
  EXPECT(wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR);
  EXPECT(!readable(context, 300)); /* the requester has a completion */
  EXPECT(!readable(second, 0));    /* nothing of its own */
  struct ibv_wc flushed;
  EXPECT(post(to, IBV_WR_RDMA_WRITE, 2, mr->rkey) == 0 && post(to, IBV_WR_RDMA_WRITE, 3, mr->rkey) == 0);
  for (uint64_t id = 2; id < 4; ++id) {
    flushed = next_of(far_cq);
    EXPECT(flushed.wr_id == id && flushed.status == IBV_WC_WR_FLUSH_ERR);
  }
  ibv_ack_async_event(&event);
  EXPECT(ibv_destroy_qp(from) == 0 && ibv_destroy_qp(to) == 0 && ibv_close_device(second) == 0);
  return 0;
}

static int access_error(void) { return refused(IBV_WR_RDMA_WRITE, IBV_EVENT_QP_ACCESS_ERR); }
static int no_receive(void) { return refused(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_EVENT_QP_FATAL); }

/* After a reset a failed pair is whole again, whenever the thread of the events sees its failure. */
static int resets(void) {
  struct ibv_srq *srq = make_srq();
  struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
  struct ibv_qp *qp = make_qp(near_cq, srq);
  for (int i = 0; i < 300; ++i) {
    EXPECT(to_init(qp) == 0 && to_error(qp) == 0 && ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
    EXPECT(to_init(qp) == 0);
    struct ibv_async_event event;
    EXPECT(next_is(IBV_EVENT_QP_LAST_WQE_REACHED, &event));
    ibv_ack_async_event(&event);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    EXPECT(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_INIT);
    EXPECT(ibv_modify_qp(qp, &reset, IBV_QP_STATE) == 0);
  }
  EXPECT(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0);
  return 0;
}

static int forked(void) {
  struct ibv_srq *srq = make_srq();
  struct ibv_qp *qp = make_qp(near_cq, srq);
  EXPECT(qp && to_init(qp) == 0 && to_error(qp) == 0 && readable(context, kLongMs));
  struct ibv_async_event event;
  const pid_t child = fork();
  if (child == 0) _exit(ibv_get_async_event(context, &event) == -1 && errno == EPERM ? 0 : 1);
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(next_is(IBV_EVENT_QP_LAST_WQE_REACHED, &event));
  return 0;
}

/* The interface of the only plane disappears and returns; each context has both events. */
static int ports(void) {
  struct ibv_context *second = ibv_open_device(context->device);
  struct ibv_port_attr port;
  struct ibv_async_event event;
  EXPECT(second && system("ip link del plane0") == 0);
  EXPECT(next_is(IBV_EVENT_PORT_ERR, &event) && event.element.port_num == 1);
  ibv_ack_async_event(&event);
  EXPECT(ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_DOWN);
  EXPECT(system("ip link add plane0 type veth peer name far0 && ip addr add 10.77.1.1/24 dev plane0 && "
                "ip link set far0 up && ip link set plane0 up") == 0);
  EXPECT(next_is(IBV_EVENT_PORT_ACTIVE, &event));
  EXPECT(ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
  EXPECT(ibv_get_async_event(second, &event) == 0 && event.event_type == IBV_EVENT_PORT_ERR);
  EXPECT(ibv_get_async_event(second, &event) == 0 && event.event_type == IBV_EVENT_PORT_ACTIVE);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"misuse", misuse}, {"limit", limit}, {"last_receive", last_receive}, {"dropped", dropped},
               {"access_error", access_error}, {"no_receive", no_receive}, {"resets", resets}, {"forked", forked},
               {"ports", ports}, {"established", established}};
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
