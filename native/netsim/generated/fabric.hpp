// Written by tools/spec.py from spec/fabric.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/time.hpp"

namespace openmrc::netsim {

// Choice of a packet's path.
enum class Routing : std::uint8_t {
  kModulo = 0,    // By digits of the EV, so that a host can name its path (SRv6 uSIDs, structured EVs).
  kHash = 1,      // ECMP over addresses and EV.
  kAdaptive = 2,  // Each switch takes the uplink with the shortest queue (for comparison).
};

// Direction in which a fault acts.
enum class FaultDirection : std::uint8_t {
  kBoth = 0,  // Both.
  kTx = 1,    // Away from hosts.
  kRx = 2,    // Towards hosts.
};

// Kind of a link, by its two ends. Links have one direction.
enum class LinkKind : std::uint8_t {
  kNicUp = 0,    // NIC to T0.
  kNicDown = 1,  // T0 to NIC.
  kT0Up = 2,     // T0 to T1.
  kT1Down = 3,   // T1 to T0.
  kT1Up = 4,     // T1 to T2.
  kT2Down = 5,   // T2 to T1.
};

// Python's name in lower case.
constexpr const char* name_of(LinkKind value) {
  switch (value) {
    case LinkKind::kNicUp:
      return "nic_up";
    case LinkKind::kNicDown:
      return "nic_down";
    case LinkKind::kT0Up:
      return "t0_up";
    case LinkKind::kT1Down:
      return "t1_down";
    case LinkKind::kT1Up:
      return "t1_up";
    case LinkKind::kT2Down:
      return "t2_down";
  }
  return "";
}

// Numbers of hosts, planes and switches, and the rule of routing.
struct FabricShape {
  // Planes, which is the number of ports of each host.
  std::uint32_t planes = 1;
  // Hosts; of hosts with several NICs, NICs.
  std::uint32_t hosts = 2;
  // Hosts at a T0.
  std::uint32_t hosts_per_t0 = 1;
  // T1s of a pod, which is also the number of uplinks of a T0.
  std::uint32_t t1s = 1;
  // T0s of a pod. 0: one pod, two tiers.
  std::uint32_t t0s_per_pod = 0;
  // Uplinks of a T1. 0: two tiers.
  std::uint32_t t1_uplinks = 0;
  // Choice of a packet's path.
  Routing routing = Routing::kModulo;
};

// The output port that feeds a link, and the link.
struct PortConfig {
  // Rate of the link.
  std::uint64_t rate_bps = 250'000'000;
  // Delay of the link.
  TimePs delay = 200 * kPsPerUs;
  // Bound of the queue of data: packets that do not fit are dropped.
  std::uint32_t queue_bytes = 330'000;
  // Bound of the queue of control packets.
  std::uint32_t control_queue_bytes = 330'000;
  // The port marks data.
  bool ecn = false;
  // Queue at which marking starts; equal to `ecn_max_bytes`: a step.
  std::uint32_t ecn_min_bytes = 0;
  // Queue from which all packets are marked.
  std::uint32_t ecn_max_bytes = 0;
  // Share marked just below `ecn_max_bytes`, to which the ramp rises.
  std::uint32_t ecn_max_permille = 1000;
  // The port trims data.
  bool trim = false;
  // Data that would wait behind more than this is trimmed.
  std::uint32_t trim_threshold_bytes = 0;
  // Length of a trimmed packet on the wire, framing included.
  std::uint32_t trim_bytes = 0;
  // Packets that it trims carry TRIMMED_LASTHOP.
  bool last_hop = false;
  // Control packets overtake data; false: one FIFO for all, as in a plain switch.
  bool priority = true;
};

// The ports of a plane, by the kind of their links.
struct PlanePorts {
  // Ports of NICs.
  PortConfig nic_up = {};
  // Ports of T0s to hosts.
  PortConfig nic_down = {};
  // Ports of T0s to T1s.
  PortConfig t0_up = {};
  // Ports of T1s to T0s.
  PortConfig t1_down = {};
  // Ports of T1s to T2s. None: there is no third tier.
  std::optional<PortConfig> t1_up = {};
  // Ports of T2s to T1s. None: there is no third tier.
  std::optional<PortConfig> t2_down = {};
};

// Place of a fault. None: not restricted to one; all of them: the whole fabric.
struct FaultTarget {
  // Plane.
  std::uint32_t plane = ~std::uint32_t{0};
  // Host: its NIC-T0 link; of hosts with several NICs, the NIC.
  std::uint32_t host = ~std::uint32_t{0};
  // T0; with `t1` the link between them, alone the switch.
  std::uint32_t t0 = ~std::uint32_t{0};
  // T1, counted through all pods; with `t2` the link between them.
  std::uint32_t t1 = ~std::uint32_t{0};
  // T2.
  std::uint32_t t2 = ~std::uint32_t{0};
  // Direction in which it acts.
  FaultDirection direction = FaultDirection::kBoth;
};

// Effects of a fault on a link. Shares are parts per billion of the packets.
struct FaultEffects {
  // The link is down, and both of its ends see it.
  bool down = false;
  // All packets are lost, and nothing reports it.
  bool blackhole = false;
  // Share lost.
  std::uint32_t loss_ppb = 0;
  // Share lost in bursts (Gilbert-Elliott).
  std::uint32_t burst_loss_ppb = 0;
  // Mean length of a burst of losses.
  std::uint32_t burst_packets = 1;
  // Share of the link's rate that is left.
  std::uint32_t rate_ppm = 1'000'000;
  // Further delay.
  TimePs delay = 0;
  // Further delay on top, drawn for each packet from 0 to this.
  TimePs jitter = 0;
  // Share corrupted.
  std::uint32_t corrupt_ppb = 0;
  // Share duplicated.
  std::uint32_t duplicate_ppb = 0;
  // Share held back by `reorder_delay_ps`.
  std::uint32_t reorder_ppb = 0;
  // Delay of packets that are held back.
  TimePs reorder_delay = 0;
};

// A fault: place, effects, and time.
struct ScheduledFault {
  // Place.
  FaultTarget place = {};
  // Begin, by the clock of the fabric.
  TimePs start = 0;
  // Time until it ends. None: it lasts until it is repaired.
  TimePs duration = kNever;
  // Above 0: it acts in the first half of each period.
  TimePs period = 0;
};

// Settings of the emulated fabric.
struct EmulatorSettings {
  // Numbers of hosts, planes and switches.
  FabricShape shape = {};
  // Ports of every plane that `unlike` does not replace.
  PlanePorts ports = {};
  // Ports of each plane, where planes differ.
  std::vector<PlanePorts> unlike = {};
  // Seed of all random choices.
  std::uint64_t seed = 0;
  // UDP port of hosts and fabric.
  std::uint16_t udp_port = 0;
  // Bytes around a UDP datagram on the emulated wire.
  std::uint32_t header_bytes = 0;
  // Interval at which queues are looked at while packets are inside.
  TimePs tick = 0;
  // Address that a host binds, for each plane and host, hosts of plane 0 first.
  std::vector<Address> local = {};
  // Address that peers send to, in the same order.
  std::vector<Address> advertised = {};
};

}  // namespace openmrc::netsim
