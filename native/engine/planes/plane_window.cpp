#include "engine/planes/plane_window.hpp"

#include <algorithm>

#include "engine/planes/ratio.hpp"
#include "engine/planes/square_root.hpp"

namespace openmrc {
namespace {

constexpr TimePs kTargetMax = 3'500 * kPsPerUs;
constexpr TimePs kTargetShare = 16;
constexpr std::int64_t kSlowStream = 25'000'000;  // bytes per second; below it a stream aims at more than that share
constexpr std::int64_t kWeightMax = 3;
constexpr TimePs kTargetMin = 60 * kPsPerUs;
constexpr std::int64_t kSlowLink = 12'500'000;  // bytes per second; above it serialisation is negligible
constexpr std::uint32_t kEpochSamples = 3;      // minimum for the judgement of an epoch
constexpr TimePs kVisibleMax = 5 * kPsPerMs;
constexpr std::uint32_t kBlockPackets = 400;
constexpr std::uint32_t kManyLost = 8;
constexpr std::int64_t kRandomPpmMax = 100'000;  // a larger share is never taken for random loss
constexpr std::int64_t kLossMarginPpm = 1'000;
constexpr std::uint32_t kUndecidedPackets = 10 * kBlockPackets;
constexpr TimePs kTargetRecovery = 10 * kPsPerSecond;  // after a response to losses
constexpr TimePs kBufferGrowth = 8 * kPsPerSecond;
constexpr std::uint32_t kResponsesMax = 4;
constexpr std::int64_t kStartPackets = 4;
constexpr std::int64_t kStartBytes = 6'000;
constexpr std::uint32_t kStartSamplesMin = 2;
constexpr std::uint32_t kRequestsMin = 4;
constexpr std::int64_t kEpochPacketsMin = kEpochSamples + 1;
constexpr std::int64_t kWindowParts = 2;  // bursts in a window, at least
constexpr TimePs kBurstTime = 600 * kPsPerUs;
constexpr TimePs kBurstTimeLong = 1'200 * kPsPerUs;
constexpr TimePs kBurstTrialMax = 30 * kPsPerSecond;
constexpr TimePs kCredit = kPsPerMs;  // lateness of a sender that pacing makes up for
constexpr std::int64_t kStepOne = 1 << 16;
// Of the way to the wanted window, the part of one epoch is 1 / this.
constexpr std::int64_t kWay = 2, kWayDamped = 4;
constexpr std::uint32_t kHeldEpochsMax = 6;  // in a row, without growth because of stopped hosts
// Epochs without a queue before windows grow faster. On a long path an epoch is a round trip.
constexpr std::int32_t kUndelayed = 2, kUndelayedDamped = 8, kUndelayedDampedLong = 4;

// Ceilings.
constexpr TimePs kPulse = 5 * kPsPerMs;
constexpr TimePs kPulseInterval = 400 * kPsPerMs;
constexpr TimePs kPulseIntervalMax = 4 * kPsPerSecond;
constexpr std::int64_t kPulseGainPpm = 20'000;
constexpr std::int64_t kPulseGainPpmMax = 250'000;
constexpr std::int64_t kBelowCeilingPpm = 985'000;

constexpr TimePs kDrainAfterStart = 200 * kPsPerMs;

bool reached(std::uint32_t order, std::uint32_t mark) { return static_cast<std::int32_t>(order - mark) > 0; }

}  // namespace

std::int64_t PlaneWindow::Block::lost_ppm() const { return packets == 0 ? 0 : scaled(lost, kPpm, packets); }
std::int64_t PlaneWindow::Block::rate() const { return rate_of(delivered_bytes, std::max<TimePs>(span, 1)); }
bool PlaneWindow::Block::complete() const {
  return packets >= kBlockPackets || (lost >= kManyLost && lost_ppm() > kManyLostPpm);
}

std::int64_t PlaneWindow::start_window() const {
  const std::int64_t least = kWindowPacketsMin * packet_bytes_;
  return std::max(std::clamp(kStartBytes, least, kStartPackets * packet_bytes_) / sharers_, least);
}

// Windows that several QPs double at once overfill a queue within a round trip or two.
std::uint32_t PlaneWindow::start_samples() const { return std::max(PlaneDelay::kRecent / sharers_, kStartSamplesMin); }

// Those of many QPs take a considerable share of the return path.
std::uint32_t PlaneWindow::requests() const {
  return std::max(2 * static_cast<std::uint32_t>(bursts()) / sharers_, kRequestsMin);
}

void PlaneWindow::share(std::uint32_t qps) {
  if (qps == sharers_) return;
  const bool more = qps > sharers_;
  sharers_ = qps;
  sharers_root_ = square_root(kRootOne * kRootOne * qps);
  if (more && starting_ && !delay_.sampled()) window_ = std::min(window_, start_window());
}

void PlaneWindow::start(std::uint32_t packet_bytes, std::int64_t buffer_bytes) {
  packet_bytes_ = packet_bytes;
  buffer_bytes_ = buffer_bytes;
  window_ = start_window();
  burst_cap_bytes_ = std::max(kBurstBytesMax, packet_bytes_);
  burst_bytes_ = 2 * packet_bytes_;
  target_ = kTarget;
  pulse_interval_ = kPulseInterval;
  drain_due_ = kDrainInterval;
  delay_.allow(time_for(packet_bytes_, kSlowLink));
}

void PlaneWindow::set_packet_bytes(std::uint32_t packet_bytes) {
  packet_bytes_ = packet_bytes;
  window_ = std::max(window_, kWindowPacketsMin * packet_bytes_);
  burst_cap_bytes_ = std::max(burst_cap_bytes_, packet_bytes_);
  burst_bytes_ = std::max(burst_bytes_, 2 * packet_bytes_);
  delay_.allow(time_for(packet_bytes_, kSlowLink));
}

void PlaneWindow::restart(TimePs now, std::uint32_t next_order) {
  starting_ = true;
  window_ = std::clamp(window_, start_window(), 4 * start_window());
  slack_ = 0;
  pace_ = 0;
  next_send_ = now;
  ceiling_ = 0;
  pulse_end_ = 0;
  pulse_gain_ppm_ = 0;
  delay_.restart();
  standing_.clear();
  raised_.clear();
  competition_.clear();
  usual_.forget();
  jitter_.forget_delays();
  epoch_began_ = now;
  epoch_order_ = next_order;
  epoch_acked_ = epoch_lost_ = 0;
  epoch_acked_bytes_ = 0;
  block_ = {};
  reaction_ = {};
  start_held_ = false;
}

void PlaneWindow::rebase(TimePs by) {
  delay_.rebase(by);
  jitter_.rebase(by);
  usual_.rebase(by);
  best_.rebase(by);
  for (TimePs* time : {&next_send_, &epoch_began_, &bursts_judged_, &ceiling_since_, &pulse_end_, &pulse_verdict_,
                       &drain_due_, &drain_end_}) {
    *time = rebased(*time, by);
  }
}

// A sender that wakes late sends the missed amount, in bursts no longer than the plane is known to hold, and in all no
// more than half of what a short buffer holds.
void PlaneWindow::on_sent(TimePs now, std::int64_t bytes, std::int64_t in_flight_bytes) {
  epoch_in_flight_ = std::max(epoch_in_flight_, in_flight_bytes);
  if (pace_ == 0) return;
  const bool resumes = usual_.ends_pause(now, in_flight_bytes <= bytes, delay_.smoothed());
  if (resumes && delay_.long_path() && !starting_) window_ = usual_.bound(window_);
  const TimePs late = short_buffer() && buffer_ > 0 ? std::min(kCredit, buffer_ / 2) : kCredit;
  const std::int64_t credit = std::max(bytes, std::min(bytes_in(pace_, late), burst_cap_bytes_));
  next_send_ = std::max(next_send_, now - time_for(credit, pace_)) + time_for(bytes, pace_);
}

// On a long path a short queue hardly moves the window: two streams would take minutes to reach a fair share, and one
// stream would take seconds to notice that the other has left. The queue is therefore a share of the path's length,
// within the known size of the buffer. Streams that aim at the same queue would keep their shares for ever, so that the
// slower one aims at more.
TimePs PlaneWindow::target_at(TimePs short_target) const {
  if (target_ < kTarget) return short_target;
  std::int64_t weight = kRootOne;
  if (delay_.long_path()) {
    const std::int64_t rate = std::max<std::int64_t>(rate_of(window_, std::max(delay_.smoothed(), delay_.base())), 1);
    const std::int64_t root = square_root(scaled(kRootOne * kRootOne, kSlowStream, rate));
    weight = std::clamp(root, kRootOne, kRootOne * kWeightMax);
  }
  const TimePs share = scaled(delay_.base() / kTargetShare, weight, kRootOne);
  if (buffer_ == 0) return short_target + share;
  return short_target + std::min({share, scaled(buffer_ / 4, weight, kRootOne), buffer_ / 2});
}

TimePs PlaneWindow::short_target() const {
  const TimePs round = std::max(delay_.smoothed(), 100 * kPsPerUs);
  return short_target_at(std::max<std::int64_t>({delivered_rate_, rate_of(window_, round) / 2, 1}));
}

TimePs PlaneWindow::short_target_at(std::int64_t rate) const {
  // Acknowledgements of many packets at once let the queue swing by that amount.
  const TimePs swing = time_for(acked_at_once_ + 2 * packet_bytes_, rate);
  // The swings of several QPs add up in one queue, but seldom coincide: they grow with the root of their number.
  const TimePs wanted = std::max(target_, scaled(target_ + swing, kRootOne, sharers_root_));
  if (target_ >= kTarget) return std::min(kTargetMax, wanted);
  return std::min(kTargetMax, std::max(target_, std::min(wanted, overflow_ / 3)));
}

// A queue below this is indistinguishable from jitter, or from the two packets of a short burst, which a slow plane sends
// one after the other.
TimePs PlaneWindow::visible() const {
  return visible_at(std::max<std::int64_t>({delivered_rate_, last_rate_, rate_before_, 1}), kNoise);
}

TimePs PlaneWindow::visible_at(std::int64_t rate, TimePs noise) const {
  return std::max(noise, std::min(time_for(2 * packet_bytes_, rate), kVisibleMax));
}

// A burst costs its sender and receiver hardly more than a packet, so slow planes get bursts of a certain duration,
// unless a buffer has turned out to be short. Windows that leave as one burst would alternate with pauses: such a burst
// meets its own queue, which looks the same however long the plane was empty before. Where acknowledgements meet data
// they return in clumps, too.
void PlaneWindow::size_burst() {
  const TimePs usual = long_bursts_ ? kBurstTimeLong : kBurstTime;
  const TimePs span = short_buffer() ? short_target() / 2 : std::max(short_target() / 2, usual);
  const std::int64_t parts = meets_data() ? bursts() : kWindowParts;
  const std::int64_t wanted = std::min(bytes_in(pace_, span), window_ / parts);
  burst_bytes_ =
      std::max(std::min({std::max(wanted, 2 * packet_bytes_), burst_cap_bytes_, kBurstBytesMax}), packet_bytes_);
}

// Data of the other direction delays acknowledgements by a varying time. A window for their mean delay would stop the
// sender whenever they take longer. Pacing keeps the queue short meanwhile.
void PlaneWindow::size_slack() {
  const std::int64_t uneven = bytes_in(pace_, 2 * delay_.return_deviation());
  const std::int64_t most = buffer_bytes_ > 0 ? std::max<std::int64_t>(buffer_bytes_ - window_, 0) : window_;
  slack_ = meets_data() ? std::min({uneven, most, window_ / 2}) : 0;
}

// Bounded so that a receiver may pause for a moment without loss, unless the path itself holds more.
void PlaneWindow::bound_window() {
  window_ = std::max(window_, kWindowPacketsMin * packet_bytes_);
  if (buffer_bytes_ == 0 || delivered_rate_ == 0) return;
  const std::int64_t path = bytes_in(delivered_rate_, delay_.unqueued() + delay_.unqueued() / 4 + 2 * target());
  window_ = std::min(window_, std::max({buffer_bytes_, path, kWindowPacketsMin * packet_bytes_}));
}

// --- feedback

void PlaneWindow::on_feedback(TimePs now, const PlaneFeedback& feedback, const PlaneProgress& progress) {
  epoch_acked_ += feedback.acked_packets;
  epoch_acked_bytes_ += feedback.acked_bytes;
  epoch_lost_ += feedback.lost_packets;
  lost_early_ += feedback.lost_early;
  lost_late_ += feedback.lost_late;
  if (feedback.mistaken_packets > 0) retract_losses(feedback.mistaken_packets, progress);
  if (feedback.rtt > 0) {
    note_sample(now, feedback, progress);
    receiving_ = feedback.sharers;
  }
  if (starting_ && feedback.lost_packets > 0) note_start_losses(now, progress);
  if (starting_) grow_start(feedback, progress);
  if (epoch_over(now, progress)) end_epoch(now, progress);
}

void PlaneWindow::observe(TimePs now, const PlaneFeedback& feedback) {
  if (feedback.rtt > 0) delay_.add(now, feedback.rtt, feedback.transit, feedback.rtt_bytes, feedback.via);
  if (now - epoch_began_ < kEpoch) return;
  epoch_began_ = now;
  delay_.begin_epoch();
}

void PlaneWindow::note_sample(TimePs now, const PlaneFeedback& feedback, const PlaneProgress& progress) {
  acked_at_once_ += (feedback.acked_bytes - acked_at_once_) / 20;
  const TimePs base = delay_.base();
  const TimePs unqueued = delay_.unqueued();
  if (!delay_.add(now, feedback.rtt, feedback.transit, feedback.rtt_bytes, feedback.via)) return;
  if (follows_return()) follow_return(delay_.unqueued() - unqueued);
  if (delay_.take_way_changed()) drain_due_ = now;
  if (delay_.base() > base) jitter_.forget_delays();  // they counted from a shorter idle time
  jitter_.add(now - feedback.rtt, delay_.least_of(1));
  if (!starting_ || !delay_.has(start_samples())) return;
  const TimePs queue = delay_.least_of(start_samples());
  if (queue > start_queue()) leave_start(now, queue, progress);
}

// A queue that ends the start if it lasts.
TimePs PlaneWindow::start_queue() const { return std::max(target_, std::min(delay_.base() / 8, 2 * kPsPerMs)); }

void PlaneWindow::note_start_losses(TimePs now, const PlaneProgress& progress) {
  if (start_held_ && !reached(progress.delivered_order, start_hold_)) {
    epoch_lost_ = 0;
    return;
  }
  if (epoch_lost_ < 4) return;
  if (bursts_too_long() && burst_bytes_ > 2 * packet_bytes_) {  // the burst is too long, not the rate too high
    burst_cap_bytes_ = std::max(2 * packet_bytes_, burst_bytes_ / 4);
    lost_early_ = lost_late_ = 0;
    epoch_lost_ = epoch_acked_ = 0;
    start_hold_ = progress.next_order;
    start_held_ = true;
    size_burst();
    return;
  }
  if (scaled(epoch_lost_, kPpm, epoch_lost_ + epoch_acked_) <= kManyLostPpm) return;
  note_reaction(epoch_lost_);
  note_overflow();
  leave_start(now, delay_.least_of(4), progress);
}

void PlaneWindow::grow_start(const PlaneFeedback& feedback, const PlaneProgress& progress) {
  if (start_held_ && reached(progress.delivered_order + 1, start_hold_)) start_held_ = false;
  // A window that the application does not fill is no evidence for a higher rate, and a packet that waited in a queue is
  // evidence against it.
  const bool used = 2 * (progress.in_flight_bytes + feedback.acked_bytes) > window_;
  const bool delayed = delay_.sampled() && !delay_.long_path() && delay_.least_of(1) > start_queue();
  if (!start_held_ && used && !delayed) window_ += feedback.acked_bytes;
  if (!delay_.sampled()) return;
  pace_ = std::max<std::int64_t>(rate_of(2 * window_, delay_.smoothed()), 1);
  size_burst();
}

void PlaneWindow::leave_start(TimePs now, TimePs queue, const PlaneProgress& progress) {
  starting_ = false;
  const TimePs base = std::max<TimePs>(delay_.unqueued(), 1);
  // The bytes in flight may have shrunk, as posted data waits for repairs. The plane has carried the delivered rate.
  const std::int64_t holds = std::max(scaled(progress.in_flight_bytes, base + target_, base + queue),
                                      bytes_in(std::max(last_rate_, rate_before_), base + target_));
  window_ = std::max(kWindowPacketsMin * packet_bytes_, std::min(window_, holds));
  undelayed_epochs_ = 0;
  pace_ = std::max<std::int64_t>(headroom(rate_of(window_, std::max<TimePs>(delay_.smoothed(), base))), 1);
  block_after_ = epoch_order_ = progress.next_order;
  epoch_began_ = now;
  epoch_acked_ = epoch_lost_ = 0;
  epoch_acked_bytes_ = 0;
  delay_.begin_epoch();
  drain_due_ = now + kDrainAfterStart;
  size_burst();
}

void PlaneWindow::note_overflow() {
  overflow_ = delay_.high();
  buffer_ = delay_.peak();
  target_ = std::clamp(overflow_ / 3, kTargetMin, kTarget - 1);
}

// --- epochs

bool PlaneWindow::epoch_over(TimePs now, const PlaneProgress& progress) const {
  return reached(progress.delivered_order, epoch_order_) && now - epoch_began_ >= kEpoch &&
         delay_.epoch_samples() >= kEpochSamples;
}

void PlaneWindow::resume(TimePs now, std::uint32_t next_order) {
  begin_epoch(now, {.next_order = next_order});
  filling_ = true;
}

void PlaneWindow::begin_epoch(TimePs now, const PlaneProgress& progress) {
  delay_.begin_epoch();
  epoch_order_ = progress.next_order;
  epoch_began_ = now;
  epoch_acked_ = epoch_lost_ = 0;
  epoch_acked_bytes_ = 0;
  epoch_in_flight_ = progress.in_flight_bytes;
}

void PlaneWindow::end_epoch(TimePs now, const PlaneProgress& progress) {
  const TimePs span = now - epoch_began_;
  const TimePs queue = delay_.epoch_queue();
  const std::int64_t rate = rate_of(epoch_acked_bytes_, span);
  if (raised_.raised()) {  // its queue and rate say nothing about the usual window
    judge_raised(now, rate);
    begin_epoch(now, progress);
    return;
  }
  if (competition_.testing()) {
    competition_.judge(competing_epoch(queue, span));
    if (!competition_.testing()) pace_for(window_);
    begin_epoch(now, progress);
    return;
  }
  // An empty queue is no sign of free capacity while a drain empties it, or the epoch after refills it.
  const bool drained = drain_end_ > 0 && !delay_.long_path();
  note_jitter();
  if (drain_end_ > 0) end_drain(now);
  senders_.end_epoch(delay_.epoch_least(), drain_end_ > 0);
  if (competition_.end_drain(epoch_round(), drain_end_ > 0)) end_competition(progress);
  if (const TimePs by = standing_.judge_test(delay_.epoch_least(), drain_end_ > 0); by > 0) lengthen(now, by);
  if (competition_.active() && !drained) {
    compete(now, progress, queue, span);
  } else if (!starting_ && !filling_ && !drained) {
    delivered_rate_ = delivered_rate_ == 0 ? rate : delivered_rate_ + (rate - delivered_rate_) * 3 / 10;
    if (reached(epoch_order_, block_after_)) {
      block_.lost += epoch_lost_;
      block_.packets += epoch_lost_ + epoch_acked_;
      block_.delivered_bytes += epoch_acked_bytes_;
      block_.span += span;
    }
    best_.add(now, delivered_rate_);
    const bool bursts_overflow = judge_bursts(now);
    const bool lossy = block_.complete() && judge_block(now, bursts_overflow);
    if (lossy) block_after_ = progress.next_order;
    if (ceiling_ == 0 || !hold_ceiling(now, queue, lossy)) {
      follow_target(queue, lossy, span);
      const StandingQueue::Verdict verdict = watch_queue(queue, lossy);
      if (verdict == StandingQueue::Verdict::kLonger) lengthen(now, standing_.length());
      drain(now, queue, verdict == StandingQueue::Verdict::kUndecided);
      if (verdict == StandingQueue::Verdict::kSmall) raise();
    } else {
      standing_.forget();
    }
    watch_competition(queue, span);
    bound_window();
    usual_.add(window_);
    size_burst();
    size_slack();
  }
  rate_before_ = last_rate_;
  last_rate_ = rate;
  begin_epoch(now, progress);
  filling_ = drained && drain_end_ == 0;
}

// Bursts longer than the buffer lose their last packets, not their first. True: the losses have that cause. Longer
// bursts are tried again after a while, since the buffer may have been full of other traffic, as at the start.
bool PlaneWindow::judge_bursts(TimePs now) {
  if (bursts_too_long()) {
    const bool shortened = burst_bytes_ > 2 * packet_bytes_;
    burst_cap_bytes_ = std::max(2 * packet_bytes_, std::min(burst_cap_bytes_, burst_bytes_) / 2);
    bursts_judged_ = now;
    burst_trial_ = std::min(2 * burst_trial_, kBurstTrialMax);
    lost_early_ = lost_late_ = 0;
    return shortened;
  }
  if (now - bursts_judged_ > burst_trial_) {
    bursts_judged_ = now;
    burst_cap_bytes_ = std::max(std::min(2 * burst_cap_bytes_, kBurstBytesMax), packet_bytes_);
    lost_early_ /= 2;
    lost_late_ /= 2;
  }
  return false;
}

// True: this block lost more than the plane's background loss.
bool PlaneWindow::judge_block(TimePs now, bool bursts_overflow) {
  if (undecided(block_)) return false;
  const Block block = block_;
  block_ = {};
  const std::int64_t share = block.lost_ppm();
  if (block.lost < 3 || share <= 2 * background_ppm_ + kLossMarginPpm) {
    accept_losses(block);
    return false;
  }
  if (bursts_overflow) return true;
  note_reaction(block.lost);
  if (pulse_end_ > 0) {
    end_pulse_lossy(now, block.rate());
  } else {
    test_response(now, share, block.rate());
  }
  return true;
}

// More than usual, but few enough to be chance: the next packets decide. On a plane without background loss each loss
// counts.
bool PlaneWindow::undecided(const Block& block) const {
  if (background_ppm_ < kLossMarginPpm / 10 || block.packets >= kUndecidedPackets) return false;
  if (block.lost_ppm() > kManyLostPpm) return false;
  // Three standard deviations of a Poisson distribution, in millionths of a packet.
  const std::int64_t usual = block.packets * (2 * background_ppm_ + kLossMarginPpm);
  const std::int64_t beyond = block.lost * kPpm - usual;
  return beyond > 0 && scaled(beyond, beyond, kPpm) < 9 * usual;
}

void PlaneWindow::accept_losses(const Block& block) {
  const std::int64_t share = block.lost_ppm();
  background_ppm_ += (std::min(share, kRandomPpmMax) - background_ppm_) / 10;
  if (block.lost == 0 || share < background_ppm_) responses_ = 0;
  // A buffer that has held a longer queue is longer: the losses may have been those of a window that swung too far.
  if (both_ways_ && block.lost == 0 && overflow_ > 0) overflow_ = std::max(overflow_, delay_.high());
  const TimePs growth = target_ < overflow_ / 3 ? target_ / 20 : scaled(target_, block.span, kTargetRecovery);
  target_ = std::min(kTarget, target_ + growth);
}

void PlaneWindow::note_reaction(std::uint32_t lost) {
  reaction_ = {.lost = lost,
               .starting = starting_,
               .responses = responses_,
               .window = window_,
               .ceiling = ceiling_,
               .background_ppm = background_ppm_,
               .target = target_,
               .overflow = overflow_,
               .buffer = buffer_};
}

// Reports that return over other planes may overtake each other by more than was allowed for. A reaction to losses most
// of which were none is taken back, within the round trip in which late reports still arrive.
void PlaneWindow::retract_losses(std::uint32_t packets, const PlaneProgress& progress) {
  const std::uint32_t fresh = std::min(epoch_lost_, packets);
  epoch_lost_ -= fresh;
  block_.lost -= std::min(block_.lost, packets - fresh);
  if (reaction_.lost == 0 || reached(progress.delivered_order, block_after_)) return;
  reaction_.mistaken += packets;
  if (2 * reaction_.mistaken < reaction_.lost) return;
  starting_ = reaction_.starting;
  window_ = std::max(window_, reaction_.window);
  ceiling_ = reaction_.ceiling;
  target_ = reaction_.target;
  overflow_ = reaction_.overflow;
  buffer_ = reaction_.buffer;
  responses_ = reaction_.responses;
  background_ppm_ = reaction_.background_ppm;
  reaction_ = {};
}

void PlaneWindow::end_pulse_lossy(TimePs now, std::int64_t rate) {
  if (ceiling_ > 0) {
    const std::int64_t tried = ceiling_ + scaled(ceiling_, pulse_gain_ppm_, kPpm);
    ceiling_ = std::max(ceiling_, std::min(rate - rate * 3 / 100, tried));
  }
  if (2 * pulse_gain_ppm_ > 3 * kPulseGainPpm) {  // a large one overshot: try a small one
    ceiling_since_ = now - pulse_interval_ * 7 / 10;
  } else {
    pulse_interval_ = std::min(kPulseIntervalMax, pulse_interval_ * 3 / 2);
    ceiling_since_ = now;
  }
  pulse_end_ = 0;
  pulse_gain_ppm_ = 0;
}

// Slows down and observes the losses. If they continue after several reductions, this QP does not cause them.
void PlaneWindow::test_response(TimePs now, std::int64_t share_ppm, std::int64_t rate) {
  const TimePs high = delay_.high();
  const TimePs usual = std::max(target() + target() / 2, visible()) + jitter_.jitter();
  const bool over = high > usual || share_ppm > kRandomPpmMax;
  if (responses_++ == 0) {
    saved_target_ = target_;
    saved_overflow_ = overflow_;
    saved_buffer_ = buffer_;
    saved_ceiling_ = ceiling_;
    saved_window_ = window_;
    responses_ppm_ = 0;
  }
  responses_ppm_ += share_ppm;
  if (responses_ > kResponsesMax && share_ppm < kRandomPpmMax && !over) {
    background_ppm_ = responses_ppm_ / responses_;
    target_ = saved_target_;
    overflow_ = saved_overflow_;
    buffer_ = saved_buffer_;
    ceiling_ = saved_ceiling_;
    window_ = std::max(window_, saved_window_);
    responses_ = 0;
  } else if (high >= distinct()) {
    shrink_target(over, rate);
  } else {
    lower_ceiling(now, share_ppm, rate);
  }
}

void PlaneWindow::shrink_target(bool over, std::int64_t rate) {
  note_overflow();
  if (over) {
    responses_ = std::min<std::uint32_t>(responses_, 1);
    undelayed_epochs_ = -4;
  }
  ceiling_ = 0;
  const std::int64_t seen = std::max({rate, last_rate_, rate_before_});
  window_ =
      std::min(window_, std::max(kWindowPacketsMin * packet_bytes_, bytes_in(seen, delay_.unqueued() + target())));
}

// Enough packets for an epoch's samples. At a lower rate each judgement of losses that a reduction does not cure would
// take longer than the previous one, and the plane would come to a standstill.
std::int64_t PlaneWindow::least_rate() const {
  return std::max<std::int64_t>(rate_of(kEpochPacketsMin * packet_bytes_, std::max(kEpoch, delay_.smoothed())), 1);
}

void PlaneWindow::lower_ceiling(TimePs now, std::int64_t share_ppm, std::int64_t rate) {
  if (ceiling_ > 0) {
    ceiling_ -= scaled(ceiling_, std::min<std::int64_t>(200'000, share_ppm + 5'000), kPpm);
  } else {
    ceiling_ = pace_ > 0 ? std::min(rate, pace_) : rate;
  }
  ceiling_ = std::max(ceiling_, least_rate());
  ceiling_since_ = now;
  undelayed_epochs_ = 0;
  pulse_gain_ppm_ = 0;
}

// False: the queue has become visible in the round trip, so the window can follow it.
bool PlaneWindow::hold_ceiling(TimePs now, TimePs queue, bool lossy) {
  if (2 * delay_.high() > 3 * distinct() && queue > distinct()) {
    ceiling_ = 0;
    return false;
  }
  if (pulse_end_ == 0 && now - ceiling_since_ > pulse_interval_ && !lossy) {
    pulse_gain_ppm_ = pulse_gain_ppm_ > 0 ? std::min(kPulseGainPpmMax, 2 * pulse_gain_ppm_) : kPulseGainPpm;
    pulse_end_ = now + kPulse;
    pulse_verdict_ = now + kPulse + delay_.smoothed() * 3 / 2 + 2 * kPsPerMs;
  }
  pace_ = scaled(ceiling_, kBelowCeilingPpm, kPpm);
  if (pulse_end_ > 0 && now < pulse_end_) pace_ = ceiling_ + scaled(ceiling_, pulse_gain_ppm_, kPpm);
  const std::int64_t expected = 2 + scaled(2 * background_ppm_, block_.packets, kPpm);
  if (pulse_end_ > 0 && now > pulse_verdict_ && block_.lost <= expected) {
    // A pulse that was not filled, for lack of data or processor time, proves nothing.
    const std::int64_t filled = std::max({last_rate_, rate_before_, delivered_rate_});
    if (queue < distinct() && filled > ceiling_ - ceiling_ / 10) {
      ceiling_ += scaled(ceiling_, pulse_gain_ppm_ * 7 / 10, kPpm);
      pulse_interval_ = kPulseInterval;
      ceiling_since_ = now - pulse_interval_;
      pace_ = scaled(ceiling_, kBelowCeilingPpm, kPpm);
    }
    pulse_end_ = 0;
  }
  pace_ = std::max<std::int64_t>(pace_, 1);
  window_ = std::max(2 * kWindowPacketsMin * packet_bytes_,
                     bytes_in(ceiling_, delay_.smoothed() + delay_.smoothed() / 4 + kPsPerMs));
  return true;
}

// While a host stops, the flow ends at its windows and the queue runs empty. That is no sign of free capacity, in this
// epoch and in the next one, which refills the queue. Hosts that stop all the time get an epoch of growth now and then.
bool PlaneWindow::holds_growth() {
  const bool first = delay_.stopped() && held_epochs_ < kHeldEpochsMax;
  const bool holds = first || held_;
  held_epochs_ = holds ? held_epochs_ + 1 : 0;
  held_ = first;
  return holds;
}

// On slow planes, and where acknowledgements return in clumps, the queue runs empty between the bursts of each QP. Data
// that is paced below the plane's rate at a ceiling is not limited by the window.
void PlaneWindow::note_jitter() {
  const bool filled = !starting_ && !filling_ && drain_end_ == 0 && (ceiling_ > 0 || uses_window());
  const std::int64_t rate = std::max<std::int64_t>({last_rate_, delivered_rate_, 1});
  const bool uneven = rate < kSlowLink || both_ways_;
  jitter_.end_epoch({.usual = std::max(target() / 2, uneven ? time_for(burst_bytes_ * sharers_, rate) : 0),
                     .window = ceiling_ > 0 ? 0 : window_,
                     .rate = rate,
                     .paused = !filled});
}

// FAST's law: moves half of the way each epoch to the window that leaves a queue of `target`; faster while no queue
// shows. Where data flows both ways, each window lengthens the way of the other side's acknowledgements, and feedback is
// up to two epochs old: windows that moved as fast would swing against each other.
void PlaneWindow::follow_target(TimePs queue, bool lossy, TimePs span) {
  const TimePs base = std::max<TimePs>(delay_.unqueued(), 1);
  const TimePs wanted = target();
  const bool held = holds_growth();  // also if nothing may change: it counts epochs
  const std::int64_t ratio = std::clamp(scaled(base + wanted, kStepOne, base + queue), kStepOne / 4, 2 * kStepOne);
  if (uses_window() || ratio < kStepOne) {
    const bool damped = meets_data();
    std::int64_t step = (ratio - kStepOne) / (damped ? kWayDamped : kWay);
    const bool undelayed = queue < std::max({wanted / 4, delay_.noise(), std::min(visible() / 2, base / 64)});
    // A short buffer runs empty between two bursts and shows no queue, although the next burst fills it.
    const bool full = buffer_ > 0 && delay_.peak() > buffer_ / 8 * 5;
    const bool may_grow = !full && !held;
    if (!may_grow) step = std::min<std::int64_t>(step, 0);
    if (undelayed && !lossy && may_grow) {
      const bool soon = delay_.long_path() && queue_before_ > base / 8;
      const std::int32_t epochs = soon ? kUndelayedDampedLong : kUndelayedDamped;
      const std::int32_t beyond = ++undelayed_epochs_ - (damped ? epochs : kUndelayed);
      if (beyond > 0 && beyond % 2 == 1) {
        const std::int64_t least = std::max(scaled(wanted, kStepOne, 2 * base), kStepOne / 200);
        const std::int32_t doublings = std::min((beyond + 1) / 2, 10);
        step = std::max(step, std::min(kStepOne / 2, std::min(least, kStepOne) << doublings));
      }
    } else if (!undelayed) {
      undelayed_epochs_ = std::min(undelayed_epochs_, 0);
      queue_before_ = std::max(queue, queue_before_ - queue_before_ / 4);
    }
    window_ += scaled(window_, step, kStepOne);
  }
  if (!lossy && buffer_ > 0) buffer_ += scaled(buffer_, span, kBufferGrowth);  // other traffic may have shared it
  window_ = std::max(window_, kWindowPacketsMin * packet_bytes_);
  const TimePs round = std::max(base, std::min(delay_.smoothed(), base + queue));
  // A smoothed round trip that shrinks is too long for a while. The plane has carried the delivered rate.
  const std::int64_t carried = meets_data() ? delivered_rate_ : 0;
  pace_ = std::max<std::int64_t>(headroom(std::max(rate_of(window_, round), carried)), 1);
}

// The queue on the return path changes within a few round trips. Windows that followed it by the law of the epochs would
// starve their plane while it grows and overfill it while it shrinks, and the queues of a ring would swing. The rate stays
// the same, so that two directions do not raise each other's windows.
void PlaneWindow::follow_return(TimePs longer) {
  const TimePs round = std::max(delay_.unqueued() + target(), delay_.smoothed());
  window_ = std::max(scaled(window_, round, round - longer), kWindowPacketsMin * packet_bytes_);
}

}  // namespace openmrc
