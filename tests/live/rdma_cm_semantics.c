/* What the calls of the connection manager promise. Usage: rdma_cm_semantics CASE. Prints the first expectation that
   fails. */
#include "rdma_cm_program.h"

static int connect_both(struct sockaddr_storage address) {
  struct rdma_cm_id *listener = listener_at(&address);
  EXPECT(listener != NULL && rdma_get_src_port(listener) != 0);
  struct rdma_cm_id *client = client_of(address, rdma_get_src_port(listener));
  EXPECT(client != NULL && client->verbs != NULL && client->port_num == 1 && client->route.num_paths == 1);
  struct rdma_conn_param asked = with_data("question", 9), answered = with_data("answer", 7);
  EXPECT(rdma_connect(client, &asked) == 0);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL && event->listen_id == listener && event->id->context == &servers);
  EXPECT(event->param.conn.private_data_len == 9 && strcmp(event->param.conn.private_data, "question") == 0);
  EXPECT(event->param.conn.responder_resources == 2 && event->param.conn.initiator_depth == 3);
  EXPECT(event->param.conn.rnr_retry_count == 6 && event->param.conn.qp_num == client->qp->qp_num);
  struct rdma_cm_id *server = event->id;
  EXPECT(rdma_get_src_port(server) == rdma_get_src_port(listener));
  EXPECT(rdma_get_dst_port(server) == rdma_get_src_port(client));
  EXPECT(rdma_get_peer_addr(server)->sa_family == address.ss_family);
  EXPECT(rdma_ack_cm_event(event) == 0 && add_qp(server) == 0 && rdma_accept(server, &answered) == 0);
  event = next(clients, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT(event != NULL && event->id == client);
  EXPECT(event->param.conn.private_data_len == 7 && strcmp(event->param.conn.private_data, "answer") == 0);
  EXPECT(rdma_ack_cm_event(event) == 0 && passes(servers, RDMA_CM_EVENT_ESTABLISHED));
  EXPECT(exchange(client, server) == 0);
  EXPECT(rdma_disconnect(client) == 0);
  EXPECT(passes(servers, RDMA_CM_EVENT_DISCONNECTED) && passes(clients, RDMA_CM_EVENT_DISCONNECTED));
  EXPECT(rdma_disconnect(server) == 0);
  drop(client);
  drop(server);
  return rdma_destroy_id(listener);
}

static int accept_case(void) { return connect_both(v4); }
static int ipv6(void) { return connect_both(v6); }

static int reject(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client;
  EXPECT(listener != NULL);
  EXPECT((client = client_of(v4, rdma_get_src_port(listener))) != NULL && rdma_connect(client, NULL) == 0);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL && event->param.conn.private_data_len == 0);
  struct rdma_cm_id *server = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0);
  REFUSES(rdma_reject(server, "x", 149), EINVAL);
  EXPECT(rdma_reject(server, "no, thanks", 11) == 0);
  event = next(clients, RDMA_CM_EVENT_REJECTED);
  EXPECT(event != NULL && event->status == 28);
  EXPECT(event->param.conn.private_data_len == 11 && strcmp(event->param.conn.private_data, "no, thanks") == 0);
  EXPECT(rdma_ack_cm_event(event) == 0);
  drop(client);
  drop(server);
  return rdma_destroy_id(listener);
}

static int closed(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client;
  EXPECT(listener != NULL);
  const uint16_t port = rdma_get_src_port(listener);
  EXPECT(rdma_destroy_id(listener) == 0);
  EXPECT((client = client_of(v4, port)) != NULL && rdma_connect(client, NULL) == 0);
  struct rdma_cm_event *event = next(clients, RDMA_CM_EVENT_REJECTED);
  EXPECT(event != NULL && event->status == 8 && rdma_ack_cm_event(event) == 0);
  REFUSES(rdma_connect(client, NULL), EINVAL);
  drop(client);
  return 0;
}

/* The address is of no use as a destination, whatever the routes of this host. */
static int unreachable(void) {
  struct rdma_cm_id *id;
  struct sockaddr_storage address = v4;
  ((struct sockaddr_in *)&address)->sin_addr.s_addr = inet_addr("255.255.255.255");
  set_port(&address, htons(9));
  EXPECT(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000) == 0);
  struct rdma_cm_event *event = next(clients, RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT(event != NULL && event->status < 0 && rdma_ack_cm_event(event) == 0);
  EXPECT(rdma_destroy_id(id) == 0);
  EXPECT(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0);
  ((struct sockaddr_in *)&address)->sin_addr.s_addr = inet_addr("192.0.2.1");
  REFUSES(rdma_bind_addr(id, (struct sockaddr *)&address), EADDRNOTAVAIL);
  return rdma_destroy_id(id);
}

