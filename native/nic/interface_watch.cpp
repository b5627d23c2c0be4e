#include "nic/interface_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace openmrc::nic {
namespace {

constexpr int kReadsMax = 64;  // the rest is left to the next read

}  // namespace

void InterfaceWatch::open() {
  socket_ = FileDescriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket_.valid()) return;
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0) socket_.reset();
}

bool InterfaceWatch::drain() {
  std::array<char, 64> notice;  // the kernel truncates the unread part
  bool any = false;
  for (int i = 0; i < kReadsMax; ++i) {
    const bool read = ::recv(socket_.get(), notice.data(), notice.size(), MSG_TRUNC) >= 0;
    if (!read && errno != ENOBUFS) break;
    any = true;
  }
  return any;
}

}  // namespace openmrc::nic
