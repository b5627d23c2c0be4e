#include "mrc_api/ev_profile.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace openmrc::mrc_api {
namespace {

constexpr int kAll = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE | MRC_CTL_EV_PROFILE_MODE |
                     MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                     MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
constexpr int kOperations = MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
constexpr int kSettings =
    MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE;
constexpr int kEventStates = MRC_CTL_EV_GOOD | MRC_CTL_EV_ASSUMED_BAD;

int check_mask(int mask) {
  if ((mask & MRC_CTL_EV_PROFILE_VENDOR_CFG) != 0) return EOPNOTSUPP;
  if ((mask & ~kAll) != 0) return EINVAL;
  return (mask & kOperations) == kOperations ? EINVAL : 0;
}

std::uint64_t ones(std::uint32_t count) { return (std::uint64_t{1} << count) - 1; }

int check(const mrc_ctl_ev_field& field, std::uint32_t room) {
  if (field.width == 0 || field.width > room) return EINVAL;
  if (((field.init_val | field.mask) & ~ones(field.width)) != 0) return EINVAL;
  const std::uint64_t largest = ones(static_cast<std::uint32_t>(std::popcount(field.mask)));
  return field.max_val > largest || field.min_val > field.max_val ? EINVAL : 0;
}

// Bits of `value` at the ones of `mask`, packed.
std::uint32_t taken(std::uint32_t value, std::uint32_t mask) {
  std::uint32_t number = 0;
  for (std::uint32_t bit = 32; bit-- > 0;) {
    if ((mask >> bit & 1U) != 0) number = number << 1U | (value >> bit & 1U);
  }
  return number;
}

// One EV of every port in turn, so that the first few of them use all ports.
std::vector<Ev> interleaved(std::vector<Ev> evs) {
  std::vector<std::uint32_t> seen(kPortCountMax, 0);
  std::vector<std::pair<std::uint32_t, Ev>> ranked;
  for (const Ev& ev : evs) ranked.emplace_back(seen[ev.port]++, ev);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(ranked.begin(), ranked.end(), evs.begin(), [](const auto& one) { return one.second; });
  return evs;
}

}  // namespace

mrc_ctl_ev api_ev(const Ev& ev) {
  mrc_ctl_ev to{};
  to.val[0] = static_cast<std::uint8_t>(ev.value >> 8);
  to.val[1] = static_cast<std::uint8_t>(ev.value);
  to.port = static_cast<std::uint8_t>(ev.port + 1);
  return to;
}

bool same(const mrc_ctl_ev& one, const mrc_ctl_ev& other) {
  return one.port == other.port && std::memcmp(one.val, other.val, sizeof one.val) == 0;
}

std::vector<Ev> EvProfile::evs() const {
  std::vector<Ev> all;
  for (const Entry& entry : entries_) {
    const Ev ev{entry.value, static_cast<PortId>(entry.ev.port - 1)};
    const bool copy = std::any_of(all.begin(), all.end(), [&](const Ev& one) { return one.value == ev.value; });
    if (entry.populated && !copy) all.push_back(ev);
  }
  return all;
}

const EvProfile::Entry* EvProfile::find(const mrc_ctl_ev& ev) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return same(one.ev, ev); });
  return found == entries_.end() ? nullptr : &*found;
}

// --- settings

int EvProfile::change_count(const mrc_ctl_ev_profile_attr& attr, const Surroundings& around) {
  const std::uint32_t count = attr.ev_count;
  if (count == 0) return EINVAL;
  if (count > kProfileEvsMax || count > around.evs_free + entries_.size()) return E2BIG;
  count_ = count;
  if (mode_ == MRC_CTL_EV_MODE_EXP) entries_.resize(count);
  return 0;
}

int EvProfile::change_fields(const mrc_ctl_ev_profile_attr& attr, const EvFormatProfile* format) {
  const int count = attr.ev_fields_op.field_count;
  if (mode_ != MRC_CTL_EV_MODE_GEN || format == nullptr) return EINVAL;
  if (attr.ev_fields_op.fields == nullptr || count <= 0) return EINVAL;
  if (static_cast<std::size_t>(count) > format->widths.size()) return E2BIG;
  std::vector<mrc_ctl_ev_field> wanted(attr.ev_fields_op.fields, attr.ev_fields_op.fields + count);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (const int error = check(wanted[i], format->widths[i])) return error;
  }
  fields_ = std::move(wanted);
  return 0;
}

