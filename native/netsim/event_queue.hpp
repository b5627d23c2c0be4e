// Packets ordered by the time of their next event; equal times are ordered by link, and on one link by insertion. This
// order does not depend on the division of time into windows.
//
// A timing wheel of whole packets: a pushed event is written once, next to others of about the same time, and read
// once. At the size of a large fabric every other order of memory accesses costs more than all the work on a packet.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/huge_memory.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

class EventQueue {
 public:
  struct Event {
    TimePs time = 0;
    Packet packet;
  };

  // A slot of the wheel is 2^width_bits picoseconds wide: best when a few events fall into it.
  explicit EventQueue(int width_bits = 10);
  // The best width for events at this average distance.
  static int width_for(TimePs between_events);

  void push(TimePs time, const Packet& packet);
  // The first event up to and including `until`; nullptr if there is none. Valid until the next call of pop.
  const Event* pop(TimePs until);

  // After a pop: calls visit(packet) for packets that pop will return soon, for prefetching.
  template <class Visit>
  void look_ahead(Visit visit) {
    constexpr std::size_t kEvents = 8;
    if (looked_from_ != open_slot_) {
      looked_from_ = open_slot_;
      for (std::size_t i = cursor_ - 1; i < std::min(cursor_ + kEvents, keys_.size()); ++i) visit(packet_of(keys_[i]));
    } else if (cursor_ + kEvents <= keys_.size()) {
      visit(packet_of(keys_[cursor_ + kEvents - 1]));
    }
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  TimePs next_time() const;  // kNever if empty
  std::size_t memory_bytes() const;

 private:
  static constexpr int kEpochBits = 13;  // slots per epoch; the wheel holds this epoch and the next
  static constexpr std::uint64_t kEpochSlots = 1ULL << kEpochBits;
  static constexpr std::uint64_t kWheelMask = 2 * kEpochSlots - 1;
  static constexpr std::uint32_t kChunkEvents = 6;
  static constexpr std::uint32_t kFirstChunks = 256;
  static constexpr int kChunksAhead = 6;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct alignas(64) Chunk {
    std::array<Event, kChunkEvents> events;
  };
  // A push reads only this and writes the chunk without reading it, so it does not wait for memory.
  struct Slot {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
    std::uint32_t used = kChunkEvents;  // events in the last chunk; all others are full
  };

  std::uint64_t slot_of(TimePs time) const { return static_cast<std::uint64_t>(time) >> width_bits_; }
  Chunk& chunk(std::uint32_t index) { return chunks_[index]; }
  const Chunk& chunk(std::uint32_t index) const { return chunks_[index]; }
  const Event& event(std::uint32_t index) const { return chunk(index / kChunkEvents).events[index % kChunkEvents]; }
  Event& event(std::uint32_t index) { return chunk(index / kChunkEvents).events[index % kChunkEvents]; }
  std::uint32_t append(Slot& slot, TimePs time, const Packet& packet);
  std::uint32_t take_chunk();
  void insert_into_open(TimePs time, const Packet& packet);
  // Calls visit(event, index) for each event of the slot, in the order of insertion.
  template <class Visit>
  void each_event(const Slot& slot, Visit visit) const {
    std::uint32_t ahead = slot.first;
    for (int i = 0; i < kChunksAhead && ahead != kNone; ++i) ahead = fetch(ahead);
    for (std::uint32_t index = slot.first; index != kNone; index = after_[index]) {
      if (ahead != kNone) ahead = fetch(ahead);
      const Chunk& part = chunk(index);
      const std::uint32_t used = index == slot.last ? slot.used : kChunkEvents;
      for (std::uint32_t i = 0; i < used; ++i) visit(part.events[i], index * kChunkEvents + i);
    }
  }
  std::uint32_t fetch(std::uint32_t index) const {
    prefetch_chunk(index);
    return after_[index];
  }
  std::uint64_t next_occupied(std::uint64_t from) const;
  void prefetch(std::uint64_t slot) const;
  void prefetch_chunk(std::uint32_t index) const;
  bool open_next(TimePs until);
  void open(std::uint64_t slot);
  void close();
  void enter_epoch(std::uint64_t epoch);

  int width_bits_;

  // The open slot: its events by time; those before `cursor_` are done.
  struct Key {
    TimePs time;
    LinkId link;
    std::uint32_t event;

    bool operator<(const Key& other) const { return time != other.time ? time < other.time : link < other.link; }
  };
  static Key key_of(const Event& event, std::uint32_t index) {
    return {.time = event.time, .link = event.packet.link, .event = index};
  }
  const Packet& packet_of(const Key& key) const { return event(key.event).packet; }
  void sort_keys();
  void sort_many();
  std::vector<Key> keys_;
  std::vector<Key> sorted_;  // scratch
  std::size_t cursor_ = 0;
  Slot open_;
  std::uint64_t open_slot_ = 0;  // every event of this slot or an earlier one is in keys_
  std::uint64_t looked_from_ = 0;

  HugeVector<Slot> wheel_;
  std::vector<std::uint64_t> occupied_;  // one bit per slot of the wheel
  std::uint64_t epoch_ = 0;
  std::size_t in_wheel_ = 0;
  std::map<std::uint64_t, std::vector<Event>> later_;  // by epoch, beyond the wheel
  Slabs<Chunk, kFirstChunks> chunks_;
  std::vector<std::uint32_t>
      after_;  // of each chunk, the next one of its slot; separate, so that it is known before the chunk is loaded
  std::vector<std::uint32_t> free_;  // free chunks, reused in last-in, first-out order
  std::size_t size_ = 0;
};

}  // namespace openmrc::netsim
