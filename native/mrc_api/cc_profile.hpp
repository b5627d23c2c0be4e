// CC profiles: the congestion control of QPs.
#pragma once

#include "engine/cc/controller.hpp"
#include "openmrc/mrc_ctl.h"

namespace openmrc::mrc_api {

inline constexpr const char* kNscc = "uet-1.0-nscc";

class CcProfile {
 public:
  mrc_ctl_profile_state state() const { return state_; }
  const char* controller() const { return nscc_ ? "nscc" : "none"; }  // name in the engine's registry
  CcConfig config() const;

  // Error numbers. `in_use`: by a QP.
  int modify(const mrc_ctl_cc_profile_attr& attr, int mask, bool in_use);
  int query(mrc_ctl_cc_profile_attr& attr, int mask) const;

 private:
  int change(const mrc_ctl_cc_profile_attr& attr, int mask);

  mrc_ctl_profile_state state_ = MRC_CTL_PROFILE_INIT;
  bool nscc_ = true;
  bool configured_ = false;
  mrc_ctl_cc_nscc_cfg nscc_config_{};
};

}  // namespace openmrc::mrc_api