static int migrate(void) {
  struct rdma_event_channel *other = rdma_create_event_channel();
  struct rdma_cm_id *id;
  struct sockaddr_storage address = v4;
  set_port(&address, htons(9));
  EXPECT(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000) == 0);
  EXPECT(rdma_migrate_id(id, other) == 0 && id->channel == other);
  struct pollfd old = {.fd = clients->fd, .events = POLLIN}, new = {.fd = other->fd, .events = POLLIN};
  EXPECT(poll(&old, 1, 0) == 0 && poll(&new, 1, 0) == 1);
  EXPECT(passes(other, RDMA_CM_EVENT_ADDR_RESOLVED) && poll(&new, 1, 0) == 0);
  EXPECT(rdma_migrate_id(id, NULL) == 0 && id->channel != other);
  EXPECT(rdma_resolve_route(id, 1000) == 0 && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT(rdma_connect(id, NULL) == -1 && errno == EINVAL); /* no QP */
  EXPECT(rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(other);
  return 0;
}

static int listeners(void) {
  struct rdma_cm_id *first = listener_at(&v4), *second = listener_at(&v4), *third, *client;
  EXPECT(first != NULL && second != NULL && rdma_get_src_port(first) != rdma_get_src_port(second));
  struct sockaddr_storage taken = v4;
  set_port(&taken, rdma_get_src_port(first));
  EXPECT(rdma_create_id(servers, &third, NULL, RDMA_PS_TCP) == 0);
  REFUSES(rdma_bind_addr(third, (struct sockaddr *)&taken), EADDRINUSE);
  EXPECT(rdma_destroy_id(third) == 0);
  EXPECT((client = client_of(v4, rdma_get_src_port(second))) != NULL && rdma_connect(client, NULL) == 0);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL && event->listen_id == second);
  struct rdma_cm_id *server = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0 && rdma_destroy_id(server) == 0); /* instead of an answer */
  event = next(clients, RDMA_CM_EVENT_REJECTED);
  EXPECT(event != NULL && event->status == 28 && rdma_ack_cm_event(event) == 0);
  drop(client);
  return rdma_destroy_id(first) | rdma_destroy_id(second);
}

static int destroyed(void) {
  struct rdma_cm_id *id, *out;
  struct rdma_event_channel *channel = rdma_create_event_channel();
  struct rdma_cm_event *event;
  EXPECT(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0 && rdma_destroy_id(id) == 0);
  REFUSES(rdma_destroy_id(id), EINVAL);
  REFUSES(rdma_connect(id, NULL), EINVAL);
  REFUSES(rdma_listen(id, 1), EINVAL);
  REFUSES(rdma_disconnect(id), EINVAL);
  REFUSES(rdma_migrate_id(id, NULL), EINVAL);
  REFUSES(rdma_destroy_id(NULL), EINVAL);
  REFUSES(rdma_bind_addr(NULL, (struct sockaddr *)&v4), EINVAL);
  REFUSES(rdma_accept(NULL, NULL), EINVAL);
  REFUSES(rdma_reject(NULL, NULL, 0), EINVAL);
  REFUSES(rdma_establish(NULL), EINVAL);
  REFUSES(rdma_get_request(NULL, &out), EINVAL);
  REFUSES(rdma_create_id(clients, NULL, NULL, RDMA_PS_TCP), EINVAL);
  REFUSES(rdma_create_id(clients, &id, NULL, RDMA_PS_UDP), EPROTONOSUPPORT);
  REFUSES(rdma_get_cm_event(NULL, &event), EINVAL);
  REFUSES(rdma_get_cm_event(clients, NULL), EINVAL);
  REFUSES(rdma_ack_cm_event(NULL), EINVAL);
  REFUSES(rdma_join_multicast(NULL, NULL, NULL), EOPNOTSUPP);
  rdma_destroy_event_channel(channel);
  REFUSES(rdma_get_cm_event(channel, &event), EINVAL);
  REFUSES(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), EINVAL);
  rdma_destroy_event_channel(NULL);
  rdma_destroy_qp(NULL);
  rdma_destroy_ep(NULL);
  EXPECT(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0);
  REFUSES(rdma_bind_addr(id, NULL), EINVAL);
  REFUSES(rdma_resolve_addr(id, NULL, NULL, 1000), EINVAL);
  REFUSES(rdma_resolve_route(id, 1000), EINVAL);
  REFUSES(rdma_create_qp(id, NULL, NULL), EINVAL);
  REFUSES(add_qp(id), EINVAL); /* no device yet */
  REFUSES(rdma_disconnect(id), EINVAL);
  return rdma_destroy_id(id);
}

