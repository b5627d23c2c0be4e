// The requester half of a RoCEv2 QP: PSNs in order, go-back-N, rate control.
#pragma once

#include <algorithm>
#include <cstdint>

#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/baseline_messages.hpp"
#include "netsim/simulate/dcqcn.hpp"
#include "netsim/simulate/roce_wire.hpp"

namespace openmrc::netsim {

class RoceSender {
 public:
  RoceSender(const RoceSettings& settings, const Surroundings& surroundings);

  void post(MessageId message, std::uint64_t bytes) { messages_.push(message, bytes, mtu_); }
  bool may_send() const { return next_ < messages_.end() && next_ - acknowledged_ < window_; }
  // Earliest next sending time by the rate. A rate that has risen since the last packet shortens the wait.
  TimePs next_send(TimePs now);
  // Time of the next change: a rate increase, or the next send.
  TimePs next_look() const { return std::min(next_send_, rate_.next_increase()); }

  // Writes the next packet; may_send() must hold. The caller adds the address and the receiver's number.
  void send(TimePs now, RoceHeader header, HostPacket& packet);

  // Everything below `psn` has arrived; returns true if that is new.
  bool handle_ack(std::uint64_t psn);
  // `psn` is missing while a later one has arrived: everything from there on is sent again.
  bool handle_nak(std::uint64_t psn);
  void handle_cnp(TimePs now);
  // Goes back to the first unacknowledged packet; false: the retries are exhausted.
  bool handle_timeout();
  TimePs patience() const;  // from now until handle_timeout

  // True if a response is due, so that the timer has to run.
  bool waits() const { return requested_ > acknowledged_; }

  // Completed messages, in order; after a failure all of them.
  bool pop_completed(MessageId& message) { return messages_.pop_acknowledged(acknowledged_, message); }
  bool pop_any(MessageId& message) { return messages_.pop(message); }
  void fail();
  bool failed() const { return failed_; }

  void add_to(ConnectionStats& stats) const;
  std::uint64_t memory_bytes() const { return sizeof *this + messages_.memory_bytes(); }

 private:
  bool wants_ack(TimePs now, const Segment& segment) const;
  void pace(TimePs now, std::uint32_t wire_bytes);

  const RoceSettings* settings_;
  MessageQueue messages_;
  Dcqcn rate_;
  std::uint64_t acknowledged_ = 0;  // PSNs below have arrived
  std::uint64_t next_ = 0;          // to send
  std::uint64_t highest_ = 0;       // everything below was sent at least once
  std::uint64_t requested_ = 0;     // an acknowledgement was requested for everything below
  std::uint64_t window_;            // packets
  TimePs next_send_ = 0;
  TimePs last_request_ = 0;
  std::uint64_t sent_packets_ = 0, sent_bytes_ = 0, retransmitted_packets_ = 0, acks_ = 0;
  std::uint32_t naks_ = 0, cnps_ = 0, timeouts_ = 0;
  std::uint32_t timeouts_in_row_ = 0;
  std::uint32_t mtu_, around_;
  bool failed_ = false;
};

}  // namespace openmrc::netsim
