// Receiving: one system call for a batch, each message up to 64 KiB of datagrams that the kernel coalesced.
#include <linux/in6.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "nic/clock.hpp"
#include "nic/socket_address.hpp"
#include "nic/socket_port.hpp"
#include "nic/uncancelled.hpp"

namespace openmrc::nic {
namespace {

constexpr std::size_t kCoalescedMessages = 8;  // while the kernel coalesces datagrams
constexpr std::size_t kCoalescedBytes = 65'536;
constexpr std::size_t kSingleMessages = 32;
constexpr std::size_t kSingleBytes = 16'384;
constexpr std::uint32_t kShortLooks = 1024;
constexpr std::uint32_t kLooksPerJoined = 16;  // lone short datagrams for each joined read, above which joining costs
// Limit for endpoint operations at each port: five times the engine's limit of responses per peer.
constexpr std::size_t kEndpointMessages = 32;
constexpr TimeNs kEndpointInterval = 40 * kNsPerUs;
constexpr TimeNs kEndpointsAtOnce = 4096;
constexpr TimeNs kEndpointRest = kNsPerMs;

static_assert(kCoalescedBytes <= ReceiveBuffers::kMessageBytesMax);
static_assert(kSingleMessages <= ReceiveBuffers::kMessagesMax && kEndpointMessages <= kSingleMessages);
static_assert(kSingleBytes >= kPayloadMtuMax + 256, "a whole packet has to fit");

struct Control {
  std::size_t segment_bytes = 0;  // of a coalesced message; 0: it is a single datagram
  TimeNs stamp = 0;               // arrival by CLOCK_REALTIME; 0: none
};

Control read_control(msghdr& header, RxDatagram& datagram) {
  Control found;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    int value = 0;
    const std::size_t bytes = control->cmsg_len - CMSG_LEN(0);
    if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
      value = *CMSG_DATA(control);  // IPv4 hands over one byte
    } else if (bytes >= sizeof value) {
      std::memcpy(&value, CMSG_DATA(control), sizeof value);
    }
    if ((control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) ||
        (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_TCLASS)) {
      datagram.ecn = static_cast<Ecn>(value & 3);
      datagram.traffic_class = traffic_class_of(static_cast<std::uint8_t>((value >> 2) & 0x3F));
    } else if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO) {
      found.segment_bytes = static_cast<std::size_t>(std::max(value, 0));
    } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_FLOWINFO) {
      datagram.fields.flow_label = static_cast<std::uint16_t>(ntohl(static_cast<std::uint32_t>(value)) & 0xFFFFU);
    } else if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPNS) {
      timespec stamp{};
      std::memcpy(&stamp, CMSG_DATA(control), std::min(bytes, sizeof stamp));
      found.stamp = to_ns(stamp);
    }
  }
  return found;
}

}  // namespace

// Uses recvmsg for a single message: cheaper, which matters to a polling thread at every read.
int SocketPort::receive_batch(int fd, std::span<mmsghdr> messages) {
  if (messages.size() > 1 && receives_batches_) {
    const int count =
        uncancelled::receive_messages(fd, messages.data(), static_cast<unsigned>(messages.size()), MSG_DONTWAIT);
    if (count >= 0 || (errno != EPERM && errno != ENOSYS)) return count;
    receives_batches_ = false;  // a sandbox without recvmmsg
  }
  const ssize_t bytes = uncancelled::receive_message(fd, &messages[0].msg_hdr, MSG_DONTWAIT);
  if (bytes < 0) return -1;
  messages[0].msg_len = static_cast<unsigned>(bytes);
  return 1;
}

Received SocketPort::receive_refused() {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  ++received_.receive_errors;
  note_fault(errno);
  return {.refused = true};
}

// The kernel's timestamps and its joining of datagrams, which it reports for each message, add to the latency of short
// ones. The first begins with the first larger message. The second ends when for a while this end has neither received
// nor sent one, and has seldom received several datagrams at once, such as data and its acknowledgement.
void SocketPort::note_size(std::size_t bytes) {
  constexpr int kOn = 1;
  if (!stamps_ && bytes > kShortBytes) {
    stamps_ = true;  // also after a refusal by a sandbox, so that it is tried once
    ::setsockopt(receive_socket_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &kOn, sizeof kOn);
  }
  const bool streams = sent_large_.load(std::memory_order_relaxed);
  if (streams) sent_large_.store(false, std::memory_order_relaxed);
  if (streams || bytes > kShortBytes) {
    short_looks_ = 0;
  } else if (coalesced_) {
    short_looks_ -= std::min(short_looks_, kLooksPerJoined);
  } else {
    ++short_looks_;
  }
  const bool wanted = received_.receive_offload && (short_looks_ == 0 || (joins_ && short_looks_ < kShortLooks));
  if (wanted == joins_) return;
  joins_ = wanted;
  const int on = wanted ? 1 : 0;
  ::setsockopt(receive_socket_.get(), SOL_UDP, UDP_GRO, &on, sizeof on);
}

