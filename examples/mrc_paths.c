/* Connection parameters of an application, as MRC profiles: segments and flags choose the paths of a queue pair.
 *
 *   cc examples/mrc_paths.c -o mrc_paths $(pkg-config --cflags --libs openmrc)
 *   openmrc run --ports 127.0.0.1,127.0.0.2 -- ./mrc_paths
 */
#include <arpa/inet.h>
#include <errno.h>
#include <mrc_ctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVS_MAX = 1024, SEGMENTS_MAX = 64 };
enum conn_flags {
  CONN_ANY_PATH = 1,  /* a device that cannot use segments may choose the paths itself */
  CONN_ONE_PLANE = 2, /* paths of the first plane only */
  CONN_REPORT_BAD = 4 /* an event for every path that fails or returns */
};

/* The application's own structure: `segments` are SRv6 addresses, one for each path. */
struct conn_param {
  struct in6_addr segments[SEGMENTS_MAX];
  uint8_t segment_ports[SEGMENTS_MAX];
  int segment_count;
  unsigned flags;
};

static struct ibv_context *context_verbs;
static struct mrc_ctl_ev_op_entry entries[EVS_MAX];

static void need(int holds, const char *text) {
  if (holds) return;
  perror(text);
  exit(1);
}

/* An EV format with these fields, ONLINE. */
static int make_format(struct mrc_context *context, uint64_t id, enum mrc_ctl_ev_fmt_mode mode, const uint8_t *widths,
                       int count) {
  struct mrc_ctl_ev_fmt_field fields[8];
  for (int i = 0; i < count; ++i) fields[i].width = widths[i];
  struct mrc_ctl_ev_fmt_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_fmt_mode = mode};
  attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
  attr.ev_fmt_op.fmt_fields = fields;
  attr.ev_fmt_op.fmt_field_count = count;
  const int all = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;
  if (mrc_ctl_modify_ev_fmt_profile(context, id, &attr, all) != 0) return -1;
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  return mrc_ctl_modify_ev_fmt_profile(context, id, &attr, MRC_CTL_EV_FMT_PROFILE_STATE);
}

/* An explicit EV profile with the first `count` of `entries`, ONLINE. */
static int make_profile(struct mrc_context *context, uint64_t id, uint64_t format, int count, unsigned flags) {
  struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_EXP};
  attr.ev_fmt_profile_id = format;
  attr.ev_count = (uint32_t)count;
  attr.ev_event_mask = flags & CONN_REPORT_BAD ? MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD : 0;
  attr.ev_op.op = MRC_CTL_EV_OP_REPLACE_EV;
  attr.ev_op.entries = entries;
  attr.ev_op.entry_count = count;
  const int all = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                  MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP;
  if (mrc_ctl_modify_ev_profile(context, id, &attr, all) != 0) return -1;
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  return mrc_ctl_modify_ev_profile(context, id, &attr, MRC_CTL_EV_PROFILE_STATE);
}

/* The addresses as EVs: a locator of 32 bits and six uSIDs. */
static int use_segments(struct mrc_context *context, const struct conn_param *wanted, uint64_t format,
                        uint64_t profile) {
  const uint8_t widths[7] = {32, 16, 16, 16, 16, 16, 16};
  if (make_format(context, format, MRC_CTL_EV_FMT_MODE_SRV6, widths, 7) != 0) return -1;
  memset(entries, 0, sizeof entries);
  for (int i = 0; i < wanted->segment_count; ++i) {
    memcpy(entries[i].ev_new.val, &wanted->segments[i], sizeof wanted->segments[i]);
    entries[i].ev_new.port = wanted->segment_ports[i];
    entries[i].state = MRC_CTL_EV_GOOD;
  }
  return make_profile(context, profile, format, wanted->segment_count, wanted->flags);
}

