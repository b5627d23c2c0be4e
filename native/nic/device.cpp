// Opening and closing a device, its interfaces, and fork. Sending and receiving: device_io.cpp.
#include "nic/device.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "engine/base/assert.hpp"
#include "engine/generated/event_records.hpp"
#include "nic/kernel.hpp"
#include "nic/poll_source.hpp"
#include "nic/socket_port.hpp"
#include "nic/start_thread.hpp"

namespace openmrc::nic {
namespace {

constexpr TimeNs kLinkCheck = kNsPerSecond;      // for a vanished interface, in addition to the kernel's notices
constexpr TimeNs kFaultInterval = kNsPerSecond;  // between two events about one port's refusals

FileDescriptor make_eventfd() {
  FileDescriptor fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.valid()) throw NicError(errno, "cannot create an eventfd");
  return fd;
}

void require(bool watched) {
  if (!watched) throw NicError(errno, "cannot watch a socket");
}

FileDescriptor make_epoll() {
  FileDescriptor fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd.valid()) throw NicError(errno, "cannot create an epoll instance");
  return fd;
}

HashKey draw_secret() {
  HashKey secret;
  if (::getrandom(&secret, sizeof secret, 0) != sizeof secret) throw NicError(errno, "cannot draw random numbers");
  return secret;
}

// Something that replaces addresses may also damage packets, and lie on another machine.
bool is_relayed(const Settings& settings) {
  const auto differs = [](const PortSettings& port) { return port.advertise != port.local; };
  return settings.ev_format == wire::EvFormat::kSrv6 ||
         std::any_of(settings.ports.begin(), settings.ports.end(), differs);
}

EngineConfig engine_config(const Settings& settings, std::span<const std::unique_ptr<Lane>> lanes) {
  EngineConfig config;
  config.seed = settings.seed;
  config.secret = draw_secret();
  if (!is_relayed(settings)) config.kernel = kernel_key();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    PortConfig port{settings.ports[i].advertise, true, {}};
    for (const Ev& ev : lanes[i]->port().evs()) port.evs.push_back(ev.value);
    config.ports.push_back(std::move(port));
  }
  config.driver_seals = true;
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

std::uint32_t io_threads_max(const Settings& settings) {
  const auto ports = static_cast<std::uint32_t>(settings.ports.size());
  const std::uint32_t wanted =
      settings.io_threads != 0 ? settings.io_threads : std::max(1U, std::thread::hardware_concurrency());
  return std::min(wanted, ports);
}

}  // namespace

void Device::Waker::signal(Waits& waits) {
  pending.store(true, std::memory_order_release);
  if (armed) {
    armed = false;
    waits.ring(fd);
  }
}

Device::Device(const Settings& settings)
    : Device(settings, [](PortId id, const Settings& device, std::uint32_t& next_source_port) {
        return std::make_unique<SocketPort>(id, device, next_source_port);
      }) {}

Device::Device(const Settings& settings, const PortFactory& make_port)
    : settings_(settings), scaling_(io_threads_max(settings_)) {
  MRC_ASSERT(!settings_.ports.empty() && settings_.ports.size() <= kPortCountMax);
  const std::unique_lock turns(turns_);  // the first lock that a fork takes: it waits until the device is complete
  const std::unique_lock guard(lock_);
  std::uint32_t next_source_port = settings_.first_source_port;
  for (std::size_t i = 0; i < settings_.ports.size(); ++i) {
    lanes_.push_back(std::make_unique<Lane>(make_port(static_cast<PortId>(i), settings_, next_source_port),
                                            settings_.ports[i].advertise));
  }
  engine_ = std::make_unique<Engine>(engine_config(settings_, lanes_));
  event_waker_.fd = make_eventfd();
  epoll_ = make_epoll();
  for (std::uint32_t i = 0; i < scaling_.threads_max(); ++i) {
    io_.push_back(std::make_unique<IoThread>());
    io_.back()->index = i;
  }
  prepare(*io_.front());
  all_ports_ = static_cast<PortMask>((1ULL << lanes_.size()) - 1);
  carriers_ = attached_ = all_ports_;
  for (PortId id = 0; id < lanes_.size(); ++id) require(watch_receiving(id, EPOLL_CTL_ADD));
  const auto names_interface = [](const PortSettings& port) { return !port.interface.empty(); };
  if (std::any_of(settings_.ports.begin(), settings_.ports.end(), names_interface)) links_.open();
  if (links_.fd() >= 0) require(watch(io_.front()->epoll, EPOLL_CTL_ADD, links_.fd(), EPOLLIN, tag(Source::kLinks)));
  start(*io_.front());
  if (settings_.io_threads != 0) assign_ports(scaling_.threads_max());
}

Device::~Device() { close(); }

void Device::prepare(IoThread& io) {
  io.epoll = make_epoll();
  io.wake = make_eventfd();
  require(watch(io.epoll, EPOLL_CTL_ADD, io.wake.get(), EPOLLIN, tag(Source::kWake)));
}

void Device::start(IoThread& io) {
  io.thread = start_thread([this, &io] { run(io); });
}

void Device::close() {
  if (lock_.lost()) return;
  const std::lock_guard closing(close_mutex_);
  if (closed_.exchange(true)) return;
  {
    const Guard guard(lock_);  // prevents further threads from starting
    stop_.store(true);
  }
  for (const std::unique_ptr<IoThread>& io : io_) {
    if (!io->thread.joinable()) continue;
    waits_.ring(io->wake);
    io->thread.join();
  }
  std::vector<SocketStats> stats;
  for (const std::unique_ptr<Lane>& lane : lanes_) stats.push_back(lane->stats());
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->close();
  const Guard guard(lock_);
  final_socket_stats_ = std::move(stats);
  // Wakes waiters for completions, which then find the device closed.
  for (auto& [cq, waker] : cq_wakers_) waits_.ring(waker->fd);
  waits_.ring(event_waker_.fd);
}

