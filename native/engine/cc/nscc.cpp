#include "engine/cc/nscc.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc {
namespace {

// A sample weighs at least 1/80 (the published per-sample weight, 0.0125), and otherwise the share of a base RTT that
// has passed since the previous sample.
constexpr TimePs kSampleWeightShare = 80;
constexpr std::uint64_t kNewBytesMax = std::uint64_t{1} << 40;

}  // namespace

Nscc::Nscc(const CcConfig& config)
    : params_(nscc::derive(config)), base_rtt_(params_.base_rtt), full_packet_base_rtt_(params_.base_rtt) {
  // Start at line rate (A.14.3), or at the share of it that the incast hint leaves (X.5.3).
  window_ = params_.initial_window_bytes;
}

void Nscc::on_sent(TimePs now, std::uint64_t /*bytes*/) { start_clocks(now); }

void Nscc::on_ack(TimePs now, const AckSample& ack) {
  AckSample sample = ack;
  sample.new_bytes = std::min(sample.new_bytes, kNewBytesMax);
  sample.in_flight_bytes = std::min(sample.in_flight_bytes, kNewBytesMax);
  start_clocks(now);
  const TimePs delay = measure(now, sample);
  achieved_ += sample.new_bytes;
  if (sample.rcv_cwnd_pen != 0 && params_.receiver_penalty) {
    apply_penalty(sample);
    return;
  }
  if (penalised_) end_penalty(sample.restore_cwnd);
  // ECN is off on the last hop (A.14). The fair increase above the target rests on marks (X.5.1): an unmarked packet
  // with a long delay left a queue that drains. The port to a host does not mark. Once it has trimmed, delay is its
  // only signal below the trim threshold and counts as a mark until the window is back at its maximum.
  if (last_hop_trimmed_ && delay >= params_.target_qdelay) sample.marked = true;
  if (quick_adapt(now, sample.in_flight_bytes)) return;
  // Marks (A.14.9) on packets in flight at the quick-adapt cut are consequences of the congestion already answered.
  if (bytes_to_ignore_ != 0) {
    bytes_to_ignore_ -= std::min(bytes_to_ignore_, sample.new_bytes);
    if (sample.marked) return;
  }
  steer(now, sample, delay);
  adjust(now, sample.new_bytes);
}

void Nscc::on_trim(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes, bool last_hop) {
  ++trims_;
  last_hop_trimmed_ = last_hop_trimmed_ || (last_hop && params_.last_hop_delay);
  congestion(now, bytes, in_flight_bytes);
}

void Nscc::on_loss(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes) {
  ++losses_;
  congestion(now, bytes, in_flight_bytes);
}

CcStats Nscc::stats() const {
  return {.window_bytes = window_,
          .max_window_bytes = params_.max_window_bytes,
          .base_rtt = base_rtt_,
          .average_delay = average_delay_,
          .proportional = proportional_,
          .fair = fair_,
          .fast = fast_count_,
          .decreases = decreases_,
          .quick_adapts = quick_adapts_,
          .trims = trims_,
          .losses = losses_};
}

