// The sending half of a DCTCP connection: SACK loss recovery, retransmission timer, tail loss probe.
#pragma once

#include <cstdint>

#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/baseline_messages.hpp"
#include "netsim/simulate/dctcp_control.hpp"
#include "netsim/simulate/dctcp_scoreboard.hpp"
#include "netsim/simulate/dctcp_wire.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

class DctcpSender {
 public:
  DctcpSender(const DctcpSettings& settings, const Surroundings& surroundings);

  void post(MessageId message, std::uint64_t bytes) { messages_.push(message, bytes, mtu_); }
  bool may_send();

  // Writes the next packet; may_send() must hold. The caller adds the address and the receiver's number.
  void send(TimePs now, DctcpData header, HostPacket& packet);

  // True if a packet is newly acknowledged.
  bool handle_ack(TimePs now, const DctcpAck& ack);
  // Handles the expired timer: repairs, probes or resends everything; false: the retries are exhausted.
  bool handle_timer();
  // Time from now until handle_timer.
  TimePs patience() const;
  bool waits() const { return board_.next() > board_.acknowledged(); }
  // True if the timer would send a probe, which every new packet postpones.
  bool would_probe() const;

  // Completed messages, in order; after a failure all of them.
  bool pop_completed(MessageId& message) { return messages_.pop_acknowledged(board_.acknowledged(), message); }
  bool pop_any(MessageId& message) { return messages_.pop(message); }
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

  void add_to(ConnectionStats& stats) const;
  std::uint64_t memory_bytes() const { return sizeof *this + messages_.memory_bytes() + board_.memory_bytes(); }

 private:
  enum class Phase : std::uint8_t { kOpen, kRecovery, kTimedOut };

  std::uint64_t window() const;
  std::uint64_t choose(bool& again);
  TimePs retransmission_timeout() const;
  TimePs probe_timeout() const;  // of the first probe of a flight
  TimePs waited_for_probes(std::uint32_t probes) const;
  void measure(TimePs rtt);
  bool repair(std::uint32_t reordering_packets);

  const DctcpSettings* settings_;
  MessageQueue messages_;
  DctcpScoreboard board_;
  DctcpControl control_;
  std::uint64_t repair_end_ = 0;  // the phase ends when everything below has arrived
  TimePs smoothed_rtt_, rtt_variation_;
  std::uint64_t sent_packets_ = 0, sent_bytes_ = 0, retransmitted_packets_ = 0, acks_ = 0, marks_ = 0, losses_ = 0;
  std::uint32_t timeouts_ = 0, timeouts_in_row_ = 0;
  std::uint32_t mtu_, around_;
  Phase phase_ = Phase::kOpen;
  bool at_once_ = false;      // the first repair ignores the window (RFC 6675, section 5, step 4.3)
  bool probe_ = false;        // to be sent
  std::uint32_t probes_ = 0;  // of this flight
  bool failed_ = false;
};

}  // namespace openmrc::netsim
