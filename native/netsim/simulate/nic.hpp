// One simulated NIC: its ports, its transport, and the work of its host. A NIC runs alone over a window of time in
// which nothing outside can reach it, except the packets passed in.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/limits.hpp"
#include "netsim/faults.hpp"
#include "netsim/output_port.hpp"
#include "netsim/simulate/endpoint.hpp"
#include "netsim/simulate/parts.hpp"
#include "netsim/simulate/workload.hpp"

namespace openmrc::netsim {

// An item in transit between a NIC and a plane. `packet.link` of a pause is kPauseOn or kPauseOff.
struct Mail {
  TimePs time = 0;
  Packet packet;
};

inline constexpr LinkId kPauseOn = ~LinkId{0} - 2;
inline constexpr LinkId kPauseOff = ~LinkId{0} - 3;

// Items that the NICs of a shard send in a window, by plane.
struct Outbox {
  std::array<std::vector<Mail>, kPortCountMax> mail;
  std::array<Parts, kPortCountMax> parts;
};

// A packet that reaches a NIC in the window.
struct Inbound {
  TimePs time = 0;
  std::uint32_t plane = 0;
  const Packet* packet = nullptr;
  const TransportPart* part = nullptr;  // nullptr: a pause
};

struct PortTraffic {
  std::uint64_t tx_packets = 0, tx_bytes = 0, rx_packets = 0, rx_bytes = 0;
};

// A run of cache lines.
struct Lines {
  const char* first = nullptr;
  std::uint32_t count = 0;
};

// Prefetches lines into the cache, a few at a time: prefetches beyond a processor's limit are dropped.
class Prefetch {
 public:
  static constexpr std::size_t kLine = 64;

  explicit Prefetch(std::span<const Lines> lines) : lines_(lines) {}

  void step() {
    for (int i = 0; i < kAtOnce && !lines_.empty(); ++i) {
      __builtin_prefetch(lines_.front().first + std::size_t{at_} * kLine);
      if (++at_ < lines_.front().count) continue;
      at_ = 0;
      lines_ = lines_.subspan(1);
    }
  }

 private:
  static constexpr int kAtOnce = 6;

  std::span<const Lines> lines_;
  std::uint32_t at_ = 0;
};

// Shared by all NICs of a run.
struct NicConfig {
  ClosShape shape;
  std::vector<Port> uplinks;  // by plane; the delay includes the wait inside the sending NIC
  const RoutingTables* routing = nullptr;
};

class Nic {
 public:
  Nic(const NicConfig& config, std::uint32_t host, std::unique_ptr<Endpoint> endpoint);

  Endpoint& endpoint() { return *endpoint_; }
  const Endpoint& endpoint() const { return *endpoint_; }
  HostWork& work() { return work_; }

  // Runs everything before `end`: arrivals in order of time, timers, sends. `ahead` is the memory that the next NIC
  // will touch.
  void run(TimePs end, std::span<const Inbound> arrivals, Workload& work, Outbox& out, Prefetch ahead);
  // Time of its next activity without any arrival.
  TimePs wake() const { return wake_; }
  void begin(Workload& work);
  void hot_memory(HotMemory& memory) const {
    memory.push_back(bytes_of(*this));
    endpoint_->hot_memory(memory);
  }

  void set_carrier(TimePs now, std::uint32_t plane, bool up);
  // Sets the effects on its uplink that delay packets; losses belong to the plane.
  void set_uplink_effects(std::uint32_t plane, const Effects& effects, std::uint64_t seed);

  std::span<const PortTraffic> traffic() const { return {traffic_.data(), config_.shape.planes}; }
  std::uint64_t trace() const { return trace_; }
  std::uint64_t data_packets() const { return data_packets_; }
  std::uint64_t corrupted() const { return corrupted_; }
  std::size_t failed() const { return failed_; }

 private:
  void receive(TimePs now, const Inbound& inbound);
  void start_sends(TimePs now, Workload& work);
  void take_done(TimePs now, Workload& work);
  void transmit(TimePs now, Outbox& out);
  void put_on_wire(TimePs now, Outbox& out);

  const NicConfig& config_;
  std::unique_ptr<Endpoint> endpoint_;
  HostWork work_;
  std::uint32_t host_;
  PortMask up_;
  PortMask paused_ = 0;
  TimePs wake_ = kNever;
  TimePs last_turn_ = -1;
  std::uint32_t turns_here_ = 0;
  std::array<TimePs, kPortCountMax> free_at_{};
  std::array<std::unique_ptr<FaultState>, kPortCountMax> uplink_faults_;
  std::array<PortTraffic, kPortCountMax> traffic_{};
  Outbound outbound_;
  LinkCounters uplink_counters_;
  std::uint64_t trace_ = 0;
  std::uint64_t data_packets_ = 0;
  std::uint64_t corrupted_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace openmrc::netsim
