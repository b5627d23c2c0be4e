/* Controller API of MRC, with the names and signatures that OCP publishes, as openmrc implements it.
 *
 * Profiles of paths and of congestion control, events about paths, probes of single paths. Profiles belong to a device
 * within one process. Behaviour, limits and errors of every function: docs/reference/c-api.md. Functions that return int
 * return 0, or -1 with errno set, where nothing else is said.
 */
#ifndef OPENMRC_MRC_CTL_H
#define OPENMRC_MRC_CTL_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "mrc.h"
#include "mrc_ctl_api_ver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MRC_CTL_MAX_VENDOR_CFG_SIZE 128
#define MRC_CTL_EV_MAX_BYTES 32

/* Entry of an explicit profile that has no EV yet. */
#ifdef __cplusplus
#define MRC_CTL_EV_UNPOPULATED (mrc_ctl_ev())
#else
#define MRC_CTL_EV_UNPOPULATED ((struct mrc_ctl_ev){{0}, 0})
#endif

enum mrc_ctl_protocol_version {
  MRC_CTL_PROTOCOL_VERSION_0 = 0, /* the library chooses */
  MRC_CTL_PROTOCOL_VERSION_1 = 1
};

/* Profiles move one step at a time. One that was never configured, or returns to INIT, is empty. */
enum mrc_ctl_profile_state { MRC_CTL_PROFILE_INIT, MRC_CTL_PROFILE_OFFLINE, MRC_CTL_PROFILE_ONLINE };

/* --- device */

enum mrc_ctl_attr_opt {
  MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE = 1 << 0,
  MRC_CTL_OPT_CAP_CC_PROFILE_MODIFY_ONLINE = 1 << 1,
  MRC_CTL_OPT_CAP_EV_EVENT = 1 << 2,
  MRC_CTL_OPT_CAP_EV_EXPLICIT_RANGE = 1 << 3, /* explicit EVs have to be consecutive */
  MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT = 1 << 4,
  MRC_CTL_OPT_CAP_EP_OP_EV_PROBE = 1 << 5
};

struct mrc_ctl_device_attr {
  uint32_t mrc_ctl_protocol_version; /* bits of enum mrc_ctl_protocol_version */
  struct {
    uint32_t ev_max_fmt_profiles;
    uint32_t ev_max_profiles;
    uint32_t ev_max_count;         /* EVs in all profiles together */
    uint32_t ev_free_count;        /* of these, not yet in use */
    uint32_t ev_max_count_profile; /* EVs in one profile */
    uint32_t ev_count_align;
    uint32_t ev_max_width;      /* bits of an EV */
    uint32_t ev_fmt_mode_mask;  /* bits of enum mrc_ctl_ev_fmt_mode */
    uint32_t ev_mode_mask;      /* bits of enum mrc_ctl_ev_mode */
    uint32_t ev_op_max_entries; /* 0: no limit */
  } ev;
  struct {
    uint32_t cc_max_profiles;
    const char **algorithms; /* ends with NULL; the library's */
  } cc;
  uint32_t phy_port_mask; /* bit N: port N, which is plane N - 1 of the device */
  uint32_t opt_attr;      /* bits of enum mrc_ctl_attr_opt */
};

#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mcontext,
                            struct mrc_ctl_device_attr *ctl_attr, int *supported);
#endif
int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *ctl_attr);

/* Each pointer may be NULL. */
void mrc_ctl_query_version(uint32_t *current_version, uint32_t *last_supported_version, uint32_t *vendor_version,
                           uint32_t *last_supported_vendor_version);

/* --- ports: the planes of the device, from 1 on */

enum mrc_ctl_port_admin_state { MRC_CTL_PORT_ADMIN_DISABLED = 0, MRC_CTL_PORT_ADMIN_ENABLED = 1 };

enum mrc_ctl_port_attr_mask { MRC_CTL_PORT_ADMIN_STATE = 1 };

struct mrc_ctl_port_attr {
  enum mrc_ctl_port_admin_state port_admin_state;
};

int mrc_ctl_query_port(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int attr_mask);
int mrc_ctl_modify_port(struct mrc_context *context, uint8_t port_num, struct mrc_ctl_port_attr *attr, int attr_mask);

/* --- EV formats: the fields of an EV, and its place in a packet */

enum mrc_ctl_ev_fmt_mode {
  MRC_CTL_EV_FMT_MODE_STEV = 1, /* IPv6 flow label and UDP source port */
  MRC_CTL_EV_FMT_MODE_SRV6 = 2, /* destination address, with or without a routing header */
  MRC_CTL_EV_FMT_MODE_UDP = 4   /* UDP source port */
};

enum mrc_ctl_ev_fmt_op { MRC_CTL_EV_FMT_OP_MODIFY_FIELDS, MRC_CTL_EV_FMT_OP_QUERY_FIELDS };

