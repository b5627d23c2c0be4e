#include "nic/device.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "engine/base/assert.hpp"

namespace openmrc::nic {
namespace {

constexpr std::uint32_t kBurstsPerTurn = 64;      // then the receive sockets get their turn again
constexpr std::uint32_t kBurstsPerCommand = 256;  // then the I/O thread goes on
constexpr std::size_t kEventsMax = 1U << 16;
constexpr std::size_t kEndpointResultsMax = 1U << 12;
constexpr TimeNs kBusyGrace = kNsPerMs;       // after this long without progress() the I/O thread takes over again
constexpr TimeNs kDeferMax = 500 * kNsPerUs;  // acknowledgements of a polling thread wait this long
// More than this at a look is a stream, or a message whose sender waits for the end of it: acknowledge at once.
constexpr std::uint32_t kBulkDatagrams = 4;
constexpr std::uint64_t kBulkBytes = 1024;
constexpr TimeNs kSleepMax = 10 * kNsPerSecond;

constexpr TimeNs kEndpointLook = 20 * kNsPerUs;  // between looks of a polling thread at endpoint operations

constexpr TimeNs kPause = kNsPerMs;              // after a refusal that nothing announces the end of
constexpr TimeNs kLinkCheck = kNsPerSecond;      // for an interface that is gone, besides the kernel's notices
constexpr TimeNs kFaultInterval = kNsPerSecond;  // between two events about one port's refusals

enum class Source : std::uint32_t { kReceive, kEndpoint, kBlocked, kWake, kLinks };

std::uint64_t tag(Source source, std::size_t port = 0) {
  return (static_cast<std::uint64_t>(source) << 32) | static_cast<std::uint64_t>(port);
}

FileDescriptor make_eventfd() {
  FileDescriptor fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.valid()) throw NicError(errno, "cannot create an eventfd");
  return fd;
}

bool watch(const FileDescriptor& epoll, int operation, int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return ::epoll_ctl(epoll.get(), operation, fd, &event) == 0;
}

void require(bool watched) {
  if (!watched) throw NicError(errno, "cannot watch a socket");
}

HashKey draw_secret() {
  HashKey secret;
  if (::getrandom(&secret, sizeof secret, 0) != sizeof secret) throw NicError(errno, "cannot draw random numbers");
  return secret;
}

EngineConfig engine_config(const Settings& settings, std::span<const std::unique_ptr<Port>> ports) {
  EngineConfig config;
  config.seed = settings.seed;
  config.secret = draw_secret();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    PortConfig port{settings.ports[i].advertise, true, {}};
    for (const Ev& ev : ports[i]->evs()) port.evs.push_back(ev.value);
    config.ports.push_back(std::move(port));
  }
  config.partition_key = settings.partition_key;
  config.udp_port = settings.udp_port;
  config.ev_format = settings.ev_format;
  config.endpoint_retry = settings.endpoint_retry;
  config.endpoint_retries = settings.endpoint_retries;
  config.plane_burst_packets = settings.plane_burst_packets;
  config.answer_strangers = settings.answer_strangers;
  config.reverse_probe_interval = settings.reverse_probe_interval;
  return config;
}

}  // namespace

void Device::Waker::signal(Waits& waits) {
  pending = true;
  if (armed) {
    armed = false;
    waits.ring(fd);
  }
}

Device::Device(const Settings& settings) : settings_(settings), buffers_(make_receive_buffers()) {
  MRC_ASSERT(!settings_.ports.empty() && settings_.ports.size() <= kPortCountMax);
  const std::unique_lock guard(lock_);  // a fork waits until the device is whole
  std::uint32_t next_source_port = settings_.first_source_port;
  for (std::size_t i = 0; i < settings_.ports.size(); ++i) {
    ports_.push_back(std::make_unique<Port>(static_cast<PortId>(i), settings_.ports[i], settings_, next_source_port));
  }
  engine_ = std::make_unique<Engine>(engine_config(settings_, ports_));
  wake_fd_ = make_eventfd();
  event_waker_.fd = make_eventfd();
  for (FileDescriptor* epoll : {&epoll_, &io_epoll_}) {
    *epoll = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll->valid()) throw NicError(errno, "cannot create an epoll instance");
  }
  for (PortId id = 0; id < ports_.size(); ++id) require(watch_receiving(id, EPOLL_CTL_ADD));
  require(watch(io_epoll_, EPOLL_CTL_ADD, wake_fd_.get(), EPOLLIN, tag(Source::kWake)));
  const auto names_interface = [](const PortSettings& port) { return !port.interface.empty(); };
  if (std::any_of(settings_.ports.begin(), settings_.ports.end(), names_interface)) links_.open();
  if (links_.fd() >= 0) require(watch(io_epoll_, EPOLL_CTL_ADD, links_.fd(), EPOLLIN, tag(Source::kLinks)));
  all_ports_ = static_cast<PortMask>((1ULL << ports_.size()) - 1);
  free_ports_ = carriers_ = attached_ = all_ports_;
  thread_ = std::thread([this] { run(); });
}

