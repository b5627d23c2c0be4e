#include "netsim/emulate/udp.hpp"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/assert.hpp"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace openmrc::netsim {

SocketAddress socket_address(const Address& address, std::uint16_t port) {
  SocketAddress out;
  if (address.family == AddressFamily::kIpv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.bytes.data(), sizeof(in.sin_addr));
    std::memcpy(&out.storage, &in, sizeof(in));
    out.length = sizeof(in);
    return out;
  }
  MRC_ASSERT(address.family == AddressFamily::kIpv6);
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port);
  std::memcpy(&in6.sin6_addr, address.bytes.data(), sizeof(in6.sin6_addr));
  std::memcpy(&out.storage, &in6, sizeof(in6));
  out.length = sizeof(in6);
  return out;
}

Address address_of(const sockaddr_storage& storage) {
  Address address;
  if (storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &storage, sizeof(in));
    address.family = AddressFamily::kIpv4;
    std::memcpy(address.bytes.data(), &in.sin_addr, sizeof(in.sin_addr));
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, &storage, sizeof(in6));
    address.family = AddressFamily::kIpv6;
    std::memcpy(address.bytes.data(), &in6.sin6_addr, sizeof(in6.sin6_addr));
  }
  return address;
}

std::uint16_t port_of(const sockaddr_storage& storage) {
  // sin_port and sin6_port are at the same offset.
  sockaddr_in in;
  std::memcpy(&in, &storage, sizeof(in));
  return ntohs(in.sin_port);
}

std::string text_of(const Address& address, std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = "?";
  const bool four = address.family == AddressFamily::kIpv4;
  inet_ntop(four ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof(text));
  return (four ? std::string(text) : '[' + std::string(text) + ']') + ':' + std::to_string(port);
}

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Fd bound_udp_socket(const Address& address, std::uint16_t port) {
  const int family = address.family == AddressFamily::kIpv4 ? AF_INET : AF_INET6;
  Fd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.open()) return fd;
  const SocketAddress to = socket_address(address, port);
  if (::bind(fd.get(), to.get(), to.length) == 0) return fd;
  const int cause = errno;
  fd = Fd();
  errno = cause;
  return fd;
}

void prepare_for_receiving(const Fd& fd, AddressFamily family, int buffer_bytes) {
  const int on = 1;
  // Best effort: without one of these the fabric is less precise, but still correct.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof(buffer_bytes)) != 0) {
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
  }
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
  (void)::setsockopt(fd.get(), SOL_UDP, UDP_GRO, &on, sizeof(on));
  if (family == AddressFamily::kIpv4) {
    (void)::setsockopt(fd.get(), IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
  } else {
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
  }
}

std::uint64_t raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit wanted{limit.rlim_max, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) return wanted.rlim_cur;
  }
  return limit.rlim_cur;
}

}  // namespace openmrc::netsim
