// Addresses: binding, resolution, listening. There is nothing to ask the network, so results are there at once; they
// are reported as events all the same.
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

constexpr int kBacklogMax = 1024;
constexpr int kRequestsMax = 256;  // of a listener: each has a descriptor of 1,024 that a process usually may have

void set_flag(int socket, int level, int name) {
  const int on = 1;
  ::setsockopt(socket, level, name, &on, sizeof on);
}

// Connections of an earlier process that have not expired do not keep the port, but sockets that are bound to it do:
// SO_REUSEADDR from the start would let two of them have it until one listens.
int bind_socket(const Id& id, const SocketAddress& address, nic::FileDescriptor& socket) {
  socket = nic::FileDescriptor(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno;
  if (address.family() == AF_INET6 && id.one_family) set_flag(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY);
  if (id.reuse_address) set_flag(socket.get(), SOL_SOCKET, SO_REUSEADDR);
  int failed = ::bind(socket.get(), address.get(), address.length()) == 0 ? 0 : errno;
  if (failed == EADDRINUSE && !id.reuse_address) {
    set_flag(socket.get(), SOL_SOCKET, SO_REUSEADDR);
    failed = ::bind(socket.get(), address.get(), address.length()) == 0 ? 0 : errno;
  }
  return failed;
}

void set_type_of_service(const Id& id, const SocketAddress& address) {
  if (!id.type_of_service) return;
  const int value = *id.type_of_service;
  const bool v4 = address.family() == AF_INET;
  ::setsockopt(id.socket.get(), v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &value, sizeof value);
}

int bind(Id& id, const SocketAddress& address) {
  if (!address.valid() || id.state != IdState::kIdle) return EINVAL;
  nic::FileDescriptor socket;
  if (const int error = bind_socket(id, address, socket)) return error;
  if (names_a_device(address)) {
    const Device* device = device_at(address);
    if (device == nullptr) return ENODEV;
    id.bind_to(*device);
  }
  SocketAddress bound;
  if (const int error = local_address(socket.get(), bound)) return error;
  id.set_source(bound);
  id.socket = std::move(socket);
  id.state = IdState::kBound;
  set_type_of_service(id, bound);
  return 0;
}

// The errno that the event reports.
int find_source(Id& id, const SocketAddress& destination) {
  SocketAddress source = id.source();
  if (source.is_wildcard()) {
    const std::uint16_t port = source.port();
    if (const int error = source_towards(destination, source)) return error;
    source.set_port(port);
  }
  const Device* device = device_at(source);
  if (device == nullptr) return ENODEV;
  id.bind_to(*device);
  id.set_source(source);
  return 0;
}

int resolve_address(Id& id, const sockaddr* from, const sockaddr* to) {
  SocketAddress destination(to);
  if (!destination.valid() || (id.state != IdState::kIdle && id.state != IdState::kBound)) return EINVAL;
  if (destination.is_wildcard()) {
    const std::uint16_t port = destination.port();
    destination = SocketAddress::loopback(destination.family());
    destination.set_port(port);
  }
  const bool was_bound = id.state == IdState::kBound;
  if (was_bound && id.source().family() != destination.family()) return EINVAL;
  if (from != nullptr && SocketAddress(from).family() != destination.family()) return EINVAL;
  if (!was_bound) {
    const SocketAddress source = from == nullptr ? SocketAddress::wildcard(destination.family()) : SocketAddress(from);
    if (const int error = bind(id, source)) return error;
  }
  const int failed = find_source(id, destination);
  id.set_destination(destination);
  if (failed == 0) id.state = IdState::kAddressResolved;
  push(id, failed == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, -failed);
  return 0;
}

// The GID of an address; IPv4 as mapped.
ibv_gid gid_of(const SocketAddress& address) {
  ibv_gid gid{};
  if (address.family() == AF_INET6) {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6&>(address.storage()).sin6_addr, sizeof gid.raw);
  } else {
    gid.raw[10] = gid.raw[11] = 0xFF;
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in&>(address.storage()).sin_addr, 4);
  }
  return gid;
}

int resolve_route(Id& id) {
  if (id.state != IdState::kAddressResolved) return EINVAL;
  const std::uint8_t mtu = mtu_of(*id.device);
  ibv_sa_path_rec& path = id.path;
  path.sgid = id.device->gid;
  path.dgid = id.api.route.addr.addr.ibaddr.dgid = gid_of(id.destination());
  path.pkey = 0xFFFF;
  path.hop_limit = 64;
  path.reversible = path.numb_path = 1;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = 2;  // exactly
  path.mtu = mtu;
  path.rate = IBV_RATE_MAX;
  id.api.route.path_rec = &path;
  id.api.route.num_paths = 1;
  id.local.mtu = mtu;
  id.state = IdState::kRouteResolved;
  push(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return 0;
}

int listen(Id& id, int backlog) {
  if (id.state == IdState::kIdle) {
    if (const int error = bind(id, SocketAddress::wildcard(AF_INET))) return error;
  }
  if (id.state != IdState::kBound) return EINVAL;
  // Lets a later process have the port while connections of this one expire.
  set_flag(id.socket.get(), SOL_SOCKET, SO_REUSEADDR);
  const int pending = backlog <= 0 || backlog > kBacklogMax ? kBacklogMax : backlog;
  const auto requests_max = static_cast<std::size_t>(std::min(pending, kRequestsMax));
  auto listener = std::make_shared<Listener>(std::move(id.socket), id, requests_max);
  // Watched first, since nothing undoes listen().
  int error = Service::get().watch(listener, EPOLLIN);
  if (error == 0 && ::listen(listener->fd(), pending) != 0) error = errno;
  if (error != 0) {
    Service::get().forget(*listener);
    id.socket = listener->take();
    return error;
  }
  id.listener = std::move(listener);
  id.state = IdState::kListening;
  return 0;
}

}  // namespace

CM_API int rdma_bind_addr(rdma_cm_id* api, sockaddr* address) {
  return guarded([&] { return with(api, [&](Id& id) { return bind(id, SocketAddress(address)); }); });
}

CM_API int rdma_resolve_addr(rdma_cm_id* api, sockaddr* from, sockaddr* to, int) {
  return guarded([&] {
    const int error = with(api, [&](Id& id) { return resolve_address(id, from, to); });
    return error == 0 ? await(Id::of(api)) : error;
  });
}

CM_API int rdma_resolve_route(rdma_cm_id* api, int) {
  return guarded([&] {
    const int error = with(api, [&](Id& id) { return resolve_route(id); });
    return error == 0 ? await(Id::of(api)) : error;
  });
}

CM_API int rdma_listen(rdma_cm_id* api, int backlog) {
  return guarded([&] { return with(api, [&](Id& id) { return listen(id, backlog); }); });
}

}  // namespace openmrc::rdmacm
