#include "netsim/event_queue.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::uint64_t kSlotsAhead = 6;  // processing a slot's events takes about as long as one memory access

}  // namespace

EventQueue::EventQueue(int width_bits)
    : width_bits_(width_bits), wheel_(kWheelMask + 1), occupied_((kWheelMask + 1) / 64) {}

int EventQueue::width_for(TimePs between_events) {
  constexpr TimePs kEventsPerSlot = 4;
  const auto width = static_cast<std::uint64_t>(std::max<TimePs>(between_events, 1) * kEventsPerSlot);
  return std::clamp(static_cast<int>(std::bit_width(width)), 7, 24);
}

std::uint32_t EventQueue::take_chunk() {
  if (free_.empty()) {
    const std::uint32_t first = chunks_.size();
    for (std::uint32_t i = chunks_.grow(); i > 0; --i) free_.push_back(first + i - 1);
    after_.resize(chunks_.size());
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  constexpr std::size_t kAhead = 4;
  if (free_.size() >= kAhead) prefetch_chunk(free_[free_.size() - kAhead]);  // for a later call
  after_[index] = kNone;
  return index;
}

std::uint32_t EventQueue::append(Slot& slot, TimePs time, const Packet& packet) {
  if (slot.used == kChunkEvents) {
    const std::uint32_t fresh = take_chunk();
    if (slot.last == kNone) {
      slot.first = fresh;
    } else {
      after_[slot.last] = fresh;
    }
    slot.last = fresh;
    slot.used = 0;
  }
  const std::uint32_t position = slot.used++;
  Event& target = chunk(slot.last).events[position];
  target.time = time;
  target.packet = packet;
  return slot.last * kChunkEvents + position;
}

void EventQueue::prefetch(std::uint64_t slot) const {
  const Slot& ahead = wheel_[slot & kWheelMask];
  if (ahead.first == kNone) return;
  prefetch_chunk(ahead.first);
  if (ahead.last != ahead.first) prefetch_chunk(ahead.last);
}

void EventQueue::prefetch_chunk(std::uint32_t index) const {
  constexpr std::size_t kLine = 64;
  const char* bytes = reinterpret_cast<const char*>(&chunk(index));
  for (std::size_t at = 0; at < sizeof(Chunk); at += kLine) __builtin_prefetch(bytes + at);
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
  const std::uint32_t index = append(open_, time, packet);
  const Key key = key_of(event(index), index);
  keys_.insert(std::upper_bound(keys_.begin() + static_cast<std::ptrdiff_t>(cursor_), keys_.end(), key), key);
}

// The first occupied slot from `from` on; the end of the next epoch if there is none.
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
  prefetch(slot + kSlotsAhead);
  each_event(open_, [this](const Event& event, std::uint32_t index) { keys_.push_back(key_of(event, index)); });
  in_wheel_ -= keys_.size();
  sort_keys();
}

// Stable sort. Most slots have a handful of events, for which insertion sort is fastest.
void EventQueue::sort_keys() {
  constexpr std::size_t kFew = 32;
  if (keys_.size() > kFew) return sort_many();
  for (std::size_t i = 1; i < keys_.size(); ++i) {
    const Key key = keys_[i];
    std::size_t at = i;
    for (; at > 0 && key < keys_[at - 1]; --at) keys_[at] = keys_[at - 1];
    keys_[at] = key;
  }
}

// NICs that start together send together: a slot then has thousands of events whose times differ in few bits. A radix
// sort from the lowest digit up skips the digits that are equal everywhere.
void EventQueue::sort_many() {
  constexpr unsigned kDigitBits = 8;
  constexpr std::uint64_t kDigitMask = (1U << kDigitBits) - 1;
  const auto number = [begin = open_slot_ << width_bits_](const Key& key) {
    return (static_cast<std::uint64_t>(key.time) - begin) << 32 | key.link;
  };
  std::uint64_t differ = 0;
  for (const Key& key : keys_) differ |= number(key) ^ number(keys_.front());
  sorted_.resize(keys_.size());
  for (unsigned shift = 0; shift < 64 && differ >> shift != 0; shift += kDigitBits) {
    if ((differ >> shift & kDigitMask) == 0) continue;
    std::array<std::uint32_t, kDigitMask + 1> begins{};
    for (const Key& key : keys_) ++begins[number(key) >> shift & kDigitMask];
    std::uint32_t begin = 0;
    for (std::uint32_t& entry : begins) begin += std::exchange(entry, begin);
    for (const Key& key : keys_) sorted_[begins[number(key) >> shift & kDigitMask]++] = key;
    keys_.swap(sorted_);
  }
}

void EventQueue::close() {
  for (std::uint32_t index = open_.first; index != kNone; index = after_[index]) free_.push_back(index);
  open_ = Slot{};
  keys_.clear();
  cursor_ = 0;
}

// Moves events from beyond the wheel that belong to this epoch or the next into it. They were pushed before any event
// that went directly to the same slots, so the order of insertion holds.
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
    each_event(wheel_[slot & kWheelMask],
               [&first](const Event& event, std::uint32_t) { first = std::min(first, event.time); });
  } else if (!later_.empty()) {
    for (const Event& event : later_.begin()->second) first = std::min(first, event.time);
  }
  return first;
}

std::size_t EventQueue::memory_bytes() const {
  std::size_t bytes = chunks_.memory_bytes() + after_.capacity() * sizeof(std::uint32_t) +
                      wheel_.size() * sizeof(Slot) + occupied_.size() * sizeof(std::uint64_t) +
                      (keys_.capacity() + sorted_.capacity()) * sizeof(Key);
  for (const auto& [epoch, events] : later_) bytes += events.capacity() * sizeof(Event);
  return bytes;
}

}  // namespace openmrc::netsim
