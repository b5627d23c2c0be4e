// The seeded network between two NICs: one link per plane and direction with rate, queue, ECN and trimming, and the
// faults of the scenario on top. In memory; the caller owns time and the event queue.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/engine.hpp"
#include "tests/sim/scenario.hpp"

namespace openmrc::sim {

struct Datagram {
  std::vector<std::uint8_t> bytes;
  Address source;
  wire::EvFields fields;
  TrafficClass traffic_class{};
  Ecn ecn{};
  PortId plane = 0;
  std::uint8_t sender = 0;        // end
  bool pristine = true;           // as the sender's engine made it
  std::uint32_t qp = 0;           // sender's QP number, 0: none
  std::uint32_t incarnation = 0;  // of the sender's QP
};

struct NetworkCounters {
  std::uint64_t sent = 0, delivered = 0, lost = 0, trimmed = 0, marked = 0, corrupted = 0, duplicated = 0, replayed = 0;
  std::uint64_t queue_drops = 0;
};

class Network {
 public:
  using Arrival = std::pair<TimePs, Datagram>;

  explicit Network(const Scenario& scenario);

  // Appends the resulting arrivals with their times: none, the packet, or several copies.
  void send(TimePs now, Datagram&& datagram, std::vector<Arrival>& arrivals);

  // Carrier of one end's port; packets of a plane need both ends.
  void set_carrier(int end, PortId plane, bool up) { carrier_[static_cast<std::size_t>(end)][plane] = up; }
  bool port_carrier(int end, PortId plane) const { return carrier_[static_cast<std::size_t>(end)][plane]; }
  bool carrier(PortId plane) const { return carrier_[0][plane] && carrier_[1][plane]; }

  // Ends every fault: from now on only the scenario's healed paths carry packets.
  void heal() { healed_ = true; }

  // Random bytes, as any third machine may send them.
  Datagram garbage(int victim);

  const NetworkCounters& counters() const { return counters_; }
  // The next draw of the generator: equal draws indicate equal runs.
  std::uint64_t final_draw() { return rng_.next(); }

 private:
  struct LinkState {
    TimePs busy_until = 0;
  };
  struct Fate {
    bool lost = false;
    bool trim = false;
    bool mark = false;
    bool corrupt = false;
    int copies = 1;
    TimePs extra_delay = 0;
    std::uint32_t slow_factor = 1;
  };

  bool applies(const Fault& fault, TimePs now, const Datagram& datagram) const;
  void apply(std::size_t index, TimePs now, const Datagram& datagram, Fate& fate, std::vector<Arrival>& arrivals);
  Fate fate_of(TimePs now, const Datagram& datagram, std::vector<Arrival>& arrivals);
  bool enter_queue(TimePs now, Datagram& datagram, Fate& fate, TimePs& departure);
  void trim(Datagram& datagram);
  void corrupt(Datagram& datagram);
  void remember(const Datagram& datagram);

  const Scenario& scenario_;
  Rng rng_;
  std::array<std::array<LinkState, kPortCountMax>, kEnds> links_{};
  std::array<std::array<bool, kPortCountMax>, kEnds> carrier_{};
  std::vector<bool> burst_state_;  // per fault: in the lossy state
  std::vector<Datagram> memory_;   // for replay
  NetworkCounters counters_;
  bool healed_ = false;
};

// The address of one end's port.
Address address_of(const Scenario& scenario, int end, PortId plane);

}  // namespace openmrc::sim
