// One end of a simulated pair: an engine, its clock, its memory, and the loop of a driver.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/engine.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/scenario.hpp"

namespace openmrc::sim {

// A clock with an offset and a small drift.
class LocalClock {
 public:
  LocalClock(TimePs offset, std::int64_t drift_ppm) : offset_(offset), drift_ppm_(drift_ppm) {}
  TimePs local(TimePs global) const { return offset_ + global + scaled(global); }
  void set_back(TimePs by) { offset_ -= by; }
  // The first global instant at which the local clock shows at least `local_time`.
  TimePs global(TimePs local_time) const {
    const __int128 elapsed = local_time - offset_;
    TimePs guess = static_cast<TimePs>(elapsed * 1'000'000 / (1'000'000 + drift_ppm_)) - 2;
    while (local(guess) < local_time) ++guess;
    return guess;
  }

 private:
  TimePs scaled(TimePs global) const {
    return static_cast<TimePs>(static_cast<__int128>(global) * drift_ppm_ / 1'000'000);
  }
  TimePs offset_;
  std::int64_t drift_ppm_;
};

// A hash over all outputs in order: runs with equal hashes are equal.
class TraceHash {
 public:
  void add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9E3779B97F4A7C15ULL;
    state_ ^= state_ >> 29;
  }
  void add_bytes(const std::uint8_t* data, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add(data[i] + (std::uint64_t{i} << 8));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325ULL;
};

class Endpoint {
 public:
  // The bytes are those of the packet, and of the ACK behind it if the burst is joined.
  using OnDatagram = std::function<void(const TxBurst&, const TxPacket&, std::vector<std::uint8_t>&&)>;

  Endpoint(const Scenario& scenario, int end, TraceHash& trace);

  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }
  TimePs local(TimePs global) const { return clock_.local(global); }

  // Drains poll_transmit at `now`.
  void pump(TimePs now, const OnDatagram& on_datagram);
  // Global instant of the engine's next timer, kNever when none.
  TimePs next_timer() const;
  // The next instant at which a busy port becomes free, kNever when none was missed.
  TimePs next_port_free() const { return next_port_free_; }

  void receive(TimePs now, const Datagram& datagram);
  void rebase_clock();
  void set_port(TimePs now, PortId port, bool up);
  void deny(TimePs now, std::uint32_t qp, std::uint32_t ev);
  void enable_all(TimePs now);
  // True if every EV of `universe` for which `alive` holds is denied.
  template <typename Alive>
  bool all_denied(std::uint32_t qp, const std::vector<Ev>& universe, const Alive& alive) const {
    for (const Ev& ev : universe) {
      if (alive(ev) && !denied_.contains({qp, ev.value})) return false;
    }
    return true;
  }

  // Follows the event stream and checks that it agrees with the getters.
  void drain_events();
  void check_events_against_state() const;
  void check_counters() const;
  void forget_qp(std::uint32_t qp);

  std::uint64_t packets_sent() const { return packets_sent_; }
  std::uint64_t data_packets_sent() const { return data_packets_sent_; }
  bool all_ports_up() const;

 private:
  void check_burst(const TxBurst& burst, PortMask free_ports) const;
  void check_denied(const TxBurst& burst, const TxPacket& packet) const;
  PortMask free_ports(TimePs now);
  bool next_burst(TimePs local, PortMask free);

  const Scenario& scenario_;
  int end_;
  TraceHash& trace_;
  LocalClock clock_;
  std::unique_ptr<Engine> engine_;
  TxBurst burst_;
  std::array<TimePs, kPortCountMax> port_busy_until_{};
  std::array<bool, kPortCountMax> port_up_{};
  std::array<std::uint64_t, kPortCountMax> port_packets_{};
  std::array<std::uint64_t, kPortCountMax> port_received_{};
  TimePs next_port_free_ = kNever;
  TimePs last_event_time_ = INT64_MIN;
  TimePs set_back_ = 0;  // of the clock
  std::uint64_t packets_sent_ = 0;
  std::uint64_t data_packets_sent_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ev_states_;  // (QP, EV) -> last announced
  std::map<std::uint32_t, std::uint32_t> qp_states_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> denied_;
};

}  // namespace openmrc::sim
