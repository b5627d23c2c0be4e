// A few NICs on one switch, in memory: each port of a NIC serialises at its rate, the switch has one FIFO per NIC and
// plane with ECN, and a filter decides about single packets and may change them. Control packets overtake the FIFO, as
// in the fabric.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/rng.hpp"
#include "netsim/simulate/endpoint.hpp"
#include "tests/check.hpp"

namespace openmrc::test {

using namespace openmrc::netsim;

struct WireOptions {
  std::uint32_t hosts = 2, planes = 1;
  std::uint64_t rate_bps = 100'000'000'000;
  TimePs delay = kPsPerUs;  // of each of the two links of a path
  std::uint32_t mtu = 4096, header_bytes = 82;
  std::uint64_t ecn_min_bytes = UINT64_MAX, ecn_max_bytes = UINT64_MAX;  // equal: a step
  std::uint32_t ecn_permille = 1000;                                     // at ecn_max_bytes
  std::uint64_t queue_bytes = UINT64_MAX;
  std::uint64_t seed = 1;
};

struct Fate {
  int copies = 1;
  TimePs extra_delay = 0;
};

class Network {
 public:
  using Filter = std::function<Fate(TimePs now, std::uint32_t from, PortId port, HostPacket& packet)>;
  using Factory = std::function<std::unique_ptr<Endpoint>(const Surroundings&, std::uint32_t host)>;

  struct DoneAt {
    TimePs time = 0;
    std::uint32_t host = 0;
    Done done;
  };

  Network(const WireOptions& wire_options, const Factory& factory)
      : options(wire_options), nics_(options.hosts), marking_(Rng::for_component(options.seed, "marking")) {
    surroundings_.shape.planes = options.planes;
    surroundings_.shape.hosts = options.hosts;
    surroundings_.shape.hosts_per_t0 = options.hosts;
    surroundings_.seed = options.seed;
    surroundings_.payload_mtu = options.mtu;
    surroundings_.header_bytes = options.header_bytes;
    surroundings_.port_rate_bps = options.rate_bps;
    surroundings_.base_rtt = 4 * options.delay;
    for (std::uint32_t host = 0; host < options.hosts; ++host) {
      nics_[host].endpoint = factory(surroundings_, host);
      nics_[host].busy.resize(options.planes);
      nics_[host].down_busy.resize(options.planes);
      nics_[host].up = all_ports();
    }
  }

  // Joins two hosts; the numbers are returned in the order of the arguments.
  std::array<std::uint32_t, 2> join(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t at_a = endpoint(a).open({b, 1, 1, 1, 1});
    const std::uint32_t at_b = endpoint(b).open({a, 1, 1, 1, 1});
    endpoint(a).connect(at_a, at_b);
    endpoint(b).connect(at_b, at_a);
    return {at_a, at_b};
  }

  Endpoint& endpoint(std::uint32_t host) { return *nics_[host].endpoint; }
  void post(std::uint32_t host, std::uint32_t connection, MessageId message, std::uint64_t bytes) {
    endpoint(host).post(now, connection, message, bytes);
  }
  void pause(std::uint32_t host, PortMask ports) { nics_[host].paused = ports; }
  void set_port(std::uint32_t host, PortId port, bool up) {
    const PortMask bit = PortMask{1} << port;
    nics_[host].up = up ? nics_[host].up | bit : nics_[host].up & ~bit;
    endpoint(host).handle_port_state(now, port, up);
  }

  // Runs until `end`, or earlier if no further event can occur; true in that case.
  bool run(TimePs end) {
    for (;;) {
      for (std::uint32_t host = 0; host < options.hosts; ++host) transmit(host);
      const TimePs next = next_time();
      if (next == kNever) return true;
      if (next > end) {
        now = end;
        return false;
      }
      CHECK(next >= now);
      now = next;
      for (Nic& nic : nics_) {
        if (nic.endpoint->next_timer() <= now) nic.endpoint->handle_timer(now);
      }
      while (!flights_.empty() && flights_.begin()->first.first <= now) {
        const Flight flight = flights_.begin()->second;
        flights_.erase(flights_.begin());
        arrive(flight);
      }
    }
  }

