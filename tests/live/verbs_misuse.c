/* Misuse of libibverbs: every call has to return an error that its manual page lists. Prints the first that does not. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REFUSES(call, error)                                                      \
  do {                                                                            \
    const int got = (call);                                                       \
    if (got != (error)) {                                                         \
      printf("%s: %d (%s), expected %s\n", #call, got, strerror(got), #error);    \
      return 1;                                                                   \
    }                                                                             \
  } while (0)
#define IS_NULL(call, error)                                                      \
  do {                                                                            \
    errno = 0;                                                                    \
    if ((call) != NULL || errno != (error)) {                                     \
      printf("%s: errno %d, expected NULL and %s\n", #call, errno, #error);       \
      return 1;                                                                   \
    }                                                                             \
  } while (0)

static char memory[4096];

int main(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  struct ibv_context *context = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  struct ibv_pd *pd = ibv_alloc_pd(context), *other = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, all), *foreign = ibv_reg_mr(other, memory, 64, all);
  if (!context || !pd || !other || !cq || !mr || !foreign) return 2;

  IS_NULL(ibv_reg_mr(NULL, memory, 64, all), EINVAL);
  IS_NULL(ibv_reg_mr(pd, memory, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  IS_NULL(ibv_reg_mr(pd, memory, 0, all), EINVAL);
  IS_NULL(ibv_reg_mr(pd, (void *)0x1000, 64, all), EFAULT);
  /* Addresses of a device are reserved in the process, but not mapped for its processors. */
  void *reserved = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  IS_NULL(ibv_reg_mr(pd, reserved, 64, all), EFAULT);
  IS_NULL(ibv_reg_mr(pd, reserved, 64, 0), EFAULT);
  IS_NULL(ibv_reg_mr(pd, memory, SIZE_MAX, all), EINVAL);
  IS_NULL(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
  IS_NULL(ibv_create_cq(context, 16, NULL, NULL, 7), EINVAL);
  IS_NULL(ibv_alloc_pd(NULL), EINVAL);
  IS_NULL(ibv_create_qp(pd, NULL), EINVAL);
  IS_NULL(ibv_open_device(NULL), ENODEV);
  IS_NULL(ibv_create_cq(NULL, 16, NULL, NULL, 0), EINVAL);
  IS_NULL(ibv_create_comp_channel(NULL), EINVAL);
  REFUSES(ibv_dereg_mr(NULL), EINVAL);
  REFUSES(ibv_dealloc_pd(NULL), EINVAL);
  REFUSES(ibv_destroy_cq(NULL), EINVAL);
  REFUSES(ibv_close_device(NULL), -1);

  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
                                  .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
  IS_NULL(ibv_create_qp(pd, &init), EOPNOTSUPP);
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 1 << 30;
  IS_NULL(ibv_create_qp(pd, &init), EINVAL);
  init.cap.max_send_wr = 4;
  init.send_cq = NULL;
  IS_NULL(ibv_create_qp(pd, &init), EINVAL);
  init.send_cq = cq;
  struct ibv_qp *qp = ibv_create_qp(pd, &init);
  if (!qp) return 3;

  struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey};
  struct ibv_send_wr write = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad_send = NULL;
  struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 2}, *bad_receive = NULL;
  REFUSES(ibv_post_send(qp, &write, &bad_send), EINVAL);
  REFUSES(bad_send != &write, 0);
  REFUSES(ibv_post_recv(qp, &receive, &bad_receive), EINVAL);

  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .port_num = 1};
  REFUSES(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  REFUSES(ibv_modify_qp(qp, NULL, IBV_QP_STATE), EINVAL);
  REFUSES(ibv_modify_qp(NULL, &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_SQD;
  REFUSES(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EOPNOTSUPP);
  attr.qp_state = IBV_QPS_INIT;
  REFUSES(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  attr.port_num = 2;
  const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  REFUSES(ibv_modify_qp(qp, &attr, to_init), EINVAL);
  attr.port_num = 1;
  REFUSES(ibv_modify_qp(qp, &attr, to_init), 0);

  union ibv_gid gid;
  REFUSES(ibv_query_gid(context, 1, 0, &gid), 0);
  REFUSES(ibv_query_gid(context, 1, 99, &gid), -1);
  REFUSES(ibv_query_gid(context, 2, 0, &gid), -1);
  struct ibv_port_attr port;
  REFUSES(ibv_query_port(context, 2, &port), EINVAL);
  const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num};
  REFUSES(ibv_modify_qp(qp, &rtr, to_rtr), EINVAL); /* no GID */
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  REFUSES(ibv_modify_qp(qp, &rtr, to_rtr), EINVAL); /* the GID is zero */
  rtr.ah_attr.grh.dgid = gid;
  rtr.path_mtu = 77;
  REFUSES(ibv_modify_qp(qp, &rtr, to_rtr), EINVAL);
  rtr.path_mtu = IBV_MTU_1024;
  REFUSES(ibv_modify_qp(qp, &rtr, to_rtr), 0);
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
  REFUSES(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_MAX_QP_RD_ATOMIC), 0);

  sge.lkey = mr->lkey ^ 0x5A5A5A5A;
  REFUSES(ibv_post_send(qp, &write, &bad_send), EINVAL);
  sge.lkey = foreign->lkey; /* of another protection domain */
  REFUSES(ibv_post_send(qp, &write, &bad_send), EINVAL);
  sge.lkey = mr->lkey;
  sge.length = sizeof memory + 1;
  REFUSES(ibv_post_send(qp, &write, &bad_send), EINVAL);
  sge.length = 64;
  write.num_sge = 99;
  REFUSES(ibv_post_send(qp, &write, &bad_send), EINVAL);
  write.num_sge = 1;
  write.opcode = 12345;
  REFUSES(ibv_post_send(qp, &write, &bad_send), EOPNOTSUPP);
  write.opcode = IBV_WR_RDMA_WRITE;
  sge.length = 65;
  write.send_flags = IBV_SEND_INLINE; /* a QP that asks for no inline data has room for 64 bytes */
  REFUSES(ibv_post_send(qp, &write, &bad_send), EINVAL);
  sge.length = 64;

  /* A wrong rkey fails the QP; work posted after that is flushed, in order. */
  struct ibv_wc done = {0};
  write.send_flags = IBV_SEND_SIGNALED;
  write.wr.rdma.remote_addr = (uintptr_t)memory;
  write.wr.rdma.rkey = mr->rkey ^ 0x5A5A5A5A;
  write.wr_id = 1;
  REFUSES(ibv_post_send(qp, &write, &bad_send), 0);
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  REFUSES(done.status == IBV_WC_SUCCESS, 0);
  write.wr_id = 2;
  REFUSES(ibv_post_send(qp, &write, &bad_send), 0);
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  REFUSES(done.wr_id != 2 || done.status != IBV_WC_WR_FLUSH_ERR, 0);
  REFUSES(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  REFUSES(attr.qp_state != IBV_QPS_ERR, 0);

  REFUSES(ibv_dealloc_pd(pd), EBUSY);
  REFUSES(ibv_destroy_cq(cq), EBUSY);
  REFUSES(ibv_destroy_qp(qp), 0);
  REFUSES(ibv_destroy_qp(qp), EINVAL);
  REFUSES(ibv_destroy_qp(NULL), EINVAL);
  REFUSES(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  REFUSES(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EINVAL);
  REFUSES(ibv_destroy_cq(cq), 0);
  REFUSES(ibv_destroy_cq(cq), EINVAL);
  init.send_cq = init.recv_cq = cq;
  IS_NULL(ibv_create_qp(pd, &init), EINVAL);
  REFUSES(ibv_dereg_mr(mr), 0);
  REFUSES(ibv_dereg_mr(mr), EINVAL);
  REFUSES(ibv_dereg_mr(foreign), 0);
  REFUSES(ibv_dealloc_pd(pd), 0);
  REFUSES(ibv_dealloc_pd(pd), EINVAL);
  IS_NULL(ibv_reg_mr(pd, memory, 64, all), EINVAL);
  REFUSES(ibv_dealloc_pd(other), 0);
  REFUSES(ibv_close_device(context), 0);
  REFUSES(ibv_close_device(context), -1);
  puts("all refused");
  return 0;
}
