// Sending bursts: gathered by iovec, so that payload reaches the kernel from registered memory without a copy in user
// space.
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/assert.hpp"
#include "engine/wire/packet.hpp"
#include "nic/socket_address.hpp"
#include "nic/socket_port.hpp"
#include "nic/uncancelled.hpp"

namespace openmrc::nic {
namespace {

constexpr std::size_t kPartsPerPacket = 3;            // headers, payload, trailer
constexpr std::uint32_t kSegmentedBytesMax = 65'400;  // one UDP datagram before segmentation by the kernel
constexpr std::size_t kFlatBytesMax = 512;
constexpr std::size_t kJoinedBytesMax = kJoinedDataBytesMax + wire::kAckBytes;
constexpr std::uint8_t kRowUntilConnected = 16;  // lone datagrams alike before a socket is connected for them
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(std::uint16_t));

std::size_t gather(const TxPacket& packet, iovec* parts) {
  std::size_t count = 0;
  const auto add = [&](const void* data, std::size_t bytes) {
    if (bytes != 0) parts[count++] = {const_cast<void*>(data), bytes};
  };
  add(packet.headers.data(), packet.header_bytes);
  add(packet.payload, packet.payload_bytes);
  add(packet.trailer.data(), packet.trailer_bytes);
  return count;
}

// Copies the whole packet to `out`; for packets so small that describing three parts costs more than copying them.
std::size_t flatten(const TxPacket& packet, std::span<std::uint8_t> out) {
  std::size_t bytes = 0;
  const auto add = [&](const void* data, std::size_t count) {
    if (count != 0) std::memcpy(out.data() + bytes, data, count);
    bytes += count;
  };
  add(packet.headers.data(), packet.header_bytes);
  add(packet.payload, packet.payload_bytes);
  add(packet.trailer.data(), packet.trailer_bytes);
  return bytes;
}

// Copies all parts to `out`, which becomes the first one; returns their new number.
std::size_t join(std::span<iovec> parts, std::span<std::uint8_t, kFlatBytesMax> out) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) {
    std::memcpy(out.data() + bytes, part.iov_base, part.iov_len);
    bytes += part.iov_len;
  }
  parts.front() = {out.data(), bytes};
  return 1;
}

int traffic_class_byte(const TxBurst& burst) {
  return (dscp_of(burst.traffic_class) << 2) | static_cast<int>(burst.ecn);
}

void add_control(msghdr& message, std::size_t& used, int level, int type, const void* data, std::size_t bytes) {
  auto* header = reinterpret_cast<cmsghdr*>(static_cast<char*>(message.msg_control) + used);
  header->cmsg_level = level;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), data, bytes);
  used += CMSG_SPACE(bytes);
  message.msg_controllen = used;
}

}  // namespace

struct SocketPort::Route {
  TransmitSocket& socket;
  SocketAddress destination;
  int traffic_class;  // DSCP and ECN
  bool ipv4;

  int fd() const { return socket.fd.get(); }
  int level() const { return ipv4 ? IPPROTO_IP : IPPROTO_IPV6; }
  int option() const { return ipv4 ? IP_TOS : IPV6_TCLASS; }
  void address(msghdr& message, char* control) const {
    message.msg_name = const_cast<sockaddr_storage*>(&destination.storage);
    message.msg_namelen = destination.length;
    message.msg_control = control;
  }
  void fill(msghdr& message, char* control) const {
    address(message, control);
    std::size_t used = 0;
    add_control(message, used, level(), option(), &traffic_class, sizeof traffic_class);
  }
};

// True if the connected socket can send the burst, connected anew if need be. Connecting takes longer than sending:
// data and acknowledgements that alternate on an EV leave the socket as it is.
bool SocketPort::prepare_connected(TransmitSocket& transmit, const TxBurst& burst) {
  ConnectedSocket& socket = transmit.connected;
  const ConnectedSocket::Target wanted{burst.destination, burst.destination_port, traffic_class_byte(burst)};
  if (socket.target == wanted) return true;
  if (socket.latest != wanted) {
    socket.latest = wanted;
    socket.in_a_row = 0;
  }
  if (++socket.in_a_row < kRowUntilConnected) return false;
  socket.in_a_row = 0;
  return connect(transmit, burst.fields.source_port);
}