  std::uint64_t queue_bytes(std::uint32_t host, PortId port) const { return bytes_of(wait(host, port)); }
  TimePs transmit_time(std::uint32_t bytes) const {
    return static_cast<TimePs>(std::uint64_t{bytes} * 8 * 1'000'000 / (options.rate_bps / 1'000'000));
  }

  // Messages of one kind at one host, in the order of the reports.
  std::vector<MessageId> reports(std::uint32_t host, Done::Kind kind) const {
    std::vector<MessageId> messages;
    for (const DoneAt& report : done) {
      if (report.host == host && report.done.kind == kind) messages.push_back(report.done.message);
    }
    return messages;
  }

  WireOptions options;
  Filter filter;
  TimePs now = 0;
  std::vector<DoneAt> done;
  std::uint64_t queue_peak = 0;                    // of any FIFO of the switch; a test may reset it
  std::uint64_t queue_sum = 0, queue_samples = 0;  // seen by arriving data

 private:
  struct Nic {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<TimePs> busy;       // end of the current transmission of each port
    std::vector<TimePs> down_busy;  // end of the current transmission of the switch's FIFO towards it
    PortMask up = 0, paused = 0;
  };

  struct Flight {
    bool at_switch = false;
    PortId port = 0;
    HostPacket packet;
  };

