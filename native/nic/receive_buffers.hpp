// Memory that received datagrams pass through: one for each thread that receives.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/engine.hpp"
#include "nic/clock.hpp"

namespace openmrc::nic {

// Datagrams of one flow that arrived together, each `datagram_bytes` long but for the last.
struct Train {
  RxDatagram datagram;  // with the bytes of them all
  std::size_t datagram_bytes = 0;
  TimeNs arrived = 0;  // by the driver's clock; 0: too short for anyone to ask
};

class ReceiveBuffers {
 public:
  static constexpr std::size_t kMessagesMax = 32;
  static constexpr std::size_t kArenaBytes = 512U << 10;

  // Lays the arena out for messages of `bytes` each, and gives the kernel its answers' places back.
  std::span<mmsghdr> prepare(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      parts_[i] = {arena_.get() + i * bytes, bytes};
      msghdr& header = messages_[i].msg_hdr;
      header.msg_name = &names_[i];
      header.msg_namelen = sizeof names_[i];
      header.msg_iov = &parts_[i];
      header.msg_iovlen = 1;
      header.msg_control = controls_[i].data();
      header.msg_controllen = kControlBytes;
      header.msg_flags = 0;
    }
    return {messages_.data(), count};
  }
  std::array<Train, kMessagesMax>& trains() { return trains_; }

 private:
  static constexpr std::size_t kControlBytes = 128;
  struct alignas(cmsghdr) Control : std::array<char, kControlBytes> {};

  std::array<mmsghdr, kMessagesMax> messages_{};
  std::array<iovec, kMessagesMax> parts_{};
  std::array<sockaddr_storage, kMessagesMax> names_{};
  std::array<Control, kMessagesMax> controls_{};
  std::array<Train, kMessagesMax> trains_{};
  // Not zeroed: most devices never use most of it, and would touch half a MiB when they open.
  std::unique_ptr<std::uint8_t[]> arena_ = std::make_unique_for_overwrite<std::uint8_t[]>(kArenaBytes);
};

}  // namespace openmrc::nic
