/* WRITE, SEND, READ and atomics mixed on one QP: carried out and completed in the order of posting.
 * The sender polls when everything has arrived, so that held work must not depend on its polling. */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kRounds = 200, kSize = 20000 };
static char source[kSize], target[kSize], inbox[4 * kRounds][16];
static uint64_t counter, old_value;

static int connect_to(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .min_rnr_timer = 1};
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
  rtr.max_dest_rd_atomic = 4;
  rtr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}};
  return ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
         ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ||
         ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(void) {
  struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *sent = ibv_create_cq(context, 4096, NULL, NULL, 0), *got = ibv_create_cq(context, 4096, NULL, NULL, 0);
  const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  struct ibv_mr *from = ibv_reg_mr(pd, source, sizeof source, all), *to = ibv_reg_mr(pd, target, sizeof target, all);
  struct ibv_mr *box = ibv_reg_mr(pd, inbox, sizeof inbox, all), *count = ibv_reg_mr(pd, &counter, 8, all);
  struct ibv_mr *old = ibv_reg_mr(pd, &old_value, 8, all);
  struct ibv_qp_init_attr init = {.send_cq = sent, .recv_cq = got, .qp_type = IBV_QPT_RC, .cap = {
      .max_send_wr = 8 * kRounds, .max_recv_wr = 8 * kRounds, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64}};
  struct ibv_qp *left = ibv_create_qp(pd, &init), *right = ibv_create_qp(pd, &init);
  union ibv_gid gid;
  if (!left || !right || ibv_query_gid(context, 1, 0, &gid)) return 2;
  if (connect_to(left, right->qp_num, gid) || connect_to(right, left->qp_num, gid)) return 3;
  memset(source, 7, sizeof source);
  struct ibv_recv_wr *bad_receive;
  for (int i = 0; i < 3 * kRounds; ++i) {
    struct ibv_sge sge = {(uintptr_t)inbox[i], 16, box->lkey};
    struct ibv_recv_wr receive = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
    if (ibv_post_recv(right, &receive, &bad_receive)) return 4;
  }
  for (int round = 0; round < kRounds; ++round) {
    char word[16];
    snprintf(word, sizeof word, "round %d", round);
    struct ibv_sge whole = {(uintptr_t)source, sizeof source, from->lkey}, short_one = {(uintptr_t)word, 16, 0};
    struct ibv_sge result = {(uintptr_t)&old_value, 8, old->lkey};
    struct ibv_send_wr add = {.wr_id = 5 * round + 4, .sg_list = &result, .num_sge = 1,
                              .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
    add.wr.atomic.remote_addr = (uintptr_t)&counter;
    add.wr.atomic.rkey = count->rkey;
    add.wr.atomic.compare_add = 3;
    struct ibv_send_wr say = {.wr_id = 5 * round + 3, .next = &add, .sg_list = &short_one, .num_sge = 1,
                              .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED};
    struct ibv_send_wr note = {.wr_id = 5 * round + 2, .next = &say, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                               .imm_data = round, .send_flags = IBV_SEND_SIGNALED};
    note.wr.rdma.remote_addr = (uintptr_t)target;
    note.wr.rdma.rkey = to->rkey;
    struct ibv_send_wr tell = {.wr_id = 5 * round + 1, .next = &note, .sg_list = &short_one, .num_sge = 1,
                               .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = round, .send_flags = IBV_SEND_INLINE};
    struct ibv_send_wr write = {.wr_id = 5 * round, .next = &tell, .sg_list = &whole, .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE};
    write.wr.rdma.remote_addr = (uintptr_t)target;
    write.wr.rdma.rkey = to->rkey;
    struct ibv_send_wr *bad = NULL;
    if (ibv_post_send(left, &write, &bad)) return 5;
    memset(word, 0, sizeof word);
  }
  struct ibv_wc done;
  for (int i = 0; i < 3 * kRounds; ++i) {
    while (ibv_poll_cq(got, 1, &done) == 0) usleep(100);
    const int kind = i % 3, opcode = kind == 1 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    char word[16];
    snprintf(word, sizeof word, "round %d", i / 3);
    const int right_word = kind == 1 || strcmp(inbox[i], word) == 0;
    const int right_imm = kind == 2 || (done.wc_flags == IBV_WC_WITH_IMM && (int)done.imm_data == i / 3);
    if (done.status || (int)done.wr_id != i || (int)done.opcode != opcode || !right_word || !right_imm) {
      printf("receive %d: wr_id %d, %s, opcode %d, %s\n", i, (int)done.wr_id, ibv_wc_status_str(done.status), done.opcode,
             inbox[i]);
      return 6;
    }
  }
  for (int i = 0; i < kRounds; ++i) {
    for (int kind = 2; kind < 5; ++kind) { /* the first two of each round are unsignaled */
      while (ibv_poll_cq(sent, 1, &done) == 0) continue;
      if (done.status || (int)done.wr_id != 5 * i + kind) {
        printf("send %d: wr_id %d, %s\n", 5 * i + kind, (int)done.wr_id, ibv_wc_status_str(done.status));
        return 7;
      }
    }
  }
  if (counter != 3 * kRounds || old_value != 3 * (kRounds - 1) || memcmp(source, target, sizeof source)) return 8;
  puts("in order");
  return 0;
}
