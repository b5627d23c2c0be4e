// Posting of work. A chain enters the engine in one step.
#include <algorithm>
#include <bit>
#include <cstring>

#include "verbs/errors.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::size_t kBatch = 32;
constexpr std::uint64_t kBounceBytesMin = 256;
constexpr unsigned kKnownFlags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | IBV_SEND_FENCE;

std::uint64_t bytes_of(const ibv_send_wr& wr) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  return bytes;
}

int check(const Qp& qp, const ibv_send_wr& wr) {
  if (wr.opcode != IBV_WR_RDMA_WRITE && wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return EOPNOTSUPP;
  if ((wr.send_flags & ~kKnownFlags) != 0) return EOPNOTSUPP;
  const ibv_qp_cap& cap = qp.init.cap;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > cap.max_send_sge) return EINVAL;
  if (wr.num_sge > 0 && wr.sg_list == nullptr) return EINVAL;
  const std::uint64_t bytes = bytes_of(wr);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 && bytes > cap.max_inline_data) return EINVAL;
  return bytes > kMessageBytesMax ? EINVAL : 0;
}

int make_room(Qp& qp, Bounce& bounce, std::uint64_t bytes) {
  if (bounce.capacity >= bytes) return 0;
  nic::Device& device = qp.nic().device();
  if (bounce.key != 0) {
    const Status status = device.deregister_memory(bounce.key);
    if (status != Status::kOk) return errno_of(status);
    bounce = {};
  }
  const std::uint64_t capacity = std::max(kBounceBytesMin, std::bit_ceil(bytes));
  auto buffer = std::make_unique_for_overwrite<std::uint8_t[]>(capacity);
  const DomainId domain = Pd::of(qp.api.qp_base.pd).domain;
  std::uint32_t key = 0;
  const Status status = device.register_memory(buffer.get(), capacity, kLocalRead, key, domain);
  if (status != Status::kOk) return errno_of(status);
  bounce = {std::move(buffer), capacity, key};
  return 0;
}

int gather(Qp& qp, const ibv_send_wr& wr, Bounce& bounce, std::uint64_t bytes) {
  if (const int error = make_room(qp, bounce, bytes)) return error;
  std::uint8_t* to = bounce.bytes.get();
  const DomainId domain = Pd::of(qp.api.qp_base.pd).domain;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length == 0) continue;
    const bool from_memory = (wr.send_flags & IBV_SEND_INLINE) != 0;
    const auto* from = from_memory ? reinterpret_cast<const std::uint8_t*>(sge.addr)
                                   : qp.nic().find_bytes(sge.lkey, domain, sge.addr, sge.length);
    if (from == nullptr) return EINVAL;
    std::memcpy(to, from, sge.length);
    to += sge.length;
  }
  return 0;
}

int prepare(Qp& qp, const ibv_send_wr& from, std::uint64_t sequence, SendWr& to) {
  if (const int error = check(qp, from)) return error;
  PostedSend& posted = qp.send(sequence);
  posted.wr_id = from.wr_id;
  posted.opcode = IBV_WC_RDMA_WRITE;
  to.wr_id = sequence;
  to.opcode = from.opcode == IBV_WR_RDMA_WRITE ? WrOpcode::kWrite : WrOpcode::kWriteImm;
  to.immediate = from.opcode == IBV_WR_RDMA_WRITE ? 0 : __builtin_bswap32(from.imm_data);
  to.remote_address = from.wr.rdma.remote_addr;
  to.rkey = from.wr.rdma.rkey;
  to.signaled = qp.init.sq_sig_all != 0 || (from.send_flags & IBV_SEND_SIGNALED) != 0;
  to.length_bytes = bytes_of(from);
  if (to.length_bytes == 0) return 0;
  if ((from.send_flags & IBV_SEND_INLINE) == 0 && from.num_sge == 1) {
    to.lkey = from.sg_list->lkey;
    to.local_address = from.sg_list->addr;
    return 0;
  }
  const int error = gather(qp, from, posted.bounce, to.length_bytes);
  to.lkey = posted.bounce.key;
  to.local_address = reinterpret_cast<std::uintptr_t>(posted.bounce.bytes.get());
  return error;
}

// Work posted to a failed QP completes as flushed.
void flush_here(Qp& qp, std::uint64_t wr_id, ibv_wc_opcode opcode, ibv_cq* cq) {
  ibv_wc completion{};
  completion.wr_id = wr_id;
  completion.status = IBV_WC_WR_FLUSH_ERR;
  completion.opcode = opcode;
  completion.qp_num = qp.number();
  complete_here(Cq::of(cq), completion);
}

bool has_failed(Qp& qp) {
  return qp.nic().device().look([&](const Engine& engine) { return engine.qp_state(qp.number()); }) == QpState::kError;
}

int send_batch(Qp& qp, ibv_send_wr*& wr) {
  std::array<SendWr, kBatch> batch;
  std::size_t count = 0;
  int error = 0;
  for (ibv_send_wr* next = wr; next != nullptr && count < kBatch; next = next->next) {
    const std::uint64_t sequence = qp.sends_end + count;
    error = sequence - qp.sends_begin >= qp.sends.size() ? ENOMEM : prepare(qp, *next, sequence, batch[count]);
    if (error != 0) break;
    ++count;
  }
  std::size_t posted = 0;
  const Status status = qp.nic().device().post_sends(qp.number(), std::span(batch).first(count), posted);
  qp.sends_end += posted;
  for (std::size_t i = 0; i < posted; ++i) wr = wr->next;
  if (status == Status::kInvalidState && has_failed(qp)) {
    for (; wr != nullptr; wr = wr->next) flush_here(qp, wr->wr_id, IBV_WC_RDMA_WRITE, qp.init.send_cq);
    return 0;
  }
  return status == Status::kOk ? error : errno_of(status);
}

}  // namespace

int post_send(ibv_qp* api, ibv_send_wr* first, ibv_send_wr** bad) {
  ibv_send_wr* wr = first;
  const int error = guarded([&] {
    Qp& qp = Qp::of(api);
    qp.nic().polling().note_call();
    const std::lock_guard guard(qp.mutex);
    while (wr != nullptr) {
      if (const int refused = send_batch(qp, wr)) return refused;
    }
    return 0;
  });
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

int post_recv(ibv_qp* api, ibv_recv_wr* first, ibv_recv_wr** bad) {
  ibv_recv_wr* wr = first;
  const int error = guarded([&] {
    Qp& qp = Qp::of(api);
    for (; wr != nullptr; wr = wr->next) {
      if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > qp.init.cap.max_recv_sge) return EINVAL;
      const Status status = qp.nic().device().post_recv(qp.number(), wr->wr_id);
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
