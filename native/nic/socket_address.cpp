#include "nic/socket_address.hpp"

#include <arpa/inet.h>

#include <cstring>

namespace openmrc::nic {

SocketAddress to_socket_address(const Address& address, std::uint16_t port, std::uint32_t scope,
                                std::uint32_t flow_label) {
  SocketAddress out;
  if (address.family == AddressFamily::kIpv4) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(port);
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), sizeof ipv4.sin_addr);
    std::memcpy(&out.storage, &ipv4, sizeof ipv4);
    out.length = sizeof ipv4;
  } else {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(port);
    ipv6.sin6_flowinfo = htonl(flow_label);
    ipv6.sin6_scope_id = scope;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof ipv6.sin6_addr);
    std::memcpy(&out.storage, &ipv6, sizeof ipv6);
    out.length = sizeof ipv6;
  }
  return out;
}

Address from_socket_address(const sockaddr_storage& storage, std::uint16_t& port) {
  Address address;
  port = 0;
  if (storage.ss_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, &storage, sizeof ipv4);
    std::memcpy(address.bytes.data(), &ipv4.sin_addr, sizeof ipv4.sin_addr);
    address.family = AddressFamily::kIpv4;
    port = ntohs(ipv4.sin_port);
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, &storage, sizeof ipv6);
    port = ntohs(ipv6.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
      std::memcpy(address.bytes.data(), ipv6.sin6_addr.s6_addr + 12, 4);
      address.family = AddressFamily::kIpv4;
    } else {
      std::memcpy(address.bytes.data(), &ipv6.sin6_addr, sizeof ipv6.sin6_addr);
      address.family = AddressFamily::kIpv6;
    }
  }
  return address;
}

bool parse_address(const std::string& text, Address& address) {
  address = Address{};
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
    address.family = AddressFamily::kIpv4;
    return true;
  }
  if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
    address.family = AddressFamily::kIpv6;
    return true;
  }
  return false;
}

std::string format_address(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family == AddressFamily::kNone) return "none";
  ::inet_ntop(address.family == AddressFamily::kIpv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

}  // namespace openmrc::nic