// Time for which a datagram has been in the socket. The real-time clock may be set meanwhile, so at most the time since
// the socket was empty.
TimeNs SocketPort::waited(TimeNs stamp) const {
  if (stamp == 0) return 0;
  timespec real{};
  ::clock_gettime(CLOCK_REALTIME, &real);
  return std::clamp<TimeNs>(to_ns(real) - stamp, 0, std::max<TimeNs>(looked_ - emptied_, 0));
}

bool SocketPort::open_message(mmsghdr& message, Train& train, Received& found) {
  if ((message.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    ++received_.truncated;
    return false;
  }
  const iovec& part = *message.msg_hdr.msg_iov;
  RxDatagram& datagram = train.datagram;
  datagram = {};
  datagram.port = id_;
  datagram.bytes = {static_cast<const std::uint8_t*>(part.iov_base), message.msg_len};
  datagram.source =
      from_socket_address(*static_cast<const sockaddr_storage*>(message.msg_hdr.msg_name), datagram.fields.source_port);
  const Control control = read_control(message.msg_hdr, datagram);
  const std::size_t bytes = datagram.bytes.size();
  found.bytes += bytes;
  train.read = looked_;
  train.arrived = bytes > kShortBytes ? looked_ - waited(control.stamp) : 0;
  const bool alone = control.segment_bytes == 0 || control.segment_bytes >= bytes;
  train.datagram_bytes = alone ? std::max<std::size_t>(bytes, 1) : control.segment_bytes;
  found.datagrams += alone ? 1U : static_cast<std::uint32_t>((bytes + train.datagram_bytes - 1) / train.datagram_bytes);
  if (!alone) {
    ++received_.coalesced_receives;
    coalesced_ = true;
  }
  return true;
}

Received SocketPort::hand_over(std::span<mmsghdr> messages, ReceiveBuffers& buffers, TrainSink& sink) {
  std::array<Train, ReceiveBuffers::kMessagesMax>& trains = buffers.trains();
  std::size_t count = 0;
  Received found;
  looked_ = now_ns();
  coalesced_ = false;
  for (mmsghdr& message : messages) count += open_message(message, trains[count], found) ? 1 : 0;
  if (count > 0) sink.take(std::span(trains).first(count));
  received_.received_datagrams += found.datagrams;
  received_.received_bytes += found.bytes;
  return found;
}

Received SocketPort::receive(ReceiveBuffers& buffers, TrainSink& sink) {
  // After a quiet period one message is probably all that is pending, and a short one the last for now: avoid the cost
  // of a batch read.
  const std::size_t bytes_max = received_.receive_offload ? kCoalescedBytes : kSingleBytes;
  const std::size_t count_max = coalesced_ ? kCoalescedMessages : kSingleMessages;
  const std::span<mmsghdr> messages = buffers.prepare(single_looks_ > 0 ? 1 : count_max, bytes_max);
  ++received_.receive_calls;
  const int received = receive_batch(receive_socket_.get(), messages);
  if (received <= 0) single_looks_ = 2;
  if (received < 0) return receive_refused();
  Received found = hand_over(messages.first(static_cast<std::size_t>(received)), buffers, sink);
  if (received < static_cast<int>(messages.size())) {
    emptied_ = looked_;
  } else {
    found.more = messages.size() > 1;
  }
  note_size(found.bytes);
  if (single_looks_ > 0) single_looks_ = found.bytes > kShortBytes ? 0 : static_cast<std::uint8_t>(single_looks_ - 1);
  // A batch of only truncated datagrams is still a reason to read again.
  found.datagrams = std::max(found.datagrams, static_cast<std::uint32_t>(received));
  return found;
}

Received SocketPort::receive_endpoint(ReceiveBuffers& buffers, TrainSink& sink) {
  const TimeNs now = now_ns();
  if (endpoint_socket_.get() < 0 || now < endpoint_rests_until_) return {};
  const std::span<mmsghdr> messages = buffers.prepare(kEndpointMessages, kSingleBytes);
  ++received_.receive_calls;
  const int received = receive_batch(endpoint_socket_.get(), messages);
  endpoint_rests_until_ = 0;
  if (received < 0) return receive_refused();
  const TimeNs looked = looked_;
  const Received found = hand_over(messages.first(static_cast<std::size_t>(received)), buffers, sink);
  looked_ = looked;
  endpoint_paid_until_ = std::max(endpoint_paid_until_, now) + received * kEndpointInterval;
  if (endpoint_paid_until_ - now > kEndpointsAtOnce * kEndpointInterval) endpoint_rests_until_ = now + kEndpointRest;
  return found;
}

}  // namespace openmrc::nic
