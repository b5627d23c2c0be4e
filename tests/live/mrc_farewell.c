/* A receiver destroys its QP as soon as it has the last message: the sender's WRITE has to complete with success. */
#include "mrc_program.h"

enum { ROUNDS = 40 };

static void round_of(struct program *near_end, struct program *far_end) {
  make_side(near_end, &near_end->left);
  make_side(far_end, &far_end->right);
  NEED(to_init(near_end->left.qp, NULL, 0) == 0 && to_init(far_end->right.qp, NULL, 0) == 0);
  struct ibv_recv_wr receive, *bad_receive = NULL;
  memset(&receive, 0, sizeof receive);
  NEED(mrc_post_recv(far_end->right.qp, &receive, &bad_receive) == 0);
  NEED(to_rtr(far_end, far_end->right.qp, near_end->left.number, NULL, 0) == 0);
  NEED(to_rtr(near_end, near_end->left.qp, far_end->right.number, NULL, 0) == 0);
  NEED(to_rts(far_end->right.qp, NULL, 0) == 0 && to_rts(near_end->left.qp, NULL, 0) == 0);
  struct ibv_sge sge;
  sge.addr = (uintptr_t)near_end->memory;
  sge.length = 8;
  sge.lkey = near_end->mr->lkey;
  struct ibv_send_wr write, *bad = NULL;
  memset(&write, 0, sizeof write);
  write.sg_list = &sge;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.send_flags = IBV_SEND_SIGNALED;
  write.wr.rdma.remote_addr = (uintptr_t)far_end->memory;
  write.wr.rdma.rkey = far_end->mr->rkey;
  NEED(mrc_post_send(near_end->left.qp, &write, &bad) == 0);
  NEED(next_completion(far_end).status == IBV_WC_SUCCESS);
  NEED(mrc_destroy_qp(far_end->right.qp) == 0);
  NEED(next_completion(near_end).status == IBV_WC_SUCCESS);
  NEED(mrc_destroy_qp(near_end->left.qp) == 0);
}

int main(void) {
  struct program near_end, far_end;
  begin_on(&near_end, 0);
  begin_on(&far_end, 1);
  NEED(mrc_destroy_qp(near_end.left.qp) == 0 && mrc_destroy_qp(far_end.right.qp) == 0);
  const union ibv_gid own = near_end.gid;
  near_end.gid = far_end.gid; /* of the peer */
  far_end.gid = own;
  for (int i = 0; i < ROUNDS; ++i) round_of(&near_end, &far_end);
  make_side(&near_end, &near_end.left);
  make_side(&far_end, &far_end.right);
  end(&near_end);
  end(&far_end);
  puts("as expected");
  return 0;
}
