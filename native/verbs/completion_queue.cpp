// Completion queues, and channels that announce completions through one descriptor.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

int create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector, Cq*& out) {
  if (context == nullptr || !is_live(&Context::of(context))) return EINVAL;
  if (entries < 1 || entries > kCqeMax || vector != 0) return EINVAL;
  if (channel != nullptr && !is_live(channel)) return EINVAL;
  auto cq = std::make_unique<Cq>();
  nic::Device& device = Context::of(context).nic->device();
  // The engine also completes work whose completion the program has not asked for, for which `entries` has no room.
  const Status status = device.create_cq(static_cast<std::uint32_t>(entries + kCqeMax), cq->id);
  if (status != Status::kOk) return errno_of(status);
  cq->polled = device.cq_handle(cq->id);
  if (cq->polled == nullptr) return ENODEV;  // the device has been closed meanwhile
  cq->api.context = context;
  cq->api.channel = channel;
  cq->api.cq_context = user;
  cq->api.cqe = entries;
  cq->api.handle = cq->id;
  ::pthread_mutex_init(&cq->api.mutex, nullptr);
  ::pthread_cond_init(&cq->api.cond, nullptr);
  if (channel != nullptr) {
    const std::lock_guard guard(Channel::of(channel).mutex);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = cq.get();
    if (::epoll_ctl(channel->fd, EPOLL_CTL_ADD, device.cq_fd(cq->id), &event) != 0) {
      const int error = errno;
      device.destroy_cq(cq->id);
      return error;
    }
    ++channel->refcnt;
  }
  ++Context::of(context).children;
  out = cq.release();
  add_live(out);
  return 0;
}

void await_acks(Cq& cq, std::uint32_t events) {
  ::pthread_mutex_lock(&cq.api.mutex);
  while (cq.api.comp_events_completed != events) ::pthread_cond_wait(&cq.api.cond, &cq.api.mutex);
  ::pthread_mutex_unlock(&cq.api.mutex);
}

int destroy_cq(Cq& cq) {
  cq.nic().device().check_process();
  if (cq.users != 0) return EBUSY;
  cq.nic().drainer().remove(cq);
  cq.nic().events().remove(cq);
  nic::Device& device = cq.nic().device();
  std::uint32_t events = 0;
  if (cq.api.channel != nullptr) {
    Channel& channel = Channel::of(cq.api.channel);
    const std::lock_guard guard(channel.mutex);
    if (!device.closed()) ::epoll_ctl(channel.api.fd, EPOLL_CTL_DEL, device.cq_fd(cq.id), nullptr);
    cq.closing = true;
    events = cq.events;
  }
  await_acks(cq, events);
  device.destroy_cq(cq.id);
  if (cq.api.channel != nullptr) {
    Channel& channel = Channel::of(cq.api.channel);
    const std::lock_guard guard(channel.mutex);  // a thread in take_event may be looking at the CQ
    remove_live(&cq);
    --channel.api.refcnt;
  } else {
    remove_live(&cq);
  }
  --Context::of(cq.api.context).children;
  ::pthread_cond_destroy(&cq.api.cond);
  ::pthread_mutex_destroy(&cq.api.mutex);
  delete &cq;
  return 0;
}

// The CQ whose event is taken; nullptr: another thread was faster.
Cq* take_event(Channel& channel, Cq* from) {
  const std::lock_guard guard(channel.mutex);
  // It may be gone, and another one at its address.
  if (!is_live(from) || from->api.channel != &channel.api || from->closing) return nullptr;
  const int fd = from->nic().device().cq_fd(from->id);
  std::uint64_t count = 0;
  if (::read(fd, &count, sizeof count) != sizeof count) return nullptr;
  if (count > 1) ::eventfd_write(fd, count - 1);
  ++from->events;
  return from;
}