// Queueing delay of this feedback (A.14.13); the average if the feedback has no sample of its own.
//
// Switches store and forward, so a short packet is faster than a full one without any queue. Full packets are compared
// with full packets only (X.5.2). Otherwise a flow whose short packet once met an empty path would see permanent delay
// that other flows do not see, and would yield to them.
TimePs Nscc::measure(TimePs now, const AckSample& sample) {
  if (sample.rtt <= 0) return average_delay_;
  const TimePs rtt = std::min(sample.rtt, nscc::kRttMax);
  base_rtt_ = std::min(base_rtt_, rtt);
  if (!sample.short_packet) full_packet_base_rtt_ = std::min(full_packet_base_rtt_, rtt);
  const TimePs delay = rtt - (sample.short_packet ? base_rtt_ : full_packet_base_rtt_);
  if (!sampled_) {
    sampled_ = true;
    average_delay_ = delay;
  } else {
    const TimePs span = params_.base_rtt;
    const TimePs least = std::max<TimePs>(span / kSampleWeightShare, 1);
    TimePs share = std::clamp(now - last_sample_, least, span);
    // Every marked packet causes a SACK of its own; the mark does not apply to the unmarked packets before it.
    // Otherwise a single slow path among many would count as all of them.
    if (sample.marked && sample.new_bytes > params_.mtu_bytes) {
      share = std::max(least, share * static_cast<TimePs>(params_.mtu_bytes) / static_cast<TimePs>(sample.new_bytes));
    }
    const TimePs weight_q16 = (share << 16) / span;
    average_delay_ += ((delay - average_delay_) * weight_q16) >> 16;
  }
  last_sample_ = now;
  return delay;
}

// The decision table (A.14.4).
void Nscc::steer(TimePs now, const AckSample& sample, TimePs delay) {
  if (!sample.marked && delay < params_.target_qdelay) {
    increase_proportional(sample.new_bytes, delay);
    return;
  }
  undelayed_bytes_ = 0;
  fast_ = false;
  if (!sample.marked) {
    increase_fair(sample.new_bytes);
  } else if (delay >= params_.target_qdelay) {
    decrease(now);
  }
}

void Nscc::increase_proportional(std::uint64_t new_bytes, TimePs delay) {
  if (increase_fast(new_bytes, delay)) return;
  ++proportional_;
  const auto room_q16 = (static_cast<std::uint64_t>(params_.target_qdelay - delay) << 16) /
                        static_cast<std::uint64_t>(params_.target_qdelay);
  increase_q10_ += (Wide{params_.proportional_q10} * new_bytes * room_q16) >> 16;
}

void Nscc::increase_fair(std::uint64_t new_bytes) {
  ++fair_;
  increase_q10_ += Wide{params_.fair_q10} * new_bytes;
}

// After more than a window of bytes without delay (A.14.6).
bool Nscc::increase_fast(std::uint64_t new_bytes, TimePs delay) {
  if (delay > params_.no_delay_tolerance) {
    undelayed_bytes_ = 0;
    fast_ = false;
    return false;
  }
  undelayed_bytes_ = std::min(undelayed_bytes_ + new_bytes, 2 * kNewBytesMax);
  if (undelayed_bytes_ > window_) fast_ = true;
  if (!fast_) return false;
  ++fast_count_;
  set_window(window_ + ((Wide{params_.fast_q20} * new_bytes) >> 20));
  return true;
}

// Once per base RTT, and only when the average is above the target too (A.14.7).
void Nscc::decrease(TimePs now) {
  if (average_delay_ <= params_.target_qdelay) return;
  if (decreased_ && now - last_decrease_ < params_.adjust_period) return;
  const auto over_permille =
      static_cast<std::uint64_t>(params_.gamma_permille * (average_delay_ - params_.target_qdelay) / average_delay_);
  const std::uint64_t keep_permille = std::max<std::uint64_t>(1000 - over_permille, params_.max_md_jump_permille);
  set_window(Wide{window_} * keep_permille / 1000);
  forget_increase();
  last_decrease_ = now;
  decreased_ = true;
  ++decreases_;
}

// Accumulated increase every adjust_period or adjust_bytes, eta once per period (A.14.5).
void Nscc::adjust(TimePs now, std::uint64_t new_bytes) {
  adjust_bytes_ += new_bytes;
  if (adjust_bytes_ < params_.adjust_bytes && now - last_adjust_ < params_.adjust_period) return;
  Wide grown_q10 = (Wide{window_} << 10) + increase_q10_ / window_;
  if (now - last_eta_ >= params_.adjust_period) {
    grown_q10 += params_.eta_q10;
    last_eta_ = now;
  }
  set_window(grown_q10 >> 10);
  increase_q10_ = 0;
  adjust_bytes_ = 0;
  last_adjust_ = now;
}

