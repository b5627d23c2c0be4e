// States and attributes of queue pairs.
#include <algorithm>
#include <cstring>

#include "engine/qp/rnr_time.hpp"
#include "verbs/connection_values.hpp"
#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"
#include "verbs/retry_time.hpp"

namespace openmrc::verbs {
namespace {

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToRts =
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

std::uint32_t payload_of(ibv_mtu mtu) { return mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ? 0 : 128U << mtu; }

// Calls `run` for the number of each lane, the one with the receive queue first, until one is refused.
template <typename Run>
Status on_lanes(Qp& qp, Run&& run) {
  for (const std::uint32_t lane : {qp.mrc, qp.rc}) {
    if (lane == 0) continue;
    const Status status = run(lane);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

template <typename Attributes>
int modify(Qp& qp, Attributes attributes) {
  return errno_of(qp.nic().device().command([&](Engine& engine, TimePs now) {
    return on_lanes(qp, [&](std::uint32_t lane) { return engine.modify_qp(now, lane, attributes); });
  }));
}

int to_init(Qp& qp) {
  Nic& nic = qp.nic();
  const std::uint32_t evs = nic.device().settings().evs_per_port;
  const std::uint64_t ports = nic.description().planes.size();
  QpToInit init;
  if (qp.mrc_paths) {
    init.ev_universe = qp.mrc_paths->evs;
    init.ev_set.min_active = qp.mrc_paths->min_active;
    init.controller = qp.mrc_paths->controller;
    init.cc = qp.mrc_paths->cc;
  }
  init.ev_set.active_per_port = static_cast<std::uint16_t>(std::max(1U, evs - evs / 2));
  if (init.ev_universe.empty()) init.ev_universe = nic.device().evs();
  init.signal = published_mrc() ? PathSignal::kMarks : PathSignal::kDiscover;
  init.rc_plane_move = !published_mrc();
  init.plane_buffer_bytes = nic.receive_buffer_bytes() / (3 * ports);
  init.cc.mtu_bytes = nic.payload_room() + kHeaderBytes;
  init.cc.link_rate_bps = nic.rate_bps();
  if (init.cc.base_rtt == 0) init.cc.base_rtt = nic.base_rtt();
  const std::uint64_t floor = 16ULL * nic.payload_room();
  const std::uint64_t in_flight = nic.rate_bps() / 8 * (init.cc.base_rtt / kPsPerUs) / 1'000'000;
  if (init.cc.max_cwnd_bytes != 0) return modify(qp, init);
  init.cc.max_cwnd_bytes =
      std::min(std::max(3 * in_flight / 2, floor), std::max(nic.receive_buffer_bytes() / 3, floor));
  return modify(qp, init);
}

// The attributes of `both`, as a lane needs them.
QpToRtr rtr_of_lane(Qp& qp, std::uint32_t lane, const QpToRtr& both, std::uint32_t rc_payload) {
  QpToRtr rtr = both;
  if (qp.is_pair()) rtr.destination_qp = (both.destination_qp & ~1U) | (lane & 1U);
  if (lane == qp.mrc) return rtr;
  rtr.payload_mtu = rc_payload;
  rtr.payload_mtu_max = 0;
  return rtr;
}

// Largest payload of MRC packets. A program that asks for the device's path MTU wants as much as there is; one that asks
// for less, or whose peer has less, gets that.
std::uint32_t payload_max(Nic& nic, std::uint32_t path_mtu, std::uint32_t room) {
  return path_mtu == path_mtu_at_most(nic.payload_room()) ? std::max(path_mtu, room) : path_mtu;
}

int to_rtr(Qp& qp, const ibv_qp_attr& wanted) {
  const Address first = address_of(wanted.ah_attr.grh.dgid);
  const bool published = published_mrc();
  const std::uint32_t path_mtu = payload_of(wanted.path_mtu);
  const std::uint32_t rc_payload = published ? path_mtu : full_payload(path_mtu, qp.number(), wanted.dest_qp_num);
  Nic& nic = qp.nic();
  if (wanted.ah_attr.is_global == 0 || path_mtu == 0 || wanted.dest_qp_num >= kPsnSpace) return EINVAL;
  if (first.family != nic.description().planes.front().local.family) return EINVAL;
  const PeerConfig peer = nic.peer(first, wanted.dest_qp_num);
  const std::uint32_t room = nic.payload_room(peer);
  if ((qp.rc == 0 ? path_mtu : rc_payload) > room) return EINVAL;
  QpToRtr rtr;
  rtr.destination_qp = wanted.dest_qp_num;
  rtr.rq_psn = wanted.rq_psn & (kPsnSpace - 1);
  rtr.payload_mtu = path_mtu;
  if (!published) rtr.payload_mtu_max = payload_max(nic, path_mtu, room);
  rtr.mpr_units = qp.mrc_numbers.mpr_units_dest;
  rtr.wimm_max_dest = qp.mrc_numbers.wimm_max_dest;
  rtr.capabilities.trim_nack = qp.mrc_numbers.trim_nack;
  rtr.capabilities.dynamic_mpr = qp.mrc_numbers.dynamic_mpr;
  rtr.capabilities.service_time = qp.mrc_numbers.service_time;
  rtr.rc_rnr_timer = wanted.min_rnr_timer;
  rtr.rc_reads_max_dest = std::clamp<std::uint8_t>(wanted.max_dest_rd_atomic, 1, kReadsMax);
  rtr.capabilities.plane_sacks = rtr.capabilities.sack_transit = rtr.capabilities.kernel_check = !published;
  rtr.sack_bytes = published ? std::max(4096U, path_mtu * 4) : kSackBytesPlanes;
  nic::Device& device = nic.device();
  const Status added = device.command([&](Engine& engine, TimePs) { return engine.add_peer(peer, rtr.peer); });
  if (added != Status::kOk) return errno_of(added);
  const int error = errno_of(device.command([&](Engine& engine, TimePs now) {  // the QP keeps the peer
    return on_lanes(
        qp, [&](std::uint32_t lane) { return engine.modify_qp(now, lane, rtr_of_lane(qp, lane, rtr, rc_payload)); });
  }));
  device.command([&](Engine& engine, TimePs) { return engine.remove_peer(rtr.peer); });
  return error;
}

int to_rts(Qp& qp, const ibv_qp_attr& wanted) {
  QpToRts rts;
  rts.sq_psn = wanted.sq_psn & (kPsnSpace - 1);
  rts.mpr_units = qp.mrc_numbers.mpr_units;
  rts.wimm_max = qp.mrc_numbers.wimm_max;
  rts.timeout_exponent = qp.mrc_numbers.timeout_exponent;
  rts.linear_retries = qp.mrc_numbers.linear_retries;
  rts.exponential_retries = qp.mrc_numbers.exponential_retries;
  if (!qp.mrc_paths) {  // the C API of MRC has attributes of its own
    const RetryCounts counts = retries_of(wanted.timeout, std::min(wanted.retry_cnt, kRetriesMax));
    rts.linear_retries = counts.linear;
    rts.exponential_retries = counts.exponential;
  }
  rts.timestamp_resolution_ns = 1000;
  rts.rc_rnr_retries = std::min(wanted.rnr_retry, kRetriesMax);
  rts.rc_reads_max = std::clamp<std::uint8_t>(wanted.max_rd_atomic, 1, kReadsMax);
  return modify(qp, rts);
}

// Mutexes of CQs are taken before those of QPs, so this takes three steps.
int to_reset(Qp& qp) {
  Status status = Status::kOk;
  {
    const std::lock_guard guard(qp.mutex);
    const std::array lanes{qp.mrc, qp.rc};
    status = qp.nic().device().end_qps(lanes, [&](Engine& engine, TimePs now) {
      return on_lanes(qp, [&](std::uint32_t lane) { return engine.reset_qp(now, lane); });
    });
    qp.held.clear();
    qp.failed = true;  // a failure among the completions to drop must not fail the fresh lanes
  }
  for (ibv_cq* api : {qp.init.send_cq, qp.init.recv_cq}) {
    const std::lock_guard guard(Cq::of(api).mutex);
    drop_completions(Cq::of(api), qp);
  }
  const std::lock_guard guard(qp.mutex);
  qp.sends_begin = qp.sends_posted = qp.sends_end = 0;
  qp.rc_active = qp.failed = false;
  return errno_of(status);
}

int to_error(Qp& qp) {
  const std::lock_guard guard(qp.mutex);
  fail_all_lanes(qp);
  return 0;
}

ibv_qp_state state_of(QpState state) {
  switch (state) {
    case QpState::kReset:
      return IBV_QPS_RESET;
    case QpState::kInit:
      return IBV_QPS_INIT;
    case QpState::kRtr:
      return IBV_QPS_RTR;
    case QpState::kRts:
      return IBV_QPS_RTS;
    case QpState::kError:
      break;
  }
  return IBV_QPS_ERR;
}

// A pair has failed when one lane has.
ibv_qp_state state_of(Qp& qp) {
  QpState state = QpState::kReset;
  qp.nic().device().look([&](const Engine& engine) {
    return on_lanes(qp, [&](std::uint32_t lane) {
      state = std::max(state, engine.qp_state(lane));
      return Status::kOk;
    });
  });
  return state_of(state);
}

void remember(ibv_qp_attr& kept, const ibv_qp_attr& given, int mask) {
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) kept.qp_access_flags = given.qp_access_flags;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) kept.pkey_index = given.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) kept.port_num = given.port_num;
  if ((mask & IBV_QP_AV) != 0) kept.ah_attr = given.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) kept.path_mtu = given.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) kept.timeout = given.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) kept.retry_cnt = std::min(given.retry_cnt, kRetriesMax);
  if ((mask & IBV_QP_RNR_RETRY) != 0) kept.rnr_retry = std::min(given.rnr_retry, kRetriesMax);
  if ((mask & IBV_QP_RQ_PSN) != 0) kept.rq_psn = given.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) kept.sq_psn = given.sq_psn;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) kept.max_rd_atomic = given.max_rd_atomic;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) kept.max_dest_rd_atomic = given.max_dest_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) kept.min_rnr_timer = given.min_rnr_timer;
  if ((mask & IBV_QP_DEST_QPN) != 0) kept.dest_qp_num = given.dest_qp_num;
}