// The thread may be cancelled while it waits, as in the read() of other implementations: it holds nothing then.
int await_event(Channel& channel, Cq*& taken) {
  // The epoll set is shared with the parent of a fork, whose events are not the child's.
  if (Context::of(channel.api.context).nic->device().closed()) return EPERM;
  while (taken == nullptr) {
    const bool waits = (::fcntl(channel.api.fd, F_GETFL) & O_NONBLOCK) == 0;
    epoll_event event{};
    const int count = ::epoll_wait(channel.api.fd, &event, 1, waits ? -1 : 0);
    if (count < 0) return errno;
    if (count == 0) return EAGAIN;
    const int error = guarded([&] {
      taken = take_event(channel, static_cast<Cq*>(event.data.ptr));
      return 0;
    });
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

int req_notify_cq(ibv_cq* api, int) {
  return guarded([&] {
    Cq& cq = Cq::of(api);
    cq.nic().device().check_process();
    const std::lock_guard guard(cq.mutex);
    const std::lock_guard late(cq.late_mutex);
    cq.armed = true;
    nic::Device& device = cq.nic().device();
    // With completions there already, an event at once: it may be early, but none is lost.
    const bool there = !cq.ready.empty() || !cq.late.empty();
    if (device.listen_cq(cq.id) || there) ::eventfd_write(device.cq_fd(cq.id), 1);
    return 0;
  });
}

void complete_here(Cq& cq, const ibv_wc& completion) {
  const std::lock_guard guard(cq.late_mutex);
  cq.late.push_back(completion);
  cq.stored.store(true, std::memory_order_release);
  if (!cq.armed) return;
  cq.armed = false;
  ::eventfd_write(cq.nic().device().cq_fd(cq.id), 1);
}

VERBS_API ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector) {
  Cq* cq = made<Cq>([&](Cq*& out) { return create_cq(context, entries, user, channel, vector, out); });
  return reinterpret_cast<ibv_cq*>(cq);
}

VERBS_API int ibv_resize_cq(ibv_cq* cq, int entries) {
  if (!is_live(cq) || entries < 1 || entries > kCqeMax) return EINVAL;
  return entries <= cq->cqe ? 0 : EOPNOTSUPP;
}

VERBS_API int ibv_destroy_cq(ibv_cq* cq) {
  if (!is_live(cq)) return EINVAL;
  return guarded([&] { return destroy_cq(Cq::of(cq)); });
}

VERBS_API ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  Channel* channel = made<Channel>([&](Channel*& out) {
    if (context == nullptr || !is_live(&Context::of(context))) return EINVAL;
    const int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) return errno;
    out = new Channel{};
    out->api.context = context;
    out->api.fd = fd;
    ++Context::of(context).children;
    add_live(out);
    return 0;
  });
  return channel == nullptr ? nullptr : &channel->api;
}

VERBS_API int ibv_destroy_comp_channel(ibv_comp_channel* api) {
  if (!is_live(api)) return EINVAL;
  if (Context::of(api->context).nic->device().closed()) return EPERM;
  const nic::NoCancellation uncancelled;
  {
    const std::lock_guard guard(Channel::of(api).mutex);
    if (api->refcnt != 0) return EBUSY;
    if (!remove_live(api)) return EINVAL;
  }
  --Context::of(api->context).children;
  ::close(api->fd);
  delete &Channel::of(api);
  return 0;
}

VERBS_API int ibv_get_cq_event(ibv_comp_channel* api, ibv_cq** cq, void** user) {
  if (!is_live(api) || cq == nullptr || user == nullptr) {
    errno = EINVAL;
    return -1;
  }
  Cq* taken = nullptr;
  const int error = await_event(Channel::of(api), taken);
  if (error != 0) {
    errno = error;
    return -1;
  }
  *cq = reinterpret_cast<ibv_cq*>(taken);
  *user = taken->api.cq_context;
  return 0;
}

VERBS_API void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  if (!is_live(cq)) return;
  ::pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  ::pthread_cond_broadcast(&cq->cond);
  ::pthread_mutex_unlock(&cq->mutex);
}

}  // namespace openmrc::verbs
