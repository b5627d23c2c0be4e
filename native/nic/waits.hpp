// Waiting and waking: the system calls of a device other than those of its sockets, counted. Thread safe.
#pragma once

#include <poll.h>
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "nic/clock.hpp"
#include "nic/file_descriptor.hpp"
#include "nic/generated/statistics.hpp"
#include "nic/takeover_timer.hpp"

namespace openmrc::nic {

class Waits {
 public:
  // Results are those of the system calls. nullopt: no timeout.
  int poll(std::span<pollfd> fds, std::optional<TimeNs> span);
  // With the precision of the timers if the kernel (5.11) and the sandbox allow it, else rounded up to milliseconds.
  int poll(const FileDescriptor& epoll, std::span<epoll_event> events, TimeNs span);
  // Uses poll(2), which every sandbox has, rounded up to milliseconds.
  int poll_coarsely(std::span<pollfd> fds, TimeNs span);

  void ring(const FileDescriptor& eventfd);
  void clear(const FileDescriptor& eventfd);
  bool set(TakeoverTimer& timer, TimeNs at);
  void clear(TakeoverTimer& timer);
  void yield();

  WaitStats stats() const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void count(Counter& counter) { counter.fetch_add(1, std::memory_order_relaxed); }
  int counted(int ready, bool may_sleep);

  Counter wait_calls_{0}, wakeups_{0}, eventfd_writes_{0}, eventfd_reads_{0}, timer_calls_{0}, yields_{0};
};

}  // namespace openmrc::nic
