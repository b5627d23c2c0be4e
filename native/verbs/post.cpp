// Posting of work. Consecutive work of one lane enters the engine in one step.
#include <algorithm>
#include <cstring>

#include "verbs/errors.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::size_t kBatch = 32;
constexpr unsigned kKnownFlags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_FENCE;

std::uint64_t bytes_of(const ibv_send_wr& wr) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  return bytes;
}

bool is_write(const ibv_send_wr& wr) {
  return wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_atomic(const ibv_send_wr& wr) {
  return wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// Of the operations that work requests ask for; the others are refused.
struct Operation {
  ibv_wr_opcode asked;
  WrOpcode opcode;
  ibv_wc_opcode completed;
};
constexpr std::array<Operation, 7> kOperations{{
    {IBV_WR_RDMA_WRITE, WrOpcode::kWrite, IBV_WC_RDMA_WRITE},
    {IBV_WR_RDMA_WRITE_WITH_IMM, WrOpcode::kWriteImm, IBV_WC_RDMA_WRITE},
    {IBV_WR_SEND, WrOpcode::kSend, IBV_WC_SEND},
    {IBV_WR_SEND_WITH_IMM, WrOpcode::kSendImm, IBV_WC_SEND},
    {IBV_WR_RDMA_READ, WrOpcode::kRead, IBV_WC_RDMA_READ},
    {IBV_WR_ATOMIC_CMP_AND_SWP, WrOpcode::kCompareSwap, IBV_WC_COMP_SWAP},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, WrOpcode::kFetchAdd, IBV_WC_FETCH_ADD},
}};

const Operation* operation_of(ibv_wr_opcode asked) {
  const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                  [asked](const Operation& one) { return one.asked == asked; });
  return found == kOperations.end() ? nullptr : found;
}

int check(const Qp& qp, const ibv_send_wr& wr) {
  if (operation_of(wr.opcode) == nullptr || (!is_write(wr) && qp.rc == 0)) return EOPNOTSUPP;
  if ((wr.send_flags & ~kKnownFlags) != 0) return EOPNOTSUPP;
  const ibv_qp_cap& cap = qp.init.cap;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_send_sge) return EINVAL;
  if (wr.num_sge > 0 && wr.sg_list == nullptr) return EINVAL;
  const std::uint64_t bytes = bytes_of(wr);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 && bytes > cap.max_inline_data) return EINVAL;
  return bytes > kMessageBytesMax ? EINVAL : 0;
}

bool uses_rc(const Qp& qp, const ibv_send_wr& wr) { return qp.mrc == 0 || !is_write(wr); }

// `sges` has room for kSgeMax, and outlives `to`.
void convert(Qp& qp, const ibv_send_wr& from, std::uint64_t sequence, std::span<Sge> sges, SendWr& to) {
  const Operation& operation = *operation_of(from.opcode);
  PostedSend& posted = qp.send(sequence);
  posted.wr_id = from.wr_id;
  posted.opcode = operation.completed;
  posted.signaled = qp.init.sq_sig_all != 0 || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  std::size_t count = 0;
  for (int i = 0; i < from.num_sge; ++i) {
    const ibv_sge& sge = from.sg_list[i];
    if (sge.length > 0) sges[count++] = {.address = sge.addr, .length_bytes = sge.length, .lkey = sge.lkey};
  }
  const bool atomic = is_atomic(from);
  const bool swap = from.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  to = {.wr_id = sequence,
        .opcode = operation.opcode,
        .remote_address = atomic ? from.wr.atomic.remote_addr : from.wr.rdma.remote_addr,
        .rkey = atomic ? from.wr.atomic.rkey : from.wr.rdma.rkey,
        .immediate = __builtin_bswap32(from.imm_data),
        .compare = atomic ? from.wr.atomic.compare_add : 0,
        .swap_add = !atomic ? 0
                    : swap  ? from.wr.atomic.swap
                            : from.wr.atomic.compare_add,
        // With two lanes every completion is needed, to know when one is empty.
        .signaled = posted.signaled || qp.is_pair(),
        .fence = (from.send_flags & IBV_SEND_FENCE) != 0,
        .solicited = (from.send_flags & IBV_SEND_SOLICITED) != 0,
        .inline_data = (from.send_flags & IBV_SEND_INLINE) != 0,
        .sges = sges.first(count)};
}