/* Paths that the device has, from a profile of mode AUTO, which is emptied again. */
static int use_planes(struct mrc_context *context, const struct conn_param *wanted, uint64_t format, uint64_t profile) {
  const uint8_t width = 16;
  if (make_format(context, format, MRC_CTL_EV_FMT_MODE_UDP, &width, 1) != 0) return -1;
  struct mrc_ctl_ev_profile_attr attr = {.profile_state = MRC_CTL_PROFILE_OFFLINE, .ev_mode = MRC_CTL_EV_MODE_AUTO};
  if (mrc_ctl_modify_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE) != 0) return -1;
  attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY;
  attr.ev_op.entries = entries;
  attr.ev_op.entry_count = EVS_MAX;
  if (mrc_ctl_query_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_EV_OP) != 0) return -1;
  attr.profile_state = MRC_CTL_PROFILE_INIT;
  if (mrc_ctl_modify_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_STATE) != 0) return -1;
  int count = 0;
  for (int i = 0; i < attr.ev_op.entry_count; ++i) {
    if ((wanted->flags & CONN_ONE_PLANE) && entries[i].ev.port != 1) continue;
    entries[count].ev_new = entries[i].ev;
    entries[count].state = MRC_CTL_EV_GOOD;
    ++count;
  }
  for (int i = 0; i < count; ++i) entries[i].ev = MRC_CTL_EV_UNPOPULATED;
  return make_profile(context, profile, format, count, wanted->flags);
}

/* Makes an EV profile of connection parameters: the paths of its segments, or all paths of the planes that it allows. */
static int apply(struct mrc_context *context, const struct conn_param *wanted, uint64_t format, uint64_t profile) {
  struct mrc_ctl_device_attr device;
  if (mrc_ctl_query_device(context_verbs, &device) != 0) return -1;
  const int can_source_route = (device.ev.ev_fmt_mode_mask & MRC_CTL_EV_FMT_MODE_SRV6) != 0;
  if (wanted->segment_count > 0 && can_source_route) return use_segments(context, wanted, format, profile);
  if (wanted->segment_count > 0 && !(wanted->flags & CONN_ANY_PATH)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return use_planes(context, wanted, format, profile);
}

/* The number of a profile's EVs on each port. */
static void print_profile(struct mrc_context *context, uint64_t profile, const char *name) {
  struct mrc_ctl_ev_profile_attr attr = {.ev_op = {.op = MRC_CTL_EV_OP_QUERY_EV_ARRAY, .entries = entries}};
  attr.ev_op.entry_count = EVS_MAX;
  need(!mrc_ctl_query_ev_profile(context, profile, &attr, MRC_CTL_EV_PROFILE_EV_OP), "query");
  int on_port[3] = {0, 0, 0};
  for (int i = 0; i < attr.ev_op.entry_count; ++i) on_port[entries[i].ev.port < 3 ? entries[i].ev.port : 0] += 1;
  printf("%s: %d EVs on port 1, %d on port 2\n", name, on_port[1], on_port[2]);
}

static void enter_init(struct mrc_context *context, uint64_t profile) {
  struct ibv_pd *pd = ibv_alloc_pd(context_verbs);
  struct mrc_cq *cq = mrc_create_cq(context, 16, NULL, NULL, 0);
  struct mrc_qp_init_attr attributes = {.send_cq = cq, .recv_cq = cq, .pd = pd, .cap = {.max_send_wr = 16}};
  struct mrc_qp *qp = mrc_create_qp(context, &attributes);
  need(qp != NULL, "QP");
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT};
  struct mrc_qp_attr paths = {.profile = {.ev_profile_id = profile}};
  need(!mrc_modify_qp(qp, &init, IBV_QP_STATE, &paths, MRC_QP_EV_PROFILE_ID), "INIT");
  need(!mrc_destroy_qp(qp) && !mrc_destroy_cq(cq) && !ibv_dealloc_pd(pd), "end");
}

int main(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  need(devices && devices[0], "no RDMA device");
  context_verbs = ibv_open_device(devices[0]);
  struct mrc_context *context = mrc_create_context(context_verbs, NULL);
  need(context != NULL, "context");
  static struct conn_param wanted = {.segment_count = 1, .segment_ports = {1}};
  inet_pton(AF_INET6, "2001:db8:10:1000:11:104::", &wanted.segments[0]);
  if (apply(context, &wanted, 1, 1) != 0) perror("segments alone");
  wanted.flags = CONN_ANY_PATH | CONN_REPORT_BAD;
  need(!apply(context, &wanted, 2, 2), "segments, or any path");
  print_profile(context, 2, "segments, or any path");
  wanted.flags = CONN_ANY_PATH | CONN_ONE_PLANE;
  need(!apply(context, &wanted, 3, 3), "one plane");
  print_profile(context, 3, "one plane");
  enter_init(context, 3);
  return 0;
}
