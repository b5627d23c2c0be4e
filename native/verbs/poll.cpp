// Polling of completion queues.
#include <algorithm>

#include "verbs/errors.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::size_t kBatch = 32;

ibv_wc_status status_of(WcStatus status) { return static_cast<ibv_wc_status>(status); }

void translate_send(Qp& qp, const Completion& from, ibv_wc& to) {
  const std::lock_guard guard(qp.mutex);
  const PostedSend& posted = qp.send(from.wr_id);
  to.wr_id = posted.wr_id;
  to.opcode = posted.opcode;
  qp.sends_begin = std::max(qp.sends_begin, from.wr_id + 1);
}

void translate_receive(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  to.wc_flags = IBV_WC_WITH_IMM;
  to.imm_data = __builtin_bswap32(from.immediate);
  to.byte_len = static_cast<std::uint32_t>(from.bytes);
}

// False: the QP is gone.
bool translate(Cq& cq, const Completion& from, ibv_wc& to) {
  const auto qp = cq.qps.find(from.qp);
  if (qp == cq.qps.end()) return false;
  to = {};
  to.status = status_of(from.status);
  to.qp_num = from.qp;
  to.byte_len = static_cast<std::uint32_t>(from.bytes);
  if (from.opcode == WcOpcode::kWrite) {
    translate_send(*qp->second, from, to);
  } else {
    translate_receive(from, to);
  }
  return true;
}

std::size_t poll_engine(Cq& cq, std::size_t count_max, ibv_wc* to) {
  std::array<Completion, kBatch> done;
  std::size_t count = 0;
  while (count < count_max) {
    const std::size_t wanted = std::min(count_max - count, kBatch);
    const std::size_t got = cq.nic().device().poll_cq(cq.id, std::span(done).first(wanted));
    for (std::size_t i = 0; i < got; ++i) {
      if (translate(cq, done[i], to[count])) ++count;
    }
    if (got < wanted) break;
  }
  return count;
}

std::size_t poll_once(Cq& cq, std::size_t count_max, ibv_wc* to) {
  std::size_t count = poll_engine(cq, count_max, to);
  while (count < count_max && !cq.ready.empty()) {
    to[count++] = cq.ready.front();
    cq.ready.pop_front();
  }
  return count;
}

}  // namespace

int poll_cq(ibv_cq* api, int count_max, ibv_wc* completions) {
  if (count_max <= 0 || completions == nullptr) return count_max == 0 ? 0 : -EINVAL;
  std::size_t count = 0;
  const int error = guarded([&] {
    Cq& cq = Cq::of(api);
    Polling& polling = cq.nic().polling();
    polling.note_call();
    const auto room = static_cast<std::size_t>(count_max);
    const std::lock_guard guard(cq.mutex);
    count = poll_once(cq, room, completions);
    if (count == 0 && polling.run_if_idle()) count = poll_once(cq, room, completions);
    if (count > 0) polling.note_found();
    return 0;
  });
  return error == 0 ? static_cast<int>(count) : -error;
}

}  // namespace openmrc::verbs
