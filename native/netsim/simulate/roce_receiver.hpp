// The responder half of a RoCEv2 QP: accepts PSNs in order only, and is the notification point of DCQCN.
#pragma once

#include <cstdint>

#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/endpoint.hpp"
#include "netsim/simulate/roce_wire.hpp"

namespace openmrc::netsim {

class RoceReceiver {
 public:
  // True if the packet completes a message.
  bool handle_write(TimePs now, const RoceSettings& settings, const RoceHeader& header, const HostPacket& packet);

  bool owes() const { return ack_ || nak_ || cnp_; }
  // The next response that is due; its number is the current state, so one response covers all before it.
  RoceHeader take_answer();

  void add_to(ConnectionStats& stats) const;

 private:
  void notify(TimePs now, const RoceSettings& settings);

  std::uint64_t expected_ = 0;
  TimePs next_cnp_ = 0;  // not before this
  std::uint64_t received_packets_ = 0, received_bytes_ = 0, duplicates_ = 0;
  bool ack_ = false, nak_ = false, cnp_ = false;  // owed
  bool gap_told_ = false;                         // one NAK per gap (InfiniBand: until the expected PSN arrives)
};

}  // namespace openmrc::netsim
