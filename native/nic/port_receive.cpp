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
#include "nic/port.hpp"
#include "nic/socket_address.hpp"

namespace openmrc::nic {
namespace {

constexpr std::size_t kCoalescedMessages = 8;
constexpr std::size_t kCoalescedBytes = 65'536;
constexpr std::size_t kSingleMessages = 32;
constexpr std::size_t kSingleBytes = 16'384;
constexpr std::size_t kArenaBytes = kCoalescedMessages * kCoalescedBytes;
constexpr std::size_t kControlBytes = 128;
constexpr std::size_t kShortBytes = 1024;
// Of endpoint operations at each port: five times as many as the engine answers one peer.
constexpr std::size_t kEndpointMessages = 32;
constexpr TimeNs kEndpointInterval = 40 * kNsPerUs;
constexpr TimeNs kEndpointsAtOnce = 4096;
constexpr TimeNs kEndpointRest = kNsPerMs;

static_assert(kSingleMessages * kSingleBytes <= kArenaBytes);
static_assert(kEndpointMessages <= kSingleMessages);
static_assert(kSingleBytes >= kPayloadMtuMax + 256, "a whole packet has to fit");

}  // namespace

class ReceiveBuffers {
 public:
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

 private:
  struct alignas(cmsghdr) Control : std::array<char, kControlBytes> {};

  std::array<mmsghdr, kSingleMessages> messages_{};
  std::array<iovec, kSingleMessages> parts_{};
  std::array<sockaddr_storage, kSingleMessages> names_{};
  std::array<Control, kSingleMessages> controls_{};
  // Not zeroed: most devices never use most of it, and would touch half a MiB when they open.
  std::unique_ptr<std::uint8_t[]> arena_ = std::make_unique_for_overwrite<std::uint8_t[]>(kArenaBytes);
};

void ReceiveBuffersDeleter::operator()(ReceiveBuffers* buffers) const { delete buffers; }

ReceiveBuffersPtr make_receive_buffers() { return ReceiveBuffersPtr(new ReceiveBuffers); }

namespace {

struct Control {
  std::size_t segment_bytes = 0;  // of a coalesced message; 0: it is a single datagram
  TimeNs stamp = 0;               // of its arrival, by CLOCK_REALTIME; 0: none
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

// recvmsg where one message is wanted: cheaper, which a polling thread feels at every look.
int Port::receive_batch(int fd, std::span<mmsghdr> messages) {
  if (messages.size() > 1 && batches_) {
    const int count = ::recvmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()), MSG_DONTWAIT, nullptr);
    if (count >= 0 || (errno != EPERM && errno != ENOSYS)) return count;
    batches_ = false;  // a sandbox without recvmmsg
  }
  const ssize_t bytes = ::recvmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT);
  if (bytes < 0) return -1;
  messages[0].msg_len = static_cast<unsigned>(bytes);
  return 1;
}

Received Port::receive_refused() {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  ++stats_.receive_errors;
  note_fault(errno);
  return {0, 0, /*refused=*/true, kNeverNs};
}

// From the first larger message on: the kernel's stamps are part of the latency of short ones.
void Port::begin_stamps() {
  constexpr int kOn = 1;
  stamps_ = true;  // where a sandbox refuses, too: it is not asked again
  ::setsockopt(receive_socket_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &kOn, sizeof kOn);
}

// How long a datagram has been in the socket. That clock may be set meanwhile: no longer than since the socket was empty.
TimeNs Port::waited(TimeNs stamp) const {
  if (stamp == 0) return 0;
  timespec real{};
  ::clock_gettime(CLOCK_REALTIME, &real);
  return std::clamp<TimeNs>(to_ns(real) - stamp, 0, std::max<TimeNs>(handed_ - emptied_, 0));
}

void Port::hand_over(mmsghdr& message, Engine& engine, const EngineClock& clock, Received& found) {
  if ((message.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    ++stats_.truncated;
    return;
  }
  const iovec& part = *message.msg_hdr.msg_iov;
  const std::span<const std::uint8_t> bytes(static_cast<const std::uint8_t*>(part.iov_base), message.msg_len);
  RxDatagram datagram;
  datagram.port = id_;
  datagram.source =
      from_socket_address(*static_cast<const sockaddr_storage*>(message.msg_hdr.msg_name), datagram.fields.source_port);
  const Control control = read_control(message.msg_hdr, datagram);
  found.bytes += bytes.size();
  handed_ = now_ns();
  const TimePs now = clock.engine_time(handed_);
  if (bytes.size() > kShortBytes) {
    found.waited = waited(control.stamp);
    datagram.waited = found.waited * kPsPerNs;
  }
  datagram.bytes = bytes;
  const std::size_t step = control.segment_bytes;
  if (step == 0 || step >= bytes.size()) {
    engine.handle_datagram(now, datagram);
    ++found.datagrams;
    return;
  }
  engine.handle_train(now, datagram, step);
  found.datagrams += static_cast<std::uint32_t>((bytes.size() + step - 1) / step);
  ++stats_.coalesced_receives;
}

Received Port::receive(Engine& engine, const EngineClock& clock, ReceiveBuffers& buffers) {
  // After a quiet spell one message is probably all there is, and a short one all that there is to come: do not pay for
  // a look at many.
  const std::size_t bytes_max = stats_.receive_offload ? kCoalescedBytes : kSingleBytes;
  const std::size_t count_max = stats_.receive_offload ? kCoalescedMessages : kSingleMessages;
  const std::span<mmsghdr> messages = buffers.prepare(single_looks_ > 0 ? 1 : count_max, bytes_max);
  ++stats_.receive_calls;
  const int received = receive_batch(receive_socket_.get(), messages);
  if (received <= 0) single_looks_ = 2;
  if (received < 0) return receive_refused();
  Received found;
  for (mmsghdr& message : messages.first(static_cast<std::size_t>(received))) hand_over(message, engine, clock, found);
  if (received < static_cast<int>(messages.size())) emptied_ = handed_;
  if (!stamps_ && found.bytes > kShortBytes) begin_stamps();
  if (single_looks_ > 0) single_looks_ = found.bytes > kShortBytes ? 0 : static_cast<std::uint8_t>(single_looks_ - 1);
  stats_.received_datagrams += found.datagrams;
  stats_.received_bytes += found.bytes;
  // A batch of nothing but truncated datagrams is still a reason to come back for more.
  found.datagrams = std::max(found.datagrams, static_cast<std::uint32_t>(received));
  return found;
}

Received Port::receive_endpoint(Engine& engine, const EngineClock& clock, ReceiveBuffers& buffers) {
  const TimeNs now = now_ns();
  if (endpoint_socket_.get() < 0 || now < endpoint_rests_until_) return {};
  const std::span<mmsghdr> messages = buffers.prepare(kEndpointMessages, kSingleBytes);
  ++stats_.receive_calls;
  const int received = receive_batch(endpoint_socket_.get(), messages);
  endpoint_rests_until_ = 0;
  if (received < 0) return receive_refused();
  Received found;
  for (mmsghdr& message : messages.first(static_cast<std::size_t>(received))) hand_over(message, engine, clock, found);
  stats_.received_datagrams += found.datagrams;
  stats_.received_bytes += found.bytes;
  endpoint_paid_until_ = std::max(endpoint_paid_until_, now) + received * kEndpointInterval;
  if (endpoint_paid_until_ - now > kEndpointsAtOnce * kEndpointInterval) endpoint_rests_until_ = now + kEndpointRest;
  return found;
}

}  // namespace openmrc::nic
