// Interrupt moderation, as in NICs: pauses of the I/O thread between two reads of its sockets.
//
// If data or acknowledgements trickle in, a thread that keeps up wakes for each of them. A pause lets several gather,
// which are then acknowledged and answered together. The end of a message must not wait for a pause: the sending half
// knows the ends of its own messages; the receiving half does not, and judges by the success of its pauses.
#pragma once

#include <cstdint>

#include "nic/clock.hpp"

namespace openmrc::nic {

class Moderation {
 public:
  // One read of all sockets, and the datagrams found.
  struct Look {
    TimeNs now = 0;
    std::uint32_t datagrams = 0;
    std::uint64_t bytes = 0;
    TimeNs waited = kNeverNs;   // wait of the latest data in its socket; 0: unknown; kNeverNs: no data
    bool message_open = false;  // the latest data was not the end of a message
    bool more = false;          // the read reached a limit: there may be more
  };

  // Length of the pause after a read; 0: none. `patience`: time for which acknowledgements may stay unread; 0 while the
  // application waits for one, kNeverNs if none is due.
  TimeNs pause(const Look& look, TimeNs patience);

 private:
  TimeNs for_data(const Look& look);
  void judge(const Look& look);

  static constexpr std::uint32_t kLooksMin = 8;

  // The current stretch of data without a gap: amount and start.
  TimeNs since_ = 0, latest_ = -kNsPerSecond;
  TimeNs bytes_ = 0, datagrams_ = 0;
  std::uint32_t looks_ = 0;
  std::uint32_t looks_first_ = kLooksMin;  // reads before the first pause
  TimeNs paused_ = 0;                      // pause before this read, for data
  bool open_ = false;                      // it began in the middle of a message
};

}  // namespace openmrc::nic