static int polled(void) {
  struct rdma_cm_id *id;
  struct rdma_cm_event *event;
  struct pollfd ready = {.fd = clients->fd, .events = POLLIN};
  struct sockaddr_storage address = v4;
  set_port(&address, htons(9));
  EXPECT(fcntl(clients->fd, F_SETFL, fcntl(clients->fd, F_GETFL) | O_NONBLOCK) == 0);
  REFUSES(rdma_get_cm_event(clients, &event), EAGAIN);
  EXPECT(poll(&ready, 1, 0) == 0 && rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000) == 0 && rdma_resolve_route(id, 1000) == 0);
  EXPECT(poll(&ready, 1, -1) == 1 && passes(clients, RDMA_CM_EVENT_ADDR_RESOLVED));
  EXPECT(poll(&ready, 1, -1) == 1); /* the second event */
  EXPECT(rdma_destroy_id(id) == 0); /* which goes with its id */
  EXPECT(poll(&ready, 1, 0) == 0);
  REFUSES(rdma_get_cm_event(clients, &event), EAGAIN);
  return 0;
}

/* The client gives up before the server has accepted, once before and once after the server knows. */
static int abandoned(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client;
  EXPECT(listener != NULL);
  EXPECT((client = client_of(v4, rdma_get_src_port(listener))) != NULL && rdma_connect(client, NULL) == 0);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL);
  struct rdma_cm_id *server = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0);
  drop(client);
  EXPECT(passes(servers, RDMA_CM_EVENT_REJECTED));
  REFUSES(rdma_accept(server, NULL), ECONNRESET);
  drop(server);
  return rdma_destroy_id(listener);
}

/* The process of the client ends without a word. */
static int died(void) {
  int pipes[2];
  uint16_t port;
  EXPECT(pipe(pipes) == 0);
  const pid_t child = fork(); /* before any call of the library in this process */
  servers = rdma_create_event_channel();
  clients = rdma_create_event_channel();
  if (child == 0) {
    EXPECT(read(pipes[0], &port, sizeof port) == sizeof port);
    struct rdma_cm_id *client = client_of(v4, port);
    EXPECT(client != NULL && rdma_connect(client, NULL) == 0 && passes(clients, RDMA_CM_EVENT_ESTABLISHED));
    _exit(0);
  }
  struct rdma_cm_id *listener = listener_at(&v4);
  EXPECT(listener != NULL);
  port = rdma_get_src_port(listener);
  EXPECT(write(pipes[1], &port, sizeof port) == sizeof port);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL);
  struct rdma_cm_id *server = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0 && add_qp(server) == 0 && rdma_accept(server, NULL) == 0);
  EXPECT(passes(servers, RDMA_CM_EVENT_ESTABLISHED) && passes(servers, RDMA_CM_EVENT_DISCONNECTED));
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  drop(server);
  return rdma_destroy_id(listener);
}

/* The program makes its QPs itself, and confirms the reply itself; one server is notified before that. */
static int without_qp(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client, *server;
  EXPECT(listener != NULL && (client = client_of(v4, rdma_get_src_port(listener))) != NULL);
  struct ibv_qp *own = client->qp;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
  struct rdma_conn_param param = with_data(NULL, 0);
  int mask = 0;
  client->qp = NULL;
  param.qp_num = own->qp_num;
  REFUSES(rdma_init_qp_attr(client, &attr, &mask), EINVAL);
  EXPECT(rdma_connect(client, &param) == 0);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL && event->param.conn.qp_num == own->qp_num);
  server = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0 && add_qp(server) == 0);
  REFUSES(rdma_notify(server, IBV_EVENT_COMM_EST), EINVAL);
  EXPECT(rdma_accept(server, NULL) == 0);
  EXPECT(passes(clients, RDMA_CM_EVENT_CONNECT_RESPONSE));
  EXPECT(rdma_init_qp_attr(client, &attr, &mask) == 0 && attr.dest_qp_num == server->qp->qp_num);
  EXPECT(ibv_modify_qp(own, &attr, mask) == 0);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT(rdma_init_qp_attr(client, &attr, &mask) == 0 && ibv_modify_qp(own, &attr, mask) == 0);
  REFUSES(rdma_notify(server, IBV_EVENT_SQ_DRAINED), EINVAL);
  EXPECT(rdma_notify(server, IBV_EVENT_COMM_EST) == 0 && passes(servers, RDMA_CM_EVENT_ESTABLISHED));
  EXPECT(rdma_establish(client) == 0);
  client->qp = own;
  EXPECT(exchange(client, server) == 0);
  REFUSES(rdma_establish(client), EINVAL);
  EXPECT(rdma_destroy_id(listener) == 0); /* connections live on */
  drop(server);
  EXPECT(passes(clients, RDMA_CM_EVENT_DISCONNECTED));
  drop(client);
  return 0;
}

