// EV format profiles: the place of an EV in a packet, and its fields.
#pragma once

#include <cstdint>
#include <vector>

#include "openmrc/mrc_ctl.h"

namespace openmrc::mrc_api {

inline constexpr std::uint32_t kEvBits = 16;  // of the one mode that devices have: the UDP source port
inline constexpr std::uint32_t kFieldBitsMax = 32;

struct EvFormatProfile {
  mrc_ctl_profile_state state = MRC_CTL_PROFILE_INIT;
  mrc_ctl_ev_fmt_mode mode = MRC_CTL_EV_FMT_MODE_UDP;
  std::vector<std::uint8_t> widths;

  // Error numbers. `in_use`: an EV profile that is ONLINE has this format.
  int modify(mrc_ctl_ev_fmt_profile_attr& attr, int mask, bool in_use);
  int query(mrc_ctl_ev_fmt_profile_attr& attr, int mask) const;

 private:
  int modify_fields(const mrc_ctl_ev_fmt_profile_attr& attr);
  int query_fields(mrc_ctl_ev_fmt_profile_attr& attr) const;
  int move(mrc_ctl_profile_state to, bool in_use);
};

// True for a profile state that is at most one step from `from`.
bool is_step(mrc_ctl_profile_state from, mrc_ctl_profile_state to);

}  // namespace openmrc::mrc_api
