// The controller API: device, ports, profiles, events and probes.
#include <algorithm>
#include <array>
#include <cstring>

#include "mrc_api/controller.hpp"
#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

constexpr std::uint32_t kProfilesMax = 1U << 16;
constexpr std::uint32_t kEvsTotalMax = 1U << 20;
constexpr std::uint8_t kTrafficClassMax = 63;

int query_device(ibv_context* context, mrc_ctl_device_attr* attr) {
  static std::array<const char*, 2> algorithms{kNscc, nullptr};
  if (context == nullptr || attr == nullptr) return EINVAL;
  if (seam() == nullptr) return EOPNOTSUPP;
  if (!seam()->is_context(context)) return EINVAL;
  Controller& controller = controller_of(context);
  *attr = {};
  attr->mrc_ctl_protocol_version = MRC_CTL_PROTOCOL_VERSION_1;
  attr->ev.ev_max_fmt_profiles = attr->ev.ev_max_profiles = attr->cc.cc_max_profiles = kProfilesMax;
  attr->ev.ev_max_count = kEvsTotalMax;
  attr->ev.ev_free_count = controller.evs_free();
  attr->ev.ev_max_count_profile = kProfileEvsMax;
  attr->ev.ev_count_align = 1;
  attr->ev.ev_max_width = kEvBits;
  attr->ev.ev_fmt_mode_mask = MRC_CTL_EV_FMT_MODE_UDP;
  attr->ev.ev_mode_mask = MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN;
  attr->cc.algorithms = algorithms.data();
  attr->phy_port_mask = static_cast<std::uint32_t>(((std::uint64_t{1} << controller.port_count()) - 1) << 1);
  attr->opt_attr =
      MRC_CTL_OPT_CAP_EV_EVENT | MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE;
  return 0;
}

int query_device_ex(ibv_context* context, const mrc_context* mcontext, mrc_ctl_device_attr* attr, int* supported) {
  if (supported == nullptr || !is_live(mcontext) || mcontext->verbs != context) return EINVAL;
  const int error = query_device(context, attr);
  *supported = error == 0 ? 1 : 0;
  return error;
}

// --- events

// `Event`: as the program's version of the API declares it.
template <typename Event>
int poll_events(mrc_cq* cq, int count_max, Event* events) {
  if (!is_live(cq) || !cq->of_events || count_max < 0 || (events == nullptr && count_max > 0)) return -EINVAL;
  const std::lock_guard guard(cq->mutex);
  int count = 0;
  for (; count < count_max && !cq->events.empty(); ++count) {
    std::memcpy(static_cast<void*>(events + count), &cq->events.front(), sizeof(Event));
    cq->events.pop_front();
    ibv_wc signal{};
    ::ibv_poll_cq(cq->verbs, 1, &signal);
  }
  return count;
}

// mrc_ctl_ev_event before version 1.0.1.
struct EarlierEvent {
  std::uint64_t profile_id;
  mrc_ctl_ev ev;
  std::uint32_t drop_count;
};
static_assert(offsetof(EarlierEvent, drop_count) == offsetof(mrc_ctl_ev_event, drop_count));

// --- probes

int probe_of(mrc_context* context, const mrc_ctl_ep_req& request, verbs::MrcProbe& probe) {
  Controller& controller = *context->controller;
  if (request.ev_fmt_mode != MRC_CTL_EV_FMT_MODE_UDP) return ENOTSUP;
  if (seam()->planes_at(context->verbs, request.sgid) == 0) return EINVAL;
  const auto evs = controller.device_evs();
  const auto own = std::find_if(evs.begin(), evs.end(), [&](const Ev& ev) { return same(api_ev(ev), request.req_ev); });
  if (own == evs.end()) return EINVAL;
  probe.ev = *own;
  probe.destination = request.dgid;
  probe.qp_number = controller.qp_number_at(request.dgid);
  return 0;
}

int check_ids(const mrc_ctl_ep_req* requests, int count) {
  std::set<std::uint16_t> ids;
  for (int i = 0; i < count; ++i) {
    if (!ids.insert(requests[i].req_id).second) return EINVAL;
  }
  return 0;
}

int send_and_wait(mrc_context* context, mrc_ctl_ep_req* requests, int count, std::uint32_t timeout_ns,
                  mrc_ctl_ep_rsp* responses, int* response_count) {
  *response_count = 0;
  if (const int error = check_ids(requests, count)) return error;
  std::vector<verbs::MrcProbe> probes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (const int error = probe_of(context, requests[i], probes[i])) return error;
  }
  std::vector<verbs::MrcProbeAnswer> answers;
  const int error = seam()->probe(context->verbs, probes, timeout_ns, answers);
  for (const verbs::MrcProbeAnswer& answer : answers) {
    mrc_ctl_ep_rsp& to = responses[(*response_count)++];
    to.req_id = requests[answer.index].req_id;
    to.port = static_cast<std::uint8_t>(answer.port + 1);
    to.rtt = static_cast<unsigned int>(answer.rtt_ns);
    to.adj_svc_time = answer.service_time_removed ? 1 : 0;
  }
  if (error != 0) return error;
  return *response_count < count ? ETIMEDOUT : 0;
}

}  // namespace

