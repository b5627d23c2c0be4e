/* Faults of programs that use the connection manager, and of their threads and children. Usage: rdma_cm_faults CASE.
   Prints the first expectation that fails. */
#include "rdma_cm_program.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/resource.h>

/* A pair of connected ids, each with a QP. */
static int connect_ids(struct rdma_cm_id *listener, struct rdma_cm_id **client, struct rdma_cm_id **server) {
  EXPECT((*client = client_of(v4, rdma_get_src_port(listener))) != NULL && rdma_connect(*client, NULL) == 0);
  struct rdma_cm_event *event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT(event != NULL);
  *server = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0 && add_qp(*server) == 0 && rdma_accept(*server, NULL) == 0);
  return 0;
}

static int connected(struct rdma_cm_id *listener, struct rdma_cm_id **client, struct rdma_cm_id **server) {
  EXPECT(connect_ids(listener, client, server) == 0);
  EXPECT(passes(clients, RDMA_CM_EVENT_ESTABLISHED) && passes(servers, RDMA_CM_EVENT_ESTABLISHED));
  return 0;
}

static int readable(const struct rdma_event_channel *channel, int timeout_ms) {
  struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
  return poll(&ready, 1, timeout_ms);
}

static int ends_well(pid_t child) {
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 0;
}

static void *fetch(void *channel) {
  struct rdma_cm_event *event = NULL;
  if (rdma_get_cm_event(channel, &event) == 0) rdma_ack_cm_event(event);
  return NULL;
}

/* One thread fetches the reply, which completes the connection, while another destroys the id. */
static int destroyed_with_reply(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client, *server;
  EXPECT(listener != NULL);
  for (int i = 0; i < 20; ++i) {
    pthread_t fetcher;
    EXPECT(connect_ids(listener, &client, &server) == 0 && readable(clients, -1) == 1);
    struct ibv_qp *qp = client->qp;
    EXPECT(pthread_create(&fetcher, NULL, fetch, clients) == 0);
    while (readable(clients, 0) == 1) continue; /* until the thread has the event */
    EXPECT(rdma_destroy_id(client) == 0 && pthread_join(fetcher, NULL) == 0);
    EXPECT(ibv_destroy_qp(qp) == 0);
    drop(server);
  }
  return rdma_destroy_id(listener);
}

static struct rdma_cm_id *requested;

static void *get_request(void *listener) {
  if (rdma_get_request(listener, &requested) != 0) requested = NULL;
  return NULL;
}

static void *accept_request(void *unused) {
  rdma_accept(requested, NULL); /* waits for the client */
  return unused;
}

/* A process without descriptors cannot make the id of a request, whose client must not wait. */
static int without_descriptors(void) {
  struct rdma_cm_id *listener, *client;
  struct rlimit before, none;
  pthread_t getter;
  EXPECT(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_bind_addr(listener, (struct sockaddr *)&v4) == 0 && rdma_listen(listener, 8) == 0);
  EXPECT((client = client_of(v4, rdma_get_src_port(listener))) != NULL && rdma_connect(client, NULL) == 0);
  EXPECT(readable(listener->channel, -1) == 1 && getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = before;
  none.rlim_cur = 3;
  EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0 && pthread_create(&getter, NULL, get_request, listener) == 0);
  struct rdma_cm_event *event = next(clients, RDMA_CM_EVENT_REJECTED);
  EXPECT(event != NULL && event->status == 28 && rdma_ack_cm_event(event) == 0);
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
  drop(client);
  EXPECT((client = client_of(v4, rdma_get_src_port(listener))) != NULL && rdma_connect(client, NULL) == 0);
  EXPECT(pthread_join(getter, NULL) == 0 && requested != NULL && add_qp(requested) == 0);
  EXPECT(pthread_create(&getter, NULL, accept_request, NULL) == 0);
  EXPECT(passes(clients, RDMA_CM_EVENT_ESTABLISHED) && pthread_join(getter, NULL) == 0);
  EXPECT(exchange(client, requested) == 0);
  drop(client);
  drop(requested);
  return rdma_destroy_id(listener);
}

