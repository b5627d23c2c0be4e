// Jitter of one plane's path: variation of the delay that comes from no queue.
//
// In a FIFO the delay of a later packet falls as fast as time passes only if nothing arrives meanwhile. A delay that
// falls about that fast, although this sender has not paused, was not that of a queue that senders fill: the path
// itself varies, or a link stops now and then and forwards what has collected.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

class PathJitter {
 public:
  struct Epoch {
    TimePs usual = 0;         // drops of the delay below this prove nothing
    std::int64_t window = 0;  // bytes; 0: does not limit the sender
    std::int64_t rate = 1;    // bytes per second
    bool paused = false;      // the sender may have let the queue run empty
  };

  // Adds the delay above the idle time of a packet, in the order of arrival.
  void add(TimePs sent, TimePs delay);
  void end_epoch(const Epoch& epoch);
  void forget_delays() { sampled_ = false; }
  void rebase(TimePs by) { peak_sent_ = rebased(peak_sent_, by); }

  TimePs jitter() const { return jitter_; }  // largest of recent epochs

 private:
  TimePs jitter_ = 0;
  TimePs peak_ = 0, peak_sent_ = 0;
  TimePs drop_ = 0;  // largest of the epoch
  bool sampled_ = false;
  std::int64_t window_before_ = 0, window_earlier_ = 0;  // of the two epochs before
};

}  // namespace openmrc
