// UDP ports of this test process, used by no other test process of the network namespace.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace openmrc::test {

inline constexpr int kOwnUdpPorts = 4;

// A claim is a socket with an abstract name, which lasts as long as the process; it is left open on purpose.
inline std::uint16_t claim_udp_ports() {
  constexpr int kFirst = 10'000;
  constexpr int kCount = 2'500;
  const int claim = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (int number = 0; number < kCount; ++number) {
    const int port = kFirst + number * kOwnUdpPorts;
    const std::string name = "openmrc-test-ports-" + std::to_string(port);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);  // a leading zero makes the name abstract
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::bind(claim, reinterpret_cast<const sockaddr*>(&address), length) == 0)
      return static_cast<std::uint16_t>(port);
  }
  std::abort();  // more test processes at once than there are ports
}

// This and the next `kOwnUdpPorts - 1`.
inline std::uint16_t own_udp_port() {
  static const std::uint16_t first = claim_udp_ports();
  return first;
}

}  // namespace openmrc::test
