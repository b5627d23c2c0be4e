// The receiving half of a DCTCP connection: reassembly, SACK blocks, and acknowledgements that echo every mark exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/ring.hpp"
#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/dctcp_wire.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

class DctcpReceiver {
 public:
  // Appends the messages that have become complete, in order, to `done`.
  void handle_data(TimePs now, const DctcpSettings& settings, const DctcpData& data, const HostPacket& packet,
                   Ring<Done>& done);

  bool owes() const { return !owed_.empty(); }
  // True if an acknowledgement is delayed: handle_timer() has to follow within ack_delay.
  bool delays() const { return unacknowledged_ > 0; }
  void handle_timer() { owe(); }
  DctcpAck take_ack();

  void add_to(ConnectionStats& stats) const;
  std::uint64_t memory_bytes() const;

 private:
  struct Interval {
    std::uint64_t start = 0, end = 0;
  };
  struct MessageEnd {
    std::uint64_t sequence = 0;
    MessageId message = 0;
  };
  struct Owed {
    std::uint64_t next = 0;
    TimePs sent = 0;
    bool echo = false;
  };

  bool accept(const DctcpData& data, Ring<Done>& done);
  bool hold(std::uint64_t sequence);
  void owe();

  std::uint64_t next_ = 0;
  std::vector<Interval>
      ahead_;  // arrived beyond next_, most recently updated first: the order of SACK blocks (RFC 2018)
  std::vector<MessageEnd> ends_;  // of messages that end in `ahead_`, in order
  Ring<Owed> owed_;               // acknowledgements to send; neighbours have different echoes
  TimePs last_arrival_ = 0;
  TimePs last_sent_ = 0;  // timestamp of the latest packet
  std::uint64_t received_packets_ = 0, received_bytes_ = 0, duplicates_ = 0;
  std::uint32_t unacknowledged_ = 0;  // packets since the last acknowledgement
  bool marked_ = false;               // DCTCP.CE of RFC 8257, section 3.2
};

}  // namespace openmrc::netsim
