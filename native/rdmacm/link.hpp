// The TCP connection of two ends, and listening sockets. States are advanced by messages and by the program's calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rdmacm/api.hpp"
#include "rdmacm/message.hpp"
#include "rdmacm/service.hpp"
#include "rdmacm/socket_address.hpp"

namespace openmrc::rdmacm {

struct Id;

enum class LinkState : std::uint8_t {
  kConnecting,  // client: TCP has not connected
  kRequested,   // client: waits for a reply
  kAnswered,    // client: the program has not confirmed the reply
  kSilent,      // server: waits for a request
  kAsked,       // server: waits for the program's decision
  kReplied,     // server: waits for the client's confirmation
  kConnected,
  kLeft,           // the peer has disconnected, the program has not
  kDisconnecting,  // waits for the peer's agreement
  kDraining,       // has sent its last message; unread bytes would turn it into a reset
  kClosed,
};

class Link final : public Watched, public std::enable_shared_from_this<Link> {
 public:
  Link(nic::FileDescriptor fd, LinkState state, Id* owner, Id* listener);
  ~Link() override { set_state(LinkState::kClosed); }

  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override;

  // Starts a client's connection. Failures become events.
  void connect(const SocketAddress& to, Message request);
  // Starts to serve an accepted connection; an errno.
  int serve();
  void reply(const Message& message);
  void confirm();
  void reject(Reject reason, std::span<const std::uint8_t> data);
  void disconnect();
  // The confirmation has come by other means (rdma_notify).
  void force_connected();
  // The program has destroyed its id, or has never had one.
  void abandon();
  // Closes the connections to `listener` that have sent no request.
  static void finish_silent(const Id& listener);

  LinkState state() const { return state_; }
  const Message& received() const { return received_; }
  void set_owner(Id* owner) { owner_ = owner; }
  Id* listener() const { return listener_; }
  void clear_listener() { listener_ = nullptr; }

 private:
  void attempt();
  bool try_again();
  void handle_connected();
  void flush();
  void read();
  void parse_received();
  void handle(Message message);
  bool handle_setup(Message& message);
  void handle_request(Message message);
  void handle_reply(Message message);
  void handle_reject(const Message& message);
  void handle_disconnect();
  void violation(ParseResult result);
  void lost(int error);
  void send(const Message& message);
  void drain();
  void finish();
  void report(rdma_cm_event_type type, int status);
  void set_state(LinkState state);

  LinkState state_;
  Id* owner_;     // nullptr: none, or destroyed
  Id* listener_;  // until the program has fetched the request
  bool forced_ = false;
  bool closing_ = false;  // all is sent: close the sending direction
  std::size_t drained_ = 0;
  std::vector<std::uint8_t> in_, out_;
  Message received_;  // the request or reply of the peer
  Message request_;   // sent when TCP has connected
  SocketAddress peer_;
  Time try_until_{};
  bool pausing_ = false;  // before the next attempt to connect
};

class Listener final : public Watched {
 public:
  Listener(nic::FileDescriptor fd, Id& owner, std::size_t limit)
      : Watched(std::move(fd)), requests_max(limit), owner_(owner) {}

  void handle_ready(std::uint32_t events) override;
  void handle_deadline() override;

  const std::size_t requests_max;
  std::size_t requests = 0;  // that the program has not fetched

 private:
  Id& owner_;
};

}  // namespace openmrc::rdmacm
