/* Addresses, ids and connections of the test programs of the connection manager. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      printf("%s line %d: %s is false\n", __FILE__, __LINE__, #condition);           \
      return 1;                                                                      \
    }                                                                                \
  } while (0)
#define REFUSES(call, error)                                                              \
  do {                                                                                    \
    errno = 0;                                                                            \
    const int got = (call);                                                               \
    if (got != -1 || errno != (error)) {                                                  \
      printf("line %d: %s: %d, errno %d, expected %s\n", __LINE__, #call, got, errno, #error); \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

static struct rdma_event_channel *servers, *clients;
static struct sockaddr_storage v4, v6;

/* The next event, which has to be of this type; the caller acknowledges it. */
static inline struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type) {
  struct rdma_cm_event *event = NULL;
  if (rdma_get_cm_event(channel, &event) != 0) {
    printf("no event, expected %s\n", rdma_event_str(type));
    return NULL;
  }
  if (event->event == type) return event;
  printf("%s, status %d; expected %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
  return NULL;
}

static inline int passes(struct rdma_event_channel *channel, enum rdma_cm_event_type type) {
  struct rdma_cm_event *event = next(channel, type);
  return event != NULL && rdma_ack_cm_event(event) == 0;
}

static inline struct rdma_cm_id *listener_at(struct sockaddr_storage *address) {
  struct rdma_cm_id *id = NULL;
  if (rdma_create_id(servers, &id, &servers, RDMA_PS_TCP) != 0) return NULL;
  if (rdma_bind_addr(id, (struct sockaddr *)address) != 0 || rdma_listen(id, 8) != 0) return NULL;
  return id;
}

static inline void set_port(struct sockaddr_storage *address, uint16_t port) {
  ((struct sockaddr_in *)address)->sin_port = port; /* at the same place in both families */
}

static inline int add_qp(struct rdma_cm_id *id) {
  struct ibv_qp_init_attr init = {
      .qp_type = IBV_QPT_RC,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  return rdma_create_qp(id, NULL, &init);
}

/* A client with a QP and a route. */
static inline struct rdma_cm_id *client_of(struct sockaddr_storage address, uint16_t port) {
  struct rdma_cm_id *id = NULL;
  set_port(&address, port);
  if (rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) != 0) return NULL;
  if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000) != 0) return NULL;
  if (!passes(clients, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 1000) != 0) return NULL;
  if (!passes(clients, RDMA_CM_EVENT_ROUTE_RESOLVED)) return NULL;
  return add_qp(id) == 0 ? id : NULL;
}

static inline struct rdma_conn_param with_data(const void *data, uint8_t bytes) {
  struct rdma_conn_param param = {.private_data = data, .private_data_len = bytes, .responder_resources = 3,
                                  .initiator_depth = 2, .retry_count = 7, .rnr_retry_count = 6};
  return param;
}

static inline void drop(struct rdma_cm_id *id) {
  if (id->qp != NULL) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

/* One message from the client to the server over connected ids. */
static inline int exchange(struct rdma_cm_id *client, struct rdma_cm_id *server) {
  static char sent[64], received[64];
  struct ibv_wc wc;
  strcpy(sent, "over MRC");
  struct ibv_mr *from = rdma_reg_msgs(client, sent, sizeof sent), *to = rdma_reg_msgs(server, received, sizeof received);
  EXPECT(from != NULL && to != NULL);
  EXPECT(rdma_post_recv(server, NULL, received, sizeof received, to) == 0);
  EXPECT(rdma_post_send(client, NULL, sent, sizeof sent, from, IBV_SEND_SIGNALED) == 0);
  EXPECT(rdma_get_send_comp(client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
  EXPECT(rdma_get_recv_comp(server, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
  EXPECT(strcmp(received, sent) == 0);
  return rdma_dereg_mr(from) | rdma_dereg_mr(to);
}

static inline void set_addresses(void) {
  struct sockaddr_in *four = (struct sockaddr_in *)&v4;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)&v6;
  four->sin_family = AF_INET;
  four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  six->sin6_family = AF_INET6;
  six->sin6_addr = in6addr_loopback;
}
