// Settings of the RoCEv2 baseline.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "netsim/simulate/dcqcn.hpp"

namespace openmrc::netsim {

struct RoceSettings {
  bool dcqcn = true;  // false: every QP sends at the line rate and only PFC slows it
  DcqcnSettings rate;

  // The requester asks for an acknowledgement in every so many packets, and in the last of a message.
  std::uint32_t ack_packets = 4;

  // 4.096 us * 2^10. The verbs value in wide use is 14 (67 ms), but NICs with adaptive retransmission try again after
  // a few milliseconds; with 67 ms every lost tail would decide the run, which is not what is compared here. Much less
  // would fire while PFC holds a path up.
  TimePs timeout_ps = 4'194'304'000;
  // Adaptive retransmission starts short and waits longer each time that nothing comes back, up to the usual 4.096 us *
  // 2^14: eight timeouts of 4 ms would end a QP before routing has found another way.
  TimePs timeout_max_ps = 67'108'864'000;
  std::uint32_t retries = 7;  // timeouts in a row that are answered by sending again; the next one ends the QP. Verbs'
                              // retry_cnt, where 7 is the most and the usual value

  // Most that a QP has unacknowledged, counted in full packets; 0: PSNs are the only bound (2^23), as in a NIC.
  std::uint64_t window_bytes = 0;

  // A QP whose port goes down sends through the next port that is up, as behind a bonded interface. What was lost comes
  // again by timeout. False: it waits for its port and fails after `retries`.
  bool failover = true;
};

}  // namespace openmrc::netsim
