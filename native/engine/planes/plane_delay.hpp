// Round trips of one plane: idle time, queueing delay above it, and the noise in that delay.
//
// Transit times, if the peer reports them, separate the delay of the forward path. Clocks differ by an unknown constant
// and drift, so the transit without a queue is known within bounds only: at most the smallest transit seen, at least a
// transit seen less the whole delay of its round trip.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"

namespace openmrc {

// Arrival time less sending time, on the clocks of both ends, modulo `range`.
struct Transit {
  TimePs time = 0;
  TimePs range = 0;  // 0: not known
};

class PlaneDelay {
 public:
  // Adds the round trip of a packet of `packet_bytes` whose acknowledgement came back over plane `via`. False: not
  // comparable with the others (a short packet among full ones, an unusual return path) and left out.
  bool add(TimePs now, TimePs rtt, Transit transit, std::uint32_t packet_bytes, PortId via);
  // Round trip of a short packet that met no queue of ours: an upper bound of the idle time, apart from the longer
  // serialisation of a full packet.
  void set_idle(TimePs now, TimePs rtt, PortId via);
  void allow(TimePs full_packet) { full_packet_ = full_packet; }
  // Forgets the samples but keeps the idle time.
  void restart();
  // The path has become longer: this much of what seemed to be a queue is part of the idle time.
  void lengthen(TimePs now, TimePs by);
  void begin_epoch();
  void rebase(TimePs by);

  bool sampled() const { return smoothed_ > 0; }
  bool has(std::uint32_t samples) const { return count_ > samples; }
  bool settled() const { return has(kRecent); }  // enough samples for `least_of(kRecent)`
  TimePs base() const;  // idle round trip: least of the last ten to twenty seconds, probes included
  // True for distances at which a queue of the usual target is a small part of the round trip.
  bool long_path() const { return base() >= kLongBase; }
  TimePs smoothed() const { return smoothed_; }
  // Current round trip without the queue that our packets meet: the idle time plus the queue on the return path.
  TimePs unqueued() const { return std::max(base(), unqueued_); }
  TimePs return_deviation() const { return return_deviation_; }  // mean, from `unqueued`
  TimePs smoothed_forward() const;                               // `smoothed` without the queue on the return path
  TimePs deviation() const { return deviation_; }                // mean, from the smoothed value
  // Queueing delay of our packets: least of the last `samples`, at most kRecent.
  TimePs least_of(std::uint32_t samples) const;
  // Of this epoch; of the last kRecent samples if these cover less than the epoch.
  TimePs epoch_queue() const;
  TimePs epoch_least() const { return epoch_least_; }  // kNever: no sample
  std::uint32_t epoch_samples() const { return epoch_samples_; }
  // Largest of this epoch and the previous one, over all samples; 0 if transit times are unknown, as busy hosts then
  // look like queues.
  TimePs peak() const { return std::max(epoch_peak_, epoch_peak_before_); }
  TimePs high() const;                     // largest `least_of(4)` of this epoch and the previous one
  TimePs noise() const { return noise_; }  // distance of samples above the least of their period
  // A round trip of this epoch took far longer than usual, and not in a queue: one of the hosts had stopped.
  bool stopped() const { return epoch_stopped_; }
  // True once after the return path changed: the idle time has to be measured again.
  bool take_way_changed();

  static constexpr std::uint32_t kRecent = 8;

 private:
  static constexpr TimePs kLongBase = 20 * kPsPerMs;
  static constexpr TimePs kIdleLife = 30 * kPsPerSecond;
  static constexpr TimePs kBaseLife = 10 * kPsPerSecond;

  bool usual_way(TimePs now, TimePs rtt, Transit transit, PortId via);
  void add_rest(TimePs rest);
  TimePs queue_of(TimePs now, TimePs rtt, Transit transit);
  TimePs above_transit_base(Transit transit) const;
  bool comparable(TimePs now, std::uint32_t packet_bytes);

  std::array<TimePs, kRecent> queues_{};
  std::uint64_t count_ = 0;
  TimePs base_ = kNever, base_before_ = kNever, base_since_ = 0;
  TimePs smoothed_ = 0, deviation_ = 0, unqueued_ = 0, return_deviation_ = 0;
  TimePs transit_base_ = kNever;              // transit without a queue
  TimePs queue_ = 0, queue_seen_ = kLongAgo;  // on the forward path, by the latest transit time
  TimePs noise_ = 50 * kPsPerUs;
  TimePs epoch_least_ = kNever, epoch_high_ = 0, epoch_high_before_ = 0;
  TimePs epoch_peak_ = 0, epoch_peak_before_ = 0;
  TimePs large_seen_ = kLongAgo;  // instant of the latest sample with a packet of `large_bytes_`
  TimePs idle_ = kNever, idle_since_ = kLongAgo;
  PortId idle_via_ = kPortCountMax;
  TimePs full_packet_ = 250 * kPsPerUs;  // upper bound of the extra time of a full packet over a short one
  std::uint32_t epoch_samples_ = 0;
  bool epoch_stopped_ = false;
  std::uint32_t large_bytes_ = 0;
  std::uint32_t strange_ways_ = 0;  // consecutive samples with another return path
  PortId via_ = kPortCountMax;
  bool way_changed_ = false;
};

}  // namespace openmrc