// Port p belongs to thread p modulo the number of threads; a change of that number reassigns all ports.
void Device::assign_ports(std::uint32_t threads) {
  const std::uint32_t before = threads_.load();
  if (threads == before || stop_.load()) return;
  try {
    for (std::uint32_t i = before; i < threads; ++i) {
      IoThread& io = *io_[i];
      if (!io.wake.valid()) prepare(io);
      if (!io.thread.joinable()) start(io);
    }
  } catch (const std::exception&) {  // threads and descriptors of a process are limited
    return scaling_.limit(before);
  }
  for (PortId id = 0; id < lanes_.size(); ++id) {
    const FileDescriptor& from = io_[id % before]->epoll;
    const FileDescriptor& to = io_[id % threads]->epoll;
    const bool moves = (attached_ >> id & 1U) != 0 && id % before != id % threads;
    if (!moves) continue;
    const int fd = lanes_[id]->port().receive_fd();
    watch(from, EPOLL_CTL_DEL, fd, 0, 0);
    watch(to, EPOLL_CTL_ADD, fd, EPOLLIN, tag(Source::kReceive, id));
  }
  threads_.store(threads);
  stats_.io_threads = threads;
  stats_.io_threads_peak = std::max(stats_.io_threads_peak, stats_.io_threads);
  for (std::uint32_t i = before; i < threads; ++i) waits_.ring(io_[i]->wake);
}

// --- interfaces

bool Device::watch_receiving(PortId id, int operation) {
  const int fd = lanes_[id]->port().receive_fd();
  bool watched = true;
  for (const FileDescriptor* epoll : {&epoll_, &io_[id % threads_]->epoll}) {
    watched = watch(*epoll, operation, fd, EPOLLIN, tag(Source::kReceive, id)) && watched;
  }
  resting_ &= ~(PortMask{1} << id);
  return watch_endpoint(id, operation) && watched;
}

bool Device::watch_endpoint(PortId id, int operation) {
  const int fd = lanes_[id]->port().endpoint_fd();
  if (fd < 0) return true;
  bool watched = true;
  for (const FileDescriptor* epoll : {&epoll_, &io_.front()->epoll}) {
    watched = watch(*epoll, operation, fd, EPOLLIN, tag(Source::kEndpoint, id)) && watched;
  }
  return watched;
}

void Device::check_interfaces() {
  link_notice_.store(false);
  next_link_check_ = now_ns() + kLinkCheck;
  for (PortId id = 0; id < lanes_.size(); ++id) {
    const bool attached = (attached_ >> id & 1U) != 0;
    if (attached && lanes_[id]->port().interface_gone()) detach(id);
    if ((attached_ >> id & 1U) == 0) attach(id);
  }
}

void Device::detach(PortId id) {
  {
    const Guard guard(lock_);
    enter();
    watch_receiving(id, EPOLL_CTL_DEL);
    attached_ &= ~(PortMask{1} << id);
    update_state(id);
    report_fault(id, ENODEV);
  }
  lanes_[id]->drop_all();
}

// The interface appears before its address, so this may take several notices.
void Device::attach(PortId id) {
  const int refusal = lanes_[id]->rebind();
  const Guard guard(lock_);
  enter();
  const int error = refusal == 0 && !watch_receiving(id, EPOLL_CTL_ADD) ? errno : refusal;
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

void Device::note_faults() {
  for (PortId id = 0; id < lanes_.size(); ++id) {
    const int error = lanes_[id]->port().take_fault();
    if (error == 0) continue;
    if (error == ENODEV || error == ENXIO) link_notice_.store(true);
    report_fault(id, error);
  }
}

void Device::report_fault(PortId id, int error) {
  const TimeNs now = now_ns();
  TimeNs& reported = fault_reported_[id];
  if (reported != 0 && now - reported < kFaultInterval) return;
  reported = now;
  publish({now, port_refused_event(0, id, static_cast<std::uint32_t>(error))});
}

// --- fork

void Device::handle_fork(ForkStage stage) {
  if (stage == ForkStage::kBefore) {
    turns_.lock();
    polling_.lock();
    forking_lanes_ = lanes_.size();
    for (const std::unique_ptr<Lane>& lane : lanes_) lane->receiving().lock();
    for (const std::unique_ptr<Lane>& lane : lanes_) lane->sending().lock();
    return lock_.lock();
  }
  MRC_ASSERT(lanes_.size() == forking_lanes_);
  if (stage == ForkStage::kInChild) leave_to_parent();
  lock_.unlock();
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->sending().unlock();
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->receiving().unlock();
  polling_.unlock();
  turns_.unlock();
}

// A copy of a socket in the child would keep its port bound, and make a dead parent look alive. Closing copies has no
// effect on the parent or on the wire, whereas removing a socket from the shared epoll instance would.
void Device::leave_to_parent() {
  turns_.lose();
  lock_.lose();
  closed_.store(true);
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->port().close();
  for (const auto& [cq, waker] : cq_wakers_) waker->fd.reset();  // others may hold it
  cq_wakers_.clear();
  takeover_wakers_.clear();
  event_waker_.fd.reset();
  epoll_.reset();
  takeover_.reset();
  links_ = InterfaceWatch{};
  for (const std::unique_ptr<IoThread>& io : io_) {
    io->epoll.reset();
    io->wake.reset();
    new (&io->thread) std::thread;  // the child has no such thread: it can be neither joined nor detached
  }
}

}  // namespace openmrc::nic