int permit(Qp& qp, unsigned flags) {
  std::uint8_t access = 0;
  if ((flags & IBV_ACCESS_REMOTE_WRITE) != 0) access |= kRemoteWrite;
  if ((flags & IBV_ACCESS_REMOTE_READ) != 0) access |= kRemoteRead;
  if ((flags & IBV_ACCESS_REMOTE_ATOMIC) != 0) access |= kRemoteAtomic;
  return errno_of(qp.nic().device().command([&](Engine& engine, TimePs) {
    return on_lanes(qp, [&](std::uint32_t lane) { return engine.set_remote_access(lane, access); });
  }));
}

bool has_all(int mask, int needed) { return (mask & needed) == needed; }

bool in_range(const ibv_qp_attr& given, int mask) {
  const auto above = [&](int bit, unsigned value, unsigned most) { return (mask & bit) != 0 && value > most; };
  return !above(IBV_QP_TIMEOUT, given.timeout, kTimeoutMax) && !above(IBV_QP_PKEY_INDEX, given.pkey_index, 0) &&
         !above(IBV_QP_MIN_RNR_TIMER, given.min_rnr_timer, kRnrTimerMax);
}

// Attributes that a QP takes on its way from one state to the other, or in a state. Others would have no effect.
int settable(ibv_qp_state from, ibv_qp_state to) {
  constexpr int kAlways = IBV_QP_STATE | IBV_QP_CUR_STATE;
  if (to == IBV_QPS_INIT) return kAlways | kToInit;
  if (to == IBV_QPS_RTR) return kAlways | (from == IBV_QPS_INIT ? kToRtr : 0) | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
  if (to != IBV_QPS_RTS) return kAlways;
  return kAlways | (from == IBV_QPS_RTR ? kToRts : 0) | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
}

