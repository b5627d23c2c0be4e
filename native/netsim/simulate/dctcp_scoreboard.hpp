// The state of each packet of a TCP window, and loss detection: a packet is lost once another one has arrived that was
// sent three transmissions later. Counting transmissions, not sequence numbers, finds lost retransmissions too (the
// idea of RACK, RFC 8985, with the packet count of RFC 6675 as the measure).
#pragma once

#include <cstdint>

#include "engine/base/ring.hpp"
#include "engine/base/time.hpp"

namespace openmrc::netsim {

class DctcpScoreboard {
 public:
  void sent(TimePs now);                                   // the next packet for the first time
  void retransmitted(TimePs now, std::uint64_t sequence);  // again

  // Everything below `next`, or in [start, end), has arrived; `sent_at` is the echoed timestamp. Returns the number of
  // new arrivals.
  std::uint64_t acknowledge(std::uint64_t next, TimePs sent_at);
  std::uint64_t sack(std::uint64_t start, std::uint64_t end, TimePs sent_at);

  // Marks packets as lost; returns their number.
  std::uint64_t find_losses(std::uint32_t reordering_packets);
  std::uint64_t lose_all();  // marks all packets that have not arrived
  // Makes all packets in flight look old: any later transmission that arrives proves them lost.
  void age(std::uint32_t reordering_packets);

  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t next() const { return acknowledged_ + slots_.size(); }
  std::uint64_t in_flight() const { return in_flight_; }
  bool has_lost();                   // waiting to be sent again
  std::uint64_t first_lost() const;  // has_lost() must hold
  std::uint64_t last_missing();      // the highest that has not arrived; requires an unacknowledged packet

  std::uint64_t memory_bytes() const { return slots_.memory_bytes() + log_.memory_bytes() + lost_.memory_bytes(); }

 private:
  enum class State : std::uint8_t { kInFlight, kArrived, kLost };

  struct Slot {
    TimePs sent = 0;
    std::uint64_t transmission = 0;  // its number
    State state = State::kInFlight;
    bool retransmitted = false;
  };

  static constexpr std::uint64_t kNoPacket = ~std::uint64_t{0};

  Slot& slot(std::uint64_t sequence) { return slots_[sequence - acknowledged_]; }
  bool arrive(Slot& slot, TimePs sent_at);
  void lose(std::uint64_t sequence);

  Ring<Slot> slots_;          // of [acknowledged_, next())
  Ring<std::uint64_t> log_;   // packets in the order of transmission, starting with number log_first_
  Ring<std::uint64_t> lost_;  // may include some that have arrived since
  std::uint64_t acknowledged_ = 0;
  std::uint64_t log_first_ = 0;
  std::uint64_t newest_ = 0;  // transmission number after the latest that has arrived
  std::uint64_t in_flight_ = 0;
};

}  // namespace openmrc::netsim
