#include "netsim/simulate/dctcp_receiver.hpp"

#include <algorithm>

namespace openmrc::netsim {

void DctcpReceiver::handle_data(TimePs now, const DctcpSettings& settings, const DctcpData& data,
                                const HostPacket& packet, Ring<Done>& done) {
  ++received_packets_;
  const bool marked = packet.ecn == Ecn::kCe;
  if (marked != marked_) {
    // Earlier packets had the opposite mark: acknowledge them separately (RFC 8257, figure 1).
    if (unacknowledged_ > 0) owe();
    marked_ = marked;
  }
  const bool gap = !ahead_.empty();
  const bool fresh = accept(data, done);
  if (fresh) {
    received_bytes_ += packet.payload_bytes;
  } else {
    ++duplicates_;
  }
  // After a pause a sender may have a window of one packet, whose acknowledgement must not be delayed (Linux's quick
  // acknowledgements).
  const bool resumes = now - last_arrival_ >= settings.ack_delay;
  last_arrival_ = now;
  last_sent_ = data.sent_ps;
  ++unacknowledged_;
  // A sender stops at the end of a message, and out-of-order arrivals must be acknowledged at once (RFC 5681, 4.2).
  const bool at_once = !fresh || resumes || gap || !ahead_.empty() || data.last != 0;
  if (at_once || unacknowledged_ >= settings.ack_packets) owe();
}

// Returns false for a duplicate.
bool DctcpReceiver::accept(const DctcpData& data, Ring<Done>& done) {
  if (data.sequence < next_) return false;
  if (data.sequence > next_) {
    if (!hold(data.sequence)) return false;
    if (data.last != 0) {
      const MessageEnd end{data.sequence, data.message};
      const auto later = [](const MessageEnd& a, const MessageEnd& b) { return a.sequence < b.sequence; };
      ends_.insert(std::upper_bound(ends_.begin(), ends_.end(), end, later), end);
    }
    return true;
  }
  ++next_;
  if (data.last != 0) done.push_back({data.message, Done::Kind::kReceived});
  const auto joins = [this](const Interval& interval) { return interval.start == next_; };
  if (const auto joined = std::find_if(ahead_.begin(), ahead_.end(), joins); joined != ahead_.end()) {
    next_ = joined->end;
    ahead_.erase(joined);
    auto end = ends_.begin();
    for (; end != ends_.end() && end->sequence < next_; ++end) {
      done.push_back({end->message, Done::Kind::kReceived});
    }
    ends_.erase(ends_.begin(), end);
  }
  return true;
}

// Adds a packet to the intervals and moves its interval to the front; false if it is a duplicate.
bool DctcpReceiver::hold(std::uint64_t sequence) {
  Interval grown{sequence, sequence + 1};
  for (const Interval& interval : ahead_) {
    if (interval.start <= sequence && sequence < interval.end) return false;
    if (interval.end == sequence) grown.start = interval.start;
    if (interval.start == sequence + 1) grown.end = interval.end;
  }
  const auto swallowed = [&](const Interval& old) { return old.start >= grown.start && old.end <= grown.end; };
  ahead_.erase(std::remove_if(ahead_.begin(), ahead_.end(), swallowed), ahead_.end());
  ahead_.insert(ahead_.begin(), grown);
  return true;
}

// Acknowledgements are cumulative: a waiting one with the same echo covers both.
void DctcpReceiver::owe() {
  unacknowledged_ = 0;
  const Owed ack{.next = next_, .sent = last_sent_, .echo = marked_};
  if (!owed_.empty() && owed_.back().echo == marked_) {
    owed_.back() = ack;
  } else {
    owed_.push_back(ack);
  }
}

DctcpAck DctcpReceiver::take_ack() {
  const Owed owed = owed_.front();
  owed_.pop_front();
  DctcpAck ack;
  ack.echo = owed.echo ? 1 : 0;
  ack.next = owed.next;
  ack.sent_ps = owed.sent;
  // Blocks describe the latest state; an older acknowledgement with another echo must not report them.
  if (!owed_.empty()) return ack;
  for (const Interval& interval : ahead_) {
    if (ack.blocks == kSackBlocks) break;
    ack.sacked[ack.blocks++] = {static_cast<std::uint32_t>(interval.start - ack.next),
                                static_cast<std::uint32_t>(interval.end - ack.next)};
  }
  return ack;
}

void DctcpReceiver::add_to(ConnectionStats& stats) const {
  stats.received_packets = received_packets_;
  stats.received_bytes = received_bytes_;
  stats.duplicate_packets = duplicates_;
}

std::uint64_t DctcpReceiver::memory_bytes() const {
  return sizeof *this + ahead_.capacity() * sizeof(Interval) + ends_.capacity() * sizeof(MessageEnd) +
         owed_.memory_bytes();
}

}  // namespace openmrc::netsim
