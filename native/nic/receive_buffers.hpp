// Memory for received datagrams: one object per receiving thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/datagram.hpp"
#include "nic/clock.hpp"

namespace openmrc::nic {

// Datagrams of one flow that arrived together, each `datagram_bytes` long except for the last.
struct Train {
  RxDatagram datagram;  // holds the bytes of all of them
  std::size_t datagram_bytes = 0;
  TimeNs read = 0;     // by the driver's clock
  TimeNs arrived = 0;  // the same; 0: too short to be timestamped
};

class ReceiveBuffers {
 public:
  static constexpr std::size_t kMessagesMax = 32;
  static constexpr std::size_t kMessageBytesMax = 64U << 10;

  // Divides the arena into messages of `bytes` each, and resets the kernel's output fields.
  std::span<mmsghdr> prepare(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      parts_[i] = {arena_.get() + i * (bytes + kStaggerBytes), bytes};
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
  // Without it the beginnings of all messages would share the same few sets of the processor's caches.
  static constexpr std::size_t kStaggerBytes = 1536;
  static constexpr std::size_t kArenaBytes = kMessagesMax * (kMessageBytesMax + kStaggerBytes);
  struct alignas(cmsghdr) Control : std::array<char, kControlBytes> {};

  std::array<mmsghdr, kMessagesMax> messages_{};
  std::array<iovec, kMessagesMax> parts_{};
  std::array<sockaddr_storage, kMessagesMax> names_{};
  std::array<Control, kMessagesMax> controls_{};
  std::array<Train, kMessagesMax> trains_{};
  // Not zeroed: most devices never use most of it, and zeroing would touch all of it at opening.
  std::unique_ptr<std::uint8_t[]> arena_ = std::make_unique_for_overwrite<std::uint8_t[]>(kArenaBytes);
};

}  // namespace openmrc::nic
