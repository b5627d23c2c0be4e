// Synchronous identifiers with everything that belongs to them: rdma_create_ep and rdma_get_request.
#include <cstring>
#include <optional>

#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

constexpr int kResolveMs = 2000;

int create_passive(Id& id, const rdma_addrinfo& from, ibv_pd* pd, const ibv_qp_init_attr* wanted) {
  if (rdma_bind_addr(&id.api, from.ai_src_addr) != 0) return errno;
  id.request_pd = pd;
  if (wanted != nullptr) id.request_qp = *wanted;
  return 0;
}

int create_active(Id& id, const rdma_addrinfo& from, ibv_pd* pd, ibv_qp_init_attr* wanted) {
  if (from.ai_connect_len > kRequestDataMax) return EINVAL;
  if (from.ai_connect_len > 0) {
    const auto* data = static_cast<const std::uint8_t*>(from.ai_connect);
    id.connect_data.assign(data, data + from.ai_connect_len);
  }
  if (rdma_resolve_addr(&id.api, from.ai_src_addr, from.ai_dst_addr, kResolveMs) != 0) return errno;
  if (rdma_resolve_route(&id.api, kResolveMs) != 0) return errno;
  if (wanted == nullptr) return 0;
  wanted->qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
  return create_qp(id, pd, *wanted);
}

int create_endpoint(const rdma_addrinfo& from, ibv_pd* pd, ibv_qp_init_attr* wanted, rdma_cm_id** out) {
  Id* id = nullptr;
  if (const int error = create_id(nullptr, nullptr, static_cast<rdma_port_space>(from.ai_port_space), id)) return error;
  id->api.qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
  const bool passive = (from.ai_flags & RAI_PASSIVE) != 0;
  const int error = passive ? create_passive(*id, from, pd, wanted) : create_active(*id, from, pd, wanted);
  if (error != 0) {
    rdma_destroy_id(&id->api);
    return error;
  }
  *out = &id->api;
  return 0;
}

int refuse(Id& id, int error) {
  rdma_destroy_id(&id.api);
  return error;
}

// `event` is what the listener's channel had.
int take_request(Id& listener, Event* event, rdma_cm_id** out) {
  if (event->api.event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    const int status = event->api.status;
    acknowledge(event);
    return status < 0 ? -status : EINVAL;
  }
  Id& id = Id::of(event->api.id);
  std::optional<ibv_qp_init_attr> wanted;
  ibv_pd* pd = nullptr;
  {
    // The event lives as long as the new id, which the program may keep longer than the listener: another thread may
    // destroy that from here on.
    const std::lock_guard guard(Service::get().mutex);
    wanted = listener.request_qp;
    if (wanted) wanted->qp_type = listener.api.qp_type;
    pd = listener.request_pd;
    move_to(id, *event);
  }
  id.api.event = &event->api;
  if (wanted) {
    if (const int error = create_qp(id, pd, *wanted)) return refuse(id, error);
  }
  *out = &id.api;
  return 0;
}

}  // namespace

CM_API int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* from, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (id == nullptr || from == nullptr) return result_of(EINVAL);
  return guarded([&] { return create_endpoint(*from, pd, attributes, id); });
}

CM_API void rdma_destroy_ep(rdma_cm_id* id) {
  if (with(id, [](Id&) { return 0; }) != 0) return;
  destroy_qp(Id::of(id));
  destroy_srq(Id::of(id));
  rdma_destroy_id(id);
}

CM_API int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  if (id == nullptr) return result_of(EINVAL);
  Channel* channel = nullptr;
  const int refused = with(listener, [&](Id& live) {
    channel = live.channel;
    return live.synchronous && live.listener ? 0 : EINVAL;
  });
  if (refused != 0) return result_of(refused);
  Event* event = nullptr;
  if (const int error = take_event(channel, event)) return result_of(error);
  return guarded([&] { return take_request(Id::of(listener), event, id); });
}

}  // namespace openmrc::rdmacm
