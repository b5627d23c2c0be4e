#include "mrc_api/controller.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>

namespace openmrc::mrc_api {
namespace {

constexpr std::uint32_t kEvsTotalMax = 1U << 20;  // of all profiles
constexpr std::size_t kProfilesMax = 1U << 16;    // of each kind

// Removes a profile that is empty again: one that was never configured has no entry either.
template <typename Profiles>
void forget_if_empty(Profiles& profiles, std::uint64_t id, mrc_ctl_profile_state state) {
  if (state == MRC_CTL_PROFILE_INIT) profiles.erase(id);
}

struct All {
  std::mutex mutex;
  std::map<const void*, std::unique_ptr<Controller>> by_device;
};

All& all_controllers() {
  static All& all = *new All;  // programs call during their exit
  return all;
}

void before_fork() {
  all_controllers().mutex.lock();
  for (const auto& [device, controller] : all_controllers().by_device) controller->mutex().lock();
  verbs::lock_live_objects();
}

void after_fork() {
  verbs::unlock_live_objects();
  for (const auto& [device, controller] : all_controllers().by_device) controller->mutex().unlock();
  all_controllers().mutex.unlock();
}

// Another thread may hold these locks at a fork. Installed while the library is loaded, after the handlers of libibverbs,
// which therefore run later before a fork: its locks are taken inside these.
[[maybe_unused]] const int installed = ::pthread_atfork(before_fork, after_fork, after_fork);

}  // namespace

Controller& controller_of(ibv_context* verbs) {
  All& all = all_controllers();
  const std::lock_guard guard(all.mutex);
  const void* device = seam()->device_of(verbs);
  const auto found = all.by_device.find(device);
  if (found != all.by_device.end()) return *found->second;
  return *all.by_device.emplace(device, std::make_unique<Controller>(verbs)).first->second;
}

int check(const mrc_context* context, const void* argument) {
  return is_live(context) && argument != nullptr ? 0 : EINVAL;
}

Controller::Controller(ibv_context* verbs) : seam_(*seam()), port_count_(seam_.plane_count(verbs)) {
  if (const int error = seam_.evs(verbs, device_evs_)) throw std::system_error(error, std::generic_category());
}

std::uint32_t Controller::evs_used() const {
  std::size_t used = 0;
  for (const auto& [id, profile] : evs_) used += profile.entries().size();
  return static_cast<std::uint32_t>(used);
}

std::uint32_t Controller::evs_free() {
  const std::lock_guard guard(mutex_);
  return kEvsTotalMax - evs_used();
}

Surroundings Controller::around(std::uint64_t format_id) {
  const auto format = formats_.find(format_id);
  return {.device_evs = device_evs_,
          .format = format == formats_.end() ? nullptr : &format->second,
          .evs_free = kEvsTotalMax - evs_used()};
}

// --- formats

bool Controller::format_in_use(std::uint64_t id) const {
  return std::any_of(evs_.begin(), evs_.end(), [id](const auto& one) {
    return one.second.has_format() && one.second.format_id() == id && one.second.state() == MRC_CTL_PROFILE_ONLINE;
  });
}

int Controller::modify_format(std::uint64_t id, mrc_ctl_ev_fmt_profile_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  if (!formats_.contains(id) && formats_.size() >= kProfilesMax) return ENOMEM;
  EvFormatProfile& profile = formats_[id];
  const int error = profile.modify(attr, mask, format_in_use(id));
  forget_if_empty(formats_, id, profile.state);
  return error;
}

int Controller::query_format(std::uint64_t id, mrc_ctl_ev_fmt_profile_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  const auto found = formats_.find(id);
  return found == formats_.end() ? EvFormatProfile().query(attr, mask) : found->second.query(attr, mask);
}

// --- EV profiles

bool Controller::ev_profile_in_use(std::uint64_t id) const {
  return std::any_of(qps_.begin(), qps_.end(),
                     [id](const auto& one) { return one.second->has_ev_profile && one.second->ev_profile == id; });
}

int Controller::modify_ev(std::uint64_t id, mrc_ctl_ev_profile_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  if (!evs_.contains(id) && evs_.size() >= kProfilesMax) return ENOMEM;
  EvProfile& profile = evs_[id];
  const bool in_use = ev_profile_in_use(id);
  const bool formatted = (mask & MRC_CTL_EV_PROFILE_FMT_ID) != 0;
  const Surroundings surroundings = around(formatted ? attr.ev_fmt_profile_id : profile.format_id());
  int error = profile.modify(attr, mask, surroundings, in_use);
  if (error == 0 && (mask & MRC_CTL_EV_PROFILE_EV_OP) != 0) error = run_ev_op(id, profile, attr, true);
  if (error == 0 && (mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 &&
      attr.ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS) {
    error = profile.query_fields(attr);
  }
  if (error == 0) error = profile.move(attr, mask, surroundings, in_use);
  forget_if_empty(evs_, id, profile.state());
  return error;
}

int Controller::query_ev(std::uint64_t id, mrc_ctl_ev_profile_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  const auto found = evs_.find(id);
  if (found == evs_.end()) return EvProfile().query(attr, mask);
  EvProfile& profile = found->second;
  if (const int error = profile.query(attr, mask)) return error;
  if ((mask & MRC_CTL_EV_PROFILE_EV_OP) != 0) return run_ev_op(id, profile, attr, false);
  if ((mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) == 0) return 0;
  return attr.ev_fields_op.op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS ? profile.query_fields(attr) : EINVAL;
}

int Controller::run_ev_op(std::uint64_t id, EvProfile& profile, mrc_ctl_ev_profile_attr& attr, bool modifies) {
  if (attr.ev_op.op == MRC_CTL_EV_OP_QUERY_EV_ARRAY) return query_array(id, profile, attr);
  mrc_ctl_ev_op_entry* entries = attr.ev_op.entries;
  const int count = attr.ev_op.entry_count;
  if (entries == nullptr || count <= 0) return EINVAL;
  if (attr.ev_op.op == MRC_CTL_EV_OP_QUERY_EV_STATE) return query_states(id, profile, entries, count);
  const bool replaces = attr.ev_op.op == MRC_CTL_EV_OP_REPLACE_EV;
  if (!modifies || (!replaces && attr.ev_op.op != MRC_CTL_EV_OP_MODIFY_EV_STATE)) return EINVAL;
  for (int i = 0; i < count; ++i) {
    const int error = replaces ? profile.replace(entries[i], device_evs_) : deny_everywhere(id, profile, entries[i]);
    if (error != 0) return error;
  }
  return 0;
}

int Controller::deny_everywhere(std::uint64_t id, EvProfile& profile, const mrc_ctl_ev_op_entry& entry) {
  std::uint32_t value = 0;
  if (const int error = profile.set_denied(entry, value)) return error;
  for (const auto& [number, qp] : qps_) {
    if (!qp->has_ev_profile || qp->ev_profile != id) continue;
    if (const int error = seam_.set_denied(qp->verbs, value, entry.state == MRC_CTL_EV_DENIED)) return error;
  }
  return 0;
}

// EVs that some QP with the profile has set aside.
std::set<std::uint32_t> Controller::bad_evs(std::uint64_t id) {
  std::set<std::uint32_t> bad;
  std::vector<verbs::MrcEvState> states;
  for (const auto& [number, qp] : qps_) {
    if (!qp->has_ev_profile || qp->ev_profile != id || seam_.ev_states(qp->verbs, states) != 0) continue;
    for (const verbs::MrcEvState& one : states) {
      if (one.state == EvState::kAssumedBad) bad.insert(one.ev.value);
    }
  }
  return bad;
}

namespace {

mrc_ctl_ev_state state_of(const EvProfile::Entry& entry, const std::set<std::uint32_t>& bad) {
  if (!entry.populated) return MRC_CTL_EV_UNKNOWN;
  if (entry.denied) return MRC_CTL_EV_DENIED;
  return bad.contains(entry.value) ? MRC_CTL_EV_ASSUMED_BAD : MRC_CTL_EV_GOOD;
}

}  // namespace

int Controller::query_states(std::uint64_t id, const EvProfile& profile, mrc_ctl_ev_op_entry* entries, int count) {
  const std::set<std::uint32_t> bad = bad_evs(id);
  for (int i = 0; i < count; ++i) {
    const EvProfile::Entry* found = profile.find(entries[i].ev);
    if (found == nullptr) return ENOENT;
    entries[i].state = state_of(*found, bad);
  }
  return 0;
}

int Controller::query_array(std::uint64_t id, const EvProfile& profile, mrc_ctl_ev_profile_attr& attr) {
  const int count = static_cast<int>(profile.entries().size());
  const int room = attr.ev_op.entry_count;
  attr.ev_op.entry_count = count;
  if (room < count) return E2BIG;
  if (attr.ev_op.entries == nullptr) return EINVAL;
  const std::set<std::uint32_t> bad = bad_evs(id);
  for (int i = 0; i < count; ++i) {
    const EvProfile::Entry& entry = profile.entries()[static_cast<std::size_t>(i)];
    attr.ev_op.entries[i].ev = entry.ev;
    attr.ev_op.entries[i].state = state_of(entry, bad);
  }
  return 0;
}

// --- CC profiles

bool Controller::cc_profile_in_use(std::uint64_t id) const {
  return std::any_of(qps_.begin(), qps_.end(),
                     [id](const auto& one) { return one.second->has_cc_profile && one.second->cc_profile == id; });
}

int Controller::modify_cc(std::uint64_t id, mrc_ctl_cc_profile_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  if (!ccs_.contains(id) && ccs_.size() >= kProfilesMax) return ENOMEM;
  CcProfile& profile = ccs_[id];
  const int error = profile.modify(attr, mask, cc_profile_in_use(id));
  forget_if_empty(ccs_, id, profile.state());
  return error;
}

int Controller::query_cc(std::uint64_t id, mrc_ctl_cc_profile_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  const auto found = ccs_.find(id);
  return found == ccs_.end() ? CcProfile().query(attr, mask) : found->second.query(attr, mask);
}

// --- ports

int Controller::query_port(std::uint8_t port, mrc_ctl_port_attr& attr) {
  if (port == 0 || port > port_count_) return EINVAL;
  const std::lock_guard guard(mutex_);
  const bool disabled = (disabled_ >> (port - 1U) & 1U) != 0;
  attr.port_admin_state = disabled ? MRC_CTL_PORT_ADMIN_DISABLED : MRC_CTL_PORT_ADMIN_ENABLED;
  return 0;
}

int Controller::modify_port(ibv_context* verbs, std::uint8_t port, const mrc_ctl_port_attr& attr) {
  if (port == 0 || port > port_count_) return EINVAL;
  const bool up = attr.port_admin_state == MRC_CTL_PORT_ADMIN_ENABLED;
  if (!up && attr.port_admin_state != MRC_CTL_PORT_ADMIN_DISABLED) return EINVAL;
  const std::lock_guard guard(mutex_);
  if (const int error = seam_.set_plane_state(verbs, static_cast<PortId>(port - 1), up)) return error;
  const PortMask bit = PortMask{1} << (port - 1U);
  disabled_ = up ? disabled_ & ~bit : disabled_ | bit;
  return 0;
}

// --- QPs

int Controller::attach(mrc_qp& qp, const mrc_qp_attr& attr, int mask) {
  const std::lock_guard guard(mutex_);
  verbs::MrcPaths paths;
  const bool has_ev = (mask & MRC_QP_EV_PROFILE_ID) != 0, has_cc = (mask & MRC_QP_CC_PROFILE_ID) != 0;
  if (has_ev) {
    const auto found = evs_.find(attr.profile.ev_profile_id);
    if (found == evs_.end() || found->second.state() != MRC_CTL_PROFILE_ONLINE) return EINVAL;
    paths.evs = found->second.evs();
    paths.min_active = found->second.min_active();
  }
  if (has_cc) {
    const auto found = ccs_.find(attr.profile.cc_profile_id);
    if (found == ccs_.end() || found->second.state() != MRC_CTL_PROFILE_ONLINE) return EINVAL;
    paths.controller = found->second.controller();
    paths.cc = found->second.config();
  }
  if (qp.hint != nullptr) {
    const std::lock_guard hint(qp.hint->mutex);
    paths.cc.incast_degree = static_cast<std::uint32_t>(qp.hint->attributes.num_remote_recv_peers);
  }
  if (const int error = seam_.set_paths(qp.verbs, paths)) return error;
  qp.has_ev_profile = has_ev;
  qp.has_cc_profile = has_cc;
  qp.ev_profile = has_ev ? attr.profile.ev_profile_id : 0;
  qp.cc_profile = has_cc ? attr.profile.cc_profile_id : 0;
  qps_[qp.verbs->qp_num] = &qp;
  return 0;
}

void Controller::deny(mrc_qp& qp) {
  const std::lock_guard guard(mutex_);
  const auto profile = evs_.find(qp.ev_profile);
  if (!qp.has_ev_profile || profile == evs_.end()) return;
  for (const EvProfile::Entry& entry : profile->second.entries()) {
    if (entry.denied) seam_.set_denied(qp.verbs, entry.value, true);
  }
}

void Controller::detach(mrc_qp& qp) {
  const std::lock_guard guard(mutex_);
  const std::uint32_t number = qp.verbs->qp_num;
  qps_.erase(number);
  std::erase_if(bad_, [number](const BadEv& one) { return one.first == number; });
  qp.has_ev_profile = qp.has_cc_profile = false;
  qp.ev_profile = qp.cc_profile = 0;
}

std::uint32_t Controller::qp_number_at(const ibv_gid& gid) {
  const std::lock_guard guard(mutex_);
  for (const auto& [number, qp] : qps_) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (::ibv_query_qp(qp->verbs, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init) != 0) continue;
    if (std::memcmp(attr.ah_attr.grh.dgid.raw, gid.raw, sizeof gid.raw) == 0) return attr.dest_qp_num;
  }
  return 0;
}

// --- events

int Controller::add(mrc_cq& cq) {
  {
    const std::lock_guard guard(mutex_);
    event_queues_.insert(&cq);
    if (std::exchange(listens_, true)) return 0;
  }
  return seam_.listen(cq.context->verbs, *this);  // without the mutex, which on_ev_change() takes
}

void Controller::remove(mrc_cq& cq) {
  const std::lock_guard guard(mutex_);
  event_queues_.erase(&cq);
}

// SKIP is no state of the API: its EVs stay GOOD.
void Controller::on_ev_change(const verbs::MrcEvChange& change) {
  const std::lock_guard guard(mutex_);
  const auto qp = qps_.find(change.qp);
  if (qp == qps_.end() || !qp->second->has_ev_profile) return;
  const BadEv ev{change.qp, change.ev.value};
  const bool is_bad = change.state == EvState::kAssumedBad;
  const bool changed = is_bad ? bad_.insert(ev).second : bad_.erase(ev) > 0;
  if (!changed || change.state == EvState::kDenied) return;
  const mrc_ctl_ev_state state = is_bad ? MRC_CTL_EV_ASSUMED_BAD : MRC_CTL_EV_GOOD;
  const auto profile = evs_.find(qp->second->ev_profile);
  if (profile == evs_.end() || (profile->second.event_mask() & state) == 0) return;
  publish(profile->first, change.ev, state);
}

void Controller::publish(std::uint64_t profile, const Ev& ev, mrc_ctl_ev_state state) {
  for (mrc_cq* cq : event_queues_) {
    const std::lock_guard guard(cq->mutex);
    if (cq->events.size() >= cq->events_max) {
      ++cq->dropped;
      continue;
    }
    mrc_ctl_ev_event event{};
    event.profile_id = profile;
    event.ev = api_ev(ev);
    event.drop_count = std::exchange(cq->dropped, 0);
    event.state = state;
    cq->events.push_back(event);
    seam_.signal(cq->verbs);
  }
}

}  // namespace openmrc::mrc_api
