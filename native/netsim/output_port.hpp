// An output port and the link behind it, by arithmetic: a FIFO of bounded length at a fixed rate with a strict-priority control
// class, ECN marking, trimming, and the effects of the current faults.
//
// A FIFO at a fixed rate needs no list of packets: the time until which it is busy determines the next departure, so a
// packet costs one event per hop. Two consequences are deliberate: a control packet that overtakes waiting data pushes
// back later data, not the data already scheduled (the capacity adds up, single packets move by one control packet);
// and a change of rate leaves scheduled packets alone while the rest of the backlog is converted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "netsim/generated/fabric.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

inline constexpr std::uint32_t kPartsPerBillion = 1'000'000'000;
inline constexpr std::uint32_t kFullRatePpm = 1'000'000;

// Loss of a share of the packets of one EV.
struct EvLoss {
  std::uint32_t ev = 0;
  std::uint32_t loss_ppb = 0;
};

// Effects on a link of all active faults together.
struct Effects : FaultEffects {
  std::vector<EvLoss> ev_losses;

  bool any() const;
};

// Combination of both, as for a packet that meets one after the other.
Effects combined(const Effects& a, const Effects& b);

enum class DropCause : std::uint8_t { kQueueFull = 0, kControlQueueFull, kDown, kBlackhole, kLoss, kCrowded, kCount };
inline constexpr std::size_t kDropCauses = static_cast<std::size_t>(DropCause::kCount);

struct LinkCounters {
  std::uint64_t packets = 0, bytes = 0;  // put on the wire
  TimePs queue_peak = 0;                 // longest wait of a data packet
  std::uint64_t marks = 0, trims = 0, corrupted = 0, duplicated = 0, reordered = 0;
  std::array<std::uint64_t, kDropCauses> drops{};

  std::uint64_t dropped() const;
};

class Port {
 public:
  Port() = default;
  explicit Port(const PortConfig& config);

  const PortConfig& config() const { return config_; }
  TimePs transmit_time(std::uint32_t bytes) const {
    return ps_per_byte_ != 0 ? ps_per_byte_ * bytes : exact_transmit_time(bytes);
  }
  std::uint64_t bytes_in(TimePs wait) const;

  TimePs queue_time() const { return queue_time_; }
  TimePs control_queue_time() const { return control_queue_time_; }
  TimePs ecn_min_time() const { return ecn_min_time_; }
  TimePs ecn_max_time() const { return ecn_max_time_; }
  TimePs trim_time() const { return trim_time_; }

 private:
  TimePs exact_transmit_time(std::uint32_t bytes) const;

  PortConfig config_;
  TimePs ps_per_byte_ = 0;  // 0: not an integer; then by division
  TimePs queue_time_ = 0, control_queue_time_ = 0, ecn_min_time_ = 0, ecn_max_time_ = 0, trim_time_ = 0;
};

// State of the faults of one link: the random stream and the burst in progress.
struct FaultState {
  Effects effects;
  Rng rng{0};
  bool in_burst = false;
};

// Fields used by every packet come first and fill one cache line.
class alignas(64) OutputPort {
 public:
  struct Sent {
    bool sent = false;
    TimePs arrival = 0;
  };

  // Queues `packet` (marked or trimmed as the queue requires) and returns its arrival time at the other end. `marking`
  // is the random stream of the ECN ramp. `faults` is nullptr while the link has no faults.
  Sent offer(TimePs now, Packet& packet, const Port& port, FaultState* faults, Rng& marking);

  // Applies losses after the packet has crossed: false if it is lost. May corrupt it.
  bool survives(Packet& packet, FaultState& faults);

  // Converts the backlog when the rate changes.
  void change_rate(TimePs now, std::uint32_t old_ppm, std::uint32_t new_ppm);

  TimePs backlog(TimePs now) const { return busy_until_ > now ? busy_until_ - now : 0; }
  LinkCounters& counters() { return counters_; }
  const LinkCounters& counters() const { return counters_; }

 private:
  Sent offer_control(TimePs now, Packet& packet, const Port& port, FaultState* faults);
  Sent drop(DropCause cause);
  Sent send(TimePs departure, const Packet& packet, const Port& port, FaultState* faults);

  TimePs busy_until_ = 0;     // both classes
  TimePs control_until_ = 0;  // control class
  TimePs last_transmit_ = 0;  // of a data packet: limit on the delay of control by the packet in service
  LinkCounters counters_;
};

}  // namespace openmrc::netsim
