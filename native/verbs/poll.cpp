// Polling of completion queues.
#include <algorithm>

#include "verbs/errors.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::size_t kBatch = 32;

// False: the program has not asked for this completion.
bool translate_send(Qp& qp, const Completion& from, ibv_wc& to) {
  const std::lock_guard guard(qp.mutex);
  const PostedSend posted = qp.send(from.wr_id);
  to.wr_id = posted.wr_id;
  to.opcode = posted.opcode;
  qp.sends_begin = std::max(qp.sends_begin, from.wr_id + 1);
  if (from.status != WcStatus::kSuccess) {
    if (qp.is_pair()) fail_all_lanes(qp);
    return true;
  }
  if (!qp.held.empty()) release_held(qp);
  return posted.signaled;
}

void translate_receive(const Completion& from, ibv_wc& to) {
  const bool write = from.opcode == WcOpcode::kRecvWriteImm;
  to.wr_id = from.wr_id;
  to.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (from.opcode == WcOpcode::kRecv) return;
  to.wc_flags = IBV_WC_WITH_IMM;
  to.imm_data = __builtin_bswap32(from.immediate);
}

// False: nothing for the program. A completion of a QP that is gone is dropped.
bool translate(Cq& cq, const Completion& from, ibv_wc& to) {
  Qp* qp = cq.latest_qp;
  if (cq.latest_lane != from.qp) {
    const auto found = cq.qps.find(from.qp);
    if (found == cq.qps.end()) return false;
    cq.latest_lane = from.qp;
    cq.latest_qp = qp = found->second;
  }
  to = {};
  to.status = static_cast<ibv_wc_status>(from.status);
  to.qp_num = qp->number();
  to.byte_len = static_cast<std::uint32_t>(from.bytes);
  const bool received =
      from.opcode == WcOpcode::kRecvWriteImm || from.opcode == WcOpcode::kRecv || from.opcode == WcOpcode::kRecvImm;
  if (!received) return translate_send(*qp, from, to);
  translate_receive(from, to);
  if (from.status != WcStatus::kSuccess && qp->is_pair()) {
    const std::lock_guard guard(qp->mutex);
    fail_all_lanes(*qp);
  }
  return true;
}

std::size_t poll_engine(Cq& cq, std::size_t count_max, ibv_wc* to) {
  std::size_t count = 0;
  while (count < count_max) {
    const std::size_t wanted = std::min(count_max - count, cq.taken.size());
    const std::size_t got = cq.nic().device().poll_cq(*cq.polled, std::span(cq.taken).first(wanted));
    for (std::size_t i = 0; i < got; ++i) {
      if (translate(cq, cq.taken[i], to[count])) ++count;
    }
    if (got < wanted) break;
  }
  return count;
}

std::size_t take(std::deque<ibv_wc>& from, std::size_t count_max, ibv_wc* to) {
  std::size_t count = 0;
  for (; count < count_max && !from.empty(); from.pop_front()) to[count++] = from.front();
  return count;
}

// An empty CQ costs no lock: a program that waits polls again and again.
bool may_have_completions(const Cq& cq) {
  return nic::Device::filled(*cq.polled) || cq.stored.load(std::memory_order_acquire);
}

std::size_t poll_once(Cq& cq, std::size_t count_max, ibv_wc* to) {
  if (!may_have_completions(cq)) return 0;
  const std::lock_guard guard(cq.mutex);
  std::size_t count = take(cq.ready, count_max, to);
  count += poll_engine(cq, count_max - count, to + count);
  if (count == count_max) return count;
  const std::lock_guard late(cq.late_mutex);
  count += take(cq.late, count_max - count, to + count);
  if (cq.late.empty()) cq.stored.store(false, std::memory_order_relaxed);  // `ready` is empty: there was room for more
  return count;
}

// Moves all completions of the engine to `ready`.
void fetch_all(Cq& cq) {
  cq.stored.store(true, std::memory_order_relaxed);  // first: meanwhile they are nowhere, and pollers have to wait
  std::array<ibv_wc, kBatch> found;
  while (const std::size_t count = poll_engine(cq, found.size(), found.data())) {
    cq.ready.insert(cq.ready.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

}  // namespace

bool drain(Cq& cq) {
  const std::lock_guard guard(cq.mutex);
  fetch_all(cq);
  return std::any_of(cq.qps.begin(), cq.qps.end(), [&](const auto& one) {
    const std::lock_guard own(one.second->mutex);
    return one.second->init.send_cq == reinterpret_cast<ibv_cq*>(&cq) && !one.second->held.empty();
  });
}

void drop_completions(Cq& cq, const Qp& qp) {
  fetch_all(cq);  // under the present meaning of the QP's number, which a later QP may have
  const auto is_its_own = [&](const ibv_wc& wc) { return wc.qp_num == qp.number(); };
  std::erase_if(cq.ready, is_its_own);
  const std::lock_guard guard(cq.late_mutex);
  std::erase_if(cq.late, is_its_own);
}

int poll_cq(ibv_cq* api, int count_max, ibv_wc* completions) {
  if (count_max <= 0 || completions == nullptr) return count_max == 0 ? 0 : -EINVAL;
  std::size_t count = 0;
  const int error = guarded_data_path([&] {
    Cq& cq = Cq::of(api);
    cq.nic().device().check_process();
    Polling& polling = cq.nic().polling();
    polling.note_call();
    const auto room = static_cast<std::size_t>(count_max);
    count = poll_once(cq, room, completions);
    if (count == 0 && polling.run_if_idle()) count = poll_once(cq, room, completions);
    if (count > 0) polling.note_found();
    return 0;
  });
  return error == 0 ? static_cast<int>(count) : -error;
}

}  // namespace openmrc::verbs
