#include "engine/qp/send_window.hpp"

#include <algorithm>

namespace openmrc {

SendRecord& SendWindow::append() {
  if (end_ - first_ >= ring_.size()) grow();
  SendRecord& fresh = ring_[end_ & mask()];
  fresh = SendRecord{};
  ++end_;
  return fresh;
}

void SendWindow::grow() {
  // Slots are PSNs modulo the size, so growth moves every record and with it the links of the list.
  std::vector<SendRecord> larger(std::max<std::size_t>(kIdleRecords, ring_.size() * 2));
  MRC_ASSERT(larger.size() <= kRecordsMax);
  const std::uint64_t new_mask = larger.size() - 1;
  const auto moved = [&](std::uint16_t slot) {
    return slot == kNone ? kNone : static_cast<std::uint16_t>(psn_of(slot) & new_mask);
  };
  for (Psn psn = first_; psn < end_; ++psn) {
    SendRecord& from = ring_[psn & mask()];
    SendRecord& to = larger[psn & new_mask];
    to = from;
    if (from.state == SendState::kInFlight) {
      to.previous = moved(from.previous);
      to.next = moved(from.next);
    }
  }
  head_ = moved(head_);
  tail_ = moved(tail_);
  ring_ = std::move(larger);
}

void SendWindow::sent(Psn psn, TimePs now, EvIndex ev) {
  SendRecord& entry = record(psn);
  MRC_ASSERT(entry.state == SendState::kUnsent || entry.state == SendState::kLost);
  if (entry.state == SendState::kLost) {
    --lost_;
    entry.lost_on = entry.ev;
    entry.lost_sent = entry.sent;
  }
  entry.state = SendState::kInFlight;
  entry.sent = now;
  entry.ev = ev;
  entry.path_blameless = false;
  if (entry.transmissions < UINT8_MAX) ++entry.transmissions;
  const auto slot = static_cast<std::uint16_t>(psn & mask());
  entry.previous = tail_;
  entry.next = kNone;
  if (tail_ == kNone) {
    head_ = slot;
  } else {
    ring_[tail_].next = slot;
  }
  tail_ = slot;
  ++in_flight_;
  in_flight_bytes_ += entry.nominal_bytes;
}

void SendWindow::append_sent(std::uint32_t count, std::uint32_t nominal_bytes, TimePs now, EvIndex ev) {
  MRC_ASSERT(count > 0);
  while (end_ + count - first_ > ring_.size()) grow();
  const auto slot_of = [this](Psn psn) { return static_cast<std::uint16_t>(psn & mask()); };
  (tail_ == kNone ? head_ : ring_[tail_].next) = slot_of(end_);
  for (const Psn beyond = end_ + count; end_ < beyond; ++end_) {
    SendRecord& entry = ring_[end_ & mask()];
    entry = SendRecord{};
    entry.sent = now;
    entry.nominal_bytes = nominal_bytes;
    entry.previous = tail_;
    entry.next = slot_of(end_ + 1);
    entry.ev = ev;
    entry.state = SendState::kInFlight;
    entry.transmissions = 1;
    tail_ = slot_of(end_);
  }
  ring_[tail_].next = kNone;
  in_flight_ += count;
  in_flight_bytes_ += std::uint64_t{count} * nominal_bytes;
}

void SendWindow::leave_flight(Psn psn, SendState state) {
  SendRecord& entry = record(psn);
  if (entry.state == SendState::kInFlight) {
    (entry.previous == kNone ? head_ : ring_[entry.previous].next) = entry.next;
    (entry.next == kNone ? tail_ : ring_[entry.next].previous) = entry.previous;
    --in_flight_;
    in_flight_bytes_ -= entry.nominal_bytes;
  } else if (entry.state == SendState::kLost) {
    --lost_;
  }
  entry.state = state;
  if (state == SendState::kLost) {
    ++lost_;
    lost_hint_ = std::min(lost_hint_, psn);
  }
}

void SendWindow::advance(Psn first) {
  MRC_ASSERT(first >= first_ && first <= end_);
  first_ = first;
  lost_hint_ = std::max(lost_hint_, first);
}

Psn SendWindow::next_lost(Psn from) {
  const bool from_the_start = from <= std::max(lost_hint_, first_);
  Psn psn = std::max({from, lost_hint_, first_});
  while (psn < end_ && ring_[psn & mask()].state != SendState::kLost) ++psn;
  if (from_the_start) lost_hint_ = psn;
  return psn;
}

void SendWindow::rebase(TimePs by) {
  for (Psn psn = first_; psn < end_; ++psn) {
    SendRecord& entry = record(psn);
    entry.sent = rebased(entry.sent, by);
    entry.lost_sent = rebased(entry.lost_sent, by);
  }
}

void SendWindow::release_if_idle() {
  if (first_ == end_ && ring_.size() > kIdleRecords) {
    ring_ = std::vector<SendRecord>();
    head_ = tail_ = kNone;
  }
}

}  // namespace openmrc
