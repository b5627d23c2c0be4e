// Waiting and waking: the system calls of a device that its sockets do not make, counted. Thread safe.
#pragma once

#include <poll.h>
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "nic/clock.hpp"
#include "nic/file_descriptor.hpp"

namespace openmrc::nic {

struct WaitStats {
  std::uint64_t wait_calls = 0;      // epoll_pwait2, epoll_wait, ppoll: those that return at once included
  std::uint64_t wakeups = 0;         // of these: had leave to sleep, and ended before their time was over
  std::uint64_t eventfd_writes = 0;  // to wake the I/O thread, or threads that wait for completions or events
  std::uint64_t eventfd_reads = 0;
  std::uint64_t yields = 0;  // sched_yield of the I/O thread while another one wants the engine's lock
};

class Waits {
 public:
  // These answer as the system calls do. nullopt: without end.
  int poll(std::span<pollfd> fds, std::optional<TimeNs> span);
  // With the precision of the timers where the kernel offers it (5.11) and no sandbox forbids it, else rounded up to
  // milliseconds.
  int poll(const FileDescriptor& epoll, std::span<epoll_event> events, TimeNs span);
  // By poll(2), which every sandbox has, rounded up to milliseconds.
  int poll_coarsely(std::span<pollfd> fds, TimeNs span);

  void ring(const FileDescriptor& eventfd);
  void clear(const FileDescriptor& eventfd);
  void yield();

  WaitStats stats() const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void count(Counter& counter) { counter.fetch_add(1, std::memory_order_relaxed); }
  int counted(int ready, bool may_sleep);

  Counter wait_calls_{0}, wakeups_{0}, eventfd_writes_{0}, eventfd_reads_{0}, yields_{0};
};

}  // namespace openmrc::nic