enum mrc_ctl_ev_fmt_profile_attr_mask {
  MRC_CTL_EV_FMT_PROFILE_STATE = 1 << 0,
  MRC_CTL_EV_FMT_PROFILE_CUR_STATE = 1 << 1,
  MRC_CTL_EV_FMT_PROFILE_MODE = 1 << 2,
  MRC_CTL_EV_FMT_PROFILE_OP = 1 << 3,
  MRC_CTL_EV_FMT_VENDOR_CFG = INT32_MIN
};

struct mrc_ctl_ev_fmt_field {
  uint8_t width; /* bits */
};

struct mrc_ctl_ev_fmt_profile_attr {
  enum mrc_ctl_profile_state profile_state;     /* to move to */
  enum mrc_ctl_profile_state cur_profile_state; /* that it has to have, or has */
  enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
  struct {
    enum mrc_ctl_ev_fmt_op op;
    struct mrc_ctl_ev_fmt_field *fmt_fields;
    int fmt_field_count; /* in and out */
  } ev_fmt_op;
  uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *mrc_ctx, uint64_t ev_fmt_profile_id,
                                  struct mrc_ctl_ev_fmt_profile_attr *attr, int attr_mask);
int mrc_ctl_query_ev_fmt_profile(struct mrc_context *mrc_ctx, uint64_t ev_fmt_profile_id,
                                 struct mrc_ctl_ev_fmt_profile_attr *attr, int attr_mask);

/* --- EV profiles: the paths of a QP */

/* UDP: bytes 0 and 1, first the high one. STEV: bytes 0 to 3. SRV6: an address, then that of the routing header. */
typedef uint8_t mrc_ctl_ev_t[MRC_CTL_EV_MAX_BYTES];

struct mrc_ctl_ev {
  mrc_ctl_ev_t val;
  uint8_t port; /* from 1 on */
};

enum mrc_ctl_ev_state {
  MRC_CTL_EV_GOOD = 1,
  MRC_CTL_EV_ASSUMED_BAD = 2,
  MRC_CTL_EV_DENIED = 4,
  MRC_CTL_EV_UNKNOWN = INT32_MIN
};

enum mrc_ctl_ev_mode {
  MRC_CTL_EV_MODE_AUTO = 1, /* all EVs of the device */
  MRC_CTL_EV_MODE_EXP = 2,  /* a list */
  MRC_CTL_EV_MODE_GEN = 4   /* all that fit the fields */
};

enum mrc_ctl_ev_op {
  MRC_CTL_EV_OP_REPLACE_EV,
  MRC_CTL_EV_OP_MODIFY_EV_STATE,
  MRC_CTL_EV_OP_QUERY_EV_STATE,
  MRC_CTL_EV_OP_QUERY_EV_ARRAY
};

enum mrc_ctl_ev_fields_op { MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS, MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS };

enum mrc_ctl_ev_profile_attr_mask {
  MRC_CTL_EV_PROFILE_STATE = 1 << 0,
  MRC_CTL_EV_PROFILE_CUR_STATE = 1 << 1,
  MRC_CTL_EV_PROFILE_MODE = 1 << 2,
  MRC_CTL_EV_PROFILE_FMT_ID = 1 << 3,
  MRC_CTL_EV_PROFILE_COUNT = 1 << 4,
  MRC_CTL_EV_PROFILE_MIN_ACTIVE = 1 << 5,
  MRC_CTL_EV_PROFILE_EVENT_MASK = 1 << 6,
  MRC_CTL_EV_PROFILE_EV_OP = 1 << 7,
  MRC_CTL_EV_PROFILE_EV_FIELDS_OP = 1 << 8,
  MRC_CTL_EV_PROFILE_VENDOR_CFG = INT32_MIN
};

struct mrc_ctl_ev_field {
  uint32_t width;    /* bits, at most those of the format's field */
  uint32_t init_val; /* value outside the mask */
  uint32_t min_val;  /* range of the number that the bits of the mask form */
  uint32_t max_val;
  uint32_t mask; /* 0: the field is constant */
};

enum mrc_ctl_ev_op_flags { MRC_CTL_EV_OP_F_ALL_COPIES = 1 };

struct mrc_ctl_ev_op_entry {
  struct mrc_ctl_ev ev;
  struct mrc_ctl_ev ev_new; /* REPLACE_EV */
  enum mrc_ctl_ev_state state;
  uint32_t flags; /* REPLACE_EV: bits of enum mrc_ctl_ev_op_flags */
};

