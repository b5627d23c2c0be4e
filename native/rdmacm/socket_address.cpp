#include "rdmacm/socket_address.hpp"

#include <cerrno>
#include <cstring>

#include "nic/file_descriptor.hpp"

namespace openmrc::rdmacm {

SocketAddress::SocketAddress(const sockaddr* address) {
  if (address == nullptr) return;
  if (address->sa_family == AF_INET) {
    std::memcpy(&storage_, address, sizeof(sockaddr_in));
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(&storage_, address, sizeof(sockaddr_in6));
    if (!IN6_IS_ADDR_V4MAPPED(&v6().sin6_addr)) return;
    sockaddr_in mapped{};
    mapped.sin_family = AF_INET;
    mapped.sin_port = v6().sin6_port;
    std::memcpy(&mapped.sin_addr, v6().sin6_addr.s6_addr + 12, sizeof mapped.sin_addr);
    storage_ = {};
    std::memcpy(&storage_, &mapped, sizeof mapped);
  }
}

SocketAddress SocketAddress::loopback(int family) {
  SocketAddress address = wildcard(family);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address.storage_).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6&>(address.storage_).sin6_addr = IN6ADDR_LOOPBACK_INIT;
  }
  return address;
}

SocketAddress SocketAddress::wildcard(int family) {
  SocketAddress address;
  address.storage_.ss_family = static_cast<sa_family_t>(family);
  return address;
}

std::uint16_t SocketAddress::port() const { return ntohs(family() == AF_INET ? v4().sin_port : v6().sin6_port); }

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  }
}

bool SocketAddress::is_wildcard() const {
  if (family() == AF_INET) return v4().sin_addr.s_addr == htonl(INADDR_ANY);
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6().sin6_addr);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return ntohl(v4().sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6().sin6_addr);
}

bool SocketAddress::has_address_of(const SocketAddress& other) const {
  if (family() != other.family()) return false;
  if (family() == AF_INET) return v4().sin_addr.s_addr == other.v4().sin_addr.s_addr;
  return family() == AF_INET6 && IN6_ARE_ADDR_EQUAL(&v6().sin6_addr, &other.v6().sin6_addr);
}

int local_address(int socket, SocketAddress& address) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return errno;
  address = SocketAddress(reinterpret_cast<const sockaddr*>(&storage));
  return 0;
}

int source_towards(const SocketAddress& destination, SocketAddress& source) {
  const nic::FileDescriptor probe(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return errno;
  SocketAddress to = destination;
  if (to.port() == 0) to.set_port(1);
  if (::connect(probe.get(), to.get(), to.length()) != 0) return errno;
  if (const int error = local_address(probe.get(), source)) return error;
  source.set_port(0);
  return 0;
}

}  // namespace openmrc::rdmacm
