// Conversions between the engine's addresses and the kernel's.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "engine/base/address.hpp"

namespace openmrc::nic {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// `scope` is the interface index of a link-local IPv6 address; `flow_label` applies to IPv6 only.
SocketAddress to_socket_address(const Address& address, std::uint16_t port, std::uint32_t scope = 0,
                                std::uint32_t flow_label = 0);

// kNone family when the kernel's address is neither IPv4 nor IPv6. An IPv4-mapped IPv6 address is IPv4.
Address from_socket_address(const sockaddr_storage& storage, std::uint16_t& port);

// False when the text is not a numeric IPv4 or IPv6 address.
bool parse_address(const std::string& text, Address& address);
std::string format_address(const Address& address);

}  // namespace openmrc::nic
