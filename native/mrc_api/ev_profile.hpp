// EV profiles: the paths that QPs may use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/paths/ev_set.hpp"
#include "mrc_api/ev_format_profile.hpp"
#include "openmrc/mrc_ctl.h"

namespace openmrc::mrc_api {

inline constexpr std::uint32_t kProfileEvsMax = kEvCountMax;

// A device's EV in the form of the API, and back.
mrc_ctl_ev api_ev(const Ev& ev);
bool same(const mrc_ctl_ev& one, const mrc_ctl_ev& other);

// Everything outside a profile that it depends on.
struct Surroundings {
  std::span<const Ev> device_evs;
  const EvFormatProfile* format = nullptr;  // by the profile's new format id; nullptr: not configured
  std::uint32_t evs_free = 0;               // that further profiles may have
};

class EvProfile {
 public:
  struct Entry {
    mrc_ctl_ev ev{};
    std::uint32_t value = 0;  // of the device's EV
    bool populated = false;
    bool denied = false;
  };

  mrc_ctl_profile_state state() const { return state_; }
  std::uint64_t format_id() const { return format_id_; }
  bool has_format() const { return mode_ != MRC_CTL_EV_MODE_AUTO && state_ != MRC_CTL_PROFILE_INIT; }
  int event_mask() const { return event_mask_; }
  std::uint16_t min_active() const { return static_cast<std::uint16_t>(min_active_ == 0 ? 1 : min_active_); }
  std::span<const Entry> entries() const { return entries_; }
  // Every EV once.
  std::vector<Ev> evs() const;

  // Error numbers. `in_use`: by a QP. Operations on single EVs follow by the functions below.
  int modify(const mrc_ctl_ev_profile_attr& attr, int mask, const Surroundings& around, bool in_use);
  int query(mrc_ctl_ev_profile_attr& attr, int mask) const;
  // The last step of a modification: to ONLINE, or down.
  int move(const mrc_ctl_ev_profile_attr& attr, int mask, const Surroundings& around, bool in_use);
  int replace(const mrc_ctl_ev_op_entry& entry, std::span<const Ev> device_evs);
  // ENOENT, or 0 with the EV's value of the device.
  int set_denied(const mrc_ctl_ev_op_entry& entry, std::uint32_t& value);
  const Entry* find(const mrc_ctl_ev& ev) const;
  int query_fields(mrc_ctl_ev_profile_attr& attr) const;

 private:
  int change(const mrc_ctl_ev_profile_attr& attr, int mask, const Surroundings& around);
  int change_count(const mrc_ctl_ev_profile_attr& attr, const Surroundings& around);
  int change_fields(const mrc_ctl_ev_profile_attr& attr, const EvFormatProfile* format);
  int fill(const Surroundings& around);
  bool generates(const Ev& ev, const EvFormatProfile& format) const;

  mrc_ctl_profile_state state_ = MRC_CTL_PROFILE_INIT;
  mrc_ctl_ev_mode mode_ = MRC_CTL_EV_MODE_AUTO;
  std::uint64_t format_id_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t min_active_ = 0;
  int event_mask_ = 0;
  std::vector<Entry> entries_;
  std::vector<mrc_ctl_ev_field> fields_;
};

}  // namespace openmrc::mrc_api
