// A link with the output port that feeds it: a FIFO of bounded length at a fixed rate with a strict-priority control
// class, ECN marking, trimming, and whatever is wrong with the link today.
//
// A FIFO at a fixed rate needs no list of packets: the time until which it is busy says when the next one leaves, so a
// packet costs one event per hop. Two consequences, both deliberate: a control packet that overtakes waiting data pushes
// back later data, not the data already scheduled (the capacity adds up, single packets move by one control packet); and
// a change of rate leaves what is already scheduled alone while the rest of the backlog is converted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

// Settings shared by all ports of one kind.
struct PortConfig {
  std::uint64_t rate_bps = 250'000'000;
  TimePs delay = 200 * kPsPerUs;
  std::uint32_t queue_bytes = 330'000;  // data class: arriving packets that do not fit are dropped
  std::uint32_t control_queue_bytes = 330'000;
  bool ecn = false;
  std::uint32_t ecn_min_bytes = 0;        // marking starts; equal to max: a step
  std::uint32_t ecn_max_bytes = 0;        // everything is marked from here
  std::uint32_t ecn_max_permille = 1000;  // share marked just below ecn_max_bytes, to which the ramp rises
  bool trim = false;
  std::uint32_t trim_threshold_bytes = 0;  // data that would wait behind more than this is trimmed
  std::uint32_t trim_bytes = 0;            // what is left of it on the wire, framing included
  bool last_hop = false;                   // its trimmed packets carry TRIMMED_LASTHOP
  bool priority = true;                    // control overtakes data; false: one FIFO for all, as in a plain switch
};

inline constexpr std::uint32_t kPartsPerBillion = 1'000'000'000;
inline constexpr std::uint32_t kFullRatePpm = 1'000'000;

// A share of the packets of one EV that is lost.
struct EvLoss {
  std::uint32_t ev = 0;
  std::uint32_t loss_ppb = 0;
};

// What is wrong with a link, all active faults taken together.
struct Effects {
  bool down = false;       // with notice to whoever is attached
  bool blackhole = false;  // silent
  std::uint32_t loss_ppb = 0;
  std::uint32_t burst_loss_ppb = 0;  // Gilbert-Elliott: share of packets lost, in bursts of mean length
  std::uint32_t burst_packets = 1;
  std::uint32_t rate_ppm = kFullRatePpm;
  TimePs delay = 0;
  TimePs jitter = 0;  // uniform, on top of delay
  std::uint32_t corrupt_ppb = 0;
  std::uint32_t duplicate_ppb = 0;
  std::uint32_t reorder_ppb = 0;  // this share of packets is held back by reorder_delay
  TimePs reorder_delay = 0;
  std::vector<EvLoss> ev_losses;

  bool any() const;
};

// Both at once, as a packet that meets one after the other would see them.
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
  TimePs ps_per_byte_ = 0;  // 0: the rate does not divide; then by division
  TimePs queue_time_ = 0, control_queue_time_ = 0, ecn_min_time_ = 0, ecn_max_time_ = 0, trim_time_ = 0;
};

// State of the faults of one link: the random stream and the burst in progress.
struct FaultState {
  Effects effects;
  Rng rng{0};
  bool in_burst = false;
};

// What every packet touches comes first and fills one cache line.
class alignas(64) Link {
 public:
  struct Sent {
    bool sent = false;
    TimePs arrival = 0;
  };

  // Queues `packet` (marks or trims it as the queue demands) and says when it reaches the other end.
  // `marking` draws for the ECN ramp. `faults` is nullptr while nothing is wrong.
  Sent offer(TimePs now, Packet& packet, const Port& port, FaultState* faults, Rng& marking);

  // The wire's verdict when the packet has crossed: false if it is lost. May corrupt it.
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
  TimePs last_transmit_ = 0;  // of a data packet: how long the one in service can hold up control
  LinkCounters counters_;
};

}  // namespace openmrc::netsim
