// Window and pacing of one plane whose switches do not mark: steered by queueing delay, delivery rate and losses.
//
// Where the queue shows up in the round trip, the window follows FAST's law towards a small queue. Where the buffer is
// too short for that, the rate stays just below the one that overflowed it and looks higher in short pulses. Losses are
// judged in blocks: if slowing down does not cure them, they are not congestion (X.4.3,
// docs/decisions/0063-planes-that-do-not-mark.md).
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "engine/planes/best_rate.hpp"
#include "engine/planes/competition.hpp"
#include "engine/planes/few_senders.hpp"
#include "engine/planes/path_jitter.hpp"
#include "engine/planes/plane_delay.hpp"
#include "engine/planes/raised_window.hpp"
#include "engine/planes/standing_queue.hpp"
#include "engine/planes/usual_window.hpp"

namespace openmrc {

// Contents of one acknowledgement about the packets of one plane.
struct PlaneFeedback {
  std::int64_t acked_bytes = 0;
  std::uint32_t acked_packets = 0, lost_packets = 0;
  std::uint32_t lost_early = 0, lost_late = 0;  // of these, in the first and in the last quarter of their burst
  std::uint32_t mistaken_packets = 0;           // counted as lost by an earlier feedback, but they had arrived
  TimePs rtt = 0;                               // of the packet that caused the acknowledgement; 0: not of this plane
  Transit transit;                              // of the same packet
  std::uint32_t rtt_bytes = 0;                  // its size
  PortId via = 0;                               // plane that the acknowledgement took
  std::uint8_t sharers = 0;                     // QPs that receive over the plane at the peer; 0: unknown
};

// Packets of a plane are counted in the order of sending.
struct PlaneProgress {
  std::uint32_t next_order = 0;       // of the next packet to send
  std::uint32_t delivered_order = 0;  // one above the latest packet known to have arrived
  std::int64_t in_flight_bytes = 0;   // after the feedback
};

class PlaneWindow {
 public:
  // `packet_bytes`: nominal size of a full packet. `buffer_bytes`: capacity of the receiver's socket for one plane, for
  // windows beyond the capacity of the path; 0: unknown.
  void start(std::uint32_t packet_bytes, std::int64_t buffer_bytes);
  // Later packets are larger.
  void set_packet_bytes(std::uint32_t packet_bytes);
  // After silence of the plane: discards state that may have become wrong.
  void restart(TimePs now, std::uint32_t next_order);

  // Nothing might be sent for a while, so that queues ran empty: the epoch that fills them again is not judged.
  void resume(TimePs now, std::uint32_t next_order);

  // Number of QPs of this host with data on the plane, this one included. Call before sending and before feedback.
  void share(std::uint32_t qps);
  // Call as `share`.
  void allow_long_bursts(bool allowed) { long_bursts_ = allowed; }
  // Call as `share`. True: acknowledgements wait behind data of the other direction.
  void meet_data(bool both_ways) { both_ways_ = both_ways; }
  // Call before feedback while the window is small. True: another plane of the QP is much faster.
  void note_faster(bool faster) { faster_ = faster; }
  // A window that is smaller than this number of bursts leaves in this number of parts.
  std::int64_t bursts() const { return long_bursts_ && !short_buffer() ? 2 : 4; }
  // Acknowledgements to request in each window: two for each burst.
  std::uint32_t requests() const;

  void on_sent(TimePs now, std::int64_t bytes, std::int64_t in_flight_bytes);
  void on_feedback(TimePs now, const PlaneFeedback& feedback, const PlaneProgress& progress);
  // Feedback for a plane under another controller: round trips only.
  void observe(TimePs now, const PlaneFeedback& feedback);
  void rebase(TimePs by);

  // Limit on the bytes in flight at `now`.
  std::int64_t window_bytes(TimePs now) const {
    if (raised_.raised()) return raised_.bytes();
    if (competition_.testing()) return competition_.raised_bytes();
    return now < drain_end_ ? drain_window_ : window_ + slack_;
  }
  TimePs next_send() const { return next_send_; }  // pacing; a past instant means at once
  std::int64_t burst_bytes() const { return burst_bytes_; }
  std::int64_t rate() const { return delivered_rate_; }  // smoothed, bytes per second; 0: unknown
  std::int64_t pace() const { return pace_; }            // bytes per second; 0: not limited yet
  TimePs target() const { return target_at(short_target()); }
  const PlaneDelay& delay() const { return delay_; }
  void set_idle(TimePs now, TimePs rtt, PortId via) { delay_.set_idle(now, rtt, via); }
  bool starting() const { return starting_; }
  bool competing() const { return competition_.active(); }
  std::int64_t background_loss_ppm() const { return background_ppm_; }
  // True if the end of each burst requests a SACK: with a window this small, the byte trigger alone would come too
  // late.
  bool small() const { return window_ < kSmallWindowBytes; }

