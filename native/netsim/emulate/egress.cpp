#include "netsim/emulate/egress.hpp"

#include <netinet/udp.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace openmrc::netsim {
namespace {

template <class T>
cmsghdr* put(msghdr& header, cmsghdr* control, int level, int type, T value) {
  control->cmsg_level = level;
  control->cmsg_type = type;
  control->cmsg_len = CMSG_LEN(sizeof(T));
  std::memcpy(CMSG_DATA(control), &value, sizeof(T));
  header.msg_controllen += CMSG_SPACE(sizeof(T));
  return reinterpret_cast<cmsghdr*>(reinterpret_cast<std::uint8_t*>(control) + CMSG_SPACE(sizeof(T)));
}

}  // namespace

Egress::Egress(Payloads& payloads, std::size_t sockets_max) : payloads_(payloads), sockets_max_(sockets_max) {
  groups_.resize(1024);
}

void Egress::lend(std::uint32_t source_slot, std::uint16_t port, int fd) {
  Socket& socket = sockets_[(std::uint64_t{source_slot} << 16) | port];
  socket.fd = fd;
}

Egress::Socket* Egress::socket_for(const Departure& departure) {
  const std::uint64_t key = (std::uint64_t{departure.source_slot} << 16) | departure.source_port;
  if (const auto found = sockets_.find(key); found != sockets_.end()) return &found->second;
  if (sockets_.size() >= sockets_max_) close_longest_unused();
  Fd fd = bound_udp_socket(*departure.source, departure.source_port);
  if (!fd.open() && (errno == EMFILE || errno == ENFILE) && !sockets_.empty()) {
    close_longest_unused();
    fd = bound_udp_socket(*departure.source, departure.source_port);
  }
  if (!fd.open()) return nullptr;
  // Nothing is expected on this port; arrivals must not pile up.
  const int little = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
  ++counters_.sockets_opened;
  Socket& socket = sockets_[key];
  socket.fd = fd.get();
  socket.own = std::move(fd);
  return &socket;
}

void Egress::close_longest_unused() {
  auto victim = sockets_.end();
  for (auto it = sockets_.begin(); it != sockets_.end(); ++it) {
    if (!it->second.own.open() || it->second.used == flushes_) continue;
    if (victim == sockets_.end() || it->second.used < victim->second.used) victim = it;
  }
  if (victim == sockets_.end()) return;
  sockets_.erase(victim);
  ++counters_.sockets_closed;
}

void Egress::queue(const Departure& departure) {
  Socket* socket = socket_for(departure);
  if (socket == nullptr) {
    ++counters_.bind_failed;
    payloads_.release(departure.payload);
    return;
  }
  if (socket->used == flushes_ && join(groups_[socket->open_group], departure)) return;
  if (group_count_ == groups_.size()) {
    flush();
    socket = socket_for(departure);
    MRC_ASSERT(socket != nullptr);
  }
  Group& group = groups_[group_count_];
  group.fd = socket->fd;
  group.destination = departure.destination;
  group.traffic_class_octet = departure.traffic_class_octet;
  group.closed = false;
  group.segment = departure.bytes;
  group.bytes = departure.bytes;
  group.count = 1;
  group.payloads[0] = departure.payload;
  group.lengths[0] = departure.bytes;
  socket->open_group = group_count_++;
  socket->used = flushes_;
}

bool Egress::join(Group& group, const Departure& departure) {
  if (group.closed || group.destination != departure.destination || departure.bytes > group.segment ||
      group.traffic_class_octet != departure.traffic_class_octet || group.count == kGroupDatagrams ||
      group.bytes + departure.bytes > kGroupBytes) {
    return false;
  }
  group.payloads[group.count] = departure.payload;
  group.lengths[group.count] = departure.bytes;
  ++group.count;
  group.bytes += departure.bytes;
  group.closed = departure.bytes < group.segment;  // only the last segment may be shorter
  return true;
}

void Egress::flush() {
  for (std::size_t i = 0; i < group_count_; ++i) {
    const Group& group = groups_[i];
    send(group);
    for (std::uint32_t n = 0; n < group.count; ++n) payloads_.release(group.payloads[n]);
  }
  group_count_ = 0;
  ++flushes_;
}

void Egress::close_all() {
  flush();
  sockets_.clear();
}

void Egress::send(const Group& group) {
  std::array<iovec, kGroupDatagrams> vectors;
  for (std::uint32_t n = 0; n < group.count; ++n) vectors[n] = {payloads_.data(group.payloads[n]), group.lengths[n]};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(std::uint16_t))> control{};
  msghdr header{};
  SocketAddress destination = *group.destination;
  header.msg_name = destination.get();
  header.msg_namelen = destination.length;
  header.msg_iov = vectors.data();
  header.msg_iovlen = group.count;
  header.msg_control = control.data();
  auto* next = reinterpret_cast<cmsghdr*>(control.data());
  const bool four = destination.storage.ss_family == AF_INET;
  next =
      put(header, next, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_TOS : IPV6_TCLASS, int{group.traffic_class_octet});
  if (group.count > 1) put(header, next, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(group.segment));
  ++counters_.calls;
  if (::sendmsg(group.fd, &header, MSG_DONTWAIT) < 0) {
    counters_.send_failed += group.count;
    return;
  }
  counters_.datagrams += group.count;
  counters_.bytes += group.bytes;
}

}  // namespace openmrc::netsim