/* The channel goes before the program has fetched a request. */
static int channel_with_requests(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client;
  EXPECT(listener != NULL);
  EXPECT((client = client_of(v4, rdma_get_src_port(listener))) != NULL && rdma_connect(client, NULL) == 0);
  EXPECT(readable(servers, -1) == 1);
  rdma_destroy_event_channel(servers);
  struct rdma_cm_event *event = next(clients, RDMA_CM_EVENT_REJECTED);
  EXPECT(event != NULL && event->status == 8 && rdma_ack_cm_event(event) == 0);
  drop(client);
  return rdma_destroy_id(listener);
}

static int child_is_refused(void) {
  struct rdma_cm_id *id;
  struct rdma_cm_event *event;
  alarm(20); /* instead of a hang */
  errno = 0;
  EXPECT(rdma_create_event_channel() == NULL && errno == EPERM);
  REFUSES(rdma_get_cm_event(clients, &event), EPERM);
  REFUSES(rdma_create_id(clients, &id, NULL, RDMA_PS_TCP), EPERM);
  rdma_destroy_event_channel(clients);
  return 0;
}

/* A child of a process that has channels and nothing else. */
static int forked_early(void) {
  const pid_t child = fork();
  if (child == 0) exit(child_is_refused());
  EXPECT(ends_well(child) == 0);
  struct rdma_cm_id *listener = listener_at(&v4), *client, *server;
  EXPECT(listener != NULL && connected(listener, &client, &server) == 0);
  return exchange(client, server);
}

/* Files of a child, whose numbers its parent uses for other things, stay open in its own child. */
static int grandchild(void) {
  int files[256];
  alarm(20);
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) EXPECT((files[i] = open("/dev/null", O_RDONLY)) >= 0);
  const pid_t child = fork();
  if (child != 0) return ends_well(child);
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) EXPECT(fcntl(files[i], F_GETFD) >= 0);
  return child_is_refused();
}

/* Children of a process with connections end, each in its own way, and the connections go on. */
static int forked_connected(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *client, *server;
  EXPECT(listener != NULL && connected(listener, &client, &server) == 0);
  for (int turn = 0; turn < 4; ++turn) {
    const pid_t child = fork();
    if (child == 0 && turn == 0) _exit(0);
    if (child == 0 && turn == 1) exit(child_is_refused());
    if (child == 0 && turn == 2) exit(grandchild());
    if (child == 0) {
      alarm(20);
      REFUSES(rdma_disconnect(client), EPERM);
      REFUSES(rdma_destroy_id(listener), EPERM);
      exit(0);
    }
    EXPECT(ends_well(child) == 0 && exchange(client, server) == 0);
    EXPECT(readable(clients, 0) == 0 && readable(servers, 0) == 0);
  }
  struct rdma_cm_id *other_client, *other_server;
  EXPECT(connected(listener, &other_client, &other_server) == 0 && exchange(other_client, other_server) == 0);
  return 0;
}

static int next_descriptor(void) {
  const int fd = dup(0);
  close(fd);
  return fd;
}

/* Leaves room for `count` more descriptors. */
static int allow_descriptors(int count) {
  struct rlimit limit;
  EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = count < 0 ? limit.rlim_max : (rlim_t)(next_descriptor() + count);
  return setrlimit(RLIMIT_NOFILE, &limit);
}

static int accepts_from(struct rdma_cm_id *listener) {
  struct rdma_cm_id *client, *server;
  EXPECT(connected(listener, &client, &server) == 0 && exchange(client, server) == 0);
  drop(client);
  drop(server);
  return 0;
}

