#include "verbs/async_events.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "nic/start_thread.hpp"
#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::size_t kQueueMax = 1U << 16;              // a program may never take its events
constexpr auto kPause = std::chrono::microseconds(100);  // between two looks, if paths change their state all the time

// The object of an event; nullptr: a port.
const void* object_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_COMM_EST:
      return event.element.qp;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    default:
      return nullptr;
  }
}

// Errors that no completion reports. Those of a QP's own requests, and of its receives, are in completions.
bool is_silent(QpErrorCause cause, ibv_event_type& type) {
  switch (cause) {
    case QpErrorCause::kAccessViolation:
      type = IBV_EVENT_QP_ACCESS_ERR;
      return true;
    case QpErrorCause::kProtocol:
    case QpErrorCause::kWimmLimit:
      type = IBV_EVENT_QP_REQ_ERR;
      return true;
    case QpErrorCause::kNoReceivePosted:
    case QpErrorCause::kUnexpectedEvent:
    case QpErrorCause::kCqOverrun:
      type = IBV_EVENT_QP_FATAL;
      return true;
    default:
      return false;
  }
}

// Without a lock, which a forked child might find taken.
std::atomic<AsyncEvents*> first_of_all{nullptr};

bool is_readable(int fd) {
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) == 1;
}

void lower(int fd) {
  std::uint64_t one = 0;
  if (is_readable(fd)) static_cast<void>(::eventfd_read(fd, &one));
}

ibv_async_event event_of(Qp& qp, ibv_event_type type) {
  ibv_async_event event{};
  event.element.qp = &qp.api.qp_base;
  event.event_type = type;
  return event;
}

}  // namespace

AsyncEvents::AsyncEvents(nic::Device& device)
    : device_(device), ports_up_(device.look([](const Engine& engine) { return engine.ports_up(); })) {
  nic::start_thread([this] { run(); }).detach();
  next_ = first_of_all.load();
  while (!first_of_all.compare_exchange_weak(next_, this)) continue;
}

void AsyncEvents::run() {
  while (!device_.closed()) {
    guarded([this] {
      {
        const Guard guard(mutex_);
        pump();
      }
      std::this_thread::sleep_for(kPause);
      if (device_.arm_events()) return 0;
      pollfd wait{.fd = device_.event_fd(), .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, -1);
      return 0;
    });
  }
}

void AsyncEvents::pump() {
  std::array<nic::TimedEvent, 64> events;
  while (const std::size_t count = device_.poll_events(events)) {
    for (std::size_t i = 0; i < count; ++i) translate(events[i].event);
  }
}

void AsyncEvents::translate(const Event& event) {
  switch (event.type) {
    case EventType::kQpState:
      return note_state(event);
    case EventType::kPortState:
      if (event.detail == 0) note_port(event.port, event.value != 0);
      return;
    case EventType::kEvState:
      for (const auto& listener : ev_listeners_) listener(event);
      return;
    case EventType::kPeerActive:
      return note_peer(event.qp);
    case EventType::kSrqLimit:
      if (const auto found = srqs_.find(event.value); found != srqs_.end()) {
        ibv_async_event raised{};
        raised.element.srq = &found->second->api;
        raised.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
        raise(*found->second->api.context, raised);
      }
      return;
    default:
      return;
  }
}

void AsyncEvents::note_state(const Event& event) {
  const auto found = qps_.find(event.qp);
  if (found == qps_.end()) return;
  const auto state = static_cast<QpState>(event.value);
  if (state == QpState::kInit) found->second.stopped = found->second.peer_active = false;
  if (state == QpState::kError) note_error(found->second, event.qp, static_cast<QpErrorCause>(event.detail));
}

void AsyncEvents::note_peer(std::uint32_t lane) {
  const auto found = qps_.find(lane);
  if (found == qps_.end() || found->second.peer_active) return;
  Qp& qp = *found->second.qp;
  for (const std::uint32_t number : {qp.mrc, qp.rc}) {
    if (number != 0) qps_[number].peer_active = true;
  }
  raise(*qp.api.qp_base.context, event_of(qp, IBV_EVENT_COMM_EST));
}

void AsyncEvents::note_error(Known& known, std::uint32_t lane, QpErrorCause cause) {
  Qp& qp = *known.qp;
  {
    // A lane that a peer's request has failed takes the other with it, though nothing completes here. The program may
    // have reset both in the meantime.
    const std::lock_guard guard(qp.mutex);
    const bool still = device_.look([&](const Engine& engine) { return engine.qp_state(lane) == QpState::kError; });
    if (still && qp.is_pair()) fail_all_lanes(qp);
  }
  ibv_context& context = *qp.api.qp_base.context;
  if (cause == QpErrorCause::kCqOverrun && qp.init.send_cq == qp.init.recv_cq) {
    ibv_async_event overrun{};
    overrun.element.cq = qp.init.send_cq;
    overrun.event_type = IBV_EVENT_CQ_ERR;
    raise(context, overrun);
  }
  ibv_event_type type{};
  if (is_silent(cause, type)) raise(context, event_of(qp, type));
  if (qp.init.srq == nullptr || known.stopped) return;
  for (const std::uint32_t number : {qp.mrc, qp.rc}) {
    if (number != 0) qps_[number].stopped = true;
  }
  raise(context, event_of(qp, IBV_EVENT_QP_LAST_WQE_REACHED));
}