int move(Qp& qp, ibv_qp_state from, const ibv_qp_attr& wanted, int mask) {
  switch (wanted.qp_state) {
    case IBV_QPS_RESET:
      return to_reset(qp);
    case IBV_QPS_ERR:
      return to_error(qp);
    case IBV_QPS_INIT:
      if (wanted.port_num != 1 && (mask & IBV_QP_PORT) != 0) return EINVAL;
      if (from == IBV_QPS_INIT) return 0;
      return from == IBV_QPS_RESET && has_all(mask, kToInit) ? to_init(qp) : EINVAL;
    case IBV_QPS_RTR:
      return from == IBV_QPS_INIT && has_all(mask, kToRtr) ? to_rtr(qp, wanted) : EINVAL;
    case IBV_QPS_RTS:
      if (from == IBV_QPS_RTS) return 0;
      return from == IBV_QPS_RTR && has_all(mask, kToRts) ? to_rts(qp, wanted) : EINVAL;
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
      return EOPNOTSUPP;
    case IBV_QPS_UNKNOWN:
      break;
  }
  return EINVAL;
}

int modify_qp(Qp& qp, const ibv_qp_attr& wanted, int mask) {
  qp.nic().device().check_process();
  const ibv_qp_state from = state_of(qp);
  if ((mask & IBV_QP_CUR_STATE) != 0 && wanted.cur_qp_state != from) return EINVAL;
  if ((mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)) != 0) return EOPNOTSUPP;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : from;
  const bool supported = to != IBV_QPS_SQD && to != IBV_QPS_SQE;
  if (!in_range(wanted, mask) || (supported && (mask & ~settable(from, to)) != 0)) return EINVAL;
  if ((mask & IBV_QP_STATE) != 0) {
    if (const int error = move(qp, from, wanted, mask)) return error;
    qp.api.qp_base.state = wanted.qp_state;
  }
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    if (const int error = permit(qp, wanted.qp_access_flags)) return error;
  }
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && to != IBV_QPS_RTR && qp.rc != 0) {
    const Status status = qp.nic().device().command(
        [&](Engine& engine, TimePs) { return engine.set_rnr_timer(qp.rc, wanted.min_rnr_timer); });
    if (status != Status::kOk) return errno_of(status);
  }
  remember(qp.attributes, wanted, mask);
  return 0;
}

}  // namespace

MrcNumbers default_mrc_numbers() {
  MrcNumbers numbers;
  numbers.mpr_units_dest = numbers.mpr_units = published_mrc() ? kWindowUnitsMarks : kWindowUnitsPlanes;
  numbers.wimm_max_dest = numbers.wimm_max = kWriteImmMax;
  numbers.timeout_exponent = kTimeoutExponent;
  numbers.linear_retries = kLinearRetries;
  numbers.exponential_retries = kExponentialRetries;
  return numbers;
}

VERBS_API int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  if (!is_live(qp) || attributes == nullptr) return EINVAL;
  return guarded([&] { return modify_qp(Qp::of(qp), *attributes, mask); });
}

VERBS_API int ibv_query_qp(ibv_qp* api, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  if (!is_live(api) || attributes == nullptr || init == nullptr) return EINVAL;
  return guarded([&] {
    Qp& qp = Qp::of(api);
    *attributes = qp.attributes;
    attributes->qp_state = attributes->cur_qp_state = api->state = state_of(qp);
    attributes->cap = qp.init.cap;
    *init = qp.init;
    return 0;
  });
}

VERBS_API int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

}  // namespace openmrc::verbs
