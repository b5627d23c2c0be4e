#include "nccl/bootstrap.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "nic/socket_address.hpp"

namespace openmrc::nccl {
namespace {

constexpr std::size_t kIncomingMax = 256;
constexpr nic::TimeNs kStrangerTime = 10 * nic::kNsPerSecond;
constexpr int kSilenceS = 20;  // as of an established connection
constexpr int kKeepaliveS = 5;

nic::FileDescriptor open_socket(AddressFamily family) {
  nic::FileDescriptor socket(
      ::socket(family == AddressFamily::kIpv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw nic::NicError(errno, "cannot open a TCP socket");
  return socket;
}

void set_option(const nic::FileDescriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

void send_at_once(const nic::FileDescriptor& socket) { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

// Either end may wait for the other in the set-up, with nothing to send: the kernel then finds out whether the peer's
// host is gone.
void end_on_silence(const nic::FileDescriptor& socket) {
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveS);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kSilenceS / kKeepaliveS - 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceS * 1000);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

// After the set-up, the plane of the TCP connection may die: the goodbye waits for its return.
void outlast_silence(const nic::FileDescriptor& socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 0);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

bool meets(const PeerConfig& one, const PeerConfig& other) {
  return one.ports.size() == other.ports.size() && one.ports.front().family == other.ports.front().family;
}

void check_planes(const EndDescription& own, const EndDescription& theirs) {
  if (meets(own.ports, theirs.ports)) return;
  throw Failure{ncclInvalidUsage,
                "this device has " + std::to_string(own.ports.ports.size()) + " planes, and the peer's has " +
                    std::to_string(theirs.ports.ports.size()) +
                    ": both need the same number, of one address family (OPENMRC_PORTS or OPENMRC_PATHS)"};
}

// Fabrics whose paths are in a path file may carry no TCP: OPENMRC_ADDRESS names an address of another network.
Address listening_address(Adapter& adapter, Address& advertised) {
  const verbs::PlaneDescription& plane = adapter.first_plane();
  const char* text = std::getenv("OPENMRC_ADDRESS");
  if (text == nullptr || *text == '\0') {
    advertised = plane.advertise;
    return plane.local;
  }
  if (nic::parse_address(text, advertised)) return advertised;
  throw Failure{ncclInvalidUsage, "OPENMRC_ADDRESS is '" + std::string(text) + "': a numeric address of this host"};
}

}  // namespace

Channel::Read Channel::read(std::size_t bytes) {
  const std::size_t have = message_.size();
  if (have == bytes) return Read::kDone;
  message_.resize(bytes);
  const ssize_t got = ::recv(socket_.get(), message_.data() + have, bytes - have, 0);
  message_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got > 0) return message_.size() == bytes ? Read::kDone : Read::kWait;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? Read::kWait : Read::kEnd;
}

// A message fits the send buffer of a fresh connection.
void Channel::write(ConstBytes bytes) {
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return;
  throw Failure{ncclRemoteError, "the peer has ended the set-up of a connection"};
}

// --- the receiving end

Listener::Listener(std::shared_ptr<Adapter> adapter) : adapter_(std::move(adapter)) {
  const Address own = listening_address(*adapter_, handle_.address);
  socket_ = open_socket(own.family);
  const nic::SocketAddress local = nic::to_socket_address(own, 0);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::bind(socket_.get(), local.get(), local.length) != 0 || ::listen(socket_.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    throw nic::NicError(errno, "cannot listen on " + nic::format_address(own));
  }
  nic::from_socket_address(bound, handle_.tcp_port);
  handle_.secret = random_secret();
}

void Listener::write_handle(Bytes out) const { nccl::write_handle(out, handle_); }

std::unique_ptr<RecvComm> Listener::accept() {
  adapter_->device().check_process();
  take_connections();
  std::unique_ptr<RecvComm> connected;
  for (Incoming& incoming : incoming_) {
    incoming.dropped = true;  // if a failure leaves this function
    const bool done = step(incoming);
    if (!done) continue;
    connected = std::move(incoming.comm);
    outlast_silence(incoming.channel.socket());
    connected->adopt(std::move(incoming.channel.socket()));
    incoming.dropped = true;
    break;
  }
  std::erase_if(incoming_, [](const Incoming& one) { return one.dropped; });
  return connected;
}

void Listener::abandon() {
  socket_.reset();
  for (Incoming& incoming : incoming_) incoming.channel.socket().reset();
}

void Listener::take_connections() {
  std::erase_if(incoming_, [](const Incoming& one) { return one.dropped; });
  while (incoming_.size() < kIncomingMax) {
    nic::FileDescriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    send_at_once(socket);
    end_on_silence(socket);
    incoming_.push_back({Channel(std::move(socket)), nic::now_ns() + kStrangerTime, nullptr, {}, 0, false});
  }
}

bool Listener::step(Incoming& incoming) {
  if (incoming.comm == nullptr && !greet(incoming)) return false;
  const Channel::Read read = incoming.channel.read(kReadyBytes);
  incoming.dropped = false;
  if (read == Channel::Read::kWait) return false;
  std::uint32_t payload = 0;
  incoming.dropped = true;
  if (read == Channel::Read::kEnd) throw Failure{ncclRemoteError, "the peer has ended the set-up of a connection"};
  if (!read_ready(incoming.channel.message(), payload) || payload > incoming.room) {
    throw Failure{ncclRemoteError, "the peer broke the rules of the set-up"};
  }
  incoming.comm->establish(incoming.theirs, payload);
  return true;
}

// Strangers are dropped silently: only a peer that has the handle can make a connection fail.
bool Listener::greet(Incoming& incoming) {
  const Channel::Read read = incoming.channel.read(kHelloBytes);
  if (read == Channel::Read::kEnd) return false;
  if (read == Channel::Read::kWait) {
    incoming.dropped = nic::now_ns() > incoming.deadline;
    return false;
  }
  bool known = false;
  const bool valid = read_hello(incoming.channel.message(), handle_.secret, known, incoming.theirs);
  if (!known) return false;
  if (!valid) throw Failure{ncclRemoteError, "the peer broke the rules of the set-up, or has another version"};
  incoming.channel.next();
  auto comm = std::make_unique<RecvComm>(adapter_);
  EndDescription own = comm->description();
  check_planes(own, incoming.theirs);
  incoming.room = own.payload_room =
      std::min(incoming.theirs.payload_room, adapter_->payload_room(incoming.theirs.ports));
  std::array<std::uint8_t, kOfferBytes> offer{};
  write_offer(offer, own);
  incoming.channel.write(offer);
  incoming.comm = std::move(comm);
  return true;
}

// --- the sending end

Connector::Connector(std::shared_ptr<Adapter> adapter, const Handle& handle)
    : adapter_(std::move(adapter)),
      handle_(handle),
      channel_(open_socket(handle.address.family)),
      deadline_(nic::now_ns() + kSilenceS * nic::kNsPerSecond) {
  end_on_silence(channel_.socket());
  const nic::SocketAddress to = nic::to_socket_address(handle.address, handle.tcp_port);
  const int fd = channel_.socket().get();
  if (::connect(fd, to.get(), to.length) == 0 || errno == EINPROGRESS) return;
  throw nic::NicError(errno, "cannot connect to " + nic::format_address(handle.address));
}

bool Connector::connected() {
  pollfd look{channel_.socket().get(), POLLOUT, 0};
  if (::poll(&look, 1, 0) != 1) {
    if (nic::now_ns() < deadline_) return false;
    throw Failure{ncclRemoteError, "cannot connect to " + nic::format_address(handle_.address) + " port " +
                                       std::to_string(handle_.tcp_port) + ": no answer within " +
                                       std::to_string(kSilenceS) + " seconds"};
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(look.fd, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) return true;
  throw Failure{ncclRemoteError, "cannot connect to " + nic::format_address(handle_.address) + " port " +
                                     std::to_string(handle_.tcp_port) + ": " + std::strerror(error)};
}

std::unique_ptr<SendComm> Connector::step() {
  adapter_->device().check_process();
  if (!greeted_) {
    if (!connected()) return nullptr;
    send_at_once(channel_.socket());
    comm_ = std::make_unique<SendComm>(adapter_);
    std::array<std::uint8_t, kHelloBytes> hello{};
    write_hello(hello, handle_.secret, comm_->description());
    channel_.write(hello);
    greeted_ = true;
  }
  const Channel::Read read = channel_.read(kOfferBytes);
  if (read == Channel::Read::kWait) return nullptr;
  if (read == Channel::Read::kEnd) throw Failure{ncclRemoteError, "the peer has refused a connection, or has ended"};
  EndDescription theirs;
  if (!read_offer(channel_.message(), theirs)) {
    throw Failure{ncclRemoteError, "the peer broke the rules of the set-up, or has another version"};
  }
  check_planes(comm_->description(), theirs);
  const std::uint32_t payload = std::min(theirs.payload_room, adapter_->payload_room(theirs.ports));
  comm_->establish(theirs, payload);
  std::array<std::uint8_t, kReadyBytes> ready{};
  write_ready(ready, payload);
  channel_.write(ready);
  outlast_silence(channel_.socket());
  comm_->adopt(std::move(channel_.socket()));
  return std::move(comm_);
}

}  // namespace openmrc::nccl
