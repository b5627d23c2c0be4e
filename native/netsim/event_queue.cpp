#include "netsim/event_queue.hpp"

#include <algorithm>
#include <bit>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {

EventQueue::EventQueue() : wheel_(kWheelMask + 1), occupied_((kWheelMask + 1) / 64) {}

std::uint32_t EventQueue::take_chunk() {
  if (free_ != kNone) {
    const std::uint32_t index = free_;
    free_ = chunk(index).next;
    chunk(index).used = 0;
    chunk(index).next = kNone;
    return index;
  }
  if (chunks_used_ % kSlabChunks == 0) slabs_.push_back(std::make_unique<Chunk[]>(kSlabChunks));
  return chunks_used_++;
}

std::uint32_t EventQueue::append(Slot& slot, TimePs time, const Packet& packet) {
  if (slot.last == kNone || chunk(slot.last).used == kChunkEvents) {
    const std::uint32_t fresh = take_chunk();
    if (slot.last == kNone) {
      slot.first = fresh;
    } else {
      chunk(slot.last).next = fresh;
    }
    slot.last = fresh;
  }
  Chunk& target = chunk(slot.last);
  const std::uint32_t position = target.used++;
  target.events[position].time = time;
  target.events[position].packet = packet;
  return slot.last * kChunkEvents + position;
}

void EventQueue::push(TimePs time, const Packet& packet) {
  MRC_ASSERT(time >= 0);
  ++size_;
  const std::uint64_t slot = slot_of(time);
  if (slot <= open_slot_) return insert_into_open(time, packet);
  const std::uint64_t epoch = slot >> kEpochBits;
  if (epoch > epoch_ + 1) {
    later_[epoch].push_back({time, packet});
    return;
  }
  const std::uint64_t position = slot & kWheelMask;
  append(wheel_[position], time, packet);
  occupied_[position / 64] |= 1ULL << (position % 64);
  ++in_wheel_;
}

void EventQueue::insert_into_open(TimePs time, const Packet& packet) {
  const Key key{time, static_cast<std::uint32_t>(keys_.size()), append(open_, time, packet)};
  keys_.insert(std::upper_bound(keys_.begin() + static_cast<std::ptrdiff_t>(cursor_), keys_.end(), key, earlier), key);
}

// The first occupied slot from `from` on; the end of the next epoch when there is none.
std::uint64_t EventQueue::next_occupied(std::uint64_t from) const {
  const std::uint64_t end = (epoch_ + 2) << kEpochBits;
  while (from < end) {
    const std::uint64_t position = from & kWheelMask;
    const std::uint64_t word = occupied_[position / 64] >> (position % 64);
    if (word != 0) return from + static_cast<std::uint64_t>(std::countr_zero(word));
    from += 64 - position % 64;
  }
  return end;
}

const EventQueue::Event* EventQueue::pop(TimePs until) {
  while (cursor_ == keys_.size()) {
    if (!open_next(until)) return nullptr;
  }
  if (keys_[cursor_].time > until) return nullptr;
  --size_;
  return &event(keys_[cursor_++].event);
}

bool EventQueue::open_next(TimePs until) {
  close();
  if (size_ == 0) return false;
  const std::uint64_t last = slot_of(until);
  if (in_wheel_ == 0) {
    const std::uint64_t epoch = later_.begin()->first;
    if (epoch << kEpochBits > last) return false;
    enter_epoch(epoch);
  }
  const std::uint64_t slot = next_occupied(open_slot_ + 1);
  if (slot > last) return false;
  if (slot >> kEpochBits != epoch_) enter_epoch(slot >> kEpochBits);
  open(slot);
  return true;
}

void EventQueue::open(std::uint64_t slot) {
  const std::uint64_t position = slot & kWheelMask;
  open_ = wheel_[position];
  wheel_[position] = Slot{};
  occupied_[position / 64] &= ~(1ULL << (position % 64));
  open_slot_ = slot;
  for (std::uint32_t index = open_.first; index != kNone; index = chunk(index).next) {
    const Chunk& part = chunk(index);
    for (std::uint32_t i = 0; i < part.used; ++i) {
      keys_.push_back({part.events[i].time, static_cast<std::uint32_t>(keys_.size()), index * kChunkEvents + i});
    }
  }
  in_wheel_ -= keys_.size();
  if (keys_.size() > 1) std::sort(keys_.begin(), keys_.end(), earlier);
}

void EventQueue::close() {
  if (open_.first != kNone) {
    chunk(open_.last).next = free_;
    free_ = open_.first;
    open_ = Slot{};
  }
  keys_.clear();
  cursor_ = 0;
}

// What waited beyond the wheel and belongs to this epoch or the next one moves in. It was pushed before anything that
// went to the same slots directly, so that the order of insertion holds.
void EventQueue::enter_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  open_slot_ = std::max(open_slot_, (epoch << kEpochBits) - 1);
  while (!later_.empty() && later_.begin()->first <= epoch_ + 1) {
    for (const Event& event : later_.begin()->second) {
      --size_;
      push(event.time, event.packet);
    }
    later_.erase(later_.begin());
  }
}

TimePs EventQueue::next_time() const {
  if (cursor_ < keys_.size()) return keys_[cursor_].time;
  TimePs first = kNever;
  if (in_wheel_ > 0) {
    const std::uint64_t slot = next_occupied(open_slot_ + 1);
    for (std::uint32_t index = wheel_[slot & kWheelMask].first; index != kNone; index = chunk(index).next) {
      for (std::uint32_t i = 0; i < chunk(index).used; ++i) first = std::min(first, chunk(index).events[i].time);
    }
  } else if (!later_.empty()) {
    for (const Event& event : later_.begin()->second) first = std::min(first, event.time);
  }
  return first;
}

std::size_t EventQueue::memory_bytes() const {
  std::size_t bytes = slabs_.size() * kSlabChunks * sizeof(Chunk) + wheel_.size() * sizeof(Slot) +
                      occupied_.size() * sizeof(std::uint64_t) + keys_.capacity() * sizeof(Key);
  for (const auto& [epoch, events] : later_) bytes += events.capacity() * sizeof(Event);
  return bytes;
}

}  // namespace openmrc::netsim
