#include "nic/udp_ends.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "nic/error.hpp"
#include "nic/socket_address.hpp"

namespace openmrc::nic {

FileDescriptor UdpEnds::open() const {
  const int family = local.family == AddressFamily::kIpv4 ? AF_INET : AF_INET6;
  FileDescriptor fd(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const SocketAddress from = to_socket_address(local, local_port);
  const SocketAddress to = to_socket_address(remote, remote_port);
  if (!fd.valid() || ::bind(fd.get(), from.get(), from.length) != 0 || ::connect(fd.get(), to.get(), to.length) != 0) {
    throw NicError(errno, "cannot open a UDP socket on " + format_address(local));
  }
  return fd;
}

}  // namespace openmrc::nic