// The shortest way for a lone small datagram, such as an acknowledgement or a short WRITE, for which the latency
// matters. False: not sent. An error may belong to an earlier datagram, of which the kernel tells connected sockets.
bool SocketPort::send_connected(TransmitSocket& transmit, const TxBurst& burst) {
  const bool lone = burst.count == 1 || burst.joined;
  if (!lone || burst.has_icrc || ev_format_ != wire::EvFormat::kUdp) return false;
  const std::span<const TxPacket> packets(burst.packets.data(), burst.count);
  std::size_t bytes = 0;
  for (const TxPacket& packet : packets) bytes += packet.datagram_bytes();
  std::array<std::uint8_t, kFlatBytesMax> flat;
  if (bytes > flat.size() || !prepare_connected(transmit, burst)) return false;
  bytes = 0;
  for (const TxPacket& packet : packets) bytes += flatten(packet, std::span(flat).subspan(bytes));
  ++sent_.send_calls;
  if (uncancelled::send_to(transmit.connected.fd.get(), flat.data(), bytes, MSG_NOSIGNAL, nullptr, 0) < 0) return false;
  note_sent(1, bytes);
  return true;
}

std::uint32_t SocketPort::send(const TxBurst& burst, std::uint32_t first) {
  MRC_ASSERT(burst.count <= kBurstPacketsMax && first < burst.count);
  TransmitSocket& socket = socket_of(burst.fields.source_port);
  if (send_connected(socket, burst)) return burst.count;
  Address destination;
  if (!find_path(burst.destination, burst.fields.flow_label, destination)) {
    sent_.no_path += burst.count - first;
    sent_.dropped_datagrams += burst.count - first;
    return burst.count;
  }
  const std::uint32_t label = ev_format_ == wire::EvFormat::kUdp ? 0 : burst.fields.flow_label;
  const Route route{.socket = socket,
                    .destination = to_socket_address(destination, burst.destination_port, scope_, label),
                    .traffic_class = traffic_class_byte(burst),
                    .ipv4 = burst.destination.family == AddressFamily::kIpv4};

  if (burst.joined) return send_joined(route, burst);
  bool segment = sent_.segmentation_offload;
  while (first < burst.count) {
    const std::uint32_t bytes = std::max(1U, burst.packets[first].datagram_bytes());
    const std::uint32_t fit = std::max(1U, kSegmentedBytesMax / bytes);
    const bool segmented = segment && burst.count - first > 1 && fit > 1;
    const std::uint32_t count = segmented ? std::min(fit, burst.count - first) : burst.count - first;
    const std::span<const TxPacket> packets(burst.packets.data() + first, count);
    std::uint32_t sent = count;
    const Outcome outcome = segmented                              ? send_segmented(route, packets)
                            : count == 1 && bytes <= kFlatBytesMax ? send_small(route, packets.front(), sent)
                                                                   : send_singly(route, packets, sent);
    if (outcome == Outcome::kFallback) {
      segment = false;
      continue;
    }
    if (outcome == Outcome::kBlocked || outcome == Outcome::kShort) {
      blocked_fd_ = outcome == Outcome::kBlocked ? route.fd() : -1;
      return segmented ? first : first + sent;
    }
    first += sent;
    // Packets refused as segments pass one by one, so the offload is to blame, not the path.
    if (!segment && !faulty_) sent_.segmentation_offload = false;
  }
  return first;
}

