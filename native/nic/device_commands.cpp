// Commands of applications to a device: completion queues, memory, work, ports, events.
#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "engine/completion_queue.hpp"
#include "nic/device.hpp"

namespace openmrc::nic {
namespace {

// Packets in flight from which a QP counts as a stream: the peer has work until the next call of progress().
constexpr std::uint32_t kStreamPackets = 128;

Status post_each(Engine& engine, TimePs now, std::uint32_t qp, std::span<const SendWr> wrs, std::size_t& posted) {
  for (posted = 0; posted < wrs.size(); ++posted) {
    if (const Status status = engine.post_send(now, qp, wrs[posted]); status != Status::kOk) return status;
  }
  return Status::kOk;
}

std::uint32_t draw_key() {
  std::uint32_t key = 0;
  while (key == 0) {
    if (::getrandom(&key, sizeof key, 0) != sizeof key) throw NicError(errno, "cannot draw a memory key");
  }
  return key;
}

}  // namespace

Status Device::create_cq(std::uint32_t capacity, CqId& cq) {
  auto waker = std::make_shared<Waker>();
  waker->fd = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!waker->fd.valid()) throw NicError(errno, "cannot create an eventfd");
  const std::unique_lock guard(lock_);
  const Status status = engine_->create_cq(capacity, cq);
  if (status != Status::kOk) return status;
  waker->queue = engine_->find_cq(cq);
  cq_wakers_[cq] = std::move(waker);
  return status;
}

Status Device::destroy_cq(CqId cq) {
  const std::unique_lock guard(lock_);
  const Status status = engine_->destroy_cq(cq);
  if (status != Status::kOk) return status;
  cq_wakers_[cq]->queue = nullptr;
  std::erase(takeover_wakers_, cq_wakers_[cq]);
  cq_wakers_.erase(cq);
  return status;
}

std::size_t Device::take_completions(Waker& waker, std::span<Completion> out) {
  if (waker.queue == nullptr) return 0;
  const std::size_t count = waker.queue->poll(out);
  if (count < out.size()) waker.pending.store(false, std::memory_order_release);
  return count;
}

std::size_t Device::poll_cq(CqId cq, std::span<Completion> out) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  return found == cq_wakers_.end() ? 0 : take_completions(*found->second, out);
}

std::size_t Device::poll_cq(Waker& cq, std::span<Completion> out) {
  const std::unique_lock guard(lock_);
  return take_completions(cq, out);
}

std::shared_ptr<Device::Waker> Device::cq_handle(CqId cq) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  return found == cq_wakers_.end() ? nullptr : found->second;
}

std::shared_ptr<std::atomic<bool>> Device::cq_takeover(CqId cq) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  if (found == cq_wakers_.end()) return nullptr;
  takeover_wakers_.push_back(found->second);
  return {found->second, &found->second->at_takeover};
}

std::size_t Device::wait_cq(CqId cq, std::span<Completion> out, std::int64_t timeout_ns) {
  std::shared_ptr<Waker> waker;
  {
    const std::unique_lock guard(lock_);
    const auto found = cq_wakers_.find(cq);
    if (found == cq_wakers_.end()) return 0;
    waker = found->second;
    const std::size_t count = take_completions(*waker, out);
    if (count > 0 || closed()) return count;
    waker->armed = true;
  }
  pollfd wait{waker->fd.get(), POLLIN, 0};
  const std::optional<TimeNs> span = timeout_ns < 0 ? std::nullopt : std::optional<TimeNs>(timeout_ns);
  if (waits_.poll(std::span(&wait, 1), span) > 0) waits_.clear(waker->fd);
  return poll_cq(cq, out);
}

int Device::cq_fd(CqId cq) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  return found == cq_wakers_.end() ? -1 : found->second->fd.get();
}

bool Device::arm_cq(CqId cq) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  return found == cq_wakers_.end() || arm(*found->second);
}

bool Device::listen_cq(CqId cq) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  if (found == cq_wakers_.end() || found->second->pending || closed()) return true;
  found->second->armed = true;
  return false;
}

void Device::unlisten_cq(CqId cq) {
  const std::unique_lock guard(lock_);
  const auto found = cq_wakers_.find(cq);
  if (found != cq_wakers_.end()) found->second->armed = false;
}

bool Device::arm(Waker& waker) {
  waits_.clear(waker.fd);
  if (waker.pending || closed()) return true;
  waker.armed = true;
  return false;
}

Status Device::register_memory(std::uint8_t* base, std::uint64_t length_bytes, std::uint8_t access, std::uint32_t& key,
                               DomainId domain, std::optional<std::uint64_t> virtual_address,
                               std::shared_ptr<Placer> placer) {
  const std::unique_lock guard(lock_);
  RegionConfig region;
  region.base = base;
  region.virtual_address = virtual_address.value_or(reinterpret_cast<std::uintptr_t>(base));
  region.length_bytes = length_bytes;
  region.access = access;
  region.domain = domain;
  region.placer = std::move(placer);
  Status status = Status::kInvalidArgument;
  // A key in use is refused; with 2^32 keys a second draw is rare, and a fourth indicates another error.
  for (int attempt = 0; attempt < 4 && status == Status::kInvalidArgument; ++attempt) {
    region.key = draw_key();
    status = engine_->register_memory(region);
  }
  key = region.key;
  if (status == Status::kOk) regions_[key] = {base, length_bytes};
  return status;
}