Device::~Device() { close(); }

void Device::close() {
  if (lock_.lost()) return;
  const std::lock_guard closing(close_mutex_);
  if (closed_.exchange(true)) return;
  stop_.store(true);
  waits_.ring(wake_fd_);
  thread_.join();
  const std::unique_lock guard(lock_);
  for (const std::unique_ptr<Port>& port : ports_) {
    final_socket_stats_.push_back(port->stats());
    for (const Ev& ev : port->evs()) final_evs_.push_back(ev);
  }
  free_ports_ = 0;
  ports_.clear();
  // Whoever waits for a completion looks again and finds the device closed.
  for (auto& [cq, waker] : cq_wakers_) waits_.ring(waker->fd);
  waits_.ring(event_waker_.fd);
}

// --- interfaces

bool Device::watch_receiving(PortId id, int operation) {
  bool watched = true;
  for (const FileDescriptor* epoll : {&epoll_, &io_epoll_}) {
    watched = watch(*epoll, operation, ports_[id]->receive_fd(), EPOLLIN, tag(Source::kReceive, id)) && watched;
  }
  resting_ &= ~(PortMask{1} << id);
  return watch_endpoint(id, operation) && watched;
}

bool Device::watch_endpoint(PortId id, int operation) {
  const int fd = ports_[id]->endpoint_fd();
  if (fd < 0) return true;
  bool watched = true;
  for (const FileDescriptor* epoll : {&epoll_, &io_epoll_}) {
    watched = watch(*epoll, operation, fd, EPOLLIN, tag(Source::kEndpoint, id)) && watched;
  }
  return watched;
}

void Device::check_interfaces() {
  link_notice_.store(false);
  next_link_check_ = now_ns() + kLinkCheck;
  for (PortId id = 0; id < ports_.size(); ++id) {
    const bool attached = (attached_ >> id & 1U) != 0;
    if (attached && ports_[id]->interface_gone()) detach(id);
    if ((attached_ >> id & 1U) == 0) attach(id);
  }
}

void Device::detach(PortId id) {
  watch_receiving(id, EPOLL_CTL_DEL);
  attached_ &= ~(PortMask{1} << id);
  drop_pending(id);
  update_state(id);
  report_fault(id, ENODEV);
}

// The interface comes first and its address later, so this may take several notices.
void Device::attach(PortId id) {
  int error = ports_[id]->rebind();
  if (error == 0 && !watch_receiving(id, EPOLL_CTL_ADD)) error = errno;
  if (error == 0) {
    attached_ |= PortMask{1} << id;
    update_state(id);
  } else if (error != ENODEV && error != EADDRNOTAVAIL) {
    report_fault(id, error);
  }
}

void Device::update_state(PortId id) {
  engine_->handle_port_state(engine_now(), id, (carriers_ & attached_) >> id & 1U);
}

void Device::note_fault(PortId id) {
  const int error = ports_[id]->take_fault();
  if (error == 0) return;
  if (error == ENODEV || error == ENXIO) link_notice_.store(true);
  report_fault(id, error);
}

void Device::report_fault(PortId id, int error) {
  const TimeNs now = now_ns();
  TimeNs& reported = fault_reported_[id];
  if (reported != 0 && now - reported < kFaultInterval) return;
  reported = now;
  Event event;
  event.type = EventType::kPortRefused;
  event.port = id;
  event.value = static_cast<std::uint32_t>(error);
  publish({now, event});
}

// --- fork

void Device::handle_fork(ForkStage stage) {
  if (stage == ForkStage::kBefore) return lock_.lock();
  if (stage == ForkStage::kInChild) leave_to_parent();
  lock_.unlock();
}