void AsyncEvents::note_port(PortId port, bool up) {
  const PortMask bit = PortMask{1} << port;
  const PortMask before = ports_up_;
  ports_up_ = up ? before | bit : before & ~bit;
  if ((before == 0) == (ports_up_ == 0)) return;
  ibv_async_event event{};
  event.element.port_num = 1;
  event.event_type = ports_up_ == 0 ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE;
  for (const auto& [context, queue] : contexts_) raise(*context, event);
}

void AsyncEvents::raise(ibv_context& context, const ibv_async_event& event) {
  const auto found = contexts_.find(&context);
  if (found == contexts_.end() || found->second.size() >= kQueueMax) return;
  found->second.push_back(event);
  ::eventfd_write(context.async_fd, 1);
}

void AsyncEvents::add(ibv_context& context) {
  const Guard guard(mutex_);
  contexts_.try_emplace(&context);
}

void AsyncEvents::remove(ibv_context& context) {
  if (device_.closed()) return;
  const Guard guard(mutex_);
  contexts_.erase(&context);
}

void AsyncEvents::add(Qp& qp) {
  const Guard guard(mutex_);
  pump();  // an earlier QP may have had the same numbers
  for (const std::uint32_t lane : {qp.mrc, qp.rc}) {
    if (lane != 0) qps_[lane] = {.qp = &qp};
  }
}

void AsyncEvents::add(Srq& srq) {
  const Guard guard(mutex_);
  srqs_[srq.id] = &srq;
}

void AsyncEvents::listen(std::function<void(const Event&)> listener) {
  const Guard guard(mutex_);
  ev_listeners_.push_back(std::move(listener));
}

void AsyncEvents::remove(Qp& qp) {
  if (device_.closed()) return;
  Guard guard(mutex_);
  std::erase_if(qps_, [&](const auto& one) { return one.second.qp == &qp; });
  forget(guard, *qp.api.qp_base.context, &qp);
}

void AsyncEvents::remove(Srq& srq) {
  if (device_.closed()) return;
  Guard guard(mutex_);
  srqs_.erase(srq.id);
  forget(guard, *srq.api.context, &srq);
}

void AsyncEvents::remove(Cq& cq) {
  if (device_.closed()) return;
  Guard guard(mutex_);
  forget(guard, *cq.api.context, &cq);
}

void AsyncEvents::forget(Guard& guard, ibv_context& context, const void* object) {
  if (const auto found = contexts_.find(&context); found != contexts_.end()) {
    std::size_t dropped = std::erase_if(found->second, [&](const auto& one) { return object_of(one) == object; });
    for (; dropped > 0; --dropped) lower(context.async_fd);
  }
  acknowledged_.wait(guard, [&] { return !taken_.contains(object); });
}

// The thread may be cancelled while it waits, as in the read() of other implementations: it holds nothing then.
int AsyncEvents::take(ibv_context& context, ibv_async_event& event) {
  while (true) {
    if (device_.closed()) return EPERM;
    const bool waits = (::fcntl(context.async_fd, F_GETFL) & O_NONBLOCK) == 0;
    pollfd one{.fd = context.async_fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&one, 1, waits ? -1 : 0);
    if (ready < 0) return errno;
    if (ready == 0) return EAGAIN;
    if ((one.revents & POLLNVAL) != 0) return EBADF;
    bool taken = false;
    const int error = guarded([&] { return take_queued(context, event, taken); });
    if (error != 0 || taken) return error;
  }
}

int AsyncEvents::take_queued(ibv_context& context, ibv_async_event& event, bool& taken) {
  const Guard guard(mutex_);
  const auto found = contexts_.find(&context);
  if (found == contexts_.end()) return EBADF;
  lower(context.async_fd);
  if (found->second.empty()) return 0;
  event = found->second.front();
  found->second.pop_front();
  if (const void* object = object_of(event)) ++taken_[object];
  taken = true;
  return 0;
}

void AsyncEvents::acknowledge(const ibv_async_event& event) {
  const void* object = object_of(event);
  if (object == nullptr) return;
  for (AsyncEvents* one = first_of_all; one != nullptr; one = one->next_) one->acknowledge_object(object);
}

void AsyncEvents::acknowledge_object(const void* object) {
  if (device_.closed()) return;
  const Guard guard(mutex_);
  const auto found = taken_.find(object);
  if (found == taken_.end() || --found->second > 0) return;
  taken_.erase(found);
  acknowledged_.notify_all();
}

VERBS_API int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const bool valid = context != nullptr && event != nullptr && is_live(&Context::of(context));
  const int error = valid ? Context::of(context).nic->events().take(*context, *event) : EINVAL;
  if (error == 0) return 0;
  errno = error;
  return -1;
}

VERBS_API void ibv_ack_async_event(ibv_async_event* event) {
  if (event != nullptr) AsyncEvents::acknowledge(*event);
}

}  // namespace openmrc::verbs