Status Device::deregister_memory(std::uint32_t key) {
  std::span<const std::uint8_t> memory;
  {
    const std::unique_lock guard(lock_);
    const Status status = engine_->deregister_memory(key);
    const auto region = regions_.find(key);
    if (status != Status::kOk || region == regions_.end()) return status;
    memory = region->second;
    regions_.erase(region);
  }
  // A waiting burst may still point into the region, for a message that another copy has completed.
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->drop_reading(memory.data(), memory.size());
  send_out();
  return Status::kOk;
}

Status Device::post_send(std::uint32_t qp, const SendWr& wr) {
  return command([&](Engine& engine, TimePs now) { return engine.post_send(now, qp, wr); });
}

Status Device::post_sends(std::uint32_t qp, std::span<const SendWr> wrs, std::size_t& posted) {
  return command([&](Engine& engine, TimePs now) { return post_each(engine, now, qp, wrs, posted); });
}

Status Device::post_stream(std::uint32_t qp, std::span<const SendWr> wrs, std::size_t& posted) {
  const Turn mine(*this);
  Guard guard(lock_);
  const Status status = post_each(*engine_, enter(), qp, wrs, posted);
  const bool polled = busy_until_.load(std::memory_order_relaxed) > entered_;
  const bool streams = polled && engine_->in_flight_packets(qp) >= kStreamPackets;
  if (streams && engine_->unsent_packets(qp) < kBurstPacketsMax) {
    quiet_until_.store(0, std::memory_order_relaxed);  // the next poll sends
    collect();
  } else {
    after_command(guard);
  }
  return status;
}

Status Device::post_recv(std::uint32_t qp, std::uint64_t wr_id, std::span<const Sge> sges) {
  const Guard guard(lock_);
  return engine_->post_recv(qp, wr_id, sges);
}

Status Device::post_srq_recv(SrqId srq, std::uint64_t wr_id, std::span<const Sge> sges) {
  const Guard guard(lock_);
  return engine_->post_srq_recv(srq, wr_id, sges);
}

Status Device::post_recvs(std::uint32_t qp, std::uint64_t wr_id, std::uint32_t count, std::uint32_t& posted) {
  const Guard guard(lock_);
  for (posted = 0; posted < count; ++posted) {
    const Status status = engine_->post_recv(qp, wr_id);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

void Device::set_port_state(PortId port, bool up) {
  if (port >= lanes_.size()) return;
  const Turn mine(*this);
  Guard guard(lock_);
  enter();
  const PortMask bit = PortMask{1} << port;
  carriers_ = up ? carriers_ | bit : carriers_ & ~bit;
  update_state(port);
  after_command(guard);
  if (!up) lanes_[port]->drop_all();
}

std::size_t Device::poll_events(std::span<TimedEvent> out) {
  const std::unique_lock guard(lock_);
  const std::size_t count = events_.poll(out);
  if (events_.empty()) event_waker_.pending = false;
  return count;
}

bool Device::arm_events() {
  const std::unique_lock guard(lock_);
  return arm(event_waker_);
}

bool Device::poll_endpoint_result(EndpointResult& result) {
  const std::unique_lock guard(lock_);
  if (endpoint_results_.empty()) return false;
  result = endpoint_results_.front();
  endpoint_results_.pop_front();
  return true;
}

std::vector<Ev> Device::evs() {
  const std::unique_lock guard(lock_);
  std::vector<Ev> all;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    all.insert(all.end(), lane->port().evs().begin(), lane->port().evs().end());
  }
  return all;
}

std::uint32_t Device::path_mtu(PortId port, const Address& peer, std::uint16_t udp_port) {
  lock_.check();
  if (port >= lanes_.size() || closed()) throw NicError(ENODEV, "the device is closed");
  return lanes_[port]->port().path_mtu(peer, udp_port);
}

std::vector<SocketStats> Device::socket_stats() {
  {
    const std::unique_lock guard(lock_);
    if (!final_socket_stats_.empty()) return final_socket_stats_;
  }
  std::vector<SocketStats> all;
  for (const std::unique_ptr<Lane>& lane : lanes_) all.push_back(lane->stats());
  return all;
}

DeviceStats Device::stats() {
  const std::unique_lock guard(lock_);
  DeviceStats stats = stats_;
  stats.progress_calls = polls_.load(std::memory_order_relaxed);
  stats.events_dropped = events_.dropped();
  return stats;
}

}  // namespace openmrc::nic
