#include "nic/udp_stream.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "nic/clock.hpp"
#include "nic/error.hpp"
#include "nic/file_descriptor.hpp"
#include "nic/socket_address.hpp"
#include "nic/socket_options.hpp"

namespace openmrc::nic {
namespace {

constexpr std::size_t kHeaderBytes = kUdpStreamHeaderBytes;
constexpr std::size_t kArenaBytes = 64U << 10;
constexpr std::uint32_t kBufferBytes = 4 << 20;
constexpr std::uint64_t kWindowBytesMax = 1 << 20;
constexpr std::uint64_t kReportBytes = 256 << 10;
constexpr int kWaitMs = 20;                       // for a report, after which datagrams count as lost
constexpr TimeNs kStartMax = 20 * kNsPerSecond;   // until the first datagram
constexpr TimeNs kSilenceMax = kNsPerSecond / 2;  // between datagrams
constexpr int kEnds = 3;                          // words that the stream is over: one may be lost

// Both ends have the same limits, and the kernel charges more for a datagram than its bytes.
std::uint64_t grow_buffers(int fd) {
  grow_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SO_SNDBUF, kBufferBytes);
  const std::uint32_t granted = grow_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, SO_RCVBUF, kBufferBytes);
  return std::clamp<std::uint64_t>(granted / 4, kArenaBytes, kWindowBytesMax);
}

class Source {
 public:
  Source(const UdpStreamPlan& plan, const Interrupted& interrupted)
      : plan_(plan), asker_(interrupted), fd_(plan.ends.open()), window_(grow_buffers(fd_.get())) {
    const bool segments =
        plan.datagrams > 1 && set_option(fd_.get(), SOL_UDP, UDP_SEGMENT, static_cast<int>(plan.datagram_bytes));
    count_ = segments ? plan.datagrams : 1;
  }

  UdpStreamResult run() {
    const TimeNs start = now_ns();
    TimeNs now = start;
    while (now - start < plan_.duration_ns && !stopped_) {
      await_window();
      send_call();
      now = now_ns();
      stopped_ = asker_(now);
    }
    for (int i = 0; i < kEnds; ++i) {
      const std::uint8_t end = 0;
      if (::send(fd_.get(), &end, sizeof end, 0) < 0) break;
    }
    return {.bytes = bytes_, .elapsed_ns = now - start};
  }

 private:
  void await_window() {
    while (sent_ - reported_ > window_) {
      std::uint64_t received = 0;
      if (::recv(fd_.get(), &received, sizeof received, 0) == sizeof received) {
        lost_ = std::min(lost_, sent_ - std::min(received, sent_));  // some were late only
        reported_ = std::max(reported_, received + lost_);
        continue;
      }
      pollfd wait{fd_.get(), POLLIN, 0};
      if (::poll(&wait, 1, kWaitMs) != 0) continue;
      lost_ += sent_ - reported_;
      reported_ = sent_;
    }
  }

  void send_call() {
    const std::size_t payload = plan_.datagram_bytes - kHeaderBytes;
    for (std::size_t i = 0; i < count_; ++i) {
      parts_[2 * i] = {headers_[i].data(), kHeaderBytes};
      parts_[2 * i + 1] = {region_.get() + offset_, payload};
      offset_ = offset_ + 2 * payload > plan_.region_bytes ? 0 : offset_ + payload;
    }
    msghdr message{};
    message.msg_iov = parts_.data();
    message.msg_iovlen = 2 * count_;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, 0);
    if (sent > 0) {
      sent_ += static_cast<std::uint64_t>(sent);
      bytes_ += count_ * payload;
    } else if (errno == EAGAIN || errno == ENOBUFS) {
      pollfd wait{fd_.get(), POLLOUT, 0};
      ::poll(&wait, 1, kWaitMs);
    } else if (errno != ECONNREFUSED) {
      throw NicError(errno, "cannot send from " + format_address(plan_.ends.local));
    }
  }

  const UdpStreamPlan& plan_;
  Asker asker_;
  FileDescriptor fd_;
  std::uint64_t window_;
  std::size_t count_ = 1;
  std::unique_ptr<std::uint8_t[]> region_ = std::make_unique<std::uint8_t[]>(plan_.region_bytes);
  std::array<std::array<std::uint8_t, 64>, kUdpStreamDatagramsMax> headers_{};
  std::array<iovec, 2 * kUdpStreamDatagramsMax> parts_{};
  std::uint64_t offset_ = 0, sent_ = 0, reported_ = 0, lost_ = 0, bytes_ = 0;
  bool stopped_ = false;
};

