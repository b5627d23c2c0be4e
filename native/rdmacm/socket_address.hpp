// Addresses of sockets of either family.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace openmrc::rdmacm {

class SocketAddress {
 public:
  SocketAddress() = default;
  // Of family AF_UNSPEC if `address` is nullptr or of neither family. An IPv4-mapped IPv6 address becomes IPv4.
  explicit SocketAddress(const sockaddr* address);
  // Loopback or wildcard of a family, with port 0.
  static SocketAddress loopback(int family);
  static SocketAddress wildcard(int family);

  bool valid() const { return storage_.ss_family != AF_UNSPEC; }
  int family() const { return storage_.ss_family; }
  socklen_t length() const { return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  const sockaddr_storage& storage() const { return storage_; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_wildcard() const;
  bool is_loopback() const;
  // The port does not count.
  bool has_address_of(const SocketAddress& other) const;

 private:
  const sockaddr_in& v4() const { return reinterpret_cast<const sockaddr_in&>(storage_); }
  const sockaddr_in6& v6() const { return reinterpret_cast<const sockaddr_in6&>(storage_); }

  sockaddr_storage storage_{};
};

// Both return an errno.
int local_address(int socket, SocketAddress& address);
// The own address from which packets to `destination` leave.
int source_towards(const SocketAddress& destination, SocketAddress& source);

}  // namespace openmrc::rdmacm
