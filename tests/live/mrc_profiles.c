/* Profiles of paths and congestion control, ports, hints, windows, probes and events, on two planes of loopback. */
#include <poll.h>

#include "mrc_program.h"

enum { FORMAT = 13, EXPLICIT = 1, GENERATED = 2, AUTO = 3, CC = 4, NO_CC = 5, EVS_MAX = 1024 };

static struct mrc_ctl_ev_op_entry entries[EVS_MAX];

static int modify_ev(struct program *p, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int mask) {
  return mrc_ctl_modify_ev_profile(p->mrc, id, attr, mask);
}

static int move_ev(struct program *p, uint64_t id, enum mrc_ctl_profile_state to) {
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile_state = to;
  return modify_ev(p, id, &attr, MRC_CTL_EV_PROFILE_STATE);
}

static int ev_op(struct program *p, uint64_t id, enum mrc_ctl_ev_op op, int count, int *found) {
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.ev_op.op = op;
  attr.ev_op.entries = entries;
  attr.ev_op.entry_count = count;
  const int result = op == MRC_CTL_EV_OP_QUERY_EV_ARRAY || op == MRC_CTL_EV_OP_QUERY_EV_STATE
                         ? mrc_ctl_query_ev_profile(p->mrc, id, &attr, MRC_CTL_EV_PROFILE_EV_OP)
                         : modify_ev(p, id, &attr, MRC_CTL_EV_PROFILE_EV_OP);
  if (found != NULL) *found = attr.ev_op.entry_count;
  return result;
}

static void devices(struct program *p) {
  struct mrc_device_attr device;
  struct mrc_ctl_device_attr control;
  int supported = 0;
  NEED(mrc_query_device_ex(p->verbs, p->mrc, &device, &supported) == 0 && supported == 1);
  NEED(device.mrc_protocol_version == MRC_PROTOCOL_VERSION_1 && device.mpr_attr.max_mpr == 255);
  NEED(mrc_ctl_query_device_ex(p->verbs, p->mrc, &control, &supported) == 0 && supported == 1);
  NEED(control.phy_port_mask == 6); /* ports 1 and 2 */
  NEED(strcmp(control.cc.algorithms[0], "uet-1.0-nscc") == 0 && control.cc.algorithms[1] == NULL);
  NEED(control.ev.ev_fmt_mode_mask == MRC_CTL_EV_FMT_MODE_UDP);
  uint32_t version = 0;
  mrc_query_version(&version, NULL, NULL, NULL);
  NEED(version == MRC_API_VER(1, 0, 1));
}

static void formats(struct program *p) {
  struct mrc_ctl_ev_fmt_field fields[2] = {{8}, {9}}, read[2] = {{0}, {0}};
  struct mrc_ctl_ev_fmt_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  const int begin_mask = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP;
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  attr.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_SRV6;
  attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
  attr.ev_fmt_op.fmt_fields = fields;
  attr.ev_fmt_op.fmt_field_count = 2;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, begin_mask), EOPNOTSUPP);
  attr.ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, begin_mask), E2BIG); /* 17 bits */
  fields[1].width = 0;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, begin_mask), EINVAL);
  fields[1].width = 8;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_STATE), EINVAL); /* no mode */
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, begin_mask | MRC_CTL_EV_FMT_VENDOR_CFG), EOPNOTSUPP);
  NEED(mrc_ctl_query_ev_fmt_profile(p->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_STATE) == 0);
  NEED(attr.profile_state == MRC_CTL_PROFILE_INIT); /* refused as a whole */
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, begin_mask), EINVAL); /* two steps */
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  NEED(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, begin_mask) == 0);
  attr.cur_profile_state = MRC_CTL_PROFILE_INIT;
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr,
                                      MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE), EINVAL);
  NEED(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_STATE) == 0);
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_OP), EINVAL); /* ONLINE */
  attr.ev_fmt_op.op = MRC_CTL_EV_FMT_OP_QUERY_FIELDS;
  attr.ev_fmt_op.fmt_fields = read;
  attr.ev_fmt_op.fmt_field_count = 1;
  FAILS(mrc_ctl_query_ev_fmt_profile(p->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_OP), E2BIG);
  NEED(attr.ev_fmt_op.fmt_field_count == 2);
  NEED(mrc_ctl_query_ev_fmt_profile(p->mrc, FORMAT, &attr, MRC_CTL_EV_FMT_PROFILE_OP) == 0);
  NEED(read[0].width == 8 && read[1].width == 8);
}