/* An id that could not listen can, once the reason has gone. */
static int listen_again(void) {
  struct rdma_cm_id *first, *second;
  int on = 1;
  EXPECT(rdma_create_id(servers, &first, NULL, RDMA_PS_TCP) == 0 && rdma_create_id(servers, &second, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on) == 0);
  EXPECT(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on) == 0);
  EXPECT(rdma_bind_addr(first, (struct sockaddr *)&v4) == 0);
  struct sockaddr_storage same = v4;
  set_port(&same, rdma_get_src_port(first));
  EXPECT(rdma_bind_addr(second, (struct sockaddr *)&same) == 0);
  const int free_before = next_descriptor();
  for (int room = 0; room < 2; ++room) {
    EXPECT(allow_descriptors(room) == 0);
    REFUSES(rdma_listen(first, 8), EMFILE);
    EXPECT(allow_descriptors(-1) == 0 && next_descriptor() == free_before);
  }
  EXPECT(rdma_listen(first, 8) == 0 && accepts_from(first) == 0);
  REFUSES(rdma_listen(second, 8), EADDRINUSE);
  EXPECT(rdma_destroy_id(first) == 0);
  EXPECT(rdma_listen(second, 8) == 0 && accepts_from(second) == 0);
  return rdma_destroy_id(second);
}

/* More clients than the backlog has room for, while the program fetches nothing. */
static int backlog(void) {
  struct rdma_cm_id *listener, *few[4];
  EXPECT(rdma_create_id(servers, &listener, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_bind_addr(listener, (struct sockaddr *)&v4) == 0 && rdma_listen(listener, 3) == 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT((few[i] = client_of(v4, rdma_get_src_port(listener))) != NULL);
  }
  for (int i = 0; i < 4; ++i) EXPECT(rdma_connect(few[i], NULL) == 0);
  struct rdma_cm_event *event = next(clients, RDMA_CM_EVENT_REJECTED);
  EXPECT(event != NULL && event->status == 3);
  struct rdma_cm_id *refused = event->id;
  EXPECT(rdma_ack_cm_event(event) == 0);
  struct rdma_cm_id *accepted[3];
  for (int i = 0; i < 3; ++i) {
    event = next(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT(event != NULL);
    accepted[i] = event->id;
    EXPECT(rdma_ack_cm_event(event) == 0);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT(add_qp(accepted[i]) == 0 && rdma_accept(accepted[i], NULL) == 0);
    event = next(clients, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT(event != NULL && event->id != refused && rdma_ack_cm_event(event) == 0);
    EXPECT(passes(servers, RDMA_CM_EVENT_ESTABLISHED));
  }
  return accepts_from(listener); /* there is room again */
}

static volatile int foreign; /* errors of waiting threads that those of a channel cannot be */

static void *wait_on(void *channel) {
  struct rdma_cm_event *event = NULL;
  if (rdma_get_cm_event(channel, &event) != 0 && errno != EINVAL) foreign = errno;
  return NULL;
}

/* A channel is destroyed, or an id leaves it, just when a thread begins to wait; its number becomes that of a file. */
static int channel_with_waiters(void) {
  pthread_t waiters[300];
  const size_t turns = sizeof waiters / sizeof *waiters;
  for (size_t i = 0; i < turns; ++i) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    EXPECT(channel != NULL);
    EXPECT(pthread_create(&waiters[i], NULL, wait_on, channel) == 0);
    for (volatile size_t pause = 0; pause < i * 100; ++pause) continue;
    rdma_destroy_event_channel(channel);
    const int file = open("/dev/null", O_RDONLY), other = open("/dev/null", O_RDONLY);
    EXPECT(file >= 0 && other >= 0);
    usleep(200);
    close(file);
    close(other);
    void *result = NULL;
    EXPECT(pthread_cancel(waiters[i]) == 0 && pthread_join(waiters[i], &result) == 0);
    EXPECT(foreign == 0);
  }
  return 0;
}

static sem_t fetched, destroyed, returns;

static void *fetch_twice(void *channel) {
  fetch(channel);
  sem_post(&fetched);
  while (sem_wait(&destroyed) != 0) continue;
  sem_post(&returns);
  return wait_on(channel);
}

/* A channel is destroyed just before the thread that fetches its events comes back for the next one. */
static int channel_with_late_waiter(void) {
  struct rdma_event_channel *channel = rdma_create_event_channel();
  struct rdma_cm_id *id;
  EXPECT(channel != NULL && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&v4, 1000) == 0);
  EXPECT(sem_init(&fetched, 0, 0) == 0 && sem_init(&destroyed, 0, 0) == 0 && sem_init(&returns, 0, 0) == 0);
  pthread_t thread;
  void *result = NULL;
  EXPECT(pthread_create(&thread, NULL, fetch_twice, channel) == 0);
  while (sem_wait(&fetched) != 0) continue;
  EXPECT(rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(channel);
  EXPECT(sem_post(&destroyed) == 0);
  while (sem_wait(&returns) != 0) continue;
  usleep(50000);
  EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  return 0;
}

static void *wait_for_request(void *listener) {
  struct rdma_cm_id *id;
  rdma_get_request(listener, &id);
  return NULL;
}

/* A thread may be cancelled while it waits, and takes no lock and no event with it. */
static int cancelled(void) {
  struct rdma_cm_id *listener = listener_at(&v4), *synchronous;
  EXPECT(listener != NULL && rdma_create_id(NULL, &synchronous, NULL, RDMA_PS_TCP) == 0);
  EXPECT(rdma_bind_addr(synchronous, (struct sockaddr *)&v4) == 0 && rdma_listen(synchronous, 8) == 0);
  for (int i = 0; i < 10; ++i) {
    pthread_t thread;
    void *result = NULL;
    if (i % 2 == 0) EXPECT(pthread_create(&thread, NULL, wait_on, servers) == 0);
    if (i % 2 == 1) EXPECT(pthread_create(&thread, NULL, wait_for_request, synchronous) == 0);
    usleep(1000);
    EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  EXPECT(accepts_from(listener) == 0 && rdma_destroy_id(synchronous) == 0);
  return rdma_destroy_id(listener);
}

static volatile int stop;

static void *make_and_destroy(void *unused) {
  while (!stop) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0) {
      rdma_bind_addr(id, (struct sockaddr *)&v4);
      rdma_destroy_id(id);
    }
    rdma_destroy_event_channel(channel);
  }
  return unused;
}

/* A child is told what it may not do, whatever the threads of its parent were doing at the fork. */
static int forked_while_busy(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&threads[i], NULL, make_and_destroy, NULL) == 0);
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(child_is_refused());
    EXPECT(ends_well(child) == 0);
  }
  stop = 1;
  for (int i = 0; i < 2; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  return 0;
}