class Sink {
 public:
  Sink(const UdpStreamPlan& plan, const Interrupted& interrupted)
      : plan_(plan), asker_(interrupted), fd_(plan.ends.open()) {
    grow_buffers(fd_.get());
    set_option(fd_.get(), SOL_UDP, UDP_GRO, 1);
  }

  UdpStreamResult run() {
    const TimeNs opened = now_ns();
    TimeNs first = 0, last = 0;
    bool over = false;
    while (!over) {
      const std::size_t bytes = receive();
      const TimeNs now = now_ns();
      const bool stopped = asker_(now);
      if (bytes > 1 && !stopped) {
        if (first == 0) first = now;
        last = now;
        continue;
      }
      const bool late = first == 0 ? now - opened > kStartMax : now - last > kSilenceMax;
      over = late || (bytes == 1 && first != 0) || stopped;
    }
    return {.bytes = bytes_, .elapsed_ns = last - first};
  }

 private:
  std::size_t receive() {
    alignas(cmsghdr) std::array<char, 64> control{};
    iovec part{arena_.data(), arena_.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t received = ::recvmsg(fd_.get(), &message, 0);
    if (received <= 0) {
      pollfd wait{fd_.get(), POLLIN, 0};
      ::poll(&wait, 1, kWaitMs);
      return 0;
    }
    const auto bytes = static_cast<std::size_t>(received);
    std::size_t datagram = bytes;
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      int segment = 0;
      if (one->cmsg_level != SOL_UDP || one->cmsg_type != UDP_GRO) continue;
      std::memcpy(&segment, CMSG_DATA(one), sizeof segment);
      if (segment > 0) datagram = static_cast<std::size_t>(segment);
    }
    place(std::span(arena_).first(bytes), datagram);
    report(bytes);
    return bytes;
  }

  void place(std::span<const std::uint8_t> train, std::size_t datagram) {
    while (train.size() > kHeaderBytes) {
      const std::size_t payload = std::min(datagram, train.size()) - kHeaderBytes;
      if (offset_ + payload > plan_.region_bytes) offset_ = 0;
      std::memcpy(region_.get() + offset_, train.data() + kHeaderBytes, payload);
      offset_ += payload;
      bytes_ += payload;
      train = train.subspan(kHeaderBytes + payload);
    }
  }

  void report(std::size_t bytes) {
    received_ += bytes;
    if (received_ - reported_ < kReportBytes) return;
    reported_ = received_;
    [[maybe_unused]] const ssize_t sent = ::send(fd_.get(), &received_, sizeof received_, 0);
  }

  const UdpStreamPlan& plan_;
  Asker asker_;
  FileDescriptor fd_;
  std::unique_ptr<std::uint8_t[]> region_ = std::make_unique<std::uint8_t[]>(plan_.region_bytes);
  std::array<std::uint8_t, kArenaBytes> arena_{};
  std::uint64_t offset_ = 0, bytes_ = 0, received_ = 0, reported_ = 0;
};

}  // namespace

UdpStreamResult measure_udp_source(const UdpStreamPlan& plan, const Interrupted& interrupted) {
  return std::make_unique<Source>(plan, interrupted)->run();
}

UdpStreamResult measure_udp_sink(const UdpStreamPlan& plan, const Interrupted& interrupted) {
  return std::make_unique<Sink>(plan, interrupted)->run();
}

}  // namespace openmrc::nic
