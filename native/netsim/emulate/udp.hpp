// Socket calls for the edges of the emulated fabric, for IPv4 and IPv6.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include "engine/base/address.hpp"

namespace openmrc::netsim {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const Address& address, std::uint16_t port);
Address address_of(const sockaddr_storage& storage);
std::uint16_t port_of(const sockaddr_storage& storage);
std::string text_of(const Address& address, std::uint16_t port);

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(-1); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  void reset(int fd);
  int fd_ = -1;
};

// Returns a UDP socket bound to the address; if the system refuses, it is not open() and errno is set.
Fd bound_udp_socket(const Address& address, std::uint16_t port);

// Makes the socket report source, traffic class, arrival time and lost datagrams, and accept coalesced datagrams.
void prepare_for_receiving(const Fd& fd, AddressFamily family, int buffer_bytes);

// Raises the soft limit of open files to the hard one; returns the resulting limit.
std::uint64_t raise_open_files_limit();

}  // namespace openmrc::netsim
