// Set-up of connections over TCP, in steps that never block. A host that falls silent during the set-up makes it fail
// after 20 seconds; a process that is slow does not, since its kernel answers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "nccl/comm.hpp"
#include "nccl/messages.hpp"
#include "nic/file_descriptor.hpp"

namespace openmrc::nccl {

// A TCP connection from which messages of known sizes are read.
class Channel {
 public:
  explicit Channel(nic::FileDescriptor socket) : socket_(std::move(socket)) {}

  enum class Read : std::uint8_t { kWait, kDone, kEnd };
  Read read(std::size_t bytes);  // into message(); kEnd: the peer has closed or reset the connection
  ConstBytes message() const { return message_; }
  void next() { message_.clear(); }
  void write(ConstBytes bytes);  // throws Failure
  nic::FileDescriptor& socket() { return socket_; }

 private:
  nic::FileDescriptor socket_;
  std::vector<std::uint8_t> message_;
};

class Listener {
 public:
  explicit Listener(std::shared_ptr<Adapter> adapter);  // throws nic::NicError

  void write_handle(Bytes out) const;
  // A connected end, or nullptr: not yet. Throws Failure if a peer that knows the handle breaks the rules or ends.
  std::unique_ptr<RecvComm> accept();
  // In a forked child, whose copies would keep the port and connections open: closes them.
  void abandon();

 private:
  struct Incoming {
    Channel channel;
    nic::TimeNs deadline = 0;  // of strangers
    std::unique_ptr<RecvComm> comm;
    EndDescription theirs;
    std::uint32_t room = 0;
    bool dropped = false;
  };

  void take_connections();
  bool step(Incoming& incoming);  // true: connected
  bool greet(Incoming& incoming);

  std::shared_ptr<Adapter> adapter_;
  nic::FileDescriptor socket_;
  Handle handle_;
  std::deque<Incoming> incoming_;
};

class Connector {
 public:
  Connector(std::shared_ptr<Adapter> adapter, const Handle& handle);  // throws Failure or nic::NicError

  // A connected end, or nullptr: not yet. Throws Failure.
  std::unique_ptr<SendComm> step();
  void abandon() { channel_.socket().reset(); }  // in a forked child

 private:
  bool connected();

  std::shared_ptr<Adapter> adapter_;
  Handle handle_;
  Channel channel_;
  nic::TimeNs deadline_;  // of the TCP connection
  std::unique_ptr<SendComm> comm_;
  bool greeted_ = false;
};

}  // namespace openmrc::nccl
