#include "rdmacm/link.hpp"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>

#include "rdmacm/devices.hpp"
#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnect{60'000};  // from rdma_connect to the reply, and from the reply to the confirmation
// Servers that replace their listener (perftest does, after exchanging parameters) have none for a moment, or lose the
// requests that it has not handed over.
constexpr milliseconds kTryAgain{2'000};
constexpr milliseconds kTryPause{20};
constexpr milliseconds kSilence{10'000};
constexpr milliseconds kDisconnect{10'000};
constexpr milliseconds kDrain{2'000};
constexpr milliseconds kAcceptPause{100};  // without descriptors a listener would report itself ready all the time
constexpr std::size_t kDrainMax = 65536;
constexpr std::size_t kReadsMax = 16;  // per turn of the thread
constexpr std::size_t kAcceptsMax = 64;
// Together they leave a process room within the usual limit of 1,024 descriptors.
constexpr std::size_t kSilentMax = 256;
constexpr std::size_t kDrainingMax = 128;

// A peer whose host is gone is noticed after 30 + 6 * 10 s.
constexpr int kIdleSeconds = 30;
constexpr int kProbeSeconds = 10;
constexpr int kProbes = 6;

void set_options(int fd) {
  const auto set = [fd](int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

// Connections of which only the last bytes are on their way, oldest first.
std::deque<Link*>& draining_links() {
  static std::deque<Link*>& links = *new std::deque<Link*>;
  return links;
}

// Connections without a request, oldest first.
std::deque<Link*>& silent_links() {
  static std::deque<Link*>& links = *new std::deque<Link*>;
  return links;
}

bool is_mapped(const std::uint8_t* gid) {
  return std::all_of(gid, gid + 10, [](std::uint8_t byte) { return byte == 0; }) && gid[10] == 0xFF && gid[11] == 0xFF;
}

// 0: the peer's settings suit this device.
int mismatch(const Device& device, const Parameters& peer) {
  if (peer.kind != device.kind || peer.published != device.published) return static_cast<int>(Reject::kKind);
  if (peer.planes != device.planes) return static_cast<int>(Reject::kPlanes);
  if (is_mapped(peer.gid.data()) != is_mapped(device.gid.raw)) return static_cast<int>(Reject::kGid);
  return 0;
}

// An event carries only the number, so the reason is printed once where a person has started the connection.
void explain(const Message& message) {
  const char* reason = nullptr;
  if (message.reason == Reject::kKind)
    reason = "its QPs are of another kind: start both ends with the same --qp and OPENMRC_SIGNAL";
  if (message.reason == Reject::kPlanes)
    reason = "its device has another number of planes: list as many ports at both ends";
  if (message.reason == Reject::kGid)
    reason = "its device has addresses of the other family: list ports of one family at both ends";
  if (message.reason == Reject::kVersion)
    reason = "it runs another version of openmrc's connection manager: install the same version at both ends";
  if (reason != nullptr && message.data.empty())
    std::fprintf(stderr, "openmrc: the peer refuses to connect: %s\n", reason);
}

}  // namespace

Link::Link(nic::FileDescriptor descriptor, LinkState state, Id* owner, Id* listener)
    : Watched(std::move(descriptor)), state_(state), owner_(owner), listener_(listener) {
  set_options(fd());
}

void Link::set_state(LinkState state) {
  if (state_ == LinkState::kSilent) std::erase(silent_links(), this);
  if (state_ == LinkState::kDraining) std::erase(draining_links(), this);
  state_ = state;
}

void Link::report(rdma_cm_event_type type, int status) {
  if (owner_ == nullptr) return;
  if (type == RDMA_CM_EVENT_DISCONNECTED) {
    if (owner_->disconnected) return;
    owner_->disconnected = true;
  }
  push(*owner_, type, status);
}

void Link::connect(const SocketAddress& to, Message request) {
  request_ = std::move(request);
  peer_ = to;
  try_until_ = std::chrono::steady_clock::now() + kTryAgain;
  // Edges only: a socket that is not connected reports a hang-up all the time.
  if (const int error = Service::get().watch(shared_from_this(), EPOLLOUT | EPOLLET)) return lost(error);
  attempt();
}

void Link::attempt() {
  pausing_ = false;
  Service::get().set_deadline(*this, kConnect);
  const int failed = ::connect(fd(), peer_.get(), peer_.length()) == 0 ? 0 : errno;
  if (failed != 0 && failed != EINPROGRESS) lost(failed);
}

// Nobody has listened: starts again with another socket, from the same address. False: the time for that is over.
bool Link::try_again() {
  if (owner_ == nullptr || std::chrono::steady_clock::now() >= try_until_) return false;
  nic::FileDescriptor socket(::socket(peer_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  SocketAddress source = owner_->source();
  source.set_port(0);  // the former connection may keep the port
  if (!socket.valid() || ::bind(socket.get(), source.get(), source.length()) != 0) return false;
  if (local_address(socket.get(), source) != 0) return false;
  const std::shared_ptr<Link> self = shared_from_this();
  Service::get().forget(*this);
  set_options(socket.get());
  replace(std::move(socket));
  in_.clear();
  out_.clear();
  state_ = LinkState::kConnecting;
  pausing_ = true;
  if (Service::get().watch(self, EPOLLOUT | EPOLLET) != 0) return false;
  owner_->set_source(source);
  Service::get().set_deadline(*this, kTryPause);
  return true;
}

int Link::serve() {
  if (silent_links().size() >= kSilentMax) {
    ++Service::get().counters.silent;
    silent_links().front()->finish();
  }
  const int error = Service::get().watch(shared_from_this(), EPOLLIN);
  if (error != 0) return error;
  silent_links().push_back(this);
  Service::get().set_deadline(*this, kSilence);
  return 0;
}

void Link::handle_connected() {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return lost(error);
  sockaddr_storage peer{};
  length = sizeof peer;
  if (::getpeername(fd(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) return;  // not yet
  set_state(LinkState::kRequested);
  Service::get().change(*this, EPOLLIN);
  send(request_);
}

void Link::handle_ready(std::uint32_t events) {
  if (state_ == LinkState::kConnecting) return handle_connected();
  if ((events & EPOLLOUT) != 0) flush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read();
}

void Link::handle_deadline() {
  if (std::exchange(pausing_, false)) return attempt();
  switch (state_) {
    case LinkState::kDisconnecting:
      report(RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
      return finish();
    case LinkState::kSilent:
      ++Service::get().counters.silent;
      return finish();
    case LinkState::kDraining:
      return finish();
    default:
      return lost(ETIMEDOUT);
  }
}

void Link::send(const Message& message) {
  if (state_ == LinkState::kClosed) return;
  const std::vector<std::uint8_t> bytes = encode(message);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  flush();
}

void Link::flush() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      Service::get().change(*this, EPOLLIN | EPOLLOUT);
      return;
    }
    if (sent < 0) {
      out_.clear();  // what has arrived before the failure is still to be read
      break;
    }
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  Service::get().change(*this, EPOLLIN);
  if (closing_) ::shutdown(fd(), SHUT_WR);
}

void Link::read() {
  std::array<std::uint8_t, kMessageBytesMax> bytes;
  for (std::size_t turn = 0; turn < kReadsMax; ++turn) {
    const ssize_t got = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return lost(got == 0 ? 0 : errno);
    if (state_ == LinkState::kDraining) {
      drained_ += static_cast<std::size_t>(got);
      if (drained_ > kDrainMax) return finish();
      continue;
    }
    in_.insert(in_.end(), bytes.begin(), bytes.begin() + got);
    parse_received();
    if (state_ == LinkState::kClosed || state_ == LinkState::kConnecting) return;  // or starts again
  }
}

void Link::parse_received() {
  while (!in_.empty() && state_ != LinkState::kClosed && state_ != LinkState::kDraining) {
    Message message;
    std::size_t used = 0;
    const ParseResult result = parse(in_, message, used);
    if (result == ParseResult::kIncomplete) return;
    if (result != ParseResult::kMessage) return violation(result);
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(used));
    handle(std::move(message));
  }
}

void Link::handle(Message message) {
  switch (message.type) {
    case MessageType::kRequest:
      if (state_ == LinkState::kSilent) return handle_request(std::move(message));
      // TCP has connected the socket to itself, so nobody listens on the port.
      if (state_ == LinkState::kRequested) return lost(ECONNREFUSED);
      break;
    case MessageType::kReply:
      if (state_ == LinkState::kRequested) return handle_reply(std::move(message));
      break;
    case MessageType::kReady:
      if (state_ == LinkState::kReplied) {
        set_state(LinkState::kConnected);
        Service::get().clear_deadline(*this);
        return report(RDMA_CM_EVENT_ESTABLISHED, 0);
      }
      if (std::exchange(forced_, false)) return;
      if (state_ == LinkState::kDisconnecting) return;  // it has crossed the disconnection
      break;
    case MessageType::kReject:
      if (state_ == LinkState::kRequested || state_ == LinkState::kReplied) return handle_reject(message);
      break;
    case MessageType::kDisconnect:
      if (state_ != LinkState::kLeft && (state_ >= LinkState::kReplied || state_ == LinkState::kAnswered)) {
        return handle_disconnect();
      }
      break;
  }
  violation(ParseResult::kMalformed);
}

void Link::handle_request(Message message) {
  if (listener_ == nullptr || listener_->listener == nullptr) return reject(Reject::kNoListener, {});
  SocketAddress local;
  const Device* device = local_address(fd(), local) == 0 ? device_at(local) : nullptr;
  if (device == nullptr || (listener_->device != nullptr && listener_->device != device)) {
    return reject(Reject::kNoListener, {});
  }
  Counters& counters = Service::get().counters;
  if (const int reason = mismatch(*device, message.parameters)) {
    ++counters.mismatched;
    return reject(static_cast<Reject>(reason), {});
  }
  if (listener_->listener->requests >= listener_->listener->requests_max) {
    ++counters.overflowed;
    return reject(Reject::kNoResources, {});
  }
  ++counters.requests;
  set_state(LinkState::kAsked);
  Service::get().clear_deadline(*this);
  received_ = std::move(message);
  auto event = make_event(RDMA_CM_EVENT_CONNECT_REQUEST, received_);
  event->link = shared_from_this();
  ++listener_->listener->requests;
  push(*listener_, std::move(event));
}

void Link::handle_reply(Message message) {
  const Device& device = *owner_->device;
  if (mismatch(device, message.parameters) != 0 || message.parameters.mtu > owner_->local.mtu) {
    return violation(ParseResult::kMalformed);
  }
  set_state(LinkState::kAnswered);
  Service::get().clear_deadline(*this);
  received_ = std::move(message);
  push(*owner_, make_event(RDMA_CM_EVENT_CONNECT_RESPONSE, received_));
}

void Link::handle_reject(const Message& message) {
  if (state_ == LinkState::kRequested && message.reason == Reject::kNoListener && try_again()) return;
  if (state_ == LinkState::kRequested) explain(message);
  if (owner_ != nullptr) {
    auto event = make_event(RDMA_CM_EVENT_REJECTED, message);
    event->api.status = static_cast<int>(message.reason);
    push(*owner_, std::move(event));
  }
  finish();
}

// The answer is the program's: the peer may take it for a sign that this end is ready for its next connection.
void Link::handle_disconnect() {
  report(RDMA_CM_EVENT_DISCONNECTED, 0);
  if (state_ == LinkState::kDisconnecting || owner_ == nullptr) return drain();
  set_state(LinkState::kLeft);
  Service::get().clear_deadline(*this);
}

void Link::violation(ParseResult result) {
  Counters& counters = Service::get().counters;
  ++(result == ParseResult::kWrongVersion ? counters.wrong_version : counters.malformed);
  switch (state_) {
    case LinkState::kSilent:
      if (result == ParseResult::kNotOurs) return finish();
      return reject(result == ParseResult::kWrongVersion ? Reject::kVersion : Reject::kPlanes, {});
    case LinkState::kRequested:
      report(RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO);
      return finish();
    default:
      return lost(EPROTO);
  }
}

// `error` 0: the peer has closed the connection.
void Link::lost(int error) {
  switch (state_) {
    case LinkState::kConnecting:
    case LinkState::kRequested:
      if ((error == 0 || error == ECONNREFUSED || error == ECONNRESET) && try_again()) return;
      if (error == ECONNREFUSED) {
        report(RDMA_CM_EVENT_REJECTED, static_cast<int>(Reject::kNoListener));
      } else if (error == 0 || error == ECONNRESET) {
        report(RDMA_CM_EVENT_REJECTED, static_cast<int>(Reject::kConsumer));
      } else {
        report(RDMA_CM_EVENT_UNREACHABLE, -error);
      }
      break;
    case LinkState::kAsked:
      if (listener_ != nullptr) {
        withdraw(*listener_, this);
      } else {
        report(RDMA_CM_EVENT_REJECTED, static_cast<int>(Reject::kConsumer));
      }
      break;
    case LinkState::kReplied:
      report(RDMA_CM_EVENT_UNREACHABLE, error == 0 ? -ECONNRESET : -error);
      break;
    case LinkState::kAnswered:
    case LinkState::kConnected:
    case LinkState::kDisconnecting:
      report(RDMA_CM_EVENT_DISCONNECTED, error == ECONNRESET ? 0 : -error);
      break;
    case LinkState::kSilent:
    case LinkState::kLeft:
    case LinkState::kDraining:
    case LinkState::kClosed:
      break;
  }
  finish();
}

void Link::reply(const Message& message) {
  set_state(LinkState::kReplied);
  Service::get().set_deadline(*this, kConnect);
  send(message);
}

void Link::confirm() {
  set_state(LinkState::kConnected);
  send({.type = MessageType::kReady});
}

void Link::reject(Reject reason, std::span<const std::uint8_t> data) {
  send({.type = MessageType::kReject, .reason = reason, .data = {data.begin(), data.end()}});
  drain();
}

void Link::disconnect() {
  if (state_ == LinkState::kLeft) {
    send({.type = MessageType::kDisconnect});
    return drain();
  }
  if (state_ != LinkState::kConnected && state_ != LinkState::kReplied) return;
  set_state(LinkState::kDisconnecting);
  Service::get().set_deadline(*this, kDisconnect);
  send({.type = MessageType::kDisconnect});
}

void Link::force_connected() {
  set_state(LinkState::kConnected);
  Service::get().clear_deadline(*this);
  forced_ = true;
  report(RDMA_CM_EVENT_ESTABLISHED, 0);
}

void Link::abandon() {
  owner_ = nullptr;
  switch (state_) {
    case LinkState::kAsked:
      // Without the program's knowledge, if its listener has gone.
      return reject(listener_ != nullptr ? Reject::kNoListener : Reject::kConsumer, {});
    case LinkState::kAnswered:
      return reject(Reject::kConsumer, {});
    case LinkState::kReplied:
    case LinkState::kConnected:
    case LinkState::kLeft:
      return disconnect();
    case LinkState::kDisconnecting:
    case LinkState::kDraining:
      return;
    case LinkState::kConnecting:
    case LinkState::kRequested:
    case LinkState::kSilent:
    case LinkState::kClosed:
      return finish();
  }
}

void Link::finish_silent(const Id& listener) {
  const std::deque<Link*> links = silent_links();
  for (Link* link : links) {
    if (link->listener_ == &listener) link->finish();
  }
}

void Link::drain() {
  if (state_ == LinkState::kClosed) return;
  set_state(LinkState::kDraining);
  if (draining_links().size() >= kDrainingMax) draining_links().front()->finish();
  draining_links().push_back(this);
  Service::get().set_deadline(*this, kDrain);
  closing_ = true;
  if (out_.empty()) ::shutdown(fd(), SHUT_WR);
}

void Link::finish() {
  const std::shared_ptr<Link> self = shared_from_this();
  set_state(LinkState::kClosed);
  Service::get().forget(*this);
  close();
}

void Listener::handle_ready(std::uint32_t) {
  for (std::size_t turn = 0; turn < kAcceptsMax; ++turn) {
    const int accepted = ::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
      std::make_shared<Link>(nic::FileDescriptor(accepted), LinkState::kSilent, nullptr, &owner_)->serve();
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      Service::get().change(*this, 0);
      Service::get().set_deadline(*this, kAcceptPause);
      return;
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void Listener::handle_deadline() { Service::get().change(*this, EPOLLIN); }

}  // namespace openmrc::rdmacm