static int options(void) {
  struct rdma_cm_id *id;
  struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found = NULL;
  uint8_t byte = 32;
  int on = 1, count = 0;
  EXPECT(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP) == 0);
  REFUSES(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof on), EINVAL);
  REFUSES(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), EINVAL);
  REFUSES(rdma_set_option(id, RDMA_OPTION_ID, 99, &on, sizeof on), ENOSYS);
  REFUSES(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, NULL, sizeof on), EINVAL);
  EXPECT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1) == 0);
  EXPECT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on) == 0);
  EXPECT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on) == 0);
  EXPECT(rdma_bind_addr(id, (struct sockaddr *)&v4) == 0);
  REFUSES(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), EINVAL);
  REFUSES(rdma_bind_addr(id, (struct sockaddr *)&v4), EINVAL);
  EXPECT(rdma_destroy_id(id) == 0);
  struct ibv_context **devices = rdma_get_devices(&count);
  EXPECT(devices != NULL && count == 2 && devices[count] == NULL);
  rdma_free_devices(devices);
  REFUSES(rdma_getaddrinfo(NULL, NULL, NULL, &found), EINVAL);
  /* A loopback address that no plane has is bound without a device. */
  struct rdma_cm_id *nowhere;
  struct sockaddr_in other = *(struct sockaddr_in *)&v4;
  other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 2);
  EXPECT(rdma_create_id(servers, &nowhere, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_bind_addr(nowhere, (struct sockaddr *)&other) == 0 && nowhere->verbs == NULL);
  EXPECT(rdma_listen(nowhere, 1) == 0 && rdma_destroy_id(nowhere) == 0);
  /* Without names the result has the addresses of the hints. */
  struct rdma_addrinfo known = {.ai_port_space = RDMA_PS_TCP, .ai_dst_addr = (struct sockaddr *)&v4,
                                .ai_dst_len = sizeof(struct sockaddr_in)};
  EXPECT(rdma_getaddrinfo(NULL, NULL, &known, &found) == 0 && found->ai_src_addr == NULL && found->ai_next == NULL);
  EXPECT(found->ai_dst_len == known.ai_dst_len && memcmp(found->ai_dst_addr, &v4, known.ai_dst_len) == 0);
  rdma_freeaddrinfo(found);
  EXPECT(rdma_getaddrinfo("no such name", "7", NULL, &found) != 0);
  EXPECT(rdma_getaddrinfo("127.0.0.1", "7174", &hints, &found) == 0 && found->ai_dst_addr == NULL);
  EXPECT(found->ai_src_len == sizeof(struct sockaddr_in) && found->ai_qp_type == IBV_QPT_RC);
  EXPECT(((struct sockaddr_in *)found->ai_src_addr)->sin_port == htons(7174));
  rdma_freeaddrinfo(found);
  EXPECT(strcmp(rdma_event_str(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED") == 0);
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"accept", accept_case}, {"reject", reject},       {"closed", closed},       {"unreachable", unreachable},
               {"migrate", migrate},    {"listeners", listeners}, {"destroyed", destroyed}, {"ipv6", ipv6},
               {"polled", polled},      {"abandoned", abandoned}, {"without_qp", without_qp}, {"options", options}};
  set_addresses();
  if (count != 2) return 2;
  int (*run)(void) = strcmp(words[1], "died") == 0 ? died : NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(words[1], cases[i].name) == 0) run = cases[i].run;
  }
  if (run == NULL) return 2;
  if (run != died) {
    servers = rdma_create_event_channel();
    clients = rdma_create_event_channel();
    EXPECT(servers != NULL && clients != NULL);
  }
  if (run() != 0) return 1;
  puts("as expected");
  return 0;
}