// True if the fields allow this EV (protocol F.3, read backwards).
bool EvProfile::generates(const Ev& ev, const EvFormatProfile& format) const {
  std::uint32_t left = kEvBits;
  for (std::size_t i = 0; i < format.widths.size(); ++i) {
    left -= format.widths[i];
    const auto part = static_cast<std::uint32_t>(ev.value >> left & ones(format.widths[i]));
    if (i >= fields_.size()) {
      if (part != 0) return false;
      continue;
    }
    const mrc_ctl_ev_field& field = fields_[i];
    if ((part & ~ones(field.width)) != 0 || ((part ^ field.init_val) & ~field.mask) != 0) return false;
    const std::uint32_t number = taken(part, field.mask);
    if (number < field.min_val || number > field.max_val) return false;
  }
  return (ev.value & ones(left)) == 0;
}

// The EVs of modes in which the controller lists none.
int EvProfile::fill(const Surroundings& around) {
  if (mode_ == MRC_CTL_EV_MODE_EXP) return 0;
  if (mode_ == MRC_CTL_EV_MODE_GEN && fields_.empty()) return 0;
  std::vector<Ev> fitting(around.device_evs.begin(), around.device_evs.end());
  if (mode_ == MRC_CTL_EV_MODE_GEN) {
    if (around.format == nullptr) return EINVAL;
    std::erase_if(fitting, [&](const Ev& ev) { return !generates(ev, *around.format); });
  }
  if (count_ == 0) count_ = static_cast<std::uint32_t>(fitting.size());
  if (fitting.size() < count_) return EINVAL;
  fitting = interleaved(std::move(fitting));
  entries_.clear();
  for (std::uint32_t i = 0; i < count_; ++i) entries_.push_back({api_ev(fitting[i]), fitting[i].value, true, false});
  return 0;
}