// A copy of a socket in the child would keep its port bound, and make a parent that dies look alive. Closing copies has
// no effect on the parent, nor on the wire; removing a socket from an epoll instance, which is shared, would have.
void Device::leave_to_parent() {
  lock_.lose();
  closed_.store(true);
  ports_.clear();
  cq_wakers_.clear();
  for (FileDescriptor* fd : {&event_waker_.fd, &epoll_, &io_epoll_, &wake_fd_}) fd->reset();
  links_ = LinkWatch{};
  new (&thread_) std::thread;  // the child has no such thread: it can be neither joined nor detached
}

// --- the I/O thread

void Device::run() {
  // The default slack of 50 us would be added to every retransmission timer.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ::prctl(PR_SET_NAME, "openmrc-io", 0UL, 0UL, 0UL);
  Readable readable = everything();
  while (!stop_.load()) {
    const TimeNs busy_until = busy_until_.load(std::memory_order_relaxed);
    const TimeNs now = now_ns();
    if (busy_until > now) {
      rest(busy_until - now);
      readable = everything();
      continue;
    }
    TimeNs span = 0;
    TimeNs pause = 0;
    bool refused = false;
    {
      const std::unique_lock guard(lock_);
      ++stats_.turns;
      turn(readable);
      refused = refused_;
      pause = pause_;
      if (!more_) {
        const TimeNs deadline = next_timer();
        span = deadline == kNeverNs ? kSleepMax : std::clamp<TimeNs>(deadline - now_ns(), 0, kSleepMax);
        if (paused_ || resting_ != 0) span = std::min(span, kPause);
        if (attached_ != all_ports_) span = std::min(span, kLinkCheck);
        if (span > 0) sleeping_until_.store(deadline);
      }
    }
    for (int i = 0; i < 64 && lock_.contended(); ++i) waits_.yield();
    if (refused) rest(kPause);  // what refuses to be read stays readable
    if (pause > 0 && span > 0) span -= pause_for(std::min(span, pause));
    readable = sleep(io_epoll_, refused ? 0 : span);
    sleeping_until_.store(0);
  }
}

// Until then, or until somebody rings. Returns `span`.
TimeNs Device::pause_for(TimeNs span) {
  pollfd wait{wake_fd_.get(), POLLIN, 0};
  waits_.poll(std::span(&wait, 1), span);
  return span;
}

// Somebody polls: keep out of the way until that has stopped, but for interfaces that come and go.
void Device::rest(TimeNs span) {
  std::array<pollfd, 2> wait{{{wake_fd_.get(), POLLIN, 0}, {links_.fd(), POLLIN, 0}}};
  if (waits_.poll_coarsely(wait, span) < 0) return;
  if (wait[0].revents != 0) waits_.clear(wake_fd_);
  if (wait[1].revents != 0 && links_.drain()) link_notice_.store(true);
  if (!link_check_due()) return;
  const std::unique_lock guard(lock_);
  enter();
  check_interfaces();
  flush(kBurstsPerTurn, Outgoing::kEverything, engine_now());
  collect();
}

Device::Readable Device::sleep(const FileDescriptor& epoll, TimeNs span) {
  std::array<epoll_event, 3 * kPortCountMax + 2> events;
  const int count = waits_.poll(epoll, events, span);
  if (count < 0 && errno != EINTR) {  // a sandbox without epoll: look at everything now and then
    waits_.poll_coarsely({}, kPause);
    return everything();
  }
  Readable readable;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
    if (data == tag(Source::kWake)) waits_.clear(wake_fd_);
    if (data == tag(Source::kLinks) && links_.drain()) link_notice_.store(true);
    const PortMask port = PortMask{1} << (data & (kPortCountMax - 1));
    if (data >> 32 == static_cast<std::uint32_t>(Source::kReceive)) readable.data |= port;
    if (data >> 32 == static_cast<std::uint32_t>(Source::kEndpoint)) readable.endpoint |= port;
  }
  return readable;
}

TimePs Device::enter() {
  const TimeNs now = now_ns();
  while (clock_.rebase_due(now)) {
    clock_.rebase();
    engine_->handle_clock_rebase(kClockRebase);
    ++stats_.clock_rebases;
  }
  return clock_.engine_time(now);
}

void Device::turn(Readable readable) {
  more_ = false;
  enter();
  if (link_check_due()) check_interfaces();
  retry_blocked();
  const Received received = receive(readable, /*answer=*/true);
  run_timer(engine_now());
  more_ = flush(kBurstsPerTurn, Outgoing::kEverything, engine_now()) || more_;
  collect();
  const TimePs patience = engine_->patience();
  const Moderation::Look look{now_ns(), received.datagrams, received.bytes, received.waited};
  pause_ = moderation_.pause(look, patience == kNever ? kNeverNs : patience / kPsPerNs);
  stats_.pauses += pause_ > 0 ? 1 : 0;
}

