#include "netsim/simulate/roce_sender.hpp"

namespace openmrc::netsim {

namespace {

constexpr std::uint64_t kOutstandingMax = 1U << 23;  // half of the PSN space
// A slow QP requests an acknowledgement at least in this fraction of the timeout, or its own rate would cause timeouts.
constexpr TimePs kRequestShare = 8;

}  // namespace

RoceSender::RoceSender(const RoceSettings& settings, const Surroundings& surroundings)
    : settings_(&settings),
      rate_(settings.rate, surroundings.port_rate_bps),
      window_(kOutstandingMax),
      mtu_(surroundings.payload_mtu),
      around_(surroundings.header_bytes) {
  if (settings.window_bytes != 0) window_ = std::clamp<std::uint64_t>(settings.window_bytes / mtu_, 1, window_);
}

bool RoceSender::wants_ack(TimePs now, const Segment& segment) const {
  const bool late = next_ > acknowledged_ && now - last_request_ >= settings_->timeout / kRequestShare;
  return segment.last || late || next_ + 1 - std::max(requested_, acknowledged_) >= settings_->ack_packets ||
         next_ + 1 - acknowledged_ >= window_;
}

void RoceSender::send(TimePs now, RoceHeader header, HostPacket& packet) {
  MRC_ASSERT(may_send());
  const Segment segment = messages_.segment(next_, mtu_);
  header.kind = RoceKind::kWrite;
  header.psn = next_;
  header.message = segment.message;
  header.first = segment.first ? 1 : 0;
  header.last = segment.last ? 1 : 0;
  header.ack_request = wants_ack(now, segment) ? 1 : 0;
  write_header(header, around_, segment.payload_bytes, packet);
  packet.traffic_class = TrafficClass::kNoTrim;
  packet.ecn = settings_->dcqcn ? Ecn::kEct0 : Ecn::kNotEct;

  ++sent_packets_;
  sent_bytes_ += segment.payload_bytes;
  if (next_ < highest_) ++retransmitted_packets_;
  ++next_;
  highest_ = std::max(highest_, next_);
  if (header.ack_request != 0) {
    requested_ = next_;
    last_request_ = now;
  }
  pace(now, packet.bytes);
}

void RoceSender::pace(TimePs now, std::uint32_t wire_bytes) {
  rate_.on_sent(now, wire_bytes);
  const std::uint64_t rate = rate_.rate_bps(now);
  if (!rate_.limited()) {
    next_send_ = now;  // only the port limits the rate
    return;
  }
  __extension__ using Wide = unsigned __int128;
  const auto gap = static_cast<TimePs>(Wide{wire_bytes} * 8 * kPsPerSecond / rate);
  // Credit for at most one packet's wait behind the other QPs of the port.
  next_send_ = std::max(next_send_, now - gap) + gap;
}

TimePs RoceSender::next_send(TimePs now) {
  if (next_send_ <= now) return next_send_;
  const std::uint64_t before = rate_.last_rate_bps();
  const std::uint64_t rate = rate_.rate_bps(now);
  __extension__ using Wide = unsigned __int128;
  if (rate > before) next_send_ = now + static_cast<TimePs>(static_cast<Wide>(next_send_ - now) * before / rate);
  return next_send_;
}

bool RoceSender::handle_ack(std::uint64_t psn) {
  ++acks_;
  if (failed_ || psn <= acknowledged_) return false;
  MRC_ASSERT(psn <= highest_);
  acknowledged_ = psn;
  next_ = std::max(next_, psn);
  timeouts_in_row_ = 0;
  return true;
}

bool RoceSender::handle_nak(std::uint64_t psn) {
  const bool progress = handle_ack(psn);
  --acks_;
  ++naks_;
  if (failed_ || psn < acknowledged_) return progress;  // late: already handled
  next_ = psn;
  requested_ = psn;
  return progress;
}

void RoceSender::handle_cnp(TimePs now) {
  ++cnps_;
  if (settings_->dcqcn) rate_.on_cnp(now);
}

bool RoceSender::handle_timeout() {
  ++timeouts_;
  ++timeouts_in_row_;
  next_ = acknowledged_;
  requested_ = acknowledged_;
  return timeouts_in_row_ <= settings_->retries;
}

TimePs RoceSender::patience() const {
  TimePs wait = settings_->timeout;
  for (std::uint32_t i = 0; i < timeouts_in_row_ && wait < settings_->timeout_max; ++i) wait *= 2;
  return std::max(settings_->timeout, std::min(wait, settings_->timeout_max));
}

void RoceSender::fail() {
  failed_ = true;
  acknowledged_ = next_ = requested_ = messages_.end();
}

void RoceSender::add_to(ConnectionStats& stats) const {
  stats.sent_packets = sent_packets_;
  stats.sent_bytes = sent_bytes_;
  stats.retransmitted_packets = retransmitted_packets_;
  stats.acknowledgements = acks_;
  stats.negative_acknowledgements = naks_;
  stats.marks = cnps_;
  stats.losses_inferred = naks_;
  stats.timeouts = timeouts_;
  stats.window_bytes = settings_->window_bytes;
  stats.rate_bps = rate_.last_rate_bps();
}

}  // namespace openmrc::netsim
