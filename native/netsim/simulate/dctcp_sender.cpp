#include "netsim/simulate/dctcp_sender.hpp"

#include <algorithm>

namespace openmrc::netsim {

namespace {

constexpr std::uint32_t kBackoffMax = 32;  // doublings; beyond, rto_max applies anyway

}  // namespace

// The handshake, which is not simulated, would have measured the RTT once (RFC 6298, section 2.2).
DctcpSender::DctcpSender(const DctcpSettings& settings, const Surroundings& surroundings)
    : settings_(&settings),
      control_(settings),
      smoothed_rtt_(surroundings.base_rtt),
      rtt_variation_(surroundings.base_rtt / 2),
      mtu_(surroundings.payload_mtu),
      around_(surroundings.header_bytes) {}

std::uint64_t DctcpSender::window() const {
  if (settings_->window_bytes == 0) return control_.window();
  return std::min(control_.window(), std::max<std::uint64_t>(1, settings_->window_bytes / mtu_));
}

bool DctcpSender::may_send() {
  if (failed_) return false;
  if (probe_) return true;
  const bool lost = board_.has_lost();
  if (!lost && board_.next() >= messages_.end()) return false;
  return board_.in_flight() < window() || (lost && at_once_);
}

// A probe is new data if any exists, else a repeat of the last packet that has not arrived.
std::uint64_t DctcpSender::choose(bool& again) {
  const bool fresh = board_.next() < messages_.end();
  if (probe_) {
    again = !fresh;
    board_.age(settings_->reordering_packets);  // two RTTs have passed: packets that the probe overtakes are lost
    return fresh ? board_.next() : board_.last_missing();
  }
  again = board_.has_lost();
  return again ? board_.first_lost() : board_.next();
}

void DctcpSender::send(TimePs now, DctcpData header, HostPacket& packet) {
  MRC_ASSERT(may_send());
  bool again = false;
  const std::uint64_t sequence = choose(again);
  const Segment segment = messages_.segment(sequence, mtu_);
  probe_ = at_once_ = false;
  if (again) {
    board_.retransmitted(now, sequence);
    ++retransmitted_packets_;
  } else {
    board_.sent(now);
  }
  header.last = segment.last ? 1 : 0;
  header.sequence = sequence;
  header.sent_ps = now;
  header.message = segment.message;
  write_header(header, around_, segment.payload_bytes, packet);
  packet.traffic_class = TrafficClass::kNoTrim;
  packet.ecn = Ecn::kEct0;
  ++sent_packets_;
  sent_bytes_ += segment.payload_bytes;
}

bool DctcpSender::handle_ack(TimePs now, const DctcpAck& ack) {
  ++acks_;
  if (failed_) return false;
  // Linux's criterion: in slow start half a window in flight counts as limited by the window.
  const bool limited = board_.in_flight() * 2 >= window();
  const bool advanced = ack.next > board_.acknowledged();
  std::uint64_t delivered = advanced ? board_.acknowledge(ack.next, ack.sent_ps) : 0;
  for (std::size_t i = 0; i < ack.blocks; ++i) {
    delivered += board_.sack(ack.next + ack.sacked[i].start, ack.next + ack.sacked[i].end, ack.sent_ps);
  }
  if (advanced) {
    timeouts_in_row_ = 0;
    probe_ = false;
    probes_ = 0;
    if (phase_ != Phase::kOpen && board_.acknowledged() >= repair_end_) phase_ = Phase::kOpen;
  }
  if (delivered == 0) return false;
  probe_ = false;  // a waiting probe has become pointless
  measure(now - ack.sent_ps);
  if (ack.echo != 0) marks_ += delivered;
  (void)repair(settings_->reordering_packets);
  control_.on_ack(*settings_, {delivered, ack.echo != 0, board_.acknowledged(), board_.next(), limited,
                               phase_ == Phase::kRecovery});
  return true;
}

// Starts a recovery if a packet is lost; returns true in that case.
bool DctcpSender::repair(std::uint32_t reordering_packets) {
  const std::uint64_t found = board_.find_losses(reordering_packets);
  losses_ += found;
  if (found == 0 || phase_ != Phase::kOpen) return false;
  phase_ = Phase::kRecovery;
  repair_end_ = board_.next();
  at_once_ = true;
  control_.on_loss(*settings_);
  return true;
}

// RFC 6298, section 2.3.
void DctcpSender::measure(TimePs rtt) {
  const TimePs error = rtt > smoothed_rtt_ ? rtt - smoothed_rtt_ : smoothed_rtt_ - rtt;
  rtt_variation_ += (error - rtt_variation_) / 4;
  smoothed_rtt_ += (rtt - smoothed_rtt_) / 8;
}

TimePs DctcpSender::retransmission_timeout() const {
  return std::clamp(smoothed_rtt_ + 4 * rtt_variation_, settings_->rto_min, settings_->rto_max);
}

TimePs DctcpSender::probe_timeout() const {
  // The acknowledgement of a single packet may be a delayed one (RFC 8985, section 7.2).
  const TimePs delay = board_.in_flight() == 1 ? settings_->ack_delay : 0;
  return std::min(retransmission_timeout(), 2 * smoothed_rtt_ + delay);
}

// Each probe waits twice as long as the one before.
TimePs DctcpSender::waited_for_probes(std::uint32_t probes) const {
  const TimePs rto = retransmission_timeout();
  TimePs waited = 0;
  for (TimePs wait = probe_timeout(); probes > 0 && waited < rto; --probes, wait *= 2) waited += wait;
  return waited;
}

// RFC 8985 sends one probe. If the RTO is a thousand round trips, a burst that loses the probe as well would cost all
// of them, so unanswered probes are repeated until the RTO.
bool DctcpSender::would_probe() const {
  if (!settings_->tail_loss_probe || phase_ != Phase::kOpen || !waits()) return false;
  return probes_ == 0 || waited_for_probes(probes_ + 1) < retransmission_timeout();
}

TimePs DctcpSender::patience() const {
  const TimePs rto = retransmission_timeout();
  if (would_probe()) return waited_for_probes(probes_ + 1) - waited_for_probes(probes_);
  if (probes_ > 0 && timeouts_in_row_ == 0) return std::max(rto - waited_for_probes(probes_), probe_timeout());
  const std::uint32_t doublings = std::min(timeouts_in_row_, kBackoffMax);
  return rto > (settings_->rto_max >> doublings) ? settings_->rto_max : rto << doublings;
}

bool DctcpSender::handle_timer() {
  if (would_probe()) {
    ++probes_;
    // Packets sent before one that arrived two RTTs ago are not late but lost (the timer of RACK).
    if (repair(0)) return true;
    // A sender that may send is waiting for the port: the flight has not ended yet.
    probe_ = !may_send();
    return true;
  }
  ++timeouts_;
  control_.on_timeout(*settings_, timeouts_in_row_ > 0);
  ++timeouts_in_row_;
  losses_ += board_.lose_all();
  phase_ = Phase::kTimedOut;
  repair_end_ = board_.next();
  probe_ = at_once_ = false;
  return timeouts_in_row_ <= settings_->retries;
}

void DctcpSender::add_to(ConnectionStats& stats) const {
  stats.sent_packets = sent_packets_;
  stats.sent_bytes = sent_bytes_;
  stats.retransmitted_packets = retransmitted_packets_;
  stats.acknowledgements = acks_;
  stats.marks = marks_;
  stats.losses_inferred = losses_;
  stats.timeouts = timeouts_;
  stats.window_bytes = window() * mtu_;
  stats.smoothed_rtt = smoothed_rtt_;
}

}  // namespace openmrc::netsim
