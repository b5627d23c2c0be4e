#include "mrc_api/cc_profile.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>

#include "mrc_api/ev_format_profile.hpp"

namespace openmrc::mrc_api {
namespace {

constexpr int kAll =
    MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE | MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_CONFIG;
constexpr int kSettings = MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_CONFIG;
constexpr float kFactorMax = 100.0F;
constexpr std::uint8_t kGateMax = 32;

bool is_factor(float value, float largest) { return std::isfinite(value) && value >= 0.0F && value <= largest; }

bool is_valid(const mrc_ctl_cc_nscc_cfg& config) {
  return is_factor(config.eta, kFactorMax) && is_factor(config.fi, kFactorMax) &&
         is_factor(config.fi_scale, kFactorMax) && is_factor(config.gamma, kFactorMax) &&
         is_factor(config.max_md_jump, 1.0F) && config.qa_gate <= kGateMax;
}

void set_permille(std::uint32_t& to, float factor) {
  if (factor > 0.0F) to = static_cast<std::uint32_t>(std::lround(factor * 1000.0F));
}

TimePs time_of(std::uint32_t ns) { return static_cast<TimePs>(ns) * kPsPerNs; }

}  // namespace

CcConfig CcProfile::config() const {
  CcConfig config;
  if (!nscc_) return config;
  config.disable_qa = nscc_config_.disable_qa != 0;
  config.adjust_bytes = nscc_config_.adjust_bytes_threshold;
  config.adjust_period = time_of(nscc_config_.adjust_period_threshold);
  config.base_rtt = time_of(nscc_config_.base_rtt);
  config.max_cwnd_bytes = nscc_config_.max_cwnd;
  config.qa_threshold = time_of(nscc_config_.qa_threshold);
  config.target_qdelay = time_of(nscc_config_.target_delay);
  if (nscc_config_.qa_gate != 0) config.qa_gate_shift = nscc_config_.qa_gate;
  set_permille(config.eta_permille, nscc_config_.eta);
  set_permille(config.fi_permille, nscc_config_.fi);
  set_permille(config.fi_scale_permille, nscc_config_.fi_scale);
  set_permille(config.gamma_permille, nscc_config_.gamma);
  set_permille(config.max_md_jump_permille, nscc_config_.max_md_jump);
  return config;
}

int CcProfile::change(const mrc_ctl_cc_profile_attr& attr, int mask) {
  if ((mask & MRC_CTL_CC_PROFILE_ALGORITHM) != 0) {
    if (attr.algorithm != nullptr && std::strcmp(attr.algorithm, kNscc) != 0) return EINVAL;
    nscc_ = attr.algorithm != nullptr;
    configured_ = !nscc_;
  }
  if ((mask & MRC_CTL_CC_PROFILE_CONFIG) == 0 || !nscc_) return 0;
  if (attr.cc_config == nullptr) return EINVAL;
  const auto& config = *static_cast<const mrc_ctl_cc_nscc_cfg*>(attr.cc_config);
  if (!is_valid(config)) return EINVAL;
  nscc_config_ = config;
  configured_ = true;
  return 0;
}

int CcProfile::modify(const mrc_ctl_cc_profile_attr& attr, int mask, bool in_use) {
  if ((mask & MRC_CTL_CC_PROFILE_VENDOR_CFG) != 0) return EOPNOTSUPP;
  if ((mask & ~kAll) != 0) return EINVAL;
  if ((mask & MRC_CTL_CC_PROFILE_CUR_STATE) != 0 && attr.cur_profile_state != state_) return EINVAL;
  const mrc_ctl_profile_state to = (mask & MRC_CTL_CC_PROFILE_STATE) != 0 ? attr.profile_state : state_;
  if (!is_step(state_, to)) return EINVAL;
  if ((mask & kSettings) != 0 && (state_ == MRC_CTL_PROFILE_ONLINE || to == MRC_CTL_PROFILE_INIT)) return EINVAL;
  const bool begins = state_ == MRC_CTL_PROFILE_INIT && to == MRC_CTL_PROFILE_OFFLINE;
  if (begins && (mask & MRC_CTL_CC_PROFILE_ALGORITHM) == 0) return EINVAL;
  CcProfile next = *this;
  if (state_ != MRC_CTL_PROFILE_INIT || begins) {
    if (const int error = next.change(attr, mask)) return error;
  } else if ((mask & kSettings) != 0) {
    return EINVAL;
  }
  if (to != state_) {
    if (state_ == MRC_CTL_PROFILE_ONLINE && in_use) return EBUSY;
    if (to == MRC_CTL_PROFILE_ONLINE && !next.configured_) return EINVAL;
    if (to == MRC_CTL_PROFILE_INIT) next = {};
  }
  next.state_ = to;
  *this = next;
  return 0;
}

int CcProfile::query(mrc_ctl_cc_profile_attr& attr, int mask) const {
  if ((mask & MRC_CTL_CC_PROFILE_VENDOR_CFG) != 0) return EOPNOTSUPP;
  if ((mask & ~kAll) != 0) return EINVAL;
  if ((mask & kSettings) != 0 && state_ == MRC_CTL_PROFILE_INIT) return EINVAL;
  if ((mask & (MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE)) != 0) {
    attr.profile_state = attr.cur_profile_state = state_;
  }
  if ((mask & MRC_CTL_CC_PROFILE_ALGORITHM) != 0) attr.algorithm = nscc_ ? kNscc : nullptr;
  if ((mask & MRC_CTL_CC_PROFILE_CONFIG) != 0) attr.cc_config = nscc_ ? &nscc_config_ : nullptr;
  return 0;
}

}  // namespace openmrc::mrc_api
