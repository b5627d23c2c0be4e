#include "netsim/simulate/nic.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"
#include "netsim/output_port_rules.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::size_t kArrivalsAhead = 6;  // number of arrivals to prefetch

void prefetch(const Inbound& inbound) {
  const char* packet = reinterpret_cast<const char*>(inbound.packet);
  __builtin_prefetch(packet);
  __builtin_prefetch(packet + sizeof(Packet) - 1);  // may span two lines
  if (inbound.part != nullptr) __builtin_prefetch(inbound.part);
}

constexpr std::uint32_t kTurnsMax = 10'000;  // at one instant; more indicate a transport that never finishes

}  // namespace

Nic::Nic(const NicConfig& config, std::uint32_t host, std::unique_ptr<Endpoint> endpoint)
    : config_(config), endpoint_(std::move(endpoint)), host_(host), up_((PortMask{1} << config.shape.planes) - 1) {}

void Nic::begin(Workload& work) {
  work_.begin(work, host_);
  wake_ = std::min(work_.next_time(), endpoint_->next_timer());
}

void Nic::run(TimePs end, std::span<const Inbound> arrivals, Workload& work, Outbox& out, Prefetch ahead) {
  std::size_t next = 0;
  for (const Inbound& inbound : arrivals.first(std::min(kArrivalsAhead, arrivals.size()))) prefetch(inbound);
  for (;;) {
    const TimePs now = std::min(wake_, next < arrivals.size() ? arrivals[next].time : kNever);
    if (now >= end) break;
    ahead.step();
    for (; next < arrivals.size() && arrivals[next].time == now; ++next) {
      if (next + kArrivalsAhead < arrivals.size()) prefetch(arrivals[next + kArrivalsAhead]);
      receive(now, arrivals[next]);
    }
    if (endpoint_->next_timer() <= now) endpoint_->handle_timer(now);
    take_done(now, work);
    while (work_.next_time() <= now) {
      start_sends(now, work);
      take_done(now, work);
    }
    transmit(now, out);
    turns_here_ = now == last_turn_ ? turns_here_ + 1 : 0;
    last_turn_ = now;
    MRC_ASSERT(turns_here_ < kTurnsMax);
  }
}

void Nic::receive(TimePs now, const Inbound& inbound) {
  const Packet& packet = *inbound.packet;
  const PortMask port = PortMask{1} << inbound.plane;
  if (packet.link == kPauseOn) {
    paused_ |= port;
    return;
  }
  if (packet.link == kPauseOff) {
    paused_ &= ~port;
    return;
  }
  PortTraffic& traffic = traffic_[inbound.plane];
  ++traffic.rx_packets;
  traffic.rx_bytes += packet.bytes;
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  trace_ = (trace_ ^ (static_cast<std::uint64_t>(now) + (std::uint64_t{packet.ev} << 20) + inbound.plane)) * kPrime;
  if (packet.corruption != kNotCorrupted) {  // the ICRC would not match
    ++corrupted_;
    return;
  }
  const HostPacket whole{packet, *inbound.part};
  endpoint_->handle_packet(now, static_cast<PortId>(inbound.plane), whole);
}

void Nic::start_sends(TimePs now, Workload& work) {
  for (std::uint32_t op = work_.next_send(work, now); op != HostWork::kNone; op = work_.next_send(work, now)) {
    const std::uint16_t parts = work.parts(op);
    std::uint64_t left = work.ops[op].bytes;
    for (std::uint16_t part = 0; part < parts; ++part) {
      const std::uint64_t bytes = left / (parts - part);
      left -= bytes;
      endpoint_->post(now, work.connection[op] + part, op, bytes);
    }
  }
}

void Nic::take_done(TimePs now, Workload& work) {
  Done done;
  while (endpoint_->poll_done(done)) {
    if (done.kind == Done::Kind::kReceived) {
      work_.received(work, now, done.message);
    } else if (done.kind == Done::Kind::kCompleted) {
      work_.completed(work, now, done.message);
    } else {
      failed_ += work.failed[done.message] == 0 ? 1 : 0;
      work.failed[done.message] = 1;
    }
  }
}

void Nic::transmit(TimePs now, Outbox& out) {
  PortMask free = 0;
  TimePs next_free = kNever;
  for (std::uint32_t port = 0; port < config_.shape.planes; ++port) {
    if (free_at_[port] <= now) {
      free |= PortMask{1} << port;
    } else {
      next_free = std::min(next_free, free_at_[port]);
    }
  }
  free &= up_;
  while (free != 0 && endpoint_->poll_transmit(now, free, paused_ & free, outbound_)) {
    MRC_ASSERT((free >> outbound_.port & 1) != 0);
    put_on_wire(now, out);
    free &= ~(PortMask{1} << outbound_.port);
    next_free = std::min(next_free, free_at_[outbound_.port]);
  }
  // The condition that a timer waits for may have become true by itself: it is due now, not at its original time.
  wake_ = std::max(now, std::min({endpoint_->next_timer(), work_.next_time(), next_free}));
}

void Nic::put_on_wire(TimePs now, Outbox& out) {
  HostPacket& packet = outbound_.packet;
  packet.source_host = host_;
  packet.link = config_.shape.nic_up(host_);
  packet.corruption = kNotCorrupted;
  packet.route = route_of(config_.shape, host_, packet.destination_host, packet.ev);
  if (config_.routing->avoids(outbound_.port)) {
    packet.route = config_.routing->route(outbound_.port, packet, packet.route);
  }
  if (packet.payload_bytes > 0) ++data_packets_;
  FaultState* faults = uplink_faults_[outbound_.port].get();
  const Port& uplink = config_.uplinks[outbound_.port];
  free_at_[outbound_.port] = now + stretched(uplink.transmit_time(packet.bytes), faults);
  TimePs arrival = free_at_[outbound_.port] + uplink.config().delay;
  if (faults != nullptr) arrival += extra_delay(*faults, uplink_counters_);
  PortTraffic& traffic = traffic_[outbound_.port];
  ++traffic.tx_packets;
  traffic.tx_bytes += packet.bytes;
  packet.payload = out.parts[outbound_.port].take(packet);
  out.mail[outbound_.port].push_back({arrival, packet});
}

void Nic::set_carrier(TimePs now, std::uint32_t plane, bool up) {
  const PortMask port = PortMask{1} << plane;
  up_ = up ? up_ | port : up_ & ~port;
  paused_ &= ~port;
  endpoint_->handle_port_state(now, static_cast<PortId>(plane), up);
  wake_ = now;
}

void Nic::set_uplink_effects(std::uint32_t plane, const Effects& effects, std::uint64_t seed) {
  if (!effects.any()) {
    uplink_faults_[plane].reset();
    return;
  }
  if (uplink_faults_[plane] == nullptr) {
    uplink_faults_[plane] = std::make_unique<FaultState>();
    uplink_faults_[plane]->rng = Rng::for_component(seed, "uplink", (std::uint64_t{plane} << 32) | host_);
  }
  uplink_faults_[plane]->effects = effects;
}

}  // namespace openmrc::netsim