  PortMask all_ports() const { return (PortMask{1} << options.planes) - 1; }
  TimePs wait(std::uint32_t host, PortId port) const { return std::max<TimePs>(0, nics_[host].down_busy[port] - now); }
  std::uint64_t bytes_of(TimePs time) const {
    return static_cast<std::uint64_t>(time) * (options.rate_bps / 1'000'000'000) / 8'000;
  }

  void transmit(std::uint32_t host) {
    Nic& nic = nics_[host];
    for (;;) {
      PortMask free = 0;
      for (PortId port = 0; port < options.planes; ++port) {
        if (nic.busy[port] <= now && ((nic.up >> port) & 1)) free |= PortMask{1} << port;
      }
      Outbound out;
      if (free == 0 || !nic.endpoint->poll_transmit(now, free, nic.paused, out)) break;
      CHECK((free >> out.port & 1) != 0);
      CHECK(out.packet.traffic_class == TrafficClass::kControl || !((nic.paused >> out.port) & 1));
      nic.busy[out.port] = now + transmit_time(out.packet.bytes);
      out.packet.source_host = host;
      const Fate fate = filter ? filter(now, host, out.port, out.packet) : Fate{};
      for (int copy = 0; copy < fate.copies; ++copy) {
        push(nic.busy[out.port] + options.delay + fate.extra_delay, true, out.port, out.packet);
      }
    }
    Done report;
    while (nic.endpoint->poll_done(report)) done.push_back({now, host, report});
  }

  void push(TimePs time, bool at_switch, PortId port, const HostPacket& packet) {
    flights_.emplace(std::pair{time, pushed_++}, Flight{at_switch, port, packet});
  }

  void arrive(const Flight& flight) {
    Nic& nic = nics_[flight.packet.destination_host];
    if (!((nic.up >> flight.port) & 1)) return;
    if (!flight.at_switch) {
      nic.endpoint->handle_packet(now, flight.port, flight.packet);
      transmit(flight.packet.destination_host);
      return;
    }
    HostPacket packet = flight.packet;
    if (packet.traffic_class == TrafficClass::kControl) {
      push(now + transmit_time(packet.bytes) + options.delay, false, flight.port, packet);
      return;
    }
    const std::uint64_t queued = queue_bytes(packet.destination_host, flight.port);
    if (queued + packet.bytes > options.queue_bytes) return;
    queue_peak = std::max(queue_peak, queued);
    queue_sum += queued;
    ++queue_samples;
    if (packet.ecn != Ecn::kNotEct && marks(queued)) packet.ecn = Ecn::kCe;
    TimePs& busy = nic.down_busy[flight.port];
    busy = std::max(busy, now) + transmit_time(packet.bytes);
    push(busy + options.delay, false, flight.port, packet);
  }

  bool marks(std::uint64_t queued) {
    if (queued < options.ecn_min_bytes) return false;
    if (queued >= options.ecn_max_bytes) return true;
    const std::uint64_t span = options.ecn_max_bytes - options.ecn_min_bytes;
    return marking_.chance((queued - options.ecn_min_bytes) * options.ecn_permille, span * 1000);
  }

  TimePs next_time() const {
    TimePs next = flights_.empty() ? kNever : flights_.begin()->first.first;
    for (const Nic& nic : nics_) {
      next = std::min(next, std::max(now, nic.endpoint->next_timer()));
      for (const TimePs busy : nic.busy) {
        if (busy > now) next = std::min(next, busy);
      }
    }
    return next;
  }

  Surroundings surroundings_;
  std::vector<Nic> nics_;
  std::map<std::pair<TimePs, std::uint64_t>, Flight> flights_;  // by arrival, then by departure
  std::uint64_t pushed_ = 0;
  Rng marking_;
};

// Sends random messages both ways over several connections of a wire that loses, repeats and delays packets,
// and checks that each arrives once, completes once, and in order.
inline void check_delivery(std::uint64_t seed, const Network::Factory& factory) {
  Rng rng = Rng::for_component(seed, "delivery");
  WireOptions options;
  options.seed = seed;
  options.planes = 1 + static_cast<std::uint32_t>(rng.below(4));
  options.mtu = 1024;
  options.queue_bytes = 20'000 + rng.below(400'000);
  options.ecn_min_bytes = options.ecn_max_bytes = options.queue_bytes / 2;
  Network net(options, factory);
  const std::uint64_t loss = rng.below(50), repeat = rng.below(30), late = rng.below(30);
  net.filter = [&](TimePs, std::uint32_t, PortId, const HostPacket&) -> Fate {
    if (rng.chance(loss, 1000)) return {0, 0};
    const TimePs delay = rng.chance(late, 1000) ? static_cast<TimePs>(rng.below(20 * kPsPerUs)) : 0;
    return {rng.chance(repeat, 1000) ? 2 : 1, delay};
  };
  constexpr std::uint32_t kConnections = 3;
  std::array<std::array<std::uint32_t, 2>, kConnections> numbers;
  for (auto& number : numbers) number = net.join(0, 1);
  // Message numbers encode host, connection and index.
  std::array<std::array<std::vector<MessageId>, kConnections>, 2> sent;
  std::array<std::uint64_t, 2> bytes_sent{};
  const std::uint32_t rounds = 1 + static_cast<std::uint32_t>(rng.below(8));
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::uint32_t host = 0; host < 2; ++host) {
      const auto connection = static_cast<std::uint32_t>(rng.below(kConnections));
      const std::uint64_t bytes = rng.chance(1, 5) ? 0 : rng.below(rng.chance(1, 3) ? 200'000 : 3'000);
      const MessageId id = host << 16 | connection << 8 | round;
      net.post(host, numbers[connection][host], id, bytes);
      sent[host][connection].push_back(id);
      bytes_sent[host] += bytes;
    }
    net.run(net.now + static_cast<TimePs>(rng.below(100 * kPsPerUs)));
  }
  CHECK(net.run(net.now + 1000 * kPsPerSecond));  // comes to rest
  for (std::uint32_t host = 0; host < 2; ++host) {
    CHECK(net.reports(host, Done::Kind::kFailed).empty());
    const auto completed = net.reports(host, Done::Kind::kCompleted);
    const auto received = net.reports(1 - host, Done::Kind::kReceived);
    std::size_t count = 0;
    for (std::uint32_t connection = 0; connection < kConnections; ++connection) {
      const auto of_connection = [&](const std::vector<MessageId>& all) {
        std::vector<MessageId> some;
        for (const MessageId id : all) {
          if (((id >> 8) & 0xFF) == connection) some.push_back(id);
        }
        return some;
      };
      CHECK(of_connection(completed) == sent[host][connection]);
      CHECK(of_connection(received) == sent[host][connection]);
      count += sent[host][connection].size();
    }
    CHECK(completed.size() == count && received.size() == count);
    std::uint64_t bytes_received = 0;
    for (const auto& number : numbers) bytes_received += net.endpoint(1 - host).stats(number[1 - host]).received_bytes;
    CHECK(bytes_received == bytes_sent[host]);
  }
}

// Jain's index of two shares, in thousandths.
inline std::uint64_t jain_permille(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t unit = std::max<std::uint64_t>(1, (a + b) / 100'000);
  a /= unit;
  b /= unit;
  return a + b == 0 ? 0 : (a + b) * (a + b) * 1000 / (2 * (a * a + b * b));
}

}  // namespace openmrc::test