/* All EVs of the device, from a profile of mode AUTO: the port alternates. */
static int read_device_evs(struct program *p) {
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  attr.ev_mode = MRC_CTL_EV_MODE_AUTO;
  NEED(modify_ev(p, AUTO, &attr, MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE) == 0);
  int count = 0;
  FAILS(ev_op(p, AUTO, MRC_CTL_EV_OP_QUERY_EV_ARRAY, 1, &count), E2BIG);
  NEED(count == 128);
  NEED(ev_op(p, AUTO, MRC_CTL_EV_OP_QUERY_EV_ARRAY, EVS_MAX, &count) == 0);
  NEED(entries[0].ev.port == 1 && entries[1].ev.port == 2 && entries[0].state == MRC_CTL_EV_GOOD);
  return count;
}

/* Four EVs of port 1 and as many of port 2. */
static void explicit_profile(struct program *p) {
  static struct mrc_ctl_ev_op_entry known[EVS_MAX];
  read_device_evs(p);
  memcpy(known, entries, sizeof known);
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  attr.ev_mode = MRC_CTL_EV_MODE_EXP;
  attr.ev_fmt_profile_id = FORMAT;
  attr.ev_count = 8;
  attr.ev_min_active = 9;
  attr.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;
  const int mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                   MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE | MRC_CTL_EV_PROFILE_EVENT_MASK;
  FAILS(modify_ev(p, EXPLICIT, &attr, mask), EINVAL); /* 9 of 8 */
  attr.ev_min_active = 2;
  attr.ev_event_mask = MRC_CTL_EV_DENIED;
  FAILS(modify_ev(p, EXPLICIT, &attr, mask), EINVAL);
  attr.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;
  attr.ev_fmt_profile_id = 99;
  FAILS(modify_ev(p, EXPLICIT, &attr, mask), EINVAL); /* no such format */
  attr.ev_fmt_profile_id = FORMAT;
  attr.ev_count = 5000;
  FAILS(modify_ev(p, EXPLICIT, &attr, mask), E2BIG);
  attr.ev_count = 8;
  FAILS(modify_ev(p, EXPLICIT, &attr, mask | MRC_CTL_EV_PROFILE_VENDOR_CFG), EOPNOTSUPP);
  FAILS(modify_ev(p, EXPLICIT, &attr, mask | MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP), EINVAL);
  NEED(modify_ev(p, EXPLICIT, &attr, mask) == 0);
  FAILS(move_ev(p, EXPLICIT, MRC_CTL_PROFILE_ONLINE), EINVAL); /* unpopulated */
  memset(entries, 0, sizeof entries);
  entries[0].ev_new.port = 1; /* source port 0 */
  FAILS(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_REPLACE_EV, 1, NULL), EINVAL);
  for (int i = 0; i < 8; ++i) entries[i].ev_new = known[i].ev;
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_REPLACE_EV, 8, NULL) == 0);
  FAILS(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_REPLACE_EV, 1, NULL), ENOENT); /* none is unpopulated any more */
  NEED(move_ev(p, EXPLICIT, MRC_CTL_PROFILE_ONLINE) == 0);
  struct mrc_ctl_ev_fmt_profile_attr format;
  memset(&format, 0, sizeof format);
  format.profile_state = MRC_CTL_PROFILE_OFFLINE;
  FAILS(mrc_ctl_modify_ev_fmt_profile(p->mrc, FORMAT, &format, MRC_CTL_EV_FMT_PROFILE_STATE), EBUSY);
  int count = 0;
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_QUERY_EV_ARRAY, EVS_MAX, &count) == 0 && count == 8);
  for (int i = 0; i < 8; ++i) NEED(memcmp(&entries[i].ev, &known[i].ev, sizeof entries[i].ev) == 0);
  entries[0].state = MRC_CTL_EV_DENIED;
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_MODIFY_EV_STATE, 1, NULL) == 0);
  entries[0].state = MRC_CTL_EV_ASSUMED_BAD;
  FAILS(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_MODIFY_EV_STATE, 1, NULL), EINVAL);
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_QUERY_EV_STATE, 2, NULL) == 0);
  NEED(entries[0].state == MRC_CTL_EV_DENIED && entries[1].state == MRC_CTL_EV_GOOD);
  entries[0].ev.port = 2;
  FAILS(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_QUERY_EV_STATE, 1, NULL), ENOENT);
}

