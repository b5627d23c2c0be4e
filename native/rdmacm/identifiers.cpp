// Identifiers: creation, destruction, channels, options.
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

// Leaves the network: no more events come.
void detach(Id& id) {
  for (const std::unique_ptr<Event>& event : withdraw(id, nullptr)) {
    if (event->link == nullptr) continue;
    event->link->abandon();
    event->link->clear_listener();
  }
  if (id.link != nullptr) id.link->abandon();
  id.link.reset();
  if (id.listener != nullptr) {
    Link::finish_silent(id);
    Service::get().forget(*id.listener);
    id.listener->close();
    id.listener.reset();
  }
  id.socket.reset();
}

int destroy(Id& id) {
  if (id.synchronous && id.api.event != nullptr) {
    acknowledge(reinterpret_cast<Event*>(std::exchange(id.api.event, nullptr)));
  }
  std::unique_lock lock(Service::get().mutex);
  if (!ids().contains(&id)) return EINVAL;
  detach(id);
  await_acknowledgements(id, lock);
  free_id(id);
  return 0;
}

int set_option(Id& id, int level, int name, const void* value, std::size_t length) {
  if (level != RDMA_OPTION_ID) return ENOSYS;
  int number = 0;
  const bool byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (value == nullptr || length != (byte ? 1 : sizeof number)) return EINVAL;
  std::uint8_t octet = 0;
  std::memcpy(byte ? static_cast<void*>(&octet) : &number, value, length);
  switch (name) {
    case RDMA_OPTION_ID_TOS:
      id.type_of_service = octet;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (octet > 31) return EINVAL;
      id.ack_timeout = octet;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY:
      if (id.state != IdState::kIdle) return EINVAL;
      (name == RDMA_OPTION_ID_REUSEADDR ? id.reuse_address : id.one_family) = number != 0;
      return 0;
    default:
      return ENOSYS;
  }
}

}  // namespace

std::unordered_set<Id*>& ids() {
  static std::unordered_set<Id*>& all = *new std::unordered_set<Id*>;
  return all;
}

void Id::bind_to(const Device& found) {
  device = &found;
  api.verbs = found.context;
  api.port_num = 1;
  if (api.pd == nullptr) api.pd = found.pd;
  rdma_ib_addr& to = api.route.addr.addr.ibaddr;
  to.sgid = found.gid;
  to.pkey = 0xFFFF;
}

void Id::set_source(const SocketAddress& address) { api.route.addr.src_storage = address.storage(); }

void Id::set_destination(const SocketAddress& address) { api.route.addr.dst_storage = address.storage(); }

int create_id(rdma_event_channel* wanted, void* context, rdma_port_space space, Id*& out) {
  // Datagrams need QPs of type UD.
  if (space != RDMA_PS_TCP && space != RDMA_PS_IB) return EPROTONOSUPPORT;
  if (devices().empty()) return ENODEV;
  auto id = std::make_unique<Id>();
  if (::getrandom(&id->local.psn, sizeof id->local.psn, 0) != sizeof id->local.psn) return EIO;
  id->local.psn &= kNumbers - 1;
  Service& service = Service::get();
  const std::lock_guard guard(service.mutex);
  if (service.lost()) return EPERM;
  id->channel = reinterpret_cast<Channel*>(wanted);
  if (wanted == nullptr) {
    if (const int error = create_channel(id->channel)) return error;
    id->synchronous = true;
  } else if (!is_live(id->channel)) {
    return EINVAL;
  }
  id->api.channel = &id->channel->api;
  id->api.context = context;
  id->api.ps = space;
  id->api.qp_type = IBV_QPT_RC;
  ids().insert(id.get());
  out = id.release();
  return 0;
}

void free_id(Id& id) {
  ids().erase(&id);
  if (id.synchronous && id.channel != nullptr) destroy_channel(id.channel);
  delete &id;
}

int move_to_channel(Id& id, rdma_event_channel* wanted) {
  if (id.synchronous && id.api.event != nullptr) {
    acknowledge(reinterpret_cast<Event*>(std::exchange(id.api.event, nullptr)));
  }
  std::unique_lock lock(Service::get().mutex);
  if (!ids().contains(&id)) return EINVAL;
  auto* to = reinterpret_cast<Channel*>(wanted);
  if (wanted != nullptr && !is_live(to)) return EINVAL;
  if (wanted == nullptr) {
    if (const int error = create_channel(to)) return error;
  }
  auto events = withdraw(id, nullptr);
  Channel* own = id.synchronous ? id.channel : nullptr;
  id.channel = to;
  id.synchronous = wanted == nullptr;
  id.api.channel = &to->api;
  for (std::unique_ptr<Event>& event : events) {
    if (event->link != nullptr) ++id.listener->requests;
    push(id, std::move(event));
  }
  if (own != nullptr) destroy_channel(own);
  await_acknowledgements(id, lock);
  return 0;
}

CM_API int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space space) {
  if (out == nullptr) return result_of(EINVAL);
  return guarded([&] {
    Id* id = nullptr;
    const int error = create_id(channel, context, space, id);
    if (error == 0) *out = &id->api;
    return error;
  });
}

CM_API int rdma_destroy_id(rdma_cm_id* id) {
  return guarded([&] {
    const int error = with(id, [](Id&) { return 0; });
    return error == 0 ? destroy(Id::of(id)) : error;
  });
}

CM_API int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return guarded([&] {
    const int error = with(id, [](Id&) { return 0; });
    return error == 0 ? move_to_channel(Id::of(id), channel) : error;
  });
}

CM_API int rdma_set_option(rdma_cm_id* api, int level, int name, void* value, std::size_t length) {
  return guarded([&] { return with(api, [&](Id& id) { return set_option(id, level, name, value, length); }); });
}

CM_API __be16 rdma_get_src_port(rdma_cm_id* id) {
  const SocketAddress address(id == nullptr ? nullptr : &id->route.addr.src_addr);
  return address.valid() ? htons(address.port()) : __be16{0};
}

CM_API __be16 rdma_get_dst_port(rdma_cm_id* id) {
  const SocketAddress address(id == nullptr ? nullptr : &id->route.addr.dst_addr);
  return address.valid() ? htons(address.port()) : __be16{0};
}

CM_API ibv_context** rdma_get_devices(int* count) {
  if (count != nullptr) *count = 0;
  ibv_context** list = nullptr;
  const int failed = guarded([&] {
    const std::vector<Device>& all = devices();
    if (all.empty()) return ENODEV;
    list = static_cast<ibv_context**>(std::calloc(all.size() + 1, sizeof(ibv_context*)));
    if (list == nullptr) return ENOMEM;
    std::transform(all.begin(), all.end(), list, [](const Device& device) { return device.context; });
    if (count != nullptr) *count = static_cast<int>(all.size());
    return 0;
  });
  return failed == 0 ? list : nullptr;
}

CM_API void rdma_free_devices(ibv_context** list) { std::free(list); }

}  // namespace openmrc::rdmacm
