// Which UDP ports the devices of these tests have, so that tests of several checkouts run on one machine at once.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace openmrc::test {

// Another process has other ones: this and the next `kOwnUdpPorts - 1`.
inline constexpr int kOwnUdpPorts = 4;
inline std::uint16_t own_udp_port() { return static_cast<std::uint16_t>(10'000 + ::getpid() % 5'000 * kOwnUdpPorts); }

}  // namespace openmrc::test