void complete_with(Qp& qp, std::uint64_t wr_id, ibv_wc_opcode opcode, ibv_cq* cq, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = wr_id;
  completion.status = status;
  completion.opcode = opcode;
  completion.qp_num = qp.number();
  complete_here(Cq::of(cq), completion);
}

// Work posted to a failed QP completes as flushed.
void flush_here(Qp& qp, std::uint64_t wr_id, ibv_wc_opcode opcode, ibv_cq* cq) {
  complete_with(qp, wr_id, opcode, cq, IBV_WC_WR_FLUSH_ERR);
}

bool has_failed(Qp& qp) {
  return qp.nic().device().look([&](const Engine& engine) {
    return (qp.mrc != 0 && engine.qp_state(qp.mrc) == QpState::kError) ||
           (qp.rc != 0 && engine.qp_state(qp.rc) == QpState::kError);
  });
}

int hold(Qp& qp, const ibv_send_wr& from) {
  HeldSend held;
  held.rc = uses_rc(qp, from);
  held.sges.resize(kSgeMax);
  convert(qp, from, qp.sends_end, held.sges, held.wr);
  held.sges.resize(held.wr.sges.size());
  if (held.wr.inline_data) {
    for (const Sge& sge : held.sges) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(sge.address);
      held.bytes.insert(held.bytes.end(), bytes, bytes + sge.length_bytes);
    }
    held.sges.assign(1, {reinterpret_cast<std::uintptr_t>(held.bytes.data()), held.bytes.size(), 0});
  }
  held.wr.sges = held.sges;
  const std::uint32_t lane = held.rc ? qp.rc : qp.mrc;
  const Status status =
      qp.nic().device().command([&](Engine& engine, TimePs) { return engine.check_send(lane, held.wr); });
  if (status != Status::kOk && status != Status::kInvalidState) return errno_of(status);
  qp.nic().drainer().add(Cq::of(qp.init.send_cq));  // first: without a thread nothing may be held
  qp.held.push_back(std::move(held));
  ++qp.sends_end;
  return 0;
}

bool has_room(const Qp& qp, std::uint64_t sequence) { return sequence - qp.sends_begin < qp.sends.size(); }

bool lane_is_free(const Qp& qp, bool rc) {
  return qp.held.empty() && (qp.rc_active == rc || qp.sends_begin == qp.sends_posted);
}

int flush_all(Qp& qp, ibv_send_wr*& wr) {
  for (; wr != nullptr; wr = wr->next) {
    if (const int error = check(qp, *wr)) return error;
    flush_here(qp, wr->wr_id, operation_of(wr->opcode)->completed, qp.init.send_cq);
  }
  return 0;
}

int send_batch(Qp& qp, ibv_send_wr*& wr) {
  if (qp.failed) return flush_all(qp, wr);
  if (const int error = check(qp, *wr)) return error;
  const bool rc = uses_rc(qp, *wr);
  if (!lane_is_free(qp, rc)) {
    if (!has_room(qp, qp.sends_end)) return ENOMEM;
    if (const int error = hold(qp, *wr)) return error;
    wr = wr->next;
    return 0;
  }
  // Not on the stack: clearing all of it takes as long as a part of a short message's way.
  thread_local std::array<std::array<Sge, kSgeMax>, kBatch> sges;
  thread_local std::array<SendWr, kBatch> batch;
  std::size_t count = 0;
  int error = 0;
  for (ibv_send_wr* next = wr; next != nullptr && count < kBatch && uses_rc(qp, *next) == rc; next = next->next) {
    const std::uint64_t sequence = qp.sends_end + count;
    if (next != wr) error = check(qp, *next);
    if (error == 0 && !has_room(qp, sequence)) error = ENOMEM;
    if (error != 0) break;
    convert(qp, *next, sequence, sges[count], batch[count]);
    ++count;
  }
  std::size_t posted = 0;
  const std::uint32_t lane = rc ? qp.rc : qp.mrc;
  const Status status = qp.nic().device().post_stream(lane, std::span(batch).first(count), posted);
  if (posted > 0) qp.rc_active = rc;
  qp.sends_posted = qp.sends_end += posted;
  for (std::size_t i = 0; i < posted; ++i) wr = wr->next;
  if (status == Status::kInvalidState && has_failed(qp)) {
    fail_all_lanes(qp);
    return flush_all(qp, wr);
  }
  return status == Status::kOk ? error : errno_of(status);
}

