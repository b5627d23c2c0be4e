/* Application API of MRC, with the names and signatures that OCP publishes, as openmrc implements it.
 *
 * Programs compile with `pkg-config --cflags --libs openmrc` and run under `openmrc run`. Behaviour, limits and errors of
 * every function: docs/reference/c-api.md. Functions that return int report failure by an error number or by -1, which
 * is said for each group; errno is set in both cases.
 */
#ifndef OPENMRC_MRC_H
#define OPENMRC_MRC_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "mrc_api_ver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of opaque configuration in hints and attributes. */
#define MRC_MAX_VENDOR_CFG_SIZE 128

struct mrc_context;
struct mrc_comp_channel;
struct mrc_cq;
struct mrc_qp_hint;
struct mrc_qp;

/* --- versions and devices */

/* Wire protocols: bits in mrc_device_attr, a single value in mrc_qp_init_attr. */
enum mrc_protocol_version {
  MRC_PROTOCOL_VERSION_0 = 0, /* the library chooses */
  MRC_PROTOCOL_VERSION_1 = 1
};

enum mrc_device_cap {
  MRC_DEVICE_CAP_TRIM_NACK = 1,   /* answers trimmed packets with a NACK */
  MRC_DEVICE_CAP_DYNAMIC_MPR = 2, /* changes its receive window while a QP lives */
  MRC_DEVICE_CAP_SVC_TIME = 4     /* reports its service time */
};

struct mrc_device_attr {
  uint32_t mrc_protocol_version; /* bits of enum mrc_protocol_version */
  struct {
    uint16_t max_wimm;      /* WRITE_IMM in flight as requester */
    uint16_t max_wimm_dest; /* and as responder */
  } wimm_attr;
  struct {
    uint8_t max_mpr;        /* largest window, in units of 128 PSNs */
    uint8_t mpr_resolution; /* step between windows, in the same units */
  } mpr_attr;
  struct {
    uint32_t max_qp_hint;
  } qp_attr;
  uint32_t cap; /* bits of enum mrc_device_cap */
};

/* 0, or -1. `supported` is 0 where the process does not use openmrc's libibverbs. */
#if MRC_API_VER_USED >= MRC_API_VER(1, 0, 1)
int mrc_query_device_ex(struct ibv_context *context, struct mrc_context *mcontext, struct mrc_device_attr *attr,
                        int *supported);
#endif
int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported);

/* Each pointer may be NULL. */
void mrc_query_version(uint32_t *current_version, uint32_t *last_supported_version, uint32_t *vendor_version,
                       uint32_t *last_supported_vendor_version);

/* --- contexts: parents of all objects below. A pointer or NULL; 0 or -1 */

struct mrc_context_attr {
  uint32_t mrc_api_version_used;        /* 0: the current one */
  uint32_t mrc_vendor_api_version_used; /* 0: the current one */
};

struct mrc_context *mrc_create_context(struct ibv_context *vcontext, struct mrc_context_attr *context_attr);
int mrc_destroy_context(struct mrc_context *mrc_ctx);

/* --- completion channels. 0 or an error number; mrc_get_comp_channel_fd: 0 or -1 */

int mrc_create_comp_channel(struct mrc_context *mrc_ctx, struct mrc_comp_channel **channel);
int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd);
int mrc_destroy_comp_channel(struct mrc_comp_channel *channel);

/* --- completion queues. A pointer or NULL; a number of completions or -1; 0 or an error number */

struct mrc_cq *mrc_create_cq(struct mrc_context *mrc_ctx, int cqe, void *cq_context, struct mrc_comp_channel *channel,
                             int comp_vector);
int mrc_poll_cq(struct mrc_cq *cq, int num_entries, struct ibv_wc *wc);
int mrc_destroy_cq(struct mrc_cq *cq);

/* --- hints about the traffic of QPs. A pointer or NULL; 0 or -1 */

struct mrc_qp_hint_attr {
  int num_qps_per_peer;      /* QPs with this hint that send to one peer at a time */
  int num_send_peers;        /* peers that they send to at a time */
  int num_remote_recv_peers; /* senders that target such a peer at a time: the degree of the incast */
  uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

enum mrc_qp_hint_attr_mask {
  MRC_QP_HINT_NUM_QPS_PER_PEER = 1,
  MRC_QP_HINT_NUM_SEND_PEERS = 2,
  MRC_QP_HINT_NUM_REMOTE_RECV_PEERS = 4,
  MRC_QP_HINT_VENDOR_CFG = INT32_MIN
};

struct mrc_qp_hint_init_attr {
  struct mrc_qp_hint_attr attr;
};

struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *mrc_ctx, struct mrc_qp_hint_init_attr *init_attr);
int mrc_destroy_qp_hint(struct mrc_qp_hint *qp_hint);
int mrc_query_qp_hint(struct mrc_qp_hint *qp_hint, struct mrc_qp_hint_attr *qp_hint_attr, int qp_hint_attr_mask);
int mrc_modify_qp_hint(struct mrc_qp_hint *qp_hint, struct mrc_qp_hint_attr *qp_hint_attr, int qp_hint_attr_mask);