// The receiver's penalty (A.14.11). The base is the amount in flight before this SACK: 64 in all SACKs of one RTT then
// halves the window, and 127 leads to one packet per RTT. One packet of slack keeps the cap from rounding down to whole
// packets again and again.
void Nscc::apply_penalty(const AckSample& sample) {
  if (!penalised_) {
    penalised_ = true;
    window_before_penalty_ = window_;
  }
  penalty_restores_ = sample.restore_cwnd;
  forget_increase();
  const std::uint64_t pen = std::min<std::uint64_t>(sample.rcv_cwnd_pen, 127);
  const std::uint64_t in_flight_before = sample.in_flight_bytes + sample.new_bytes;
  const std::uint64_t capped = std::min(window_, in_flight_before + params_.mtu_bytes);
  const std::uint64_t cut = pen * sample.new_bytes / 128;
  set_window(capped > cut ? capped - cut : 0);
}

// A.14.12: restore_cwnd.
void Nscc::end_penalty(bool restore) {
  penalised_ = false;
  if (restore || penalty_restores_) set_window(std::max(window_, window_before_penalty_));
}

void Nscc::congestion(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes) {
  start_clocks(now);
  bytes = std::min(bytes, kNewBytesMax);
  qa_trigger_ = true;
  undelayed_bytes_ = 0;
  fast_ = false;
  if (quick_adapt(now, std::min(in_flight_bytes, kNewBytesMax))) return;
  if (bytes_to_ignore_ != 0) {
    bytes_to_ignore_ -= std::min(bytes_to_ignore_, bytes);
    return;
  }
  set_window(window_ > bytes ? window_ - bytes : 0);  // A.14.10
}

// Once per base RTT + target: if hardly anything was delivered, cut the window to the delivered amount (A.14.8).
bool Nscc::quick_adapt(TimePs now, std::uint64_t in_flight_bytes) {
  if (now <= qa_end_) return false;
  const TimePs period = base_rtt_ + params_.target_qdelay;
  // Silence carries no information about the network's capacity: the application is idle or the host stalled. Skip to
  // the next period.
  const bool stale = now - qa_end_ > period;
  const bool congested = qa_trigger_ || average_delay_ > params_.qa_threshold;
  const bool starved = achieved_ < params_.max_window_bytes >> params_.qa_gate_shift;
  const std::uint64_t fallback = std::max(achieved_, params_.mtu_bytes);
  achieved_ = 0;
  qa_trigger_ = false;
  qa_end_ = now + period;
  if (!params_.quick_adapt || stale || !congested || !starved || window_ <= fallback) return false;
  set_window(fallback);
  bytes_to_ignore_ = in_flight_bytes;
  forget_increase();
  ++quick_adapts_;
  return true;
}

void Nscc::rebase(TimePs by) {
  for (TimePs* time : {&last_sample_, &last_decrease_, &last_adjust_, &last_eta_, &qa_end_}) *time = rebased(*time, by);
}

void Nscc::start_clocks(TimePs now) {
  if (started_) return;
  started_ = true;
  qa_end_ = now + base_rtt_ + params_.target_qdelay;
  last_adjust_ = now;
  last_eta_ = now;
}

void Nscc::forget_increase() {
  increase_q10_ = 0;
  undelayed_bytes_ = 0;
  fast_ = false;
}

// A.14.14: bounds.
void Nscc::set_window(Wide bytes) {
  if (bytes > params_.max_window_bytes) bytes = params_.max_window_bytes;
  window_ = std::max(static_cast<std::uint64_t>(bytes), params_.mtu_bytes);
  MRC_ASSERT(window_ <= params_.max_window_bytes);
  if (window_ == params_.max_window_bytes) last_hop_trimmed_ = false;
}

}  // namespace openmrc