static void *make_channel(void *unused) {
  rdma_create_event_channel();
  return unused;
}

/* A channel of a child that begins with librdmacm, or the refusal if its parent had begun. */
static int child_makes_channel(void) {
  alarm(20); /* instead of a hang */
  errno = 0;
  return rdma_create_event_channel() == NULL && errno != EPERM;
}

static int forks_while_making(useconds_t pause) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, make_channel, NULL) == 0);
  usleep(pause);
  const pid_t child = fork();
  if (child == 0) _exit(child_makes_channel());
  EXPECT(ends_well(child) == 0);
  return pthread_join(thread, NULL);
}

/* A fork while another thread makes the first channel, in processes that have made none. */
static int forked_at_first(void) {
  for (useconds_t i = 0; i < 10; ++i) {
    const pid_t fresh = fork();
    if (fresh == 0) _exit(forks_while_making(i * 1000));
    EXPECT(ends_well(fresh) == 0);
  }
  return 0;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*run)(void);
  } cases[] = {{"destroyed_with_reply", destroyed_with_reply},
               {"without_descriptors", without_descriptors},
               {"channel_with_requests", channel_with_requests},
               {"listen_again", listen_again},
               {"backlog", backlog},
               {"channel_with_waiters", channel_with_waiters},
               {"channel_with_late_waiter", channel_with_late_waiter},
               {"cancelled", cancelled},
               {"forked_at_first", forked_at_first},
               {"forked_early", forked_early},
               {"forked_connected", forked_connected},
               {"forked_while_busy", forked_while_busy}};
  set_addresses();
  if (count != 2) return 2;
  if (strcmp(words[1], "forked_at_first") != 0) {
    servers = rdma_create_event_channel();
    clients = rdma_create_event_channel();
    EXPECT(servers != NULL && clients != NULL);
  }
  alarm(120);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(words[1], cases[i].name) != 0) continue;
    if (cases[i].run() != 0) return 1;
    puts("as expected");
    return 0;
  }
  return 2;
}