// Starts at another port each time, so that no port's answers wait behind the same other ones for ever.
Received Device::receive(Readable readable, bool answer) {
  Received all;
  readable.endpoint |= resting_;
  refused_ = false;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const std::size_t index = (first_port_ + i) % ports_.size();
    const auto id = static_cast<PortId>(index);
    const std::uint32_t before = all.datagrams;
    if ((readable.data >> id & 1U) != 0) add_received(id, ports_[id]->receive(*engine_, clock_, *buffers_), all);
    if ((readable.endpoint >> id & 1U) != 0) add_received(id, receive_endpoint(id), all);
    const bool some = all.datagrams > before;
    if (answer && some) more_ = flush(kBurstsPerTurn, Outgoing::kEverything, engine_now()) || more_;
  }
  if (++first_port_ >= ports_.size()) first_port_ = 0;
  return all;
}

void Device::add_received(PortId id, const Received& received, Received& all) {
  if (received.refused) {
    refused_ = true;
    note_fault(id);
  }
  all.datagrams += received.datagrams;
  all.bytes += received.bytes;
  all.waited = std::min(all.waited, received.waited);
}

// While the socket rests, nothing that arrives there wakes a thread.
Received Device::receive_endpoint(PortId id) {
  const Received received = ports_[id]->receive_endpoint(*engine_, clock_, *buffers_);
  const PortMask bit = PortMask{1} << id;
  const bool rests = ports_[id]->endpoint_rests_until() != 0;
  if (rests == ((resting_ & bit) != 0)) return received;
  if (watch_endpoint(id, rests ? EPOLL_CTL_DEL : EPOLL_CTL_ADD)) resting_ ^= bit;
  return received;
}

bool Device::run_timer(TimePs now) {
  if (engine_->next_timer() > now) return false;
  ++stats_.timer_runs;
  engine_->handle_timer(now);
  return true;
}

void Device::begin_polling() {
  const TimeNs now = now_ns();
  if (busy_until_.load(std::memory_order_relaxed) < now + kBusyGrace / 2) {
    busy_until_.store(now + kBusyGrace, std::memory_order_relaxed);
  }
}

std::uint32_t Device::progress() {
  begin_polling();
  const std::unique_lock guard(lock_);
  Readable readable = everything();
  const TimeNs now = now_ns();
  if (now - endpoint_look_ < kEndpointLook) {
    readable.endpoint = 0;
  } else {
    endpoint_look_ = now;
  }
  return poll(readable);
}

std::uint32_t Device::await_progress(TimeNs longest, int also) {
  const TimeNs asked = now_ns();
  const TimeNs rested = asked + longest + kBusyGrace / 2;
  if (busy_until_.load(std::memory_order_relaxed) < rested) busy_until_.store(rested, std::memory_order_relaxed);
  TimeNs until = asked + longest;
  bool refused = false;
  {
    const std::unique_lock guard(lock_);
    if (ports_.empty()) return 0;
    until = std::min(until, next_timer());
    if (deferred_since_ != 0) until = std::min(until, deferred_since_ + kDeferMax);
    if (paused_ || resting_ != 0) until = std::min(until, asked + kPause);
    refused = refused_;
  }
  TimeNs span = std::max<TimeNs>(until - asked, 0);
  if (also >= 0) {
    std::array<pollfd, 2> either{{{epoll_.get(), POLLIN, 0}, {also, POLLIN, 0}}};
    waits_.poll(either, span);
    span = 0;
  }
  if (refused) waits_.poll_coarsely({}, kPause);
  const Readable readable = sleep(epoll_, refused ? 0 : span);
  const std::unique_lock guard(lock_);
  const std::uint32_t datagrams = poll(readable);
  const TimeNs sleeping_until = sleeping_until_.load();
  if (sleeping_until != 0 && (deferred_since_ != 0 || paused_ || next_timer() < sleeping_until)) {
    sleeping_until_.store(0);
    waits_.ring(wake_fd_);
  }
  return datagrams;
}

std::uint32_t Device::poll(Readable readable) {
  if (ports_.empty()) return 0;
  ++stats_.progress_calls;
  enter();
  retry_blocked();
  const Received received = receive(readable, /*answer=*/false);
  const TimePs now =
      engine_now();  // not `asked`: the engine has seen later times since, from others and from receive()
  const bool timer = run_timer(now);
  answer_polled(received, timer, now);
  collect();
  return received.datagrams;
}

