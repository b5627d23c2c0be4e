#include "nic/waits.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <thread>

#include "nic/no_cancellation.hpp"
#include "nic/uncancelled.hpp"

namespace openmrc::nic {
namespace {

timespec to_timespec(TimeNs span) {
  return {static_cast<time_t>(span / kNsPerSecond), static_cast<long>(span % kNsPerSecond)};
}

int to_ms(TimeNs span) { return static_cast<int>((span + kNsPerMs - 1) / kNsPerMs); }

int wait_events(int epoll, std::span<epoll_event> events, TimeNs span) {
  static std::atomic<bool> precise{true};
  const int count = static_cast<int>(events.size());
  if (precise.load(std::memory_order_relaxed)) {
    const timespec timeout = to_timespec(span);
    const long answer = ::syscall(SYS_epoll_pwait2, epoll, events.data(), count, &timeout, nullptr, 0);
    if (answer >= 0 || errno == EINTR) return static_cast<int>(answer);
    precise.store(false, std::memory_order_relaxed);
  }
  const NoCancellation within;
  return ::epoll_wait(epoll, events.data(), count, to_ms(span));
}

}  // namespace

// Preserves errno.
int Waits::counted(int ready, bool may_sleep) {
  count(wait_calls_);
  if (may_sleep && ready > 0) count(wakeups_);
  return ready;
}

int Waits::poll(std::span<pollfd> fds, std::optional<TimeNs> span) {
  const NoCancellation within;
  const timespec timeout = to_timespec(span.value_or(0));
  const int ready = ::ppoll(fds.data(), fds.size(), span ? &timeout : nullptr, nullptr);
  return counted(ready, span != 0);
}

int Waits::poll_coarsely(std::span<pollfd> fds, TimeNs span) {
  const NoCancellation within;
  return counted(::poll(fds.data(), fds.size(), to_ms(span)), span != 0);
}

int Waits::poll(const FileDescriptor& epoll, std::span<epoll_event> events, TimeNs span) {
  return counted(wait_events(epoll.get(), events, span), span != 0);
}

void Waits::ring(const FileDescriptor& eventfd) {
  // A full counter means that the descriptor is readable already, as intended.
  [[maybe_unused]] const ssize_t written = uncancelled::write(eventfd.get(), 1);
  count(eventfd_writes_);
}

void Waits::clear(const FileDescriptor& eventfd) {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t bytes = uncancelled::read(eventfd.get(), rings);
  count(eventfd_reads_);
}

bool Waits::set(TakeoverTimer& timer, TimeNs at) {
  count(timer_calls_);
  return timer.set(at);
}

void Waits::clear(TakeoverTimer& timer) {
  count(timer_calls_);
  timer.clear();
}

void Waits::yield() {
  std::this_thread::yield();
  count(yields_);
}

WaitStats Waits::stats() const {
  const auto value = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  return {value(wait_calls_),    value(wakeups_),     value(eventfd_writes_),
          value(eventfd_reads_), value(timer_calls_), value(yields_)};
}

}  // namespace openmrc::nic
