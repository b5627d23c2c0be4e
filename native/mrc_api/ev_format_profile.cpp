#include "mrc_api/ev_format_profile.hpp"

#include <cerrno>
#include <cstdlib>

namespace openmrc::mrc_api {
namespace {

constexpr int kAll = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE | MRC_CTL_EV_FMT_PROFILE_MODE |
                     MRC_CTL_EV_FMT_PROFILE_OP;

int check_mode(mrc_ctl_ev_fmt_mode mode) {
  switch (mode) {
    case MRC_CTL_EV_FMT_MODE_UDP:
      return 0;
    case MRC_CTL_EV_FMT_MODE_STEV:
    case MRC_CTL_EV_FMT_MODE_SRV6:
      return EOPNOTSUPP;
  }
  return EINVAL;
}

}  // namespace

bool is_step(mrc_ctl_profile_state from, mrc_ctl_profile_state to) {
  const int target = static_cast<int>(to);
  return target >= MRC_CTL_PROFILE_INIT && target <= MRC_CTL_PROFILE_ONLINE &&
         std::abs(target - static_cast<int>(from)) <= 1;
}

int EvFormatProfile::modify_fields(const mrc_ctl_ev_fmt_profile_attr& attr) {
  if (state != MRC_CTL_PROFILE_OFFLINE) return EINVAL;
  if (attr.ev_fmt_op.fmt_fields == nullptr || attr.ev_fmt_op.fmt_field_count <= 0) return EINVAL;
  std::vector<std::uint8_t> wanted;
  std::uint32_t bits = 0;
  for (int i = 0; i < attr.ev_fmt_op.fmt_field_count; ++i) {
    const std::uint8_t width = attr.ev_fmt_op.fmt_fields[i].width;
    if (width == 0 || width > kFieldBitsMax) return EINVAL;
    bits += width;
    if (bits > kEvBits) return E2BIG;
    wanted.push_back(width);
  }
  widths = std::move(wanted);
  return 0;
}

int EvFormatProfile::query_fields(mrc_ctl_ev_fmt_profile_attr& attr) const {
  const int count = static_cast<int>(widths.size());
  const int room = attr.ev_fmt_op.fmt_field_count;
  attr.ev_fmt_op.fmt_field_count = count;
  if (room < count) return E2BIG;
  if (attr.ev_fmt_op.fmt_fields == nullptr) return EINVAL;
  for (int i = 0; i < count; ++i) attr.ev_fmt_op.fmt_fields[i].width = widths[static_cast<std::size_t>(i)];
  return 0;
}

int EvFormatProfile::move(mrc_ctl_profile_state to, bool in_use) {
  if (to == state) return 0;
  if (state == MRC_CTL_PROFILE_ONLINE && in_use) return EBUSY;
  if (to == MRC_CTL_PROFILE_ONLINE && widths.empty()) return EINVAL;
  if (to == MRC_CTL_PROFILE_INIT) *this = {};
  state = to;
  return 0;
}

int EvFormatProfile::modify(mrc_ctl_ev_fmt_profile_attr& attr, int mask, bool in_use) {
  if ((mask & MRC_CTL_EV_FMT_VENDOR_CFG) != 0) return EOPNOTSUPP;
  if ((mask & ~kAll) != 0) return EINVAL;
  if ((mask & MRC_CTL_EV_FMT_PROFILE_CUR_STATE) != 0 && attr.cur_profile_state != state) return EINVAL;
  const mrc_ctl_profile_state to = (mask & MRC_CTL_EV_FMT_PROFILE_STATE) != 0 ? attr.profile_state : state;
  if (!is_step(state, to)) return EINVAL;
  EvFormatProfile next = *this;
  if ((mask & MRC_CTL_EV_FMT_PROFILE_MODE) != 0) {
    if (state == MRC_CTL_PROFILE_ONLINE || to == MRC_CTL_PROFILE_INIT) return EINVAL;
    if (const int error = check_mode(attr.ev_fmt_mode)) return error;
    next.mode = attr.ev_fmt_mode;
  }
  if (state == MRC_CTL_PROFILE_INIT && to == MRC_CTL_PROFILE_OFFLINE) {
    if ((mask & MRC_CTL_EV_FMT_PROFILE_MODE) == 0) return EINVAL;
    next.state = MRC_CTL_PROFILE_OFFLINE;
  }
  if ((mask & MRC_CTL_EV_FMT_PROFILE_OP) != 0) {
    const bool modifies = attr.ev_fmt_op.op == MRC_CTL_EV_FMT_OP_MODIFY_FIELDS;
    if (!modifies && attr.ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS) return EINVAL;
    if (const int error = modifies ? next.modify_fields(attr) : next.query_fields(attr)) return error;
  }
  if (const int error = next.move(to, in_use)) return error;
  *this = std::move(next);
  return 0;
}

int EvFormatProfile::query(mrc_ctl_ev_fmt_profile_attr& attr, int mask) const {
  if ((mask & MRC_CTL_EV_FMT_VENDOR_CFG) != 0) return EOPNOTSUPP;
  if ((mask & ~kAll) != 0) return EINVAL;
  if ((mask & (MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE)) != 0) {
    attr.profile_state = attr.cur_profile_state = state;
  }
  if ((mask & MRC_CTL_EV_FMT_PROFILE_MODE) != 0) {
    if (state == MRC_CTL_PROFILE_INIT) return EINVAL;
    attr.ev_fmt_mode = mode;
  }
  if ((mask & MRC_CTL_EV_FMT_PROFILE_OP) == 0) return 0;
  return attr.ev_fmt_op.op == MRC_CTL_EV_FMT_OP_QUERY_FIELDS ? query_fields(attr) : EINVAL;
}

}  // namespace openmrc::mrc_api
