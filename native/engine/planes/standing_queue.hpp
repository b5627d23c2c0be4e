// A queue that stays although the window shrinks: a plane that has become longer looks like that
// (docs/decisions/0140-longer-paths.md).
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "engine/planes/drain_least.hpp"

namespace openmrc {

class StandingQueue {
 public:
  struct Epoch {
    TimePs queue = 0;
    TimePs usual = 0;          // a queue up to this does not stand
    std::int64_t window = 0;   // bytes
    std::int64_t rate = 0;     // bytes per second
    std::int64_t carried = 0;  // the highest of the latest rates
    TimePs packet_time = 0;    // a queue that varies by so much is the same
    bool lossy = false;
    bool shrinkable = false;  // a drain would shrink the window noticeably
    bool varies = false;      // acknowledgements meet data, so that queues vary more
  };
  enum class Verdict : std::uint8_t {
    kQueue,      // as far as is known
    kLonger,     // the path is longer, by length()
    kUndecided,  // the window has come to rest at a lower rate: a drain decides
    kSmall,      // so has one that is too small for a drain: a larger one decides
  };

  // A queue of our own shrinks with the window, and one of other senders moves with theirs. One that stays the same
  // while the window halves shows that the path has become longer. With less data in flight the usual queue grows, so
  // that the window may come to rest before that.
  Verdict watch(const Epoch& epoch);
  // A drain begins that decides.
  void begin_test() { test_.begin(); }
  // Call at the end of each epoch, with its least queue. Length of a queue that the drain has left as it was, which is
  // none; 0: no verdict, or a queue.
  TimePs judge_test(TimePs least, bool draining);
  // Ends the watch, or a test, too.
  void forget() { standing_ = 0; }
  void clear() {
    forget();
    test_.clear();
  }

  TimePs length() const { return least_; }
  TimePs most() const { return most_; }
  std::uint32_t tests() const { return same_epochs_ / kTestEpochs; }  // that were due since the queue is the same
  std::int64_t rate_before() const { return rate_before_; }           // bytes per second

 private:
  static constexpr std::uint32_t kTestEpochs = 16;

  TimePs tolerated() const;  // part of `least_` by which a queue that is the same may vary

  TimePs standing_ = 0;  // smoothed; 0: none
  std::int64_t window_before_ = 0, rate_before_ = 0;
  TimePs least_ = 0, most_ = 0;  // of the latest epochs, in which it was the same
  std::uint32_t same_epochs_ = 0;
  bool varies_ = false;
  std::int64_t same_window_ = 0;  // at their beginning
  DrainLeast test_;
};

}  // namespace openmrc