SocketPort::Outcome SocketPort::send_segmented(const Route& route, std::span<const TxPacket> packets) {
  std::array<iovec, 2 * kBurstPacketsMax + 1> parts;
  std::size_t part_count = 0;
  std::uint64_t bytes = 0;
  std::size_t trailer_bytes = 0;  // of the packet before
  for (const TxPacket& packet : packets) {
    const std::uint8_t* front = packet.seam.data() + packet.seam.size() - trailer_bytes;
    parts[part_count++] = {const_cast<std::uint8_t*>(front), trailer_bytes + packet.header_bytes};
    if (packet.payload_bytes != 0) {
      parts[part_count++] = {const_cast<std::uint8_t*>(packet.payload), packet.payload_bytes};
    }
    trailer_bytes = packet.trailer_bytes;
    bytes += packet.datagram_bytes();
  }
  parts[part_count++] = {const_cast<std::uint8_t*>(packets.back().trailer.data()), trailer_bytes};
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  msghdr message{};
  // As with lone datagrams, the kernel takes few bytes in one part, and without a traffic class, in less time.
  const bool small = bytes <= kFlatBytesMax;
  std::array<std::uint8_t, kFlatBytesMax> flat;
  if (small) part_count = join(std::span(parts).first(part_count), flat);
  if (small && socket_has_class_of(route)) {
    route.address(message, control.data());
  } else {
    route.fill(message, control.data());
  }
  std::size_t used = message.msg_controllen;
  const auto segment_bytes = static_cast<std::uint16_t>(packets.front().datagram_bytes());
  add_control(message, used, SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof segment_bytes);
  message.msg_iov = parts.data();
  message.msg_iovlen = part_count;

  ++sent_.send_calls;
  if (uncancelled::send_message(route.fd(), &message, MSG_NOSIGNAL) < 0) return refused(errno, packets.size(), true);
  ++sent_.segmented_sends;
  note_sent(packets.size(), bytes);
  // Data and its acknowledgement: replies probably come in such pairs, too.
  if (packets.front().payload_bytes > 0) sent_large_.store(true, std::memory_order_relaxed);
  return Outcome::kSent;
}

// X.4.9: one datagram of two packets.
std::uint32_t SocketPort::send_joined(const Route& route, const TxBurst& burst) {
  MRC_ASSERT(burst.count == 2);
  std::array<std::uint8_t, kJoinedBytesMax> flat;
  MRC_ASSERT(burst.packets[0].datagram_bytes() + burst.packets[1].datagram_bytes() <= flat.size());
  std::size_t bytes = flatten(burst.packets[0], flat);
  bytes += flatten(burst.packets[1], std::span(flat).subspan(bytes));
  const Outcome outcome = send_flat(route, std::span(flat).first(bytes));
  if (outcome == Outcome::kSent) return burst.count;
  blocked_fd_ = outcome == Outcome::kBlocked ? route.fd() : -1;
  return 0;
}

// A lone small datagram, such as an acknowledgement or a short WRITE, for which the latency matters.
SocketPort::Outcome SocketPort::send_small(const Route& route, const TxPacket& packet, std::uint32_t& sent) {
  std::array<std::uint8_t, kFlatBytesMax> flat;
  const Outcome outcome = send_flat(route, std::span(flat).first(flatten(packet, flat)));
  sent = outcome == Outcome::kSent ? 1 : 0;
  return outcome;
}

SocketPort::Outcome SocketPort::send_flat(const Route& route, std::span<std::uint8_t> datagram) {
  ++sent_.send_calls;
  if (!send_lone(route, datagram)) return refused(errno, 1, false);
  note_sent(1, datagram.size());
  return Outcome::kSent;
}

// The kernel takes a datagram without control messages in less time.
bool SocketPort::send_lone(const Route& route, std::span<std::uint8_t> datagram) {
  const bool plain = socket_has_class_of(route);
  if (plain) {
    const SocketAddress& to = route.destination;
    if (uncancelled::send_to(route.fd(), datagram.data(), datagram.size(), MSG_NOSIGNAL, to.get(), to.length) >= 0)
      return true;
    if (errno != EPERM && errno != ENOSYS) return false;
  }
  iovec part{datagram.data(), datagram.size()};
  alignas(cmsghdr) std::array<char, kControlBytes> control;
  msghdr message{};
  route.fill(message, control.data());
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (uncancelled::send_message(route.fd(), &message, MSG_NOSIGNAL) < 0) return false;
  if (plain) sends_plain_ = false;  // a sandbox without sendto, not a filter that drops our packets
  return true;
}