/* The EVs whose source port has an even low byte. */
static void generated_profile(struct program *p) {
  struct mrc_ctl_ev_field fields[2] = {{8, 0, 0, 0xFF, 0xFF}, {8, 0, 0, 0x7F, 0xFE}}, read[2];
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  attr.ev_mode = MRC_CTL_EV_MODE_GEN;
  attr.ev_fmt_profile_id = FORMAT;
  attr.ev_count = 16;
  attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
  attr.ev_fields_op.fields = fields;
  attr.ev_fields_op.field_count = 2;
  const int mask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                   MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
  fields[1].max_val = 0x80;
  FAILS(modify_ev(p, GENERATED, &attr, mask), EINVAL); /* above the seven bits of the mask */
  fields[1].max_val = 0x7F;
  fields[1].width = 9;
  FAILS(modify_ev(p, GENERATED, &attr, mask), EINVAL);
  fields[1].width = 8;
  attr.ev_fields_op.field_count = 3;
  FAILS(modify_ev(p, GENERATED, &attr, mask), E2BIG);
  attr.ev_fields_op.field_count = 2;
  attr.ev_count = 128;
  FAILS(modify_ev(p, GENERATED, &attr, mask), EINVAL); /* half of them are odd */
  attr.ev_count = 16;
  NEED(modify_ev(p, GENERATED, &attr, mask) == 0);
  NEED(move_ev(p, GENERATED, MRC_CTL_PROFILE_ONLINE) == 0);
  int count = 0;
  NEED(ev_op(p, GENERATED, MRC_CTL_EV_OP_QUERY_EV_ARRAY, EVS_MAX, &count) == 0 && count == 16);
  for (int i = 0; i < count; ++i) NEED(entries[i].ev.val[1] % 2 == 0 && entries[i].ev.port == 1 + i % 2);
  memset(&attr, 0, sizeof attr);
  attr.ev_fields_op.op = MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS;
  attr.ev_fields_op.fields = read;
  attr.ev_fields_op.field_count = 2;
  NEED(mrc_ctl_query_ev_profile(p->mrc, GENERATED, &attr, MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0);
  NEED(memcmp(read, fields, sizeof read) == 0);
}

static void cc_profiles(struct program *p) {
  struct mrc_ctl_cc_nscc_cfg config;
  struct mrc_ctl_cc_profile_attr attr;
  memset(&config, 0, sizeof config);
  memset(&attr, 0, sizeof attr);
  const int all = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_CONFIG;
  config.gamma = 0.7F;
  config.base_rtt = 50000;
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  attr.algorithm = "cubic";
  attr.cc_config = &config;
  FAILS(mrc_ctl_modify_cc_profile(p->mrc, CC, &attr, all), EINVAL);
  FAILS(mrc_ctl_modify_cc_profile(p->mrc, CC, &attr, all | MRC_CTL_CC_PROFILE_VENDOR_CFG), EOPNOTSUPP);
  attr.algorithm = "uet-1.0-nscc";
  config.max_md_jump = 1.5F;
  FAILS(mrc_ctl_modify_cc_profile(p->mrc, CC, &attr, all), EINVAL);
  config.max_md_jump = 0.5F;
  NEED(mrc_ctl_modify_cc_profile(p->mrc, CC, &attr, all & ~MRC_CTL_CC_PROFILE_CONFIG) == 0);
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  FAILS(mrc_ctl_modify_cc_profile(p->mrc, CC, &attr, MRC_CTL_CC_PROFILE_STATE), EINVAL); /* no parameters */
  NEED(mrc_ctl_modify_cc_profile(p->mrc, CC, &attr, all & ~MRC_CTL_CC_PROFILE_ALGORITHM) == 0);
  memset(&attr, 0, sizeof attr);
  NEED(mrc_ctl_query_cc_profile(p->mrc, CC, &attr, all) == 0);
  NEED(attr.profile_state == MRC_CTL_PROFILE_ONLINE && strcmp(attr.algorithm, "uet-1.0-nscc") == 0);
  NEED(((const struct mrc_ctl_cc_nscc_cfg *)attr.cc_config)->base_rtt == 50000);
  FAILS(mrc_ctl_query_cc_profile(p->mrc, NO_CC, &attr, MRC_CTL_CC_PROFILE_ALGORITHM), EINVAL);
  attr.algorithm = NULL;
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  NEED(mrc_ctl_modify_cc_profile(p->mrc, NO_CC, &attr, MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_ALGORITHM) == 0);
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  NEED(mrc_ctl_modify_cc_profile(p->mrc, NO_CC, &attr, MRC_CTL_CC_PROFILE_STATE) == 0);
}

/* QPs with a hint, profiles, a dynamic window: everything reads back, and a WRITE arrives. */
/* A QP whose peer has no QP of that number fails when the retries of MRC end, whatever those of verbs are. */
static void retries(struct program *p) {
  struct side patient, hasty, gone;
  struct mrc_qp_attr attr;
  memset(&attr, 0, sizeof attr);
  make_side(p, &patient);
  make_side(p, &hasty);
  make_side(p, &gone);
  NEED(mrc_destroy_qp(gone.qp) == 0);
  attr.timeout = 15;
  attr.retry.linear_cnt = 7;
  NEED(to_init(patient.qp, NULL, 0) == 0 && to_init(hasty.qp, NULL, 0) == 0);
  NEED(to_rtr(p, patient.qp, gone.number, NULL, 0) == 0 && to_rtr(p, hasty.qp, gone.number, NULL, 0) == 0);
  NEED(to_rts(patient.qp, &attr, MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT) == 0);
  attr.timeout = 13;
  attr.retry.linear_cnt = 0;
  NEED(to_rts(hasty.qp, &attr, MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT) == 0);
  start_write(p, patient.qp, 3, IBV_WR_RDMA_WRITE);
  start_write(p, hasty.qp, 3, IBV_WR_RDMA_WRITE);
  struct ibv_wc done = next_completion(p);
  NEED(done.status == IBV_WC_RETRY_EXC_ERR && done.qp_num == hasty.number);
  done = next_completion(p);
  NEED(done.status == IBV_WC_RETRY_EXC_ERR && done.qp_num == patient.number);
  NEED(mrc_destroy_qp(patient.qp) == 0 && mrc_destroy_qp(hasty.qp) == 0);
}

static void queue_pairs(struct program *p) {
  struct mrc_qp_hint_init_attr wanted;
  struct mrc_qp_attr attr, read;
  memset(&wanted, 0, sizeof wanted);
  memset(&attr, 0, sizeof attr);
  wanted.attr.num_remote_recv_peers = 4;
  attr.qp_hint = mrc_create_qp_hint(p->mrc, &wanted);
  NEED(attr.qp_hint != NULL);
  attr.profile.ev_profile_id = EXPLICIT;
  attr.profile.cc_profile_id = CC;
  NEED(to_init(p->left.qp, &attr, MRC_QP_HINT | MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID) == 0);
  attr.profile.ev_profile_id = GENERATED;
  attr.profile.cc_profile_id = NO_CC;
  NEED(to_init(p->right.qp, &attr, MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID) == 0);
  FAILS(mrc_destroy_qp_hint(attr.qp_hint), EBUSY);
  FAILS(move_ev(p, EXPLICIT, MRC_CTL_PROFILE_OFFLINE), EBUSY);
  attr.mpr.mpr = attr.mpr.mpr_dest = 64;
  attr.wimm.max_wimm = attr.wimm.max_wimm_dest = 128;
  attr.cap = MRC_QP_CAP_DYNAMIC_MPR | MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED;
  attr.timeout = 12;
  attr.retry.linear_cnt = 6;
  attr.retry.exp_cnt = 9;
  const int rtr = MRC_QP_MPR_DEST | MRC_QP_MAX_WIMM_DEST | MRC_QP_CAP;
  const int rts = MRC_QP_MPR | MRC_QP_MAX_WIMM | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT;
  NEED(to_rtr(p, p->right.qp, p->left.number, &attr, rtr) == 0);
  NEED(to_rtr(p, p->left.qp, p->right.number, &attr, rtr) == 0);
  NEED(to_rts(p->right.qp, &attr, rts) == 0);
  NEED(to_rts(p->left.qp, &attr, rts) == 0);
  struct ibv_qp_attr verbs;
  struct mrc_qp_init_attr init;
  NEED(mrc_query_qp(p->left.qp, &verbs, IBV_QP_STATE, &read, rtr | rts, &init) == 0);
  NEED(verbs.qp_state == IBV_QPS_RTS && init.send_cq == p->cq && init.protocol_version == MRC_PROTOCOL_VERSION_1);
  NEED(read.mpr.mpr == 64 && read.mpr.mpr_dest == 64 && read.wimm.max_wimm_dest == 128 && read.timeout == 12);
  NEED(read.retry.linear_cnt == 6 && read.retry.exp_cnt == 9 && read.cap == attr.cap);
  NEED(read.profile.ev_profile_id == EXPLICIT && read.profile.cc_profile_id == CC && read.qp_hint == attr.qp_hint);
  write_and_check(p, 1);
  attr.mpr.mpr_dest = 16;
  NEED(mrc_modify_qp(p->right.qp, NULL, 0, &attr, MRC_QP_MPR_DEST) == 0);
  write_and_check(p, 2);
  NEED(mrc_query_qp(p->right.qp, NULL, 0, &read, MRC_QP_MPR_DEST, NULL) == 0 && read.mpr.mpr_dest == 16);
}

/* A WRITE with immediate data, whose completion comes through the channel. */
static void channel_events(struct program *p) {
  struct ibv_recv_wr receive, *bad = NULL;
  memset(&receive, 0, sizeof receive);
  receive.wr_id = 5;
  NEED(mrc_post_recv(p->right.qp, &receive, &bad) == 0);
  NEED(mrc_req_notify_cq(p->cq, 0) == 0);
  start_write(p, p->left.qp, 3, IBV_WR_RDMA_WRITE_WITH_IMM);
  struct mrc_cq *cq = NULL;
  void *user = NULL;
  NEED(mrc_get_cq_event(p->channel, &cq, &user) == 0 && cq == p->cq && user == p);
  mrc_ack_cq_events(cq, 1);
  int seen = 0;
  while (seen != 3) {
    const struct ibv_wc done = next_completion(p);
    NEED(done.status == IBV_WC_SUCCESS);
    seen |= done.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? 1 : 2;
  }
}

static int probe(struct program *p, struct mrc_ctl_ep_rsp *answers, int *count) {
  struct mrc_ctl_ep_req requests[2];
  memset(requests, 0, sizeof requests);
  NEED(ev_op(p, GENERATED, MRC_CTL_EV_OP_QUERY_EV_ARRAY, EVS_MAX, NULL) == 0);
  for (int i = 0; i < 2; ++i) {
    requests[i].req_id = (uint16_t)(40 + i);
    requests[i].sgid = requests[i].dgid = p->gid;
    requests[i].ev_fmt_mode = MRC_CTL_EV_FMT_MODE_UDP;
    requests[i].req_ev = entries[i].ev; /* ports 1 and 2 */
  }
  return mrc_ctl_ep_batch_send_wait(p->mrc, 0, MRC_CTL_EP_OP_EV_PROBE, requests, 2, 500000000, answers, count);
}

static void set_port(struct program *p, uint8_t number, enum mrc_ctl_port_admin_state state) {
  struct mrc_ctl_port_attr port;
  port.port_admin_state = state;
  NEED(mrc_ctl_modify_port(p->mrc, number, &port, MRC_CTL_PORT_ADMIN_STATE) == 0);
  memset(&port, 0xFF, sizeof port);
  NEED(mrc_ctl_query_port(p->mrc, number, &port, MRC_CTL_PORT_ADMIN_STATE) == 0 && port.port_admin_state == state);
}

static void probes_and_ports(struct program *p) {
  struct mrc_ctl_ep_rsp answers[2];
  int count = 0;
  NEED(probe(p, answers, &count) == 0 && count == 2);
  NEED(answers[0].rtt > 0 && answers[0].req_id + answers[1].req_id == 81 && answers[0].port + answers[1].port == 3);
  set_port(p, 2, MRC_CTL_PORT_ADMIN_DISABLED);
  FAILS(probe(p, answers, &count), ETIMEDOUT);
  NEED(count == 1 && answers[0].port == 1 && answers[0].req_id == 40);
  write_and_check(p, 4);
  struct ibv_port_attr verbs;
  set_port(p, 1, MRC_CTL_PORT_ADMIN_DISABLED);
  NEED(ibv_query_port(p->verbs, 1, &verbs) == 0 && verbs.state == IBV_PORT_DOWN);
  set_port(p, 1, MRC_CTL_PORT_ADMIN_ENABLED);
  set_port(p, 2, MRC_CTL_PORT_ADMIN_ENABLED);
  write_and_check(p, 5);
}

/* All EVs but one are denied, and allowed again, while the QP lives. */
static void denials(struct program *p) {
  int count = 0;
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_QUERY_EV_ARRAY, EVS_MAX, &count) == 0);
  for (int i = 0; i < count; ++i) entries[i].state = i == 1 ? MRC_CTL_EV_GOOD : MRC_CTL_EV_DENIED;
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_MODIFY_EV_STATE, count, NULL) == 0);
  write_and_check(p, 6);
  for (int i = 0; i < count; ++i) entries[i].state = MRC_CTL_EV_GOOD;
  NEED(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_MODIFY_EV_STATE, count, NULL) == 0);
  write_and_check(p, 7);
}