void Device::rest_polling() {
  busy_until_.store(0, std::memory_order_relaxed);
  waits_.ring(wake_fd_);
}

// The caller may see its memory change and post an answer, which then is on its way before our acknowledgements are.
// These wait for a moment, in which they merge, unless much arrives at a time.
void Device::answer_polled(const Received& received, bool timer, TimePs now) {
  const TimeNs moment = clock_.monotonic(now);
  if (received.datagrams > 0 && deferred_since_ == 0) deferred_since_ = moment;
  const bool bulk = received.datagrams > kBulkDatagrams || received.bytes > kBulkBytes;
  const bool due = bulk || (deferred_since_ != 0 ? moment - deferred_since_ > kDeferMax : timer);
  flush(kBurstsPerTurn, due ? Outgoing::kEverything : Outgoing::kDataOnly, now);
  if (due) deferred_since_ = 0;
}

bool Device::flush(std::uint32_t bursts_max, Outgoing what, TimePs now) {
  for (std::uint32_t i = 0; i < bursts_max; ++i) {
    if (free_ports_ == 0) return false;
    if (!engine_->poll_transmit(now, free_ports_, settings_.burst_packets, burst_, what)) return false;
    transmit(burst_);
    now = engine_now();
  }
  return true;
}

void Device::transmit(const TxBurst& burst) {
  Port& port = *ports_[burst.port];
  if (port.blocked()) {  // since this burst was made, by one that was sent before it
    port.drop(burst.count);
    return;
  }
  port.send(burst);
  note_fault(burst.port);
  if (port.blocked()) block(burst.port);
}

void Device::block(PortId id) {
  free_ports_ &= ~(PortMask{1} << id);
  constexpr std::uint32_t kOnce = EPOLLOUT | EPOLLONESHOT;
  const std::uint64_t data = tag(Source::kBlocked, id);
  const int fd = ports_[id]->blocked_fd();
  for (const FileDescriptor* epoll : {&epoll_, &io_epoll_}) {
    const bool announced =
        fd >= 0 && (watch(*epoll, EPOLL_CTL_MOD, fd, kOnce, data) || watch(*epoll, EPOLL_CTL_ADD, fd, kOnce, data));
    if (!announced) paused_ = true;
  }
}

void Device::retry_blocked() {
  paused_ = false;
  for (PortId id = 0; id < ports_.size(); ++id) {
    if (!ports_[id]->blocked()) continue;
    if (ports_[id]->retry()) {
      free_ports_ |= PortMask{1} << id;
    } else {
      block(id);
    }
    note_fault(id);
  }
}

void Device::drop_pending(PortId id) {
  ports_[id]->drop_pending();
  free_ports_ |= PortMask{1} << id;
}

void Device::collect() {
  CqId cq = 0;
  while (engine_->poll_signaled_cq(cq)) {
    const auto found = cq_wakers_.find(cq);
    if (found != cq_wakers_.end()) found->second->signal(waits_);
  }
  std::array<Event, 64> events;
  while (const std::size_t count = engine_->poll_events(events)) {
    for (std::size_t i = 0; i < count; ++i) {
      publish({clock_.monotonic(events[i].time), events[i]});
    }
  }
  EndpointResult result;
  while (engine_->poll_endpoint_result(result)) {
    if (endpoint_results_.size() == kEndpointResultsMax) endpoint_results_.pop_front();
    endpoint_results_.push_back(result);
  }
}

void Device::publish(const TimedEvent& event) {
  if (events_.size() < kEventsMax) {
    events_.push_back(event);
  } else {
    ++stats_.events_dropped;
  }
  event_waker_.signal(waits_);
}

void Device::after_command() {
  const TimeNs now = now_ns();
  const bool polled = busy_until_.load(std::memory_order_relaxed) > now;
  const bool more =
      flush(kBurstsPerCommand, polled ? Outgoing::kDataOnly : Outgoing::kEverything, clock_.engine_time(now));
  collect();
  const TimeNs sleeping_until = sleeping_until_.load();
  if (sleeping_until != 0 && (more || paused_ || next_timer() < sleeping_until)) {
    sleeping_until_.store(0);  // one ring is enough
    waits_.ring(wake_fd_);
  }
}

}  // namespace openmrc::nic