// Gives the socket the traffic class of two lone datagrams in a row. Data and acknowledgements that alternate on a
// socket do not change its class each time, which would cost more than their control messages.
bool SocketPort::socket_has_class_of(const Route& route) {
  TransmitSocket& socket = route.socket;
  const int latest = std::exchange(socket.latest_traffic_class, route.traffic_class);
  if (!sends_plain_) return false;
  if (socket.traffic_class == route.traffic_class) return true;
  if (latest != route.traffic_class) return false;
  sends_plain_ =
      ::setsockopt(route.fd(), route.level(), route.option(), &route.traffic_class, sizeof route.traffic_class) == 0;
  if (sends_plain_) socket.traffic_class = route.traffic_class;
  return sends_plain_;
}

SocketPort::Outcome SocketPort::send_singly(const Route& route, std::span<const TxPacket> packets,
                                            std::uint32_t& sent) {
  std::array<iovec, kBurstPacketsMax * kPartsPerPacket> parts;
  std::array<mmsghdr, kBurstPacketsMax> messages;
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  std::size_t part_count = 0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    messages[i] = {};
    route.fill(messages[i].msg_hdr, control.data());
    messages[i].msg_hdr.msg_iov = parts.data() + part_count;
    messages[i].msg_hdr.msg_iovlen = gather(packets[i], parts.data() + part_count);
    part_count += messages[i].msg_hdr.msg_iovlen;
  }
  ++sent_.send_calls;
  const int taken = send_batch(route, std::span(messages).first(packets.size()));
  if (taken < 0) {
    const Outcome outcome = refused(errno, 1, false);
    sent = outcome == Outcome::kSent ? 1 : 0;  // dropped: skip it
    return outcome;
  }
  sent = static_cast<std::uint32_t>(taken);
  std::uint64_t bytes = 0;
  for (const TxPacket& packet : packets.first(sent)) bytes += packet.datagram_bytes();
  note_sent(sent, bytes);
  return Outcome::kSent;
}

int SocketPort::send_batch(const Route& route, std::span<mmsghdr> messages) {
  if (messages.size() > 1 && sends_batches_) {
    const int taken =
        uncancelled::send_messages(route.fd(), messages.data(), static_cast<unsigned>(messages.size()), MSG_NOSIGNAL);
    if (taken >= 0 || (errno != EPERM && errno != ENOSYS)) return taken;
  }
  if (uncancelled::send_message(route.fd(), &messages[0].msg_hdr, MSG_NOSIGNAL) < 0) return -1;
  if (messages.size() > 1) sends_batches_ = false;  // a sandbox without sendmmsg, not a filter that drops our packets
  return 1;
}

void SocketPort::note_sent(std::size_t datagrams, std::uint64_t bytes) {
  faulty_.store(false, std::memory_order_relaxed);
  sent_.sent_datagrams += datagrams;
  sent_.sent_bytes += bytes;
  if (bytes > kShortBytes) sent_large_.store(true, std::memory_order_relaxed);
}

void SocketPort::note_fault(int error) {
  if (!faulty_.exchange(true)) fault_ = error;
  refusal_ = error;
}

// Handles a refusal by the kernel. A dead link, a missing route or an ICMP error is a lost packet, as on any wire, left
// to the engine's recovery and path states.
SocketPort::Outcome SocketPort::refused(int error, std::size_t datagrams, bool segmented) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
    ++sent_.would_block;
    return Outcome::kBlocked;
  }
  if (error == ENOBUFS || error == ENOMEM) {
    ++sent_.would_block;
    note_fault(error);
    return Outcome::kShort;
  }
  // A vanished source address has the same errno: only packets sent one by one distinguish the two.
  if (segmented && (error == EIO || error == EINVAL || error == EOPNOTSUPP || error == ENOPROTOOPT)) {
    return Outcome::kFallback;
  }
  note_fault(error);
  ++sent_.send_errors;
  sent_.last_send_error = error;
  sent_.dropped_datagrams += datagrams;
  if (error == EMSGSIZE) sent_.too_long += datagrams;
  return Outcome::kSent;
}

}  // namespace openmrc::nic