// Its memory has been deregistered since it was posted.
void refuse_held(Qp& qp) {
  const PostedSend& posted = qp.send(qp.held.front().wr.wr_id);
  complete_with(qp, posted.wr_id, posted.opcode, qp.init.send_cq, IBV_WC_LOC_PROT_ERR);
  qp.held.pop_front();
  fail_all_lanes(qp);
}

}  // namespace

void release_held(Qp& qp) {
  while (!qp.held.empty() && (qp.sends_begin == qp.sends_posted || qp.held.front().rc == qp.rc_active)) {
    HeldSend& next = qp.held.front();
    const Status status = qp.nic().device().post_send(next.rc ? qp.rc : qp.mrc, next.wr);
    if (status == Status::kInvalidState) return fail_all_lanes(qp);
    if (status != Status::kOk) {
      if (qp.sends_begin == qp.sends_posted) refuse_held(qp);
      return;  // it fails behind the work before it
    }
    qp.rc_active = next.rc;
    ++qp.sends_posted;
    qp.held.pop_front();
  }
}

void fail_all_lanes(Qp& qp) {
  if (qp.failed) return;
  qp.failed = true;
  qp.nic().device().command([&](Engine& engine, TimePs now) {
    for (const std::uint32_t lane : {qp.mrc, qp.rc}) {
      if (lane != 0) engine.move_to_error(now, lane);
    }
    return 0;
  });
  for (; !qp.held.empty(); qp.held.pop_front()) {
    const PostedSend& posted = qp.send(qp.held.front().wr.wr_id);
    flush_here(qp, posted.wr_id, posted.opcode, qp.init.send_cq);
  }
  qp.sends_posted = qp.sends_end;
}

int post_send(ibv_qp* api, ibv_send_wr* first, ibv_send_wr** bad) {
  ibv_send_wr* wr = first;
  const int error = guarded_data_path([&] {
    Qp& qp = Qp::of(api);
    qp.nic().device().check_process();
    qp.nic().polling().note_post();
    const std::lock_guard guard(qp.mutex);
    while (wr != nullptr) {
      if (const int refused = send_batch(qp, wr)) return refused;
    }
    return 0;
  });
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

// The engine alone knows the memory. As with hardware, a request whose memory it refuses then completes with an error,
// if requests before it have been posted already.
int post_together(Qp& qp, ibv_send_wr* first, std::size_t count) {
  qp.nic().polling().note_post();
  const std::lock_guard guard(qp.mutex);
  for (const ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    if (const int error = check(qp, *wr)) return error;
  }
  if (count > 0 && !qp.failed && !has_room(qp, qp.sends_end + count - 1)) return ENOMEM;
  for (ibv_send_wr* wr = first; wr != nullptr;) {
    const int error = send_batch(qp, wr);
    if (error == 0) continue;
    if (wr == first) return error;
    fail_all_lanes(qp);
    complete_with(qp, wr->wr_id, operation_of(wr->opcode)->completed, qp.init.send_cq, IBV_WC_LOC_PROT_ERR);
    wr = wr->next;
    return flush_all(qp, wr);
  }
  return 0;
}

int post_recv(ibv_qp* api, ibv_recv_wr* first, ibv_recv_wr** bad) {
  ibv_recv_wr* wr = first;
  const int error = guarded_data_path([&] {
    Qp& qp = Qp::of(api);
    if (qp.init.srq != nullptr) return EINVAL;
    std::array<Sge, kSgeMax> sges;
    for (; wr != nullptr; wr = wr->next) {
      if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > qp.init.cap.max_recv_sge) return EINVAL;
      if (wr->num_sge > 0 && wr->sg_list == nullptr) return EINVAL;
      const auto count = static_cast<std::size_t>(wr->num_sge);
      for (std::size_t i = 0; i < count; ++i) {
        sges[i] = {wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey};
      }
      const Status status = qp.nic().device().post_recv(qp.receiver(), wr->wr_id, std::span(sges).first(count));
      if (status == Status::kInvalidState && has_failed(qp)) {
        flush_here(qp, wr->wr_id, IBV_WC_RECV, qp.init.recv_cq);
      } else if (status != Status::kOk) {
        return errno_of(status);
      }
    }
    return 0;
  });
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

}  // namespace openmrc::verbs