MRC_API int mrc_ctl_query_device(ibv_context* context, mrc_ctl_device_attr* attr) {
  return zero_or_minus_one([&] { return query_device(context, attr); });
}

MRC_API int mrc_ctl_query_device_ex(ibv_context* context, mrc_context* mcontext, mrc_ctl_device_attr* attr,
                                    int* supported) {
  return zero_or_minus_one([&] { return query_device_ex(context, mcontext, attr, supported); });
}

MRC_API int mrc_ctl_query_port(mrc_context* context, std::uint8_t port, mrc_ctl_port_attr* attr, int mask) {
  return zero_or_minus_one([&] {
    if (check(context, attr) != 0 || mask != MRC_CTL_PORT_ADMIN_STATE) return EINVAL;
    return context->controller->query_port(port, *attr);
  });
}

MRC_API int mrc_ctl_modify_port(mrc_context* context, std::uint8_t port, mrc_ctl_port_attr* attr, int mask) {
  return zero_or_minus_one([&] {
    if (check(context, attr) != 0 || mask != MRC_CTL_PORT_ADMIN_STATE) return EINVAL;
    return context->controller->modify_port(context->verbs, port, *attr);
  });
}

MRC_API int mrc_ctl_modify_ev_fmt_profile(mrc_context* context, std::uint64_t id, mrc_ctl_ev_fmt_profile_attr* attr,
                                          int mask) {
  return zero_or_minus_one(
      [&] { return check(context, attr) != 0 ? EINVAL : context->controller->modify_format(id, *attr, mask); });
}

MRC_API int mrc_ctl_query_ev_fmt_profile(mrc_context* context, std::uint64_t id, mrc_ctl_ev_fmt_profile_attr* attr,
                                         int mask) {
  return zero_or_minus_one(
      [&] { return check(context, attr) != 0 ? EINVAL : context->controller->query_format(id, *attr, mask); });
}

MRC_API int mrc_ctl_modify_ev_profile(mrc_context* context, std::uint64_t id, mrc_ctl_ev_profile_attr* attr, int mask) {
  return zero_or_minus_one(
      [&] { return check(context, attr) != 0 ? EINVAL : context->controller->modify_ev(id, *attr, mask); });
}

MRC_API int mrc_ctl_query_ev_profile(mrc_context* context, std::uint64_t id, mrc_ctl_ev_profile_attr* attr, int mask) {
  return zero_or_minus_one(
      [&] { return check(context, attr) != 0 ? EINVAL : context->controller->query_ev(id, *attr, mask); });
}

MRC_API int mrc_ctl_modify_cc_profile(mrc_context* context, std::uint64_t id, mrc_ctl_cc_profile_attr* attr, int mask) {
  return zero_or_minus_one(
      [&] { return check(context, attr) != 0 ? EINVAL : context->controller->modify_cc(id, *attr, mask); });
}

MRC_API int mrc_ctl_query_cc_profile(mrc_context* context, std::uint64_t id, mrc_ctl_cc_profile_attr* attr, int mask) {
  return zero_or_minus_one(
      [&] { return check(context, attr) != 0 ? EINVAL : context->controller->query_cc(id, *attr, mask); });
}

MRC_API int mrc_ctl_poll_ev_event(mrc_cq* cq, int count_max, mrc_ctl_ev_event* events) {
  return poll_events(cq, count_max, events);
}

MRC_API int openmrc_poll_ev_event_1_0_0(mrc_cq* cq, int count_max, EarlierEvent* events) {
  return poll_events(cq, count_max, events);
}

MRC_API int mrc_ctl_ep_batch_send_wait(mrc_context* context, std::uint8_t traffic_class, mrc_ctl_ep_op_type type,
                                       mrc_ctl_ep_req* requests, int count, std::uint32_t timeout_ns,
                                       mrc_ctl_ep_rsp* responses, int* response_count) {
  return zero_or_minus_one([&] {
    if (check(context, requests) != 0 || responses == nullptr || response_count == nullptr) return EINVAL;
    if (count <= 0 || timeout_ns == 0 || traffic_class > kTrafficClassMax) return EINVAL;
    if (type == MRC_CTL_EP_OP_PORT_STATUS_UPDATE) return ENOTSUP;
    if (type != MRC_CTL_EP_OP_EV_PROBE) return EINVAL;
    return send_and_wait(context, requests, count, timeout_ns, responses, response_count);
  });
}

}  // namespace openmrc::mrc_api
