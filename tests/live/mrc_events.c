/* Events about EVs, while one of two planes leads nowhere.
 *
 * The second device is where the first one expects it on plane 1 only: its second address is another one, so that
 * everything sent on port 2 is lost.
 */
#include <poll.h>

#include "mrc_program.h"

enum { PROFILE = 21, WRITES_MAX = 2000, ROUNDS_MAX = 50 };

static void make_profile(struct program *p) {
  struct mrc_ctl_ev_profile_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.profile_state = MRC_CTL_PROFILE_OFFLINE;
  attr.ev_mode = MRC_CTL_EV_MODE_AUTO;
  attr.ev_event_mask = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;
  NEED(mrc_ctl_modify_ev_profile(p->mrc, PROFILE, &attr,
                                 MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_EVENT_MASK) == 0);
  attr.profile_state = MRC_CTL_PROFILE_ONLINE;
  NEED(mrc_ctl_modify_ev_profile(p->mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_STATE) == 0);
}

static enum mrc_ctl_ev_state state_of(struct program *p, struct mrc_ctl_ev ev) {
  struct mrc_ctl_ev_op_entry entry;
  struct mrc_ctl_ev_profile_attr attr;
  memset(&entry, 0, sizeof entry);
  memset(&attr, 0, sizeof attr);
  entry.ev = ev;
  attr.ev_op.op = MRC_CTL_EV_OP_QUERY_EV_STATE;
  attr.ev_op.entries = &entry;
  attr.ev_op.entry_count = 1;
  NEED(mrc_ctl_query_ev_profile(p->mrc, PROFILE, &attr, MRC_CTL_EV_PROFILE_EV_OP) == 0);
  return entry.state;
}

/* Writes from the first device to the second one until an event makes the channel readable. */
static void write_until_event(struct program *near_end, struct program *far_end, struct mrc_comp_channel *channel) {
  struct pollfd readable;
  NEED(mrc_get_comp_channel_fd(channel, &readable.fd) == 0);
  readable.events = POLLIN;
  for (int i = 0; i < WRITES_MAX; ++i) {
    struct ibv_sge sge;
    sge.addr = (uintptr_t)near_end->memory;
    sge.length = BYTES;
    sge.lkey = near_end->mr->lkey;
    struct ibv_send_wr write, *bad = NULL;
    memset(&write, 0, sizeof write);
    memset(near_end->memory, i, BYTES);
    write.sg_list = &sge;
    write.num_sge = 1;
    write.opcode = IBV_WR_RDMA_WRITE;
    write.send_flags = IBV_SEND_SIGNALED;
    write.wr.rdma.remote_addr = (uintptr_t)far_end->memory;
    write.wr.rdma.rkey = far_end->mr->rkey;
    NEED(mrc_post_send(near_end->left.qp, &write, &bad) == 0);
    NEED(next_completion(near_end).status == IBV_WC_SUCCESS);
    NEED(memcmp(near_end->memory, far_end->memory, BYTES) == 0);
    if (poll(&readable, 1, 0) == 1) return;
  }
  NEED(!"an event");
}

int main(void) {
  struct program near_end, far_end;
  begin_on(&near_end, 0);
  begin_on(&far_end, 1);
  make_profile(&near_end);
  struct mrc_comp_channel *channel = NULL;
  NEED(mrc_create_comp_channel(near_end.mrc, &channel) == 0);
  struct mrc_cq *small = mrc_ctl_create_ev_event_cq(near_end.mrc, 1, NULL, NULL, 0);
  struct mrc_cq *events = mrc_ctl_create_ev_event_cq(near_end.mrc, 256, &far_end, channel, 0);
  NEED(small != NULL && events != NULL && mrc_req_notify_cq(events, 0) == 0);

  struct mrc_qp_attr paths;
  memset(&paths, 0, sizeof paths);
  paths.profile.ev_profile_id = PROFILE;
  NEED(to_init(near_end.left.qp, &paths, MRC_QP_EV_PROFILE_ID) == 0);
  NEED(to_init(far_end.right.qp, NULL, 0) == 0);
  const union ibv_gid own = near_end.gid;
  near_end.gid = far_end.gid; /* of the peer */
  far_end.gid = own;
  NEED(to_rtr(&far_end, far_end.right.qp, near_end.left.number, NULL, 0) == 0);
  NEED(to_rtr(&near_end, near_end.left.qp, far_end.right.number, NULL, 0) == 0);
  NEED(to_rts(far_end.right.qp, NULL, 0) == 0 && to_rts(near_end.left.qp, NULL, 0) == 0);
  struct mrc_ctl_ev_event found[256], first, kept;
  int bad = 0;
  for (int round = 0; bad == 0 && round < ROUNDS_MAX; ++round) {
    write_until_event(&near_end, &far_end, channel);
    struct mrc_cq *from = NULL;
    void *user = NULL;
    NEED(mrc_get_cq_event(channel, &from, &user) == 0 && from == events && user == &far_end);
    mrc_ack_cq_events(from, 1);
    NEED(mrc_req_notify_cq(events, 0) == 0);
    const int count = mrc_ctl_poll_ev_event(events, 256, found);
    if (round == 0) NEED(count >= 1);
    if (round == 0) kept = found[0];
    for (int i = 0; i < count; ++i) {
      NEED(found[i].profile_id == PROFILE && found[i].drop_count == 0);
      if (found[i].ev.port == 1) continue; /* a slow machine may lose packets there, too */
      NEED(found[i].ev.port == 2 && found[i].state == MRC_CTL_EV_ASSUMED_BAD);
      NEED(state_of(&near_end, found[i].ev) == MRC_CTL_EV_ASSUMED_BAD);
      ++bad;
    }
  }
  NEED(bad > 0);
  NEED(mrc_ctl_poll_ev_event(small, 1, &first) == 1 && memcmp(&first.ev, &kept.ev, sizeof first.ev) == 0);
  NEED(mrc_destroy_cq(small) == 0 && mrc_destroy_cq(events) == 0 && mrc_destroy_comp_channel(channel) == 0);
  end(&near_end);
  end(&far_end);
  puts("as expected");
  return 0;
}