 private:
  static constexpr std::int64_t kSmallWindowBytes = 65'536;
  static constexpr std::int64_t kWindowPacketsMin = 2;
  static constexpr std::int64_t kBurstBytesMax = 65'000;  // of one UDP datagram that the kernel segments
  static constexpr std::int64_t kManyLostPpm = 50'000;
  static constexpr TimePs kTarget = 250 * kPsPerUs;
  static constexpr TimePs kNoise = 300 * kPsPerUs;  // a queue below this is indistinguishable from jitter
  static constexpr TimePs kEpoch = 4 * kPsPerMs;
  static constexpr TimePs kDrainInterval = 5 * kPsPerSecond;
  static constexpr std::int64_t kRootOne = 1 << 8;

  // Losses and deliveries of some hundred packets.
  struct Block {
    std::uint32_t lost = 0, packets = 0;
    std::int64_t delivered_bytes = 0;
    TimePs span = 0;

    std::int64_t lost_ppm() const;
    std::int64_t rate() const;
    bool complete() const;
  };

  // State before the latest reaction to losses, in case they turn out to be none.
  struct Reaction {
    std::uint32_t lost = 0, mistaken = 0;  // packets that caused it; of these, packets that had arrived
    bool starting = false;
    std::uint32_t responses = 0;
    std::int64_t window = 0, ceiling = 0, background_ppm = 0;
    TimePs target = 0, overflow = 0, buffer = 0;
  };

  // A pace above the rate, so that the window limits the flight.
  static std::int64_t headroom(std::int64_t rate) { return rate + rate / 20; }

  std::int64_t start_window() const;
  TimePs target_at(TimePs short_target) const;
  std::uint32_t start_samples() const;
  TimePs start_queue() const;
  TimePs short_target() const;  // of a path with a negligible length
  TimePs short_target_at(std::int64_t rate) const;
  TimePs visible() const;
  TimePs visible_at(std::int64_t rate, TimePs noise) const;
  TimePs distinct() const { return visible() + jitter_.jitter(); }  // `visible` on a path whose delay varies
  bool fills(std::int64_t window) const { return 10 * (epoch_in_flight_ + 2 * packet_bytes_) > 7 * window; }
  bool uses_window() const { return fills(window_); }
  bool bursts_too_long() const { return lost_late_ > 3 * lost_early_ + 3; }
  void note_sample(TimePs now, const PlaneFeedback& feedback, const PlaneProgress& progress);
  void note_start_losses(TimePs now, const PlaneProgress& progress);
  void grow_start(const PlaneFeedback& feedback, const PlaneProgress& progress);
  void leave_start(TimePs now, TimePs queue, const PlaneProgress& progress);
  void note_overflow();
  // Unknown during the start.
  bool short_buffer() const { return starting_ || ceiling_ > 0 || target_ < kTarget; }
  bool meets_data() const { return both_ways_ && !short_buffer(); }
  // False on a plane that several QPs share: its rate does not follow from one window.
  bool follows_return() const { return meets_data() && sharers_ == 1; }
  void size_burst();
  void size_slack();
  void bound_window();

  bool epoch_over(TimePs now, const PlaneProgress& progress) const;
  void begin_epoch(TimePs now, const PlaneProgress& progress);
  void end_epoch(TimePs now, const PlaneProgress& progress);
  bool judge_bursts(TimePs now);
  bool judge_block(TimePs now, bool bursts_overflow);
  bool undecided(const Block& block) const;
  void accept_losses(const Block& block);
  void note_reaction(std::uint32_t lost);
  void retract_losses(std::uint32_t packets, const PlaneProgress& progress);
  void end_pulse_lossy(TimePs now, std::int64_t rate);
  void test_response(TimePs now, std::int64_t share_ppm, std::int64_t rate);
  void shrink_target(bool over, std::int64_t rate);
  std::int64_t least_rate() const;
  void lower_ceiling(TimePs now, std::int64_t share_ppm, std::int64_t rate);
  bool hold_ceiling(TimePs now, TimePs queue, bool lossy);
  bool holds_growth();
  void note_jitter();
  void follow_target(TimePs queue, bool lossy, TimePs span);
  void follow_return(TimePs longer);
  StandingQueue::Verdict watch_queue(TimePs queue, bool lossy);
  void lengthen(TimePs now, TimePs by);
  void drain(TimePs now, TimePs queue, bool test);
  void pace_for(std::int64_t window);
  void raise();
  void judge_raised(TimePs now, std::int64_t rate);
  void begin_drain(TimePs now, TimePs span, std::int64_t window);
  void end_drain(TimePs now);
  Competition::Epoch competing_epoch(TimePs queue, TimePs span) const;
  TimePs epoch_round() const {  // the least of the epoch; kNever: no sample
    return delay_.epoch_least() == kNever ? kNever : delay_.unqueued() + delay_.epoch_least();
  }
  void watch_competition(TimePs queue, TimePs span);
  void compete(TimePs now, const PlaneProgress& progress, TimePs queue, TimePs span);
  void end_competition(const PlaneProgress& progress);

