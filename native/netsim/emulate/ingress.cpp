#include "netsim/emulate/ingress.hpp"

#include <netinet/udp.h>

#include <cstring>
#include <ctime>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace openmrc::netsim {
namespace {

template <class T>
T value_of(cmsghdr* header) {
  T value{};
  std::memcpy(&value, CMSG_DATA(header), sizeof(value));
  return value;
}

}  // namespace

ReceiveBatch::ReceiveBatch() : data_(new std::uint8_t[kMessages * kMessageBytes]) {
  for (std::size_t i = 0; i < kMessages; ++i) {
    vectors_[i] = {data_.get() + i * kMessageBytes, kMessageBytes};
    messages_[i] = {};
    messages_[i].msg_hdr.msg_name = &sources_[i];
    messages_[i].msg_hdr.msg_iov = &vectors_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
    messages_[i].msg_hdr.msg_control = controls_[i].bytes.data();
  }
}

std::size_t ReceiveBatch::read(int fd) {
  for (auto& message : messages_) {
    message.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    message.msg_hdr.msg_controllen = kControlBytes;
  }
  const int count = ::recvmmsg(fd, messages_.data(), kMessages, MSG_DONTWAIT, nullptr);
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

Received ReceiveBatch::message(std::size_t index) const {
  // The CMSG macros require a mutable header but do not write to it.
  msghdr header = messages_[index].msg_hdr;
  Received received;
  received.source = sources_[index];
  received.bytes = data_.get() + index * kMessageBytes;
  received.length = messages_[index].msg_len;
  received.segment = received.length;
  received.truncated = (header.msg_flags & MSG_TRUNC) != 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS) {
      const auto stamp = value_of<timespec>(control);
      received.stamp_ns = std::int64_t{stamp.tv_sec} * 1'000'000'000 + stamp.tv_nsec;
    } else if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SO_RXQ_OVFL) {
      received.overflow = value_of<std::uint32_t>(control);
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
      received.traffic_class_octet = value_of<std::uint8_t>(control);
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_TCLASS) {
      received.traffic_class_octet = static_cast<std::uint8_t>(value_of<int>(control));
    } else if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO) {
      received.segment = static_cast<std::uint32_t>(value_of<int>(control));
    }
  }
  return received;
}

}  // namespace openmrc::netsim
