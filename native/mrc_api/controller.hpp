// Controller of one device, shared by all its contexts in the process: profiles, ports, events about EVs, and the QPs
// that use the profiles.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mrc_api/cc_profile.hpp"
#include "mrc_api/ev_format_profile.hpp"
#include "mrc_api/ev_profile.hpp"
#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {

class Controller final : public verbs::MrcEvListener {
 public:
  explicit Controller(ibv_context* verbs);

  std::uint32_t port_count() const { return port_count_; }
  std::span<const Ev> device_evs() const { return device_evs_; }
  std::uint32_t evs_free();
  // Around fork().
  std::mutex& mutex() { return mutex_; }

  // --- profiles; error numbers
  int modify_format(std::uint64_t id, mrc_ctl_ev_fmt_profile_attr& attr, int mask);
  int query_format(std::uint64_t id, mrc_ctl_ev_fmt_profile_attr& attr, int mask);
  int modify_ev(std::uint64_t id, mrc_ctl_ev_profile_attr& attr, int mask);
  int query_ev(std::uint64_t id, mrc_ctl_ev_profile_attr& attr, int mask);
  int modify_cc(std::uint64_t id, mrc_ctl_cc_profile_attr& attr, int mask);
  int query_cc(std::uint64_t id, mrc_ctl_cc_profile_attr& attr, int mask);

  // --- ports, from 1 on
  int query_port(std::uint8_t port, mrc_ctl_port_attr& attr);
  int modify_port(ibv_context* verbs, std::uint8_t port, const mrc_ctl_port_attr& attr);

  // --- QPs
  // Gives a QP that enters INIT the paths of its profiles. EINVAL: one of them is not ONLINE.
  int attach(mrc_qp& qp, const mrc_qp_attr& attr, int mask);
  // After INIT: the EVs that are denied.
  void deny(mrc_qp& qp);
  void detach(mrc_qp& qp);
  // Number of a QP of the peer at this address, or 0.
  std::uint32_t qp_number_at(const ibv_gid& gid);

  // --- events
  int add(mrc_cq& cq);
  void remove(mrc_cq& cq);
  void on_ev_change(const verbs::MrcEvChange& change) override;

 private:
  using BadEv = std::pair<std::uint32_t, std::uint32_t>;  // QP and EV

  Surroundings around(std::uint64_t format_id);
  std::uint32_t evs_used() const;
  bool format_in_use(std::uint64_t id) const;
  bool ev_profile_in_use(std::uint64_t id) const;
  bool cc_profile_in_use(std::uint64_t id) const;
  int run_ev_op(std::uint64_t id, EvProfile& profile, mrc_ctl_ev_profile_attr& attr, bool modifies);
  int query_states(std::uint64_t id, const EvProfile& profile, mrc_ctl_ev_op_entry* entries, int count);
  int query_array(std::uint64_t id, const EvProfile& profile, mrc_ctl_ev_profile_attr& attr);
  int deny_everywhere(std::uint64_t id, EvProfile& profile, const mrc_ctl_ev_op_entry& entry);
  std::set<std::uint32_t> bad_evs(std::uint64_t id);
  void publish(std::uint64_t profile, const Ev& ev, mrc_ctl_ev_state state);

  verbs::MrcSeam& seam_;
  std::uint32_t port_count_ = 0;
  std::vector<Ev> device_evs_;
  std::mutex mutex_;
  std::map<std::uint64_t, EvFormatProfile> formats_;
  std::map<std::uint64_t, EvProfile> evs_;
  std::map<std::uint64_t, CcProfile> ccs_;
  PortMask disabled_ = 0;
  std::unordered_map<std::uint32_t, mrc_qp*> qps_;  // from INIT on, by number
  std::set<mrc_cq*> event_queues_;
  std::set<BadEv> bad_;  // that were reported, or would have been
  bool listens_ = false;
};

// Of the device behind a context.
Controller& controller_of(ibv_context* verbs);

// EINVAL for pointers that are no live context, or NULL.
int check(const mrc_context* context, const void* argument);

}  // namespace openmrc::mrc_api