  PlaneDelay delay_;
  std::int64_t packet_bytes_ = 0;
  std::int64_t buffer_bytes_ = 0;
  std::uint32_t sharers_ = 1;
  bool long_bursts_ = false;
  bool both_ways_ = false;
  bool faster_ = false;
  std::int64_t sharers_root_ = kRootOne;  // root of `sharers_`, in units of 1 / kRootOne
  std::int64_t window_ = 0;               // that leaves a queue of `target` where acknowledgements return evenly
  std::int64_t slack_ = 0;                // for acknowledgements that do not
  std::int64_t pace_ = 0;
  std::int64_t burst_bytes_ = 0, burst_cap_bytes_ = 0;
  std::int64_t delivered_rate_ = 0, last_rate_ = 0, rate_before_ = 0;
  std::int64_t acked_at_once_ = 0;  // smoothed bytes per acknowledgement
  TimePs next_send_ = 0;
  TimePs target_ = 0;    // queue to aim at
  TimePs overflow_ = 0;  // queue at which the buffer overflowed; 0: never seen
  TimePs buffer_ = 0;    // longest queue at that time; 0: unknown
  bool starting_ = true;
  std::uint32_t start_hold_ = 0;  // no growth before a packet of this order has arrived
  bool start_held_ = false;

  // Epoch.
  TimePs epoch_began_ = 0;
  std::uint32_t epoch_order_ = 0;
  std::uint32_t epoch_acked_ = 0, epoch_lost_ = 0;
  std::int64_t epoch_acked_bytes_ = 0, epoch_in_flight_ = 0;
  bool filling_ = false;  // the epoch fills queues that ran empty
  std::int32_t undelayed_epochs_ = 0;
  TimePs queue_before_ = 0;        // about the longest of the epochs with a queue before these
  std::uint32_t held_epochs_ = 0;  // epochs in a row without growth, because a host had stopped
  bool held_ = false;              // the latest epoch was the first of two

  // Losses.
  Block block_;
  std::uint32_t block_after_ = 0;  // earlier packets were in flight at the last reaction and do not count
  Reaction reaction_;
  std::uint32_t lost_early_ = 0, lost_late_ = 0;
  TimePs bursts_judged_ = 0;
  TimePs burst_trial_ = 250 * kPsPerMs;  // wait before longer bursts are tried
  std::int64_t background_ppm_ = 0;
  std::uint32_t responses_ = 0;  // consecutive reactions to losses that did not cure them
  std::int64_t responses_ppm_ = 0;
  TimePs saved_target_ = 0, saved_overflow_ = 0, saved_buffer_ = 0;
  std::int64_t saved_ceiling_ = 0, saved_window_ = 0;

  // Ceiling, for a buffer too short to measure: the rate that overflows it, and pulses above it.
  std::int64_t ceiling_ = 0;
  TimePs ceiling_since_ = 0;
  TimePs pulse_interval_ = 0;
  TimePs pulse_end_ = 0, pulse_verdict_ = 0;  // 0: no pulse
  std::int64_t pulse_gain_ppm_ = 0;

  StandingQueue standing_;
  RaisedWindow raised_;
  Competition competition_;
  std::uint8_t receiving_ = 0;  // the latest `sharers` of the feedback
  BestRate best_;
  FewSenders senders_;
  PathJitter jitter_;
  UsualWindow usual_;

  // Drains: short dips that reveal the idle round trip.
  TimePs drain_due_ = 0, drain_end_ = 0, drain_base_ = 0;
  std::int64_t drain_window_ = 0;
};

}  // namespace openmrc
