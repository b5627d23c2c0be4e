// The responder half of a RoCEv2 QP: accepts PSNs in order only, and is the notification point of DCQCN.
#pragma once

#include <cstdint>

#include "netsim/simulate/endpoint.hpp"
#include "netsim/simulate/roce_settings.hpp"
#include "netsim/simulate/roce_wire.hpp"

namespace openmrc::netsim {

class RoceReceiver {
 public:
  // True when the packet ends a message, whose bytes are then all there.
  bool handle_write(TimePs now, const RoceSettings& settings, const RoceHeader& header, const HostPacket& packet);

  bool owes() const { return ack_ || nak_ || cnp_; }
  // The next answer that is owed; its number is the state at this moment, so one answer speaks for all before it.
  RoceHeader take_answer();

  void add_to(ConnectionStats& stats) const;

 private:
  void notify(TimePs now, const RoceSettings& settings);

  std::uint64_t expected_ = 0;
  TimePs next_cnp_ = 0;  // not before this
  std::uint64_t received_packets_ = 0, received_bytes_ = 0, duplicates_ = 0;
  bool ack_ = false, nak_ = false, cnp_ = false;  // owed
  bool gap_told_ = false;                         // one NAK per gap (InfiniBand: until the expected PSN has come)
};

}  // namespace openmrc::netsim
