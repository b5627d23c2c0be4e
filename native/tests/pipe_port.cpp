#include "tests/pipe_port.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "nic/error.hpp"

namespace openmrc::test {
namespace {

constexpr std::uint32_t kIpUdpBytes = 28;
constexpr std::size_t kMessagesAtOnce = 8;
constexpr std::uint64_t kFull = UINT64_MAX - 1;  // value of an eventfd that is not writable

void put(const nic::FileDescriptor& fd, std::uint64_t value) {
  [[maybe_unused]] const ssize_t written = ::write(fd.get(), &value, sizeof value);
}

void clear(const nic::FileDescriptor& fd) {
  std::uint64_t value = 0;
  [[maybe_unused]] const ssize_t taken = ::read(fd.get(), &value, sizeof value);
}

void append(std::vector<std::uint8_t>& bytes, const TxPacket& packet) {
  bytes.insert(bytes.end(), packet.headers.begin(), packet.headers.begin() + packet.header_bytes);
  if (packet.payload_bytes > 0) bytes.insert(bytes.end(), packet.payload, packet.payload + packet.payload_bytes);
  bytes.insert(bytes.end(), packet.trailer.begin(), packet.trailer.begin() + packet.trailer_bytes);
}

}  // namespace

nic::PortFactory Pipe::factory() {
  return [this](PortId id, const nic::Settings& device, std::uint32_t& next_source_port) {
    return std::make_unique<PipePort>(*this, id, device, next_source_port);
  };
}

Pipe::Place Pipe::place(const Address& address, std::uint16_t udp_port) {
  return {address.bytes, address.family, udp_port};
}

PipePort::PipePort(Pipe& pipe, PortId id, const nic::Settings& device, std::uint32_t& next_source_port)
    : pipe_(pipe),
      id_(id),
      local_(device.ports[id].local),
      udp_port_(device.udp_port),
      arrived_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      room_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (std::uint32_t i = 0; i < device.evs_per_port; ++i) evs_.push_back({next_source_port++, id});
  const std::lock_guard guard(pipe_.mutex_);
  pipe_.ports_[Pipe::place(local_, udp_port_)] = this;
}

PipePort::~PipePort() { close(); }

void PipePort::close() {
  const std::lock_guard guard(pipe_.mutex_);
  std::erase_if(pipe_.ports_, [this](const auto& entry) { return entry.second == this; });
  for (auto& [place, port] : pipe_.ports_) std::erase(port->blocked_, this);
  for (PipePort* sender : blocked_) clear(sender->room_);
  blocked_.clear();
}

// Returns the packets from `first` on that fit the MTU; longer ones before them are dropped.
std::uint32_t PipePort::fits(const TxBurst& burst, std::uint32_t first) {
  while (first < burst.count && burst.packets[first].datagram_bytes() + kIpUdpBytes > pipe_.mtu_) {
    ++stats_.send_errors;
    ++stats_.dropped_datagrams;
    ++stats_.too_long;
    stats_.last_send_error = EMSGSIZE;
    fault_ = EMSGSIZE;
    ++first;
  }
  return first;
}

std::uint32_t PipePort::send(const TxBurst& burst, std::uint32_t first) {
  ++stats_.send_calls;
  first = fits(burst, first);
  if (first == burst.count) return first;
  Message message;
  RxDatagram& datagram = message.train.datagram;
  datagram.source = local_;
  datagram.fields = burst.fields;
  datagram.traffic_class = burst.traffic_class;
  datagram.ecn = burst.ecn;
  message.train.arrived = nic::now_ns();
  for (std::uint32_t i = first; i < burst.count; ++i) append(message.bytes, burst.packets[i]);
  const std::uint64_t bytes = message.bytes.size();
  message.train.datagram_bytes = burst.joined ? bytes : burst.packets[first].datagram_bytes();

  const std::lock_guard guard(pipe_.mutex_);
  const auto found = pipe_.ports_.find(Pipe::place(burst.destination, burst.destination_port));
  if (found != pipe_.ports_.end()) {  // otherwise lost, as on any wire
    PipePort& peer = *found->second;
    if (peer.queued_bytes_ + bytes > pipe_.queue_bytes_ && !peer.queue_.empty()) {
      ++stats_.would_block;
      put(room_, kFull);
      peer.blocked_.push_back(this);
      return first;
    }
    if (peer.queue_.empty()) put(peer.arrived_, 1);
    peer.queue_.push_back(std::move(message));
    peer.queued_bytes_ += bytes;
  }
  stats_.sent_datagrams += burst.joined ? 1 : burst.count - first;
  stats_.sent_bytes += bytes;
  return burst.count;
}

nic::Received PipePort::receive(nic::ReceiveBuffers& buffers, nic::TrainSink& sink) {
  std::vector<Message> messages;
  {
    const std::lock_guard guard(pipe_.mutex_);
    while (!queue_.empty() && messages.size() < kMessagesAtOnce) {
      messages.push_back(std::move(queue_.front()));
      queue_.pop_front();
      queued_bytes_ -= messages.back().bytes.size();
    }
    if (queue_.empty()) clear(arrived_);
    for (PipePort* sender : blocked_) clear(sender->room_);
    blocked_.clear();
  }
  ++stats_.receive_calls;
  nic::Received found;
  std::size_t count = 0;
  for (Message& message : messages) {
    nic::Train& train = buffers.trains()[count++] = message.train;
    train.datagram.port = id_;
    train.datagram.bytes = message.bytes;
    found.bytes += message.bytes.size();
    found.datagrams +=
        static_cast<std::uint32_t>((message.bytes.size() + train.datagram_bytes - 1) / train.datagram_bytes);
  }
  if (count > 0) sink.take(std::span(buffers.trains()).first(count));
  stats_.received_datagrams += found.datagrams;
  stats_.received_bytes += found.bytes;
  return found;
}

std::uint32_t PipePort::path_mtu(const Address& peer, std::uint16_t udp_port) const {
  const std::lock_guard guard(pipe_.mutex_);
  if (!pipe_.ports_.contains(Pipe::place(peer, udp_port))) throw nic::NicError(EHOSTUNREACH, "no such port");
  return pipe_.mtu_;
}

}  // namespace openmrc::test
