// The thread that serves the sockets of the connection manager, and the lock of everything in this library. It sleeps
// unless a socket is ready or a deadline passes, and starts when the first socket appears.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "nic/file_descriptor.hpp"

namespace openmrc::rdmacm {

using Time = std::chrono::steady_clock::time_point;

// A socket with a handler. Handlers run on the service's thread and under its mutex.
class Watched {
 public:
  explicit Watched(nic::FileDescriptor fd) : fd_(std::move(fd)) {}
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  virtual void handle_ready(std::uint32_t events) = 0;
  virtual void handle_deadline() = 0;
  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  // While it is not watched.
  void replace(nic::FileDescriptor fd) { fd_ = std::move(fd); }
  nic::FileDescriptor take() { return std::move(fd_); }

 private:
  friend class Service;
  nic::FileDescriptor fd_;
  std::uint64_t token_ = 0;  // 0: not watched
  Time deadline_{};          // zero: none
};

// Of what peers have sent or omitted.
struct Counters {
  std::uint64_t requests;       // accepted by the parser, and handed to the program
  std::uint64_t malformed;      // messages that are not of this protocol, or not in this place
  std::uint64_t wrong_version;  // connections of another version
  std::uint64_t mismatched;     // requests of a peer with other settings
  std::uint64_t silent;         // connections closed because no request came, or too many waited
  std::uint64_t overflowed;     // requests refused because too many wait for the program
};

class Service {
 public:
  static Service& get();

  std::mutex mutex;
  Counters counters{};

  // True in a forked child, where nothing works.
  bool lost() const { return lost_; }
  // All of these under the mutex. Returns an errno.
  int watch(const std::shared_ptr<Watched>& watched, std::uint32_t events);
  void change(Watched& watched, std::uint32_t events);
  // The service drops its reference; the descriptor stays open.
  void forget(Watched& watched);
  void set_deadline(Watched& watched, std::chrono::milliseconds from_now);
  void clear_deadline(Watched& watched);
  // In a forked child.
  void become_child();

 private:
  int start();
  void run();
  int timeout_ms();
  void expire();
  template <typename Handler>
  void contain(Watched& watched, Handler&& handler);

  bool started_ = false;
  bool lost_ = false;
  nic::FileDescriptor epoll_, wake_;
  std::uint64_t tokens_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Watched>> watched_;
  std::set<std::pair<Time, std::uint64_t>> deadlines_;
};

}  // namespace openmrc::rdmacm
