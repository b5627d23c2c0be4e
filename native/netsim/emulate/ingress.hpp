// Sockets through which hosts' datagrams enter the emulated fabric: one per advertised address.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/emulate/udp.hpp"

namespace openmrc::netsim {

// One datagram from a host; `bytes` points into the receive buffers, valid until the next call.
struct Received {
  sockaddr_storage source{};
  std::uint8_t traffic_class_octet = 0;
  std::int64_t stamp_ns = 0;  // kernel's arrival time, CLOCK_REALTIME; 0: none
  const std::uint8_t* bytes = nullptr;
  std::uint32_t length = 0;    // of all segments
  std::uint32_t segment = 0;   // bytes of each datagram in it (the last may be shorter)
  std::uint32_t overflow = 0;  // datagrams dropped by the kernel on this socket so far; 0: none
  bool truncated = false;
};

// Buffers for one recvmmsg call, shared by all sockets.
class ReceiveBatch {
 public:
  ReceiveBatch();

  // Reads pending datagrams, up to a batch; returns their number, 0 if none is pending.
  std::size_t read(int fd);
  Received message(std::size_t index) const;
  bool full(std::size_t count) const { return count == kMessages; }

 private:
  static constexpr std::size_t kMessages = 32;
  static constexpr std::size_t kMessageBytes = 65536;
  static constexpr std::size_t kControlBytes = 256;

  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, kControlBytes> bytes;
  };

  std::unique_ptr<std::uint8_t[]> data_;
  std::array<Control, kMessages> controls_;
  std::array<sockaddr_storage, kMessages> sources_;
  std::array<iovec, kMessages> vectors_;
  std::array<mmsghdr, kMessages> messages_;
};

}  // namespace openmrc::netsim
