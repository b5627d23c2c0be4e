#include "rdmacm/service.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <utility>

#include "nic/start_thread.hpp"
#include "rdmacm/objects.hpp"

namespace openmrc::rdmacm {
namespace {

constexpr int kEventsMax = 64;
constexpr std::uint64_t kWakeToken = 0;

// Never destroyed: its thread runs until the process ends. Not a static object of get(): a fork while one is made would
// leave the child waiting for the end of that.
constinit std::mutex making;
constinit std::atomic<Service*> made{nullptr};

void before_fork() {
  making.lock();
  if (Service* service = made) service->mutex.lock();
  lock_devices();
}

void after_fork() {
  unlock_devices();
  if (Service* service = made) service->mutex.unlock();
  making.unlock();
}

void after_fork_in_child() {
  if (Service* service = made) service->become_child();
  after_fork();
}

// While the library is loaded, before any thread can hold the locks. A child of a process that has used nothing of this
// library may use it.
[[maybe_unused]] const int installed = ::pthread_atfork(before_fork, after_fork, after_fork_in_child);

}  // namespace

Service& Service::get() {
  if (Service* service = made.load(std::memory_order_acquire)) return *service;
  const std::lock_guard guard(making);
  if (made == nullptr) made = new Service;
  return *made;
}

int Service::start() {
  nic::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return errno;
  nic::FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return errno;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) return errno;
  nic::start_thread([this] { run(); }).detach();
  // The thread looks at them under the mutex first.
  epoll_ = std::move(epoll);
  wake_ = std::move(wake);
  started_ = true;
  return 0;
}

// The connections stay the parent's alone: a copy here would keep them open after the parent has closed them.
void Service::become_child() {
  lost_ = true;
  for (auto& [token, watched] : watched_) watched->close();
  for (Id* id : ids()) id->socket.reset();
  // The child may use these numbers for files of its own.
  epoll_.reset();
  wake_.reset();
}

int Service::watch(const std::shared_ptr<Watched>& watched, std::uint32_t events) {
  if (!started_) {
    if (const int error = start()) return error;
  }
  epoll_event event{};
  event.events = events;
  event.data.u64 = tokens_ + 1;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watched->fd(), &event) != 0) return errno;
  watched->token_ = ++tokens_;
  watched_[watched->token_] = watched;
  return 0;
}

void Service::change(Watched& watched, std::uint32_t events) {
  if (watched.token_ == 0) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = watched.token_;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watched.fd(), &event);
}

void Service::forget(Watched& watched) {
  if (watched.token_ == 0) return;
  clear_deadline(watched);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched.fd(), nullptr);
  const std::uint64_t token = std::exchange(watched.token_, 0);
  watched_.erase(token);  // may destroy `watched`
}

void Service::set_deadline(Watched& watched, std::chrono::milliseconds from_now) {
  clear_deadline(watched);
  watched.deadline_ = std::chrono::steady_clock::now() + from_now;
  const bool first = deadlines_.empty() || watched.deadline_ < deadlines_.begin()->first;
  deadlines_.emplace(watched.deadline_, watched.token_);
  if (first) ::eventfd_write(wake_.get(), 1);
}

void Service::clear_deadline(Watched& watched) {
  if (watched.deadline_ == Time{}) return;
  deadlines_.erase({watched.deadline_, watched.token_});
  watched.deadline_ = {};
}

// Rounded up, so that a deadline has passed when the wait ends.
int Service::timeout_ms() {
  const std::lock_guard guard(mutex);
  if (deadlines_.empty()) return -1;
  const auto left = deadlines_.begin()->first - std::chrono::steady_clock::now();
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

// Out of memory, the connection ends instead of the process.
template <typename Handler>
void Service::contain(Watched& watched, Handler&& handler) {
  try {
    handler();
  } catch (const std::exception&) {
    forget(watched);
    watched.close();
  }
}

void Service::expire() {
  const Time now = std::chrono::steady_clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const std::shared_ptr<Watched> watched = watched_.at(deadlines_.begin()->second);
    clear_deadline(*watched);
    contain(*watched, [&] { watched->handle_deadline(); });
  }
}

void Service::run() {
  std::array<epoll_event, kEventsMax> events;
  while (true) {
    const int timeout = timeout_ms();
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, timeout);
    const std::lock_guard guard(mutex);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
      if (token == kWakeToken) {
        eventfd_t ignored = 0;
        ::eventfd_read(wake_.get(), &ignored);
        continue;
      }
      const auto found = watched_.find(token);
      if (found == watched_.end()) continue;  // closed by an earlier event of this batch
      const std::shared_ptr<Watched> watched = found->second;
      contain(*watched, [&] { watched->handle_ready(events[static_cast<std::size_t>(i)].events); });
    }
    expire();
  }
}

}  // namespace openmrc::rdmacm
