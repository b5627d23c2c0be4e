// Extended queue pairs: work requests built by one call each, and posted together.
#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"
#include "verbs/send_list.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
constexpr std::uint64_t kOperations = kWrites | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                      IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr std::uint32_t kKnownMask =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

SendList& list_of(ibv_qp_ex* qp) { return *Qp::of(&qp->qp_base).list; }

// Runs `fill` on the list if the calling thread has started it; otherwise ibv_wr_complete() returns an error.
template <typename Fill>
void on_list(ibv_qp_ex* qp, Fill&& fill) {
  SendList& list = list_of(qp);
  if (!list.is_open()) return;
  const int error = guarded([&] {
    fill(list);
    return 0;
  });
  if (error != 0) list.refuse(error);
}

// Adds a request, and completes it by `fill`.
template <typename Fill>
void add(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint64_t operation, Fill&& fill) {
  on_list(qp, [&](SendList& list) {
    if (!list.allows(operation)) return list.refuse(EINVAL);
    ibv_send_wr* wr = list.add();
    if (wr == nullptr) return;
    wr->wr_id = qp->wr_id;
    wr->opcode = opcode;
    wr->send_flags = qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    fill(*wr);
  });
}

void to_remote(ibv_send_wr& wr, std::uint32_t rkey, std::uint64_t address) {
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = rkey;
}

void wr_send(ibv_qp_ex* qp) {
  add(qp, IBV_WR_SEND, IBV_QP_EX_WITH_SEND, [](ibv_send_wr&) {});
}

void wr_send_imm(ibv_qp_ex* qp, __be32 immediate) {
  add(qp, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM, [&](ibv_send_wr& wr) { wr.imm_data = immediate; });
}

void wr_rdma_write(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  add(qp, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, [&](ibv_send_wr& wr) { to_remote(wr, rkey, address); });
}

void wr_rdma_write_imm(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
  add(qp, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, [&](ibv_send_wr& wr) {
    to_remote(wr, rkey, address);
    wr.imm_data = immediate;
  });
}

void wr_rdma_read(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address) {
  add(qp, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, [&](ibv_send_wr& wr) { to_remote(wr, rkey, address); });
}

void wr_atomic_cmp_swp(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                       std::uint64_t swap) {
  add(qp, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, [&](ibv_send_wr& wr) {
    wr.wr.atomic = {.remote_addr = address, .compare_add = compare, .swap = swap, .rkey = rkey};
  });
}

void wr_atomic_fetch_add(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address, std::uint64_t value) {
  add(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
      [&](ibv_send_wr& wr) { wr.wr.atomic = {.remote_addr = address, .compare_add = value, .swap = 0, .rkey = rkey}; });
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
  const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
  on_list(qp, [&](SendList& list) { list.set_sges(&sge, 1); });
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* sges) {
  on_list(qp, [&](SendList& list) { list.set_sges(sges, count); });
}

void wr_set_inline_data(ibv_qp_ex* qp, void* bytes, std::size_t count) {
  on_list(qp, [&](SendList& list) {
    list.begin_inline();
    list.add_inline(bytes, count);
  });
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* buffers) {
  on_list(qp, [&](SendList& list) {
    if (count > 0 && buffers == nullptr) return list.refuse(EINVAL);
    list.begin_inline();
    for (std::size_t i = 0; i < count && list.error() == 0; ++i) list.add_inline(buffers[i].addr, buffers[i].length);
  });
}

// One of the operations that no QP of openmrc has.
template <typename... Arguments>
void unsupported(ibv_qp_ex* qp, Arguments...) {
  on_list(qp, [](SendList& list) { list.refuse(EOPNOTSUPP); });
}

// In a forked child, where another thread may have had the list open for ever.
bool is_lost(ibv_qp_ex* qp) { return Qp::of(&qp->qp_base).nic().device().closed(); }

void wr_start(ibv_qp_ex* qp) {
  if (is_lost(qp)) return;
  guarded([&] {
    list_of(qp).open();
    return 0;
  });
}

int wr_complete(ibv_qp_ex* qp) {
  if (is_lost(qp)) return EPERM;
  SendList& list = list_of(qp);
  if (!list.is_open()) return EINVAL;
  int error = list.error();
  if (error == 0) {
    error = guarded([&] {
      std::size_t count = 0;
      ibv_send_wr* first = list.linked(count);
      return post_together(Qp::of(&qp->qp_base), first, count);
    });
  }
  list.close();
  return error;
}

void wr_abort(ibv_qp_ex* qp) {
  SendList& list = list_of(qp);
  if (list.is_open()) list.close();
}

template <typename Extended>
void set_functions(Extended& qp) {
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp.wr_bind_mw = unsupported;
  qp.wr_local_inv = unsupported;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = unsupported;
  qp.wr_send_tso = unsupported;
  qp.wr_set_ud_addr = unsupported;
  qp.wr_set_xrc_srqn = unsupported;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  // Not in every version of the header.
  if constexpr (requires { qp.wr_atomic_write; }) qp.wr_atomic_write = unsupported;
  if constexpr (requires { qp.wr_flush; }) qp.wr_flush = unsupported;
}

int check(const ibv_context* context, const ibv_qp_init_attr_ex& wanted) {
  if ((wanted.comp_mask & ~kKnownMask) != 0) return EOPNOTSUPP;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || !is_live(wanted.pd)) return EINVAL;
  if (wanted.pd->context != context) return EINVAL;
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted.create_flags != 0) return EOPNOTSUPP;
  const bool extended = (wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  return extended && (wanted.send_ops_flags & ~kOperations) != 0 ? EOPNOTSUPP : 0;
}

int extend(Qp& qp, std::uint64_t operations) {
  if (qp.rc == 0 && (operations & ~kWrites) != 0) return EOPNOTSUPP;  // MRC writes only
  const ibv_qp_cap& cap = qp.init.cap;
  const SendList::Limits limits{cap.max_send_wr, cap.max_send_sge, cap.max_inline_data};
  qp.list = std::make_shared<SendList>(limits, operations);
  set_functions(qp.api);
  return 0;
}

}  // namespace

// The header turns a call without further attributes into ibv_create_qp() itself.
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  ibv_qp* qp = nullptr;
  int error = guarded([&] { return wanted == nullptr ? EINVAL : check(context, *wanted); });
  if (error == 0) {
    qp = ibv_create_qp(wanted->pd, reinterpret_cast<ibv_qp_init_attr*>(wanted));  // it begins with these
    if (qp == nullptr) return nullptr;
    if ((wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
      error = guarded([&] { return extend(Qp::of(qp), wanted->send_ops_flags); });
    }
  }
  if (error == 0) return qp;
  if (qp != nullptr) ibv_destroy_qp(qp);
  errno = error;
  return nullptr;
}

VERBS_API ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  if (!is_live(qp) || Qp::of(qp).list == nullptr) return nullptr;
  return &Qp::of(qp).api;
}

}  // namespace openmrc::verbs
