// Interrupt moderation, as NICs call it: pauses of the I/O thread between two looks at its sockets.
//
// Where data or acknowledgements trickle in, a thread that keeps up wakes for each of them. A pause lets some come together,
// which are then acknowledged and answered together. The end of a message must not wait for it: the sending half knows
// where its own messages end; the receiving half does not, and goes by whether its pauses pay.
#pragma once

#include <cstdint>

#include "nic/clock.hpp"

namespace openmrc::nic {

class Moderation {
 public:
  // One look at all sockets, and the datagrams found.
  struct Look {
    TimeNs now = 0;
    std::uint32_t datagrams = 0;
    std::uint64_t bytes = 0;
    TimeNs waited = kNeverNs;  // the latest data, in its socket; 0: that is not known; kNeverNs: there was none
  };

  // How long to pause after a look; 0: not at all. `patience`: how long acknowledgements may be left unread, 0 where somebody
  // waits for one, kNeverNs where none is due.
  TimeNs pause(const Look& look, TimeNs patience);

 private:
  TimeNs for_data(const Look& look);
  void judge(const Look& look);

  static constexpr std::uint32_t kLooksMin = 8;

  // Data that comes without a gap: how much since when.
  TimeNs since_ = 0, latest_ = -kNsPerSecond;
  TimeNs bytes_ = 0, datagrams_ = 0;
  std::uint32_t looks_ = 0;
  std::uint32_t looks_first_ = kLooksMin;  // before the first pause
  TimeNs paused_ = 0;                      // before this look, for data
};

}  // namespace openmrc::nic
