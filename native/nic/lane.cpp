#include "nic/lane.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/assert.hpp"
#include "engine/seal.hpp"

namespace openmrc::nic {

Lane::Lane(std::unique_ptr<Port> port, const Address& local) : port_(std::move(port)), local_(local) {}

void Lane::push(std::unique_ptr<TxBurst>& burst) {
  MRC_ASSERT(bursts() < kBursts && burst->count > 0);
  const std::uint32_t number = pushed_.load(std::memory_order_relaxed);
  Slot& free = slot(number);
  std::swap(free.burst, burst);
  free.next = 0;
  free.sealed = false;
  pushed_.store(number + 1, std::memory_order_release);
}

bool Lane::send_front() {
  Slot& front = slot(sent_.load(std::memory_order_relaxed));
  if (!front.sealed) seal(*front.burst, local_, icrc_);
  front.sealed = true;
  if (front.next < front.burst->count) front.next = port_->send(*front.burst, front.next);
  if (front.next < front.burst->count) return false;
  sent_.fetch_add(1, std::memory_order_release);
  return true;
}

// A thread that finds the lock taken leaves its burst to the lock's holder, which checks again after releasing the
// lock. `order_` makes this safe: of two threads that change it, the later one sees the earlier one's changes, so
// either the first finds the lock free or the second finds the burst.
Lane::Sent Lane::send(std::uint32_t& bursts_max) {
  for (;;) {
    order_.fetch_add(1, std::memory_order_acq_rel);
    if (!waiting()) return Sent::kAll;
    const std::unique_lock guard(sending_, std::try_to_lock);
    if (!guard.owns_lock()) return Sent::kAll;
    while (waiting()) {
      if (bursts_max == 0) return Sent::kLimit;
      --bursts_max;
      if (send_front()) continue;
      blocked_.store(true);
      return Sent::kBlocked;
    }
  }
}

Lane::Sent Lane::retry(std::uint32_t& bursts_max) {
  blocked_.store(false);
  return send(bursts_max);
}

void Lane::close() {
  const std::scoped_lock guard(receiving_, sending_);
  closed_.store(true);
  port_->close();
}

int Lane::rebind() {
  const std::scoped_lock guard(receiving_, sending_);
  return port_->rebind();
}

SocketStats Lane::stats() {
  const std::scoped_lock guard(receiving_, sending_);
  return port_->stats();
}

void Lane::give_up(Slot& given) {
  port_->drop(given.burst->count - given.next);
  given.next = given.burst->count;
}

void Lane::drop_all() {
  const std::lock_guard guard(sending_);
  for (; !empty(); sent_.fetch_add(1, std::memory_order_release)) give_up(slot(sent_.load(std::memory_order_relaxed)));
  blocked_.store(false);
}

// Under sending_. The sender skips bursts that were given up.
template <typename Condition>
void Lane::drop_if(Condition condition) {
  const std::uint32_t end = pushed_.load(std::memory_order_acquire);
  for (std::uint32_t number = sent_.load(std::memory_order_relaxed); number != end; ++number) {
    Slot& waiting = slot(number);
    if (!condition(waiting)) continue;
    give_up(waiting);
    waiting.sealed = true;  // its memory must not be read
    blocked_.store(false);
  }
}

void Lane::drop_reading(const std::uint8_t* base, std::uint64_t length_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(base);
  const auto reads = [first, length_bytes](const TxPacket& packet) {
    // Below the region this wraps to a large number.
    return packet.payload_bytes > 0 && reinterpret_cast<std::uintptr_t>(packet.payload) - first < length_bytes;
  };
  const std::lock_guard guard(sending_);
  drop_if([&](const Slot& waiting) {
    const auto left = std::span(waiting.burst->packets).subspan(waiting.next, waiting.burst->count - waiting.next);
    return std::any_of(left.begin(), left.end(), reads);
  });
}

void Lane::drop_of(std::uint32_t qp) {
  drop_if([qp](const Slot& waiting) { return waiting.burst->qp == qp; });
}

}  // namespace openmrc::nic
