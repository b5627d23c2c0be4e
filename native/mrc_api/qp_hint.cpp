// Hints about the traffic of QPs.
#include <algorithm>

#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

constexpr int kAll = MRC_QP_HINT_NUM_QPS_PER_PEER | MRC_QP_HINT_NUM_SEND_PEERS | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS |
                     MRC_QP_HINT_VENDOR_CFG;
constexpr int kNumberMax = 1 << 20;

bool is_number(int value) { return value >= 0 && value <= kNumberMax; }

// The chosen members of `from`.
void copy(mrc_qp_hint_attr& to, const mrc_qp_hint_attr& from, int mask) {
  if ((mask & MRC_QP_HINT_NUM_QPS_PER_PEER) != 0) to.num_qps_per_peer = from.num_qps_per_peer;
  if ((mask & MRC_QP_HINT_NUM_SEND_PEERS) != 0) to.num_send_peers = from.num_send_peers;
  if ((mask & MRC_QP_HINT_NUM_REMOTE_RECV_PEERS) != 0) to.num_remote_recv_peers = from.num_remote_recv_peers;
  if ((mask & MRC_QP_HINT_VENDOR_CFG) != 0) std::copy_n(from.vendor_cfg, sizeof to.vendor_cfg, to.vendor_cfg);
}

bool is_valid(const mrc_qp_hint_attr& attr) {
  return is_number(attr.num_qps_per_peer) && is_number(attr.num_send_peers) && is_number(attr.num_remote_recv_peers);
}

int create_hint(mrc_context* context, const mrc_qp_hint_init_attr* wanted, mrc_qp_hint*& out) {
  if (!is_live(context) || wanted == nullptr || !is_valid(wanted->attr)) return EINVAL;
  auto hint = std::make_unique<mrc_qp_hint>();
  hint->context = context;
  hint->attributes = wanted->attr;
  ++context->children;
  add_live(hint.get());
  out = hint.release();
  return 0;
}

int destroy_hint(mrc_qp_hint* hint) {
  if (!is_live(hint)) return EINVAL;
  if (hint->users != 0) return EBUSY;
  remove_live(hint);
  --hint->context->children;
  delete hint;
  return 0;
}

int check(const mrc_qp_hint* hint, const mrc_qp_hint_attr* attr, int mask) {
  return is_live(hint) && attr != nullptr && (mask & ~kAll) == 0 ? 0 : EINVAL;
}

}  // namespace

MRC_API mrc_qp_hint* mrc_create_qp_hint(mrc_context* context, mrc_qp_hint_init_attr* wanted) {
  return made<mrc_qp_hint>([&](mrc_qp_hint*& out) { return create_hint(context, wanted, out); });
}

MRC_API int mrc_destroy_qp_hint(mrc_qp_hint* hint) {
  return zero_or_minus_one([&] { return destroy_hint(hint); });
}

MRC_API int mrc_query_qp_hint(mrc_qp_hint* hint, mrc_qp_hint_attr* attr, int mask) {
  return zero_or_minus_one([&] {
    if (const int error = check(hint, attr, mask)) return error;
    const std::lock_guard guard(hint->mutex);
    copy(*attr, hint->attributes, mask);
    return 0;
  });
}

MRC_API int mrc_modify_qp_hint(mrc_qp_hint* hint, mrc_qp_hint_attr* attr, int mask) {
  return zero_or_minus_one([&] {
    if (const int error = check(hint, attr, mask)) return error;
    const std::lock_guard guard(hint->mutex);
    mrc_qp_hint_attr next = hint->attributes;
    copy(next, *attr, mask);
    if (!is_valid(next)) return EINVAL;
    hint->attributes = next;
    return 0;
  });
}

}  // namespace openmrc::mrc_api