/* --- queue pairs. A pointer or NULL; 0 or an error number; mrc_get_qpn: 0 or -1 */

struct mrc_qp_init_attr {
  void *qp_context;
  struct mrc_cq *send_cq;
  struct mrc_cq *recv_cq;
  struct ibv_qp_cap cap; /* mrc_create_qp() stores what the QP has */
  int sq_sig_all;
  struct ibv_pd *pd;
  uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags: RDMA_WRITE and RDMA_WRITE_WITH_IMM; 0: both */
  enum mrc_protocol_version protocol_version;
};

/* Attributes of MRC, by the step that takes them. */
enum mrc_qp_attr_mask {
  MRC_QP_MAX_WIMM = 1 << 0,      /* RTS */
  MRC_QP_MAX_WIMM_DEST = 1 << 1, /* RTR */
  MRC_QP_MPR = 1 << 2,           /* RTS */
  MRC_QP_MPR_DEST = 1 << 3,      /* RTR; with a dynamic MPR also later */
  MRC_QP_TIMEOUT = 1 << 4,       /* RTS */
  MRC_QP_EV_PROFILE_ID = 1 << 5, /* INIT */
  MRC_QP_CC_PROFILE_ID = 1 << 6, /* INIT */
  MRC_QP_HINT = 1 << 7,          /* INIT */
  MRC_QP_RETRY_CNT = 1 << 8,     /* RTS */
  MRC_QP_CAP = 1 << 9,           /* RTR */
  MRC_QP_VENDOR_CFG = INT32_MIN  /* refused */
};

enum mrc_qp_cap {
  MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED = 1, /* the peer leaves trimmed packets unanswered */
  MRC_QP_CAP_DYNAMIC_MPR = 2,                /* both ends may change their windows */
  MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED = 4   /* the peer reports no service time */
};

struct mrc_qp_attr {
  struct {
    uint8_t mpr;      /* window of the peer, in units of 128 PSNs */
    uint8_t mpr_dest; /* own window */
  } mpr;
  struct {
    uint16_t max_wimm;      /* WRITE_IMM that this end keeps in flight */
    uint16_t max_wimm_dest; /* and that the peer may keep */
  } wimm;
  uint8_t timeout; /* 1.024 us * 2^timeout; 0 to 24 */
  struct {
    uint64_t ev_profile_id; /* mrc_ctl_modify_ev_profile() */
    uint64_t cc_profile_id; /* mrc_ctl_modify_cc_profile() */
  } profile;
  struct {
    uint8_t linear_cnt; /* 0 to 7 repetitions at one interval */
    uint8_t exp_cnt;    /* then 0 to 24 at doubling intervals; 25: for ever */
  } retry;
  struct mrc_qp_hint *qp_hint; /* NULL: none */
  uint32_t cap;                /* bits of enum mrc_qp_cap */
  uint8_t vendor_cfg[MRC_MAX_VENDOR_CFG_SIZE];
};

struct mrc_qp *mrc_create_qp(struct mrc_context *mrc_ctx, struct mrc_qp_init_attr *mrc_qp_attr);
int mrc_destroy_qp(struct mrc_qp *qp);
int mrc_query_qp(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vattr_mask, struct mrc_qp_attr *mrc_attr,
                 int mrc_attr_mask, struct mrc_qp_init_attr *init_attr);
int mrc_modify_qp(struct mrc_qp *qp, struct ibv_qp_attr *vattr, int vattr_mask, struct mrc_qp_attr *mrc_attr,
                  int mrc_attr_mask);
int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn);

/* --- work. mrc_post_recv: 0 or -1; mrc_post_send: 0 or an error number */

int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* --- events. 0 or -1; mrc_req_notify_cq: 0 or an error number */

struct mrc_async_event {
  union {
    struct mrc_cq *cq;
    struct mrc_qp *qp;
    int port_num;
  } element;
  enum ibv_event_type event_type;
};

int mrc_get_async_event(struct mrc_context *mrc_ctx, struct mrc_async_event *event);
void mrc_ack_async_event(struct mrc_async_event *event);
int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only);
int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context);
void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int nevents);

#ifdef __cplusplus
}
#endif

#endif