struct mrc_ctl_ev_profile_attr {
  enum mrc_ctl_profile_state profile_state;     /* to move to */
  enum mrc_ctl_profile_state cur_profile_state; /* that it has to have, or has */
  enum mrc_ctl_ev_mode ev_mode;
  uint64_t ev_fmt_profile_id;
  uint32_t ev_count;
  uint32_t ev_min_active; /* EVs that stay in use however bad they are */
  int ev_event_mask;      /* GOOD and ASSUMED_BAD: states whose beginning is an event */
  struct {
    enum mrc_ctl_ev_op op;
    struct mrc_ctl_ev_op_entry *entries;
    int entry_count; /* in and out */
  } ev_op;
  struct {
    enum mrc_ctl_ev_fields_op op;
    struct mrc_ctl_ev_field *fields;
    int field_count; /* in and out */
  } ev_fields_op;
  uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

int mrc_ctl_modify_ev_profile(struct mrc_context *mrc_ctx, uint64_t ev_profile_id,
                              struct mrc_ctl_ev_profile_attr *attr, int attr_mask);
int mrc_ctl_query_ev_profile(struct mrc_context *mrc_ctx, uint64_t ev_profile_id,
                             struct mrc_ctl_ev_profile_attr *attr, int attr_mask);

/* --- CC profiles: congestion control of a QP */

enum mrc_ctl_cc_profile_attr_mask {
  MRC_CTL_CC_PROFILE_STATE = 1 << 0,
  MRC_CTL_CC_PROFILE_CUR_STATE = 1 << 1,
  MRC_CTL_CC_PROFILE_ALGORITHM = 1 << 2,
  MRC_CTL_CC_PROFILE_CONFIG = 1 << 3,
  MRC_CTL_CC_PROFILE_VENDOR_CFG = INT32_MIN
};

struct mrc_ctl_cc_profile_attr {
  enum mrc_ctl_profile_state profile_state;     /* to move to */
  enum mrc_ctl_profile_state cur_profile_state; /* that it has to have, or has */
  const char *algorithm;                        /* NULL: no control */
  const void *cc_config;                        /* "uet-1.0-nscc": struct mrc_ctl_cc_nscc_cfg */
  uint8_t vendor_cfg[MRC_CTL_MAX_VENDOR_CFG_SIZE];
};

/* Numbers that are 0 keep the published formula, or openmrc's choice. */
struct mrc_ctl_cc_nscc_cfg {
  uint8_t disable_qa; /* not 0: no quick adaptation */
  uint32_t adjust_bytes_threshold;
  uint32_t adjust_period_threshold; /* ns */
  uint32_t base_rtt;                /* ns */
  float eta;                        /* factors of the published formulas, such as 0.15 */
  float fi;
  float fi_scale;
  float gamma;
  float max_md_jump;
  uint32_t max_cwnd; /* bytes */
  uint8_t qa_gate;
  uint32_t qa_threshold; /* ns */
  uint32_t target_delay; /* ns */
};

int mrc_ctl_modify_cc_profile(struct mrc_context *mrc_ctx, uint64_t cc_profile_id,
                              struct mrc_ctl_cc_profile_attr *attr, int attr_mask);
int mrc_ctl_query_cc_profile(struct mrc_context *mrc_ctx, uint64_t cc_profile_id,
                             struct mrc_ctl_cc_profile_attr *attr, int attr_mask);

/* --- events about EVs. mrc_ctl_poll_ev_event: a number of events, or a negative error number */

struct mrc_ctl_ev_event {
  uint64_t profile_id;
  struct mrc_ctl_ev ev;
  uint32_t drop_count; /* events lost just before this one */
#if MRC_CTL_API_VER_USED >= MRC_CTL_API_VER(1, 0, 1)
  enum mrc_ctl_ev_state state; /* that has begun */
#endif
};

struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *mrc_ctx, int cqe, void *cq_context,
                                          struct mrc_comp_channel *channel, int comp_vector);
int mrc_ctl_poll_ev_event(struct mrc_cq *ev_cq, int num_entries, struct mrc_ctl_ev_event *ev_event)
#if MRC_CTL_API_VER_USED < MRC_CTL_API_VER(1, 0, 1)
    __asm__("openmrc_poll_ev_event_1_0_0") /* whose events are shorter */
#endif
        ;

/* --- endpoint operations: probes of single paths */

enum mrc_ctl_ep_op_type { MRC_CTL_EP_OP_EV_PROBE, MRC_CTL_EP_OP_PORT_STATUS_UPDATE };

struct mrc_ctl_ep_req {
  uint16_t req_id; /* distinct within a call */
  union ibv_gid sgid;
  union ibv_gid dgid;
  enum mrc_ctl_ev_fmt_mode ev_fmt_mode;
  struct mrc_ctl_ev req_ev;
  union {
    struct {
      uint32_t port_status;
    } port_status_update;
  } op;
};

struct mrc_ctl_ep_rsp {
  uint16_t req_id;
  uint8_t port;         /* from 1 on */
  unsigned int rtt;     /* ns */
  uint8_t adj_svc_time; /* not 0: without the time that the peer took */
};

int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc_ctx, uint8_t req_tc, enum mrc_ctl_ep_op_type op_type,
                               struct mrc_ctl_ep_req *req, int num_req, uint32_t rsp_timeout,
                               struct mrc_ctl_ep_rsp *rsp, int *num_rsp);

#ifdef __cplusplus
}
#endif

#endif
