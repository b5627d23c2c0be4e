// Settings of the DCTCP baseline.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc::netsim {

struct DctcpSettings {
  std::uint32_t gain_shift = 4;          // g = 1/16 (RFC 8257, section 4.1; the same in Linux)
  std::uint32_t initial_window = 10;     // packets (RFC 6928)
  std::uint32_t min_window = 2;          // packets, after a mark or a loss (Linux dctcp_ssthresh)
  std::uint64_t window_bytes = 0;        // most in flight, as a receive buffer would bound it; 0: no bound
  std::uint32_t reordering_packets = 3;  // DupThresh of RFC 6675: lost when so many sent later have arrived
  std::uint32_t ack_packets = 2;         // delayed acknowledgements (RFC 5681)
  // The longest that one waits. Linux has 40 ms, which is above a data centre's minimum RTO; it has to be below.
  TimePs ack_delay_ps = kPsPerMs;
  // RFC 6298 has 1 s and Linux 200 ms; data centres set 1 to 10 ms (Vasudevan et al., SIGCOMM 2009; the DCTCP paper
  // measured with 10 ms).
  TimePs rto_min_ps = 10 * kPsPerMs;
  TimePs rto_max_ps = 120 * kPsPerSecond;  // Linux TCP_RTO_MAX
  std::uint32_t retries = 15;              // timeouts in a row before it gives up (Linux tcp_retries2)
  bool tail_loss_probe = true;             // RFC 8985, section 7; on in Linux since 3.10
  bool failover =
      false;  // a TCP flow belongs to its interface: while that is down it only times out. True: it moves to
              // the next port that is up, as behind a bonded interface
};

}  // namespace openmrc::netsim