static void finish(struct program *p) {
  struct mrc_qp_attr attr;
  NEED(mrc_query_qp(p->left.qp, NULL, 0, &attr, MRC_QP_HINT, NULL) == 0);
  struct ibv_qp_attr reset;
  memset(&reset, 0, sizeof reset);
  reset.qp_state = IBV_QPS_RESET;
  NEED(mrc_modify_qp(p->left.qp, &reset, IBV_QP_STATE, NULL, 0) == 0);
  NEED(mrc_destroy_qp_hint(attr.qp_hint) == 0);
  NEED(move_ev(p, EXPLICIT, MRC_CTL_PROFILE_OFFLINE) == 0);
  NEED(move_ev(p, EXPLICIT, MRC_CTL_PROFILE_INIT) == 0);
  FAILS(ev_op(p, EXPLICIT, MRC_CTL_EV_OP_QUERY_EV_ARRAY, EVS_MAX, NULL), EINVAL);
  NEED(mrc_destroy_qp(p->right.qp) == 0);
  NEED(move_ev(p, GENERATED, MRC_CTL_PROFILE_OFFLINE) == 0);
  make_side(p, &p->right);
  NEED(to_init(p->left.qp, NULL, 0) == 0 && to_init(p->right.qp, NULL, 0) == 0);
  connect_all(p);
  write_and_check(p, 8);
}

int main(void) {
  struct program p;
  begin(&p);
  devices(&p);
  formats(&p);
  explicit_profile(&p);
  generated_profile(&p);
  cc_profiles(&p);
  queue_pairs(&p);
  retries(&p);
  channel_events(&p);
  probes_and_ports(&p);
  denials(&p);
  finish(&p);
  end(&p);
  puts("as expected");
  return 0;
}
