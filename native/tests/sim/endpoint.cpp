#include "tests/sim/endpoint.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/wire/icrc.hpp"
#include "tests/sim/verdict.hpp"

namespace openmrc::sim {

namespace {

constexpr std::uint64_t kPacketsPerInstantMax = 300'000;

EngineConfig config_of(const Scenario& scenario, int end) {
  EngineConfig config;
  config.seed = scenario.seed * 2 + static_cast<std::uint64_t>(end);
  config.kernel = {1, 2};
  // Any EV can be sent from here, as in a simulator without sockets.
  for (PortId port = 0; port < scenario.planes; ++port) {
    config.ports.push_back({address_of(scenario, end, port), true, {}});
  }
  config.ev_format = scenario.ev_format;
  config.icrc = scenario.icrc;
  config.endpoint_retry = 2 * kPsPerMs;
  config.reverse_probe_interval = 5 * kPsPerMs;
  return config;
}

void append(const TxPacket& packet, std::vector<std::uint8_t>& bytes) {
  bytes.insert(bytes.end(), packet.headers.begin(), packet.headers.begin() + packet.header_bytes);
  if (packet.payload_bytes > 0) bytes.insert(bytes.end(), packet.payload, packet.payload + packet.payload_bytes);
  bytes.insert(bytes.end(), packet.trailer.begin(), packet.trailer.begin() + packet.trailer_bytes);
}

}  // namespace

Endpoint::Endpoint(const Scenario& scenario, int end, TraceHash& trace)
    : scenario_(scenario),
      end_(end),
      trace_(trace),
      clock_(scenario.clock_offset[static_cast<std::size_t>(end)], scenario.drift_ppm[static_cast<std::size_t>(end)]),
      engine_(std::make_unique<Engine>(config_of(scenario, end))) {
  port_up_.fill(true);
}

PortMask Endpoint::free_ports(TimePs now) {
  PortMask mask = 0;
  next_port_free_ = kNever;
  for (PortId port = 0; port < scenario_.planes; ++port) {
    // A port that is down stays in the mask: the engine has to avoid it.
    if (port_busy_until_[port] <= now) {
      mask |= PortMask{1} << port;
    } else {
      next_port_free_ = std::min(next_port_free_, port_busy_until_[port]);
    }
  }
  return mask;
}

void Endpoint::check_burst(const TxBurst& burst, PortMask free) const {
  SIM_REQUIRE(burst.count >= 1 && burst.count <= scenario_.burst_max, "burst of %u packets, at most %u were asked for",
              burst.count, scenario_.burst_max);
  SIM_REQUIRE(burst.port < scenario_.planes && ((free >> burst.port) & 1) != 0, "burst for port %u, which is not free",
              burst.port);
  SIM_REQUIRE(port_up_[burst.port], "burst on port %u, which is down", burst.port);
  SIM_REQUIRE(burst.destination == address_of(scenario_, 1 - end_, burst.port), "burst leaves its plane");
  SIM_REQUIRE(burst.fields == wire::fields_of_ev(burst.ev, scenario_.ev_format), "EV fields do not carry the EV");
  const std::uint32_t size = burst.packets[0].datagram_bytes();
  for (std::uint32_t i = 1; i < burst.count; ++i) {
    const std::uint32_t bytes = burst.packets[i].datagram_bytes();
    SIM_REQUIRE(i + 1 == burst.count ? bytes <= size : bytes == size,
                "packet %u of %u in a burst has %u bytes, the first %u", i, burst.count, bytes, size);
  }
}

void Endpoint::check_denied(const TxBurst& burst, const TxPacket& packet) const {
  if (denied_.empty() || burst.qp == 0) return;
  const auto opcode = static_cast<wire::Opcode>(packet.headers[0]);
  if (!wire::is_data(opcode) && opcode != wire::Opcode::kProbe) return;
  SIM_REQUIRE(!denied_.contains({burst.qp, burst.ev}), "opcode %02x on denied EV %u", packet.headers[0], burst.ev);
}

// As in the driver of a program that replies: data first, with an ACK that is due.
bool Endpoint::next_burst(TimePs local, PortMask free) {
  const std::uint32_t limit = scenario_.burst_max;
  if (scenario_.acks_with_data[static_cast<std::size_t>(end_)] &&
      engine_->poll_transmit(local, free, limit, burst_, Outgoing::kDataWithAcks))
    return true;
  return engine_->poll_transmit(local, free, limit, burst_);
}

void Endpoint::pump(TimePs now, const OnDatagram& on_datagram) {
  std::uint64_t at_this_instant = 0;
  while (true) {
    const PortMask free = free_ports(now);
    if (free == 0) return;
    if (!next_burst(clock_.local(now), free)) return;
    check_burst(burst_, free);
    std::vector<std::uint8_t> datagram;
    at_this_instant += burst_.count;
    if (at_this_instant > kPacketsPerInstantMax) fail(Verdict::kLiveness, "poll_transmit never ends");
    for (std::uint32_t i = 0; i < burst_.count; ++i) {
      const TxPacket& packet = burst_.packets[i];
      check_denied(burst_, packet);
      ++packets_sent_;
      ++port_packets_[burst_.port];
      const auto opcode = static_cast<wire::Opcode>(packet.headers[0]);
      if (wire::is_data(opcode) || wire::is_rc_data(opcode)) ++data_packets_sent_;
      append(packet, datagram);
      trace_.add(static_cast<std::uint64_t>(now));
      trace_.add((std::uint64_t{burst_.ev} << 32) | (std::uint64_t{burst_.port} << 16) |
                 static_cast<std::uint64_t>(burst_.traffic_class));
      trace_.add_bytes(packet.headers.data(), packet.header_bytes);
      trace_.add_bytes(packet.trailer.data(), packet.trailer_bytes);
      if (!burst_.joined) on_datagram(burst_, packet, std::exchange(datagram, {}));
      if (burst_.joined && i == 1) on_datagram(burst_, burst_.packets[0], std::exchange(datagram, {}));
      if (scenario_.nic_rate_bps != 0) {
        const std::uint64_t bits = (std::uint64_t{packet.datagram_bytes()} + 48) * 8;
        TimePs& busy = port_busy_until_[burst_.port];
        busy = std::max(busy, now) + static_cast<TimePs>(bits * 1'000'000'000ULL / (scenario_.nic_rate_bps / 1000));
      }
    }
  }
}

TimePs Endpoint::next_timer() const {
  const TimePs timer = engine_->next_timer();
  return timer == kNever ? kNever : clock_.global(timer);
}

void Endpoint::receive(TimePs now, const Datagram& datagram) {
  RxDatagram rx;
  rx.port = datagram.plane;
  rx.source = datagram.source;
  rx.fields = datagram.fields;
  rx.traffic_class = datagram.traffic_class;
  rx.ecn = datagram.ecn;
  rx.bytes = datagram.bytes;
  const std::size_t first = wire::first_packet_bytes(rx.bytes);
  const bool joined = !is_trimmed(rx.traffic_class) && first < rx.bytes.size();
  port_received_[datagram.plane] +=
      joined && static_cast<wire::Opcode>(rx.bytes[first]) == wire::Opcode::kAck ? 2U : 1U;
  engine_->handle_datagram(clock_.local(now), rx);
}

void Endpoint::rebase_clock() {
  engine_->handle_clock_rebase(kClockRebase);
  clock_.set_back(kClockRebase);
  set_back_ += kClockRebase;
}

void Endpoint::set_port(TimePs now, PortId port, bool up) {
  port_up_[port] = up;
  engine_->handle_port_state(clock_.local(now), port, up);
  SIM_REQUIRE(((engine_->ports_up() >> port) & 1) == (up ? 1U : 0U), "ports_up() does not show port %u", port);
}

bool Endpoint::all_ports_up() const {
  return std::all_of(port_up_.begin(), port_up_.begin() + scenario_.planes, [](bool up) { return up; });
}

void Endpoint::deny(TimePs now, std::uint32_t qp, std::uint32_t ev) {
  const EvSet* set = engine_->ev_set(qp);
  const bool known = set != nullptr && set->find(ev) != kNoEv;
  const Status status = engine_->deny_ev(clock_.local(now), qp, ev);
  SIM_REQUIRE((status == Status::kOk) == known, "deny_ev answered %u", static_cast<unsigned>(status));
  if (known) denied_.insert({qp, ev});
}

void Endpoint::enable_all(TimePs now) {
  for (const auto& [qp, ev] : denied_) {
    SIM_REQUIRE(engine_->enable_ev(clock_.local(now), qp, ev) == Status::kOk, "enable_ev refused a denied EV");
  }
  denied_.clear();
}

void Endpoint::drain_events() {
  std::array<Event, 64> events;
  while (const std::size_t count = engine_->poll_events(events)) {
    for (std::size_t i = 0; i < count; ++i) {
      const Event& event = events[i];
      const TimePs time = event.time + set_back_;
      SIM_REQUIRE(time >= last_event_time_, "event time went backwards");
      last_event_time_ = time;
      trace_.add(static_cast<std::uint64_t>(time));
      trace_.add((std::uint64_t{static_cast<std::uint8_t>(event.type)} << 56) | (std::uint64_t{event.port} << 48) |
                 event.qp);
      trace_.add((std::uint64_t{event.ev} << 32) | event.value);
      trace_.add(event.detail);
      if (event.type == EventType::kEvState) ev_states_[{event.qp, event.ev}] = event.value;
      if (event.type == EventType::kQpState) qp_states_[event.qp] = event.value;
    }
  }
}

void Endpoint::check_events_against_state() const {
  if (engine_->drops().events_dropped != 0) return;
  for (const auto& [qp, state] : qp_states_) {
    SIM_REQUIRE(static_cast<std::uint32_t>(engine_->qp_state(qp)) == state,
                "QP %u: events end in state %u, getter says %u", qp, state,
                static_cast<unsigned>(engine_->qp_state(qp)));
    const EvSet* set = engine_->ev_set(qp);
    if (set == nullptr) continue;
    for (std::uint32_t i = 0; i < set->size(); ++i) {
      const auto index = static_cast<EvIndex>(i);
      const auto found = ev_states_.find({qp, set->ev(index).value});
      const std::uint32_t told = found == ev_states_.end() ? static_cast<std::uint32_t>(EvState::kGood) : found->second;
      SIM_REQUIRE(static_cast<std::uint32_t>(set->state(index)) == told,
                  "EV %u of QP %u: events end in %u, the set says %u", set->ev(index).value, qp, told,
                  static_cast<unsigned>(set->state(index)));
    }
  }
}

void Endpoint::check_counters() const {
  for (PortId port = 0; port < scenario_.planes; ++port) {
    const PortStats& stats = engine_->port_stats(port);
    SIM_REQUIRE(stats.sent_packets == port_packets_[port], "port %u counts %llu sent packets, %llu left", port,
                static_cast<unsigned long long>(stats.sent_packets),
                static_cast<unsigned long long>(port_packets_[port]));
    SIM_REQUIRE(stats.received_packets == port_received_[port], "port %u counts %llu received packets, %llu came", port,
                static_cast<unsigned long long>(stats.received_packets),
                static_cast<unsigned long long>(port_received_[port]));
  }
}

void Endpoint::forget_qp(std::uint32_t qp) {
  std::erase_if(ev_states_, [qp](const auto& entry) { return entry.first.first == qp; });
  std::erase_if(denied_, [qp](const auto& entry) { return entry.first == qp; });
  qp_states_.erase(qp);
}

}  // namespace openmrc::sim
