// The packets in flight: one record per PSN of the window, linked in sending order.
//
// Loss detection needs the sending order: a packet that is missing although packets sent well after it have arrived is
// lost (RFC 8985's idea, over many paths). Records live in a ring that grows with use and shrinks when the QP falls
// idle, so that an idle QP costs next to nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/time.hpp"
#include "engine/paths/ev_set.hpp"
#include "engine/qp/psn.hpp"

namespace openmrc {

enum class SendState : std::uint8_t { kUnsent = 0, kInFlight, kLost, kAcked };

// Half a cache line, because windows are large and every acknowledgement misses the cache.
struct alignas(32) SendRecord {
  TimePs sent = 0;       // last transmission
  TimePs lost_sent = 0;  // the transmission before, when that one was judged lost
  std::uint32_t nominal_bytes = 0;
  std::uint16_t previous = 0;  // neighbours in sending order, as window slots
  std::uint16_t next = 0;
  EvIndex ev = kNoEv;       // of the last transmission
  EvIndex lost_on = kNoEv;  // of the transmission before, when that one was judged lost
  SendState state = SendState::kUnsent;
  std::uint8_t transmissions = 0;
  bool path_blameless = false;  // NACKed for lack of resources: if the packet is repeated, its EV is not to blame
};
static_assert(sizeof(SendRecord) == 32);

class SendWindow {
 public:
  void start(Psn first) { first_ = end_ = first; }

  Psn first() const { return first_; }  // lowest PSN not cumulatively acknowledged
  Psn end() const { return end_; }      // next PSN to be sent for the first time
  bool contains(Psn psn) const { return psn >= first_ && psn < end_; }
  SendRecord& record(Psn psn) {
    MRC_ASSERT(contains(psn));
    return ring_[psn & mask()];
  }
  const SendRecord& record(Psn psn) const { return const_cast<SendWindow*>(this)->record(psn); }

  // Opens a record for the next new PSN.
  SendRecord& append();
  // Puts the record at the end of the sending order, in flight.
  void sent(Psn psn, TimePs now, EvIndex ev);
  // Both for the next `count` new PSNs, each of `nominal_bytes`.
  void append_sent(std::uint32_t count, std::uint32_t nominal_bytes, TimePs now, EvIndex ev);
  // Takes it out of flight: acknowledged or lost.
  void leave_flight(Psn psn, SendState state);
  // Moves the lower edge; everything below must be acknowledged.
  void advance(Psn first);
  void rebase(TimePs by);
  // Gives memory back when nothing is in flight.
  void release_if_idle();

  bool flight_empty() const { return in_flight_ == 0; }
  std::uint32_t in_flight() const { return in_flight_; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  Psn oldest() const { return psn_of(head_); }  // first in sending order; only when !flight_empty()
  // Iteration over the packets in flight, in sending order; end() after the last.
  Psn oldest_or_end() const { return head_ == kNone ? end_ : psn_of(head_); }
  Psn next_in_flight(Psn psn) const {
    const auto next = record(psn).next;
    return next == kNone ? end_ : psn_of(next);
  }

  // Lost packets, lowest PSN first ("oldest gap first").
  std::uint32_t lost() const { return lost_; }
  Psn next_lost(Psn from);  // end() when there is none

 private:
  static constexpr std::uint16_t kNone = UINT16_MAX;
  static constexpr std::size_t kRecordsMax = std::size_t{1} << 15;  // 255 units of 128 PSNs, as a power of two
  static constexpr std::size_t kIdleRecords = 32;

  std::uint64_t mask() const { return ring_.size() - 1; }
  Psn psn_of(std::uint16_t slot) const { return first_ + ((slot - first_) & mask()); }
  void grow();

  std::vector<SendRecord> ring_;
  Psn first_ = kPsnOrigin;
  Psn end_ = kPsnOrigin;
  Psn lost_hint_ = kPsnOrigin;  // no lost PSN below
  std::uint16_t head_ = kNone;
  std::uint16_t tail_ = kNone;
  std::uint32_t in_flight_ = 0;
  std::uint32_t lost_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
};

}  // namespace openmrc
