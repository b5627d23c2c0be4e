// Packets in the order of the time at which something happens to them; equal times leave in the order of insertion.
//
// A timing wheel of whole packets: what is pushed is written once, next to others of the same nanosecond, and read once.
// At the size of a large fabric every other order of memory accesses costs more than all the work on a packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

class EventQueue {
 public:
  struct Event {
    TimePs time = 0;
    Packet packet;
  };

  EventQueue();

  void push(TimePs time, const Packet& packet);
  // The first event up to and including `until`; nullptr when there is none. Good until the next call of pop.
  const Event* pop(TimePs until);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  TimePs next_time() const;  // kNever when empty
  std::size_t memory_bytes() const;

 private:
  static constexpr int kWidthBits = 10;  // a slot is 1,024 ps wide
  static constexpr int kEpochBits = 14;  // slots of an epoch; the wheel holds this epoch and the next
  static constexpr std::uint64_t kEpochSlots = 1ULL << kEpochBits;
  static constexpr std::uint64_t kWheelMask = 2 * kEpochSlots - 1;
  static constexpr std::uint32_t kChunkEvents = 4;
  static constexpr std::uint32_t kSlabChunks = 1024;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Chunk {
    std::array<Event, kChunkEvents> events;
    std::uint32_t used = 0;
    std::uint32_t next = kNone;
  };
  struct Slot {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };

  static std::uint64_t slot_of(TimePs time) { return static_cast<std::uint64_t>(time) >> kWidthBits; }
  Chunk& chunk(std::uint32_t index) { return slabs_[index / kSlabChunks][index % kSlabChunks]; }
  const Chunk& chunk(std::uint32_t index) const { return slabs_[index / kSlabChunks][index % kSlabChunks]; }
  Event& event(std::uint32_t index) { return chunk(index / kChunkEvents).events[index % kChunkEvents]; }
  std::uint32_t append(Slot& slot, TimePs time, const Packet& packet);
  std::uint32_t take_chunk();
  void insert_into_open(TimePs time, const Packet& packet);
  std::uint64_t next_occupied(std::uint64_t from) const;
  bool open_next(TimePs until);
  void open(std::uint64_t slot);
  void close();
  void enter_epoch(std::uint64_t epoch);

  // The open slot: its events by time, the ones before `cursor_` are gone.
  struct Key {
    TimePs time;
    std::uint32_t order;  // of insertion
    std::uint32_t event;
  };
  static bool earlier(const Key& a, const Key& b) { return a.time != b.time ? a.time < b.time : a.order < b.order; }
  std::vector<Key> keys_;
  std::size_t cursor_ = 0;
  Slot open_;
  std::uint64_t open_slot_ = 0;  // every event of an earlier slot, or of this one, is among keys_

  std::vector<Slot> wheel_;
  std::vector<std::uint64_t> occupied_;  // a bit per slot of the wheel
  std::uint64_t epoch_ = 0;
  std::size_t in_wheel_ = 0;
  std::map<std::uint64_t, std::vector<Event>> later_;  // by epoch, beyond the wheel
  std::vector<std::unique_ptr<Chunk[]>> slabs_;
  std::uint32_t free_ = kNone;
  std::uint32_t chunks_used_ = 0;
  std::size_t size_ = 0;
};

}  // namespace openmrc::netsim
