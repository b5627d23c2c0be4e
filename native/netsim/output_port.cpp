#include "netsim/output_port.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/assert.hpp"
#include "netsim/output_port_rules.hpp"

namespace openmrc::netsim {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kBitPs = 8 * static_cast<std::uint64_t>(kPsPerSecond);

// 1 - (1 - a)(1 - b)
std::uint32_t either(std::uint32_t a_ppb, std::uint32_t b_ppb) {
  const std::uint64_t neither = std::uint64_t{kPartsPerBillion - a_ppb} * (kPartsPerBillion - b_ppb) / kPartsPerBillion;
  return static_cast<std::uint32_t>(kPartsPerBillion - neither);
}

}  // namespace

bool Effects::any() const {
  return down || blackhole || loss_ppb != 0 || burst_loss_ppb != 0 || rate_ppm != kFullRatePpm || delay != 0 ||
         jitter != 0 || corrupt_ppb != 0 || duplicate_ppb != 0 || reorder_ppb != 0 || !ev_losses.empty();
}

Effects combined(const Effects& a, const Effects& b) {
  Effects both;
  both.down = a.down || b.down;
  both.blackhole = a.blackhole || b.blackhole;
  both.loss_ppb = either(a.loss_ppb, b.loss_ppb);
  both.burst_loss_ppb = either(a.burst_loss_ppb, b.burst_loss_ppb);
  both.burst_packets = std::max(a.burst_packets, b.burst_packets);
  both.rate_ppm =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::uint64_t{a.rate_ppm} * b.rate_ppm / kFullRatePpm));
  both.delay = a.delay + b.delay;
  both.jitter = a.jitter + b.jitter;
  both.corrupt_ppb = either(a.corrupt_ppb, b.corrupt_ppb);
  both.duplicate_ppb = either(a.duplicate_ppb, b.duplicate_ppb);
  both.reorder_ppb = either(a.reorder_ppb, b.reorder_ppb);
  both.reorder_delay = std::max(a.reorder_delay, b.reorder_delay);
  both.ev_losses = a.ev_losses;
  both.ev_losses.insert(both.ev_losses.end(), b.ev_losses.begin(), b.ev_losses.end());
  return both;
}

std::uint64_t LinkCounters::dropped() const { return std::accumulate(drops.begin(), drops.end(), std::uint64_t{0}); }

Port::Port(const PortConfig& config) : config_(config) {
  MRC_ASSERT(config.rate_bps > 0);
  MRC_ASSERT(config.ecn_min_bytes <= config.ecn_max_bytes);
  MRC_ASSERT(config.ecn_max_permille <= kPermille);
  MRC_ASSERT(config.priority || !config.trim);  // a trimmed packet must overtake data, or its notice comes too late
  if (kBitPs % config.rate_bps == 0) ps_per_byte_ = static_cast<TimePs>(kBitPs / config.rate_bps);
  queue_time_ = transmit_time(config.queue_bytes);
  control_queue_time_ = transmit_time(config.control_queue_bytes);
  ecn_min_time_ = transmit_time(config.ecn_min_bytes);
  ecn_max_time_ = transmit_time(config.ecn_max_bytes);
  trim_time_ = transmit_time(config.trim_threshold_bytes);
}

TimePs Port::exact_transmit_time(std::uint32_t bytes) const {
  return static_cast<TimePs>(static_cast<Wide>(bytes) * kBitPs / config_.rate_bps);
}

std::uint64_t Port::bytes_in(TimePs wait) const {
  return static_cast<std::uint64_t>(static_cast<Wide>(wait) * config_.rate_bps / kBitPs);
}

OutputPort::Sent OutputPort::offer(TimePs now, Packet& packet, const Port& port, FaultState* faults, Rng& marking) {
  const PortConfig& config = port.config();
  if (overtakes(config, packet)) return offer_control(now, packet, port, faults);
  const TimePs start = std::max({now, busy_until_, control_until_});
  const TimePs wait = start - now;
  if (can_trim(config, packet) && wait > stretched(port.trim_time(), faults)) {
    trim(config, packet, counters_);
    return offer_control(now, packet, port, faults);
  }
  const TimePs transmit = stretched(port.transmit_time(packet.bytes), faults);
  if (wait + transmit > stretched(port.queue_time(), faults)) return drop(DropCause::kQueueFull);
  if (config.ecn) {
    mark(packet,
         {.length = wait,
          .ecn_min = stretched(port.ecn_min_time(), faults),
          .ecn_max = stretched(port.ecn_max_time(), faults)},
         config.ecn_max_permille, marking, counters_);
  }
  counters_.queue_peak = std::max(counters_.queue_peak, wait);
  busy_until_ = start + transmit;
  last_transmit_ = transmit;
  return send(busy_until_, packet, port, faults);
}

OutputPort::Sent OutputPort::offer_control(TimePs now, Packet& packet, const Port& port, FaultState* faults) {
  const TimePs transmit = stretched(port.transmit_time(packet.bytes), faults);
  TimePs start = control_until_;
  if (start <= now) {
    // The data packet in service is finished first; its remaining time is computed as if the packets behind it had
    // equal sizes.
    const TimePs data_left = backlog(now);
    start = now + (data_left > 0 && last_transmit_ > 0 ? data_left % last_transmit_ : 0);
  }
  if (start - now + transmit > stretched(port.control_queue_time(), faults)) return drop(DropCause::kControlQueueFull);
  control_until_ = start + transmit;
  busy_until_ = std::max(busy_until_, start) + transmit;
  return send(control_until_, packet, port, faults);
}

OutputPort::Sent OutputPort::drop(DropCause cause) {
  ++counters_.drops[static_cast<std::size_t>(cause)];
  return {};
}

OutputPort::Sent OutputPort::send(TimePs departure, const Packet& packet, const Port& port, FaultState* faults) {
  ++counters_.packets;
  counters_.bytes += packet.bytes;
  const TimePs extra = faults == nullptr ? 0 : extra_delay(*faults, counters_);
  return {true, departure + port.config().delay + extra};
}

bool OutputPort::survives(Packet& packet, FaultState& faults) { return netsim::survives(packet, faults, counters_); }

void OutputPort::change_rate(TimePs now, std::uint32_t old_ppm, std::uint32_t new_ppm) {
  const auto convert = [&](TimePs until) {
    if (until <= now) return until;
    return now + static_cast<TimePs>(static_cast<Wide>(until - now) * old_ppm / new_ppm);
  };
  busy_until_ = convert(busy_until_);
  control_until_ = convert(control_until_);
  last_transmit_ = static_cast<TimePs>(static_cast<Wide>(last_transmit_) * old_ppm / new_ppm);
}

}  // namespace openmrc::netsim
