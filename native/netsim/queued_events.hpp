// Event queue and packet storage of `QueuedPlane`. Both grow to the largest need and stay there, so that a run in
// steady state allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/time.hpp"
#include "netsim/packet.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

inline constexpr std::uint32_t kNoPacket = ~std::uint32_t{0};

// A packet inside the plane with the plane's state about it.
struct HeldPacket {
  Packet packet;
  TimePs arrival = 0;              // at the end of the link it is on
  LinkId ingress = kEntering;      // link that brought it to the switch it waits in
  std::uint32_t next = kNoPacket;  // next packet in its queue, or next free entry
};

// A reference to a packet is valid until the next `take`.
class PacketStore {
 public:
  std::uint32_t take(const Packet& packet) {
    ++in_use_;
    if (free_ == kNoPacket) {
      places_.push_back({.packet = packet});
      return static_cast<std::uint32_t>(places_.size() - 1);
    }
    const std::uint32_t id = free_;
    free_ = places_[id].next;
    places_[id] = {.packet = packet};
    return id;
  }
  void give_back(std::uint32_t id) {
    MRC_ASSERT(in_use_ > 0);
    --in_use_;
    places_[id].next = free_;
    free_ = id;
  }
  HeldPacket& operator[](std::uint32_t id) { return places_[id]; }
  std::uint32_t in_use() const { return in_use_; }
  std::size_t memory_bytes() const { return places_.capacity() * sizeof(HeldPacket); }

 private:
  std::vector<HeldPacket> places_;
  std::uint32_t free_ = kNoPacket;
  std::uint32_t in_use_ = 0;
};

// A FIFO linked through the packets.
class PacketFifo {
 public:
  bool empty() const { return head_ == kNoPacket; }
  void push(PacketStore& store, std::uint32_t id) {
    store[id].next = kNoPacket;
    (empty() ? head_ : store[tail_].next) = id;
    tail_ = id;
  }
  std::uint32_t pop(PacketStore& store) {
    MRC_ASSERT(!empty());
    const std::uint32_t id = head_;
    head_ = store[id].next;
    return id;
  }

 private:
  std::uint32_t head_ = kNoPacket;
  std::uint32_t tail_ = kNoPacket;
};

// At equal times, departures come first and make room.
enum class QueuedEventKind : std::uint8_t { kDeparture, kArrival, kEntry, kPause };

struct QueuedEvent {
  TimePs time = 0;
  std::uint64_t order = 0;  // of insertion
  std::uint32_t place = 0;  // kind and link
  std::uint32_t index = 0;  // of the packet; kPause: 1 to pause, 0 to resume

  static constexpr int kLinkBits = 30;
  QueuedEventKind kind() const { return static_cast<QueuedEventKind>(place >> kLinkBits); }
  LinkId link() const { return place & ((1U << kLinkBits) - 1); }
};

// Equal times are ordered by kind and link, and on one link by insertion: an order that does not depend on the division
// of time into windows.
class QueuedEvents {
 public:
  void push(TimePs time, QueuedEventKind kind, LinkId link, std::uint32_t index = 0) {
    MRC_ASSERT(link >> QueuedEvent::kLinkBits == 0);
    heap_.push_back({.time = time,
                     .order = ++order_,
                     .place = static_cast<std::uint32_t>(kind) << QueuedEvent::kLinkBits | link,
                     .index = index});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  QueuedEvent pop() {
    MRC_ASSERT(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const QueuedEvent event = heap_.back();
    heap_.pop_back();
    return event;
  }
  TimePs next_time() const { return heap_.empty() ? kNever : heap_.front().time; }
  std::size_t memory_bytes() const { return heap_.capacity() * sizeof(QueuedEvent); }

 private:
  static bool later(const QueuedEvent& a, const QueuedEvent& b) {
    if (a.time != b.time) return a.time > b.time;
    return a.place != b.place ? a.place > b.place : a.order > b.order;
  }

  std::vector<QueuedEvent> heap_;
  std::uint64_t order_ = 0;
};

}  // namespace openmrc::netsim
