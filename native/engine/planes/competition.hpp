// A share of a plane beside senders that fill its buffer, such as TCP. A window that follows the queue would shrink to
// two packets there, while the others keep a hundred.
//
// A small window is raised for a moment: if even that hardly lengthens the round trip, others have far more in flight.
// From then on the window grows until packets are lost, up to a share of the plane. Drains measure this share, and show
// when the others have gone (X.4.14, docs/decisions/0147-beside-tcp.md).
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "engine/planes/drain_least.hpp"

namespace openmrc {

class Competition {
 public:
  struct Epoch {
    TimePs span = 0;
    TimePs queue = 0;
    TimePs idle = 0;            // round trip without the queue
    TimePs round = 0;           // longest round trip of the latest two epochs, of almost all packets
    std::int64_t window = 0;    // bytes
    std::int64_t packet = 0;    // bytes
    std::uint32_t sharers = 1;  // QPs that use the plane at this host, or at the peer if there are more
    bool slower = false;        // the plane has been more than twice as fast lately
    bool used = false;          // the data in flight filled the window, during a test the raised one
    bool lossy = false;         // more losses than the plane has without congestion
  };

  bool testing() const { return raised_ > 0; }
  bool active() const { return active_; }
  std::int64_t raised_bytes() const { return raised_; }  // window during a test

  // Call at the end of each epoch while neither testing nor active. True: a test begins.
  bool watch(const Epoch& epoch);
  // Call at the end of each epoch of a test.
  void judge(const Epoch& epoch);
  // Call at the end of each epoch while active. The next window, in bytes.
  std::int64_t next_window(const Epoch& epoch);

  // Call at the end of each epoch. True: a drain with a window of `left_bytes` is due, and counts as begun.
  bool drain_due(const Epoch& epoch, std::int64_t left_bytes);
  // Call at the end of each epoch, with its least round trip; kNever: none. True: the competition ends.
  bool end_drain(TimePs round, bool draining);
  void clear();

 private:
  void stop();

  static constexpr TimePs kPatience = kPsPerSecond;

  bool active_ = false;

  // Tests.
  TimePs small_for_ = 0;  // time for which the window has been small and used
  TimePs patience_ = kPatience;
  std::int64_t raised_ = 0;
  TimePs round_before_ = 0;
  std::uint32_t epochs_ = 0;

  // While active.
  bool reduced_ = false;            // by losses, in the latest epoch
  bool filled_ = false;             // there were losses: the buffer is full now and then
  std::int64_t plane_rate_ = 0;     // bytes per second; 0: unknown
  std::uint32_t empty_epochs_ = 0;  // in a row, without a queue

  // Drains.
  DrainLeast drain_;
  TimePs since_drain_ = 0;
  std::int64_t drained_window_ = 0;  // at the latest one
  TimePs drain_round_ = 0;           // round trip at its begin
  std::uint32_t sharers_ = 1;
  std::uint32_t weak_drains_ = 0;  // in a row, in which the queue hardly changed in spite of losses
  std::int64_t drain_bytes_ = 0;   // by which it lowers the window
};

}  // namespace openmrc