int EvProfile::change(const mrc_ctl_ev_profile_attr& attr, int mask, const Surroundings& around) {
  if ((mask & MRC_CTL_EV_PROFILE_MODE) != 0) {
    if (attr.ev_mode != MRC_CTL_EV_MODE_AUTO && attr.ev_mode != MRC_CTL_EV_MODE_EXP &&
        attr.ev_mode != MRC_CTL_EV_MODE_GEN) {
      return EINVAL;
    }
    if (attr.ev_mode != mode_) {
      entries_.clear();
      fields_.clear();
      count_ = 0;
    }
    mode_ = attr.ev_mode;
  }
  if ((mask & MRC_CTL_EV_PROFILE_FMT_ID) != 0) format_id_ = attr.ev_fmt_profile_id;
  if (mode_ != MRC_CTL_EV_MODE_AUTO && around.format == nullptr) return EINVAL;
  if ((mask & MRC_CTL_EV_PROFILE_COUNT) != 0) {
    if (const int error = change_count(attr, around)) return error;
  }
  const bool fields =
      (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 && attr.ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
  if (fields) {
    if (const int error = change_fields(attr, around.format)) return error;
  }
  if ((mask & (MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID | MRC_CTL_EV_PROFILE_COUNT)) != 0 || fields) {
    if (const int error = fill(around)) return error;
  }
  if (count_ == 0 || count_ > kProfileEvsMax) return EINVAL;
  if ((mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE) != 0) min_active_ = attr.ev_min_active;
  return min_active_ > count_ ? EINVAL : 0;
}

int EvProfile::modify(const mrc_ctl_ev_profile_attr& attr, int mask, const Surroundings& around, bool in_use) {
  if (const int error = check_mask(mask)) return error;
  if ((mask & MRC_CTL_EV_PROFILE_CUR_STATE) != 0 && attr.cur_profile_state != state_) return EINVAL;
  const mrc_ctl_profile_state to = (mask & MRC_CTL_EV_PROFILE_STATE) != 0 ? attr.profile_state : state_;
  if (!is_step(state_, to)) return EINVAL;
  if (to == MRC_CTL_PROFILE_OFFLINE && state_ == MRC_CTL_PROFILE_ONLINE && in_use) return EBUSY;
  const bool modifies_fields =
      (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 && attr.ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS;
  if ((mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 && !modifies_fields &&
      attr.ev_fields_op.op != MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS) {
    return EINVAL;
  }
  const int settings = (mask & kSettings) | (modifies_fields ? MRC_CTL_EV_PROFILE_EV_FIELDS_OP : 0);
  const bool begins = state_ == MRC_CTL_PROFILE_INIT && to == MRC_CTL_PROFILE_OFFLINE;
  if (settings != 0 && (state_ == MRC_CTL_PROFILE_ONLINE || to == MRC_CTL_PROFILE_INIT)) return EINVAL;
  EvProfile next = *this;
  if (begins) {
    if ((mask & MRC_CTL_EV_PROFILE_MODE) == 0) return EINVAL;
    next.state_ = MRC_CTL_PROFILE_OFFLINE;
  }
  if (settings != 0) {
    if (const int error = next.change(attr, mask, around)) return error;
  }
  if ((mask & MRC_CTL_EV_PROFILE_EVENT_MASK) != 0) {
    if ((attr.ev_event_mask & ~kEventStates) != 0 || to == MRC_CTL_PROFILE_INIT) return EINVAL;
    next.event_mask_ = attr.ev_event_mask;
  }
  *this = std::move(next);
  return 0;
}

int EvProfile::move(const mrc_ctl_ev_profile_attr& attr, int mask, const Surroundings& around, bool in_use) {
  if ((mask & MRC_CTL_EV_PROFILE_STATE) == 0 || attr.profile_state == state_) return 0;
  if (state_ == MRC_CTL_PROFILE_ONLINE && in_use) return EBUSY;
  if (attr.profile_state == MRC_CTL_PROFILE_ONLINE) {
    const bool complete =
        std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.populated; });
    const bool formatted =
        mode_ == MRC_CTL_EV_MODE_AUTO || (around.format != nullptr && around.format->state == MRC_CTL_PROFILE_ONLINE);
    if (entries_.empty() || !complete || !formatted) return EINVAL;
  }
  if (attr.profile_state == MRC_CTL_PROFILE_INIT) *this = {};
  state_ = attr.profile_state;
  return 0;
}

// --- single EVs

int EvProfile::replace(const mrc_ctl_ev_op_entry& entry, std::span<const Ev> device_evs) {
  if (state_ != MRC_CTL_PROFILE_OFFLINE || mode_ != MRC_CTL_EV_MODE_EXP) return EINVAL;
  if ((entry.flags & ~std::uint32_t{MRC_CTL_EV_OP_F_ALL_COPIES}) != 0) return EINVAL;
  if (entry.state != 0 && entry.state != MRC_CTL_EV_GOOD && entry.state != MRC_CTL_EV_DENIED) return EINVAL;
  const auto owned =
      std::find_if(device_evs.begin(), device_evs.end(), [&](const Ev& ev) { return same(api_ev(ev), entry.ev_new); });
  if (owned == device_evs.end()) return EINVAL;
  bool found = false;
  for (Entry& one : entries_) {
    if (!same(one.ev, entry.ev)) continue;
    found = true;
    one = {entry.ev_new, owned->value, true, entry.state == MRC_CTL_EV_DENIED};
    if ((entry.flags & MRC_CTL_EV_OP_F_ALL_COPIES) == 0) break;
  }
  return found ? 0 : ENOENT;
}

int EvProfile::set_denied(const mrc_ctl_ev_op_entry& entry, std::uint32_t& value) {
  if (state_ == MRC_CTL_PROFILE_INIT) return EINVAL;
  if (entry.state != MRC_CTL_EV_GOOD && entry.state != MRC_CTL_EV_DENIED) return EINVAL;
  bool found = false;
  for (Entry& one : entries_) {
    if (!one.populated || !same(one.ev, entry.ev)) continue;
    found = true;
    one.denied = entry.state == MRC_CTL_EV_DENIED;
    value = one.value;
  }
  return found ? 0 : ENOENT;
}

// --- queries

int EvProfile::query_fields(mrc_ctl_ev_profile_attr& attr) const {
  const int count = static_cast<int>(fields_.size());
  const int room = attr.ev_fields_op.field_count;
  attr.ev_fields_op.field_count = count;
  if (room < count) return E2BIG;
  if (attr.ev_fields_op.fields == nullptr) return EINVAL;
  std::copy(fields_.begin(), fields_.end(), attr.ev_fields_op.fields);
  return 0;
}

int EvProfile::query(mrc_ctl_ev_profile_attr& attr, int mask) const {
  if (const int error = check_mask(mask)) return error;
  constexpr int kStates = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE;
  if ((mask & ~kStates) != 0 && state_ == MRC_CTL_PROFILE_INIT) return EINVAL;
  if ((mask & kStates) != 0) attr.profile_state = attr.cur_profile_state = state_;
  if ((mask & MRC_CTL_EV_PROFILE_MODE) != 0) attr.ev_mode = mode_;
  if ((mask & MRC_CTL_EV_PROFILE_FMT_ID) != 0) attr.ev_fmt_profile_id = format_id_;
  if ((mask & MRC_CTL_EV_PROFILE_COUNT) != 0) attr.ev_count = count_;
  if ((mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE) != 0) attr.ev_min_active = min_active_;
  if ((mask & MRC_CTL_EV_PROFILE_EVENT_MASK) != 0) attr.ev_event_mask = event_mask_;
  return 0;
}

}  // namespace openmrc::mrc_api
