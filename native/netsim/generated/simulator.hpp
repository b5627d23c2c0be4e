// Written by tools/spec.py from spec/simulator.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/time.hpp"
#include "engine/generated/enums.hpp"
#include "engine/generated/profiles.hpp"
#include "netsim/generated/fabric.hpp"

namespace openmrc::netsim {

// Real queues in place of arithmetic, which a shared buffer and PFC need.
struct SharedQueues {
  // Buffer of a switch that its ports share; 0: each port has its own queues alone.
  std::uint64_t buffer_bytes = 0;
  // Share of the free buffer that a queue may take.
  std::uint32_t alpha_permille = 1000;
  // Switches pause senders (PFC).
  bool pfc = false;
  // Bytes of a port's arrivals at which its sender is paused.
  std::uint64_t pfc_xoff_bytes = 0;
  // Bytes at which it may send again.
  std::uint64_t pfc_xon_bytes = 0;
};

// Time that a link has to be dead, or alive again, before all switches avoid it, or use it.
struct Reconvergence {
  // Of a link that is down, which its two ends see at once. None: never.
  TimePs down = kNever;
  // Of a silent one, which they infer from missing hellos. None: never.
  TimePs blackhole = kNever;
};

// A path that no QP may use from the start, as a deny list of the controller would have it.
struct DeniedPath {
  // Plane.
  std::uint32_t plane = 0;
  // Uplink of the T0.
  std::uint16_t t0_uplink = 0;
  // Uplink of the T1.
  std::uint16_t t1_uplink = 0;
};

// MRC: the engine, the very one that runs on the wire.
struct MrcSettings {
  // Policy that chooses the EV of each burst: one of the engine's, or one registered with `openmrc.policies`.
  std::string ev_selector = "mrc";
  // Congestion control: `nscc`, `none`, or one registered with `openmrc.policies`. With `none` the window is the MPR,
  // which fills any queue.
  std::string controller = "nscc";
  // Signal of congestion on the planes.
  PathSignal signal = PathSignal::kMarks;
  // EVs in use at a time on each port; the rest is the backup set.
  std::uint16_t active_per_port = 32;
  // EVs of each port, those in use and their backups.
  std::uint16_t universe_per_port = 32;
  // No EV becomes ASSUMED_BAD where that would leave fewer usable ones (GOOD or SKIP).
  std::uint16_t min_active = 1;
  // Answered probes in a row that revive an EV.
  std::uint8_t probe_successes = 3;
  // Between two probes of an EV that is ASSUMED_BAD, at least.
  TimePs probe_interval = 10'000'000'000;
  // An EV in SKIP becomes GOOD after so long out of use at the latest; 0: when its turn comes.
  TimePs skip_lapse = 0;
  // Time between two probes of the paths for answers. 0: two base round trips, 1 ms at least where `signal` is not
  // MARKS.
  TimePs reverse_probe_interval = 0;
  // While more than half of the active EVs are in SKIP, none is passed over (UEC).
  bool half_marked_rule = false;
  // A marked answer to a probe revives an EV to GOOD, in place of SKIP (record 0003).
  bool marked_probe_revives_to_good = false;
  // Receive window in units of 128 packets: limit of the peer's packets in flight.
  std::uint8_t mpr_units = 32;
  // WRITE_IMM messages in flight. Every message of a simulation ends in one, so that its receipt is seen: the NICs'
  // default of 32 would bound it.
  std::uint16_t wimm_max = 1024;
  // A SACK is sent after this many bytes at the latest; every packet counts as at least 1,024.
  std::uint32_t sack_bytes = 4096;
  // Trimmed packets are answered with a NACK.
  bool trim_nack = true;
  // The receive window may change while the QP lives (`set_receive_window`).
  bool dynamic_mpr = false;
  // A PSN above the window is answered with a NACK; otherwise it is dropped silently.
  bool nack_out_of_window = true;
  // Base of the retransmission timer, 1.024 us x 2^n.
  std::uint8_t timeout_exponent = 8;
  // Timeouts at the same interval.
  std::uint8_t linear_retries = 7;
  // Timeouts at doubling intervals of 17 s at most, after the linear ones; then the QP fails. 25: for ever.
  std::uint8_t exponential_retries = 25;
  // Changes of paths are kept, which costs memory.
  bool path_events = false;
  // Hosts whose changes of paths are kept; empty: all.
  std::vector<std::uint32_t> watched = {};
  // Paths that no QP may use.
  std::vector<DeniedPath> denied = {};
  // Surroundings and parameters of congestion control.
  CcConfig cc = {};
};

// DCQCN; defaults of its paper.
struct DcqcnSettings {
  // N: at most one CNP per QP in this time.
  TimePs cnp_interval = 50'000'000;
  // K: alpha decays once per so much time without CNP; above `cnp_interval_ps`.
  TimePs alpha_timer = 55'000'000;
  // T: one step up per so much time.
  TimePs increase_timer = 55'000'000;
  // B: one step up per this many bytes sent.
  std::uint64_t increase_bytes = 10'000'000;
  // g = 1/2^n.
  std::uint32_t gain_shift = 8;
  // F: steps of fast recovery before the target itself rises.
  std::uint32_t recovery_stages = 5;
  // Every CNP makes the rate of that moment the target, as the paper has it. False: only the first CNP after a step
  // up does, so that a series of CNPs is one event, as in NVIDIA's firmware (CLAMP_TGT_RATE) and the authors'
  // simulator.
  bool clamp_target = false;
  // Additive step of the target; 0: a thousandth of the port's rate, which is the paper's 40 Mb/s for its 40 Gb/s.
  std::uint64_t rate_ai_bps = 0;
  // Hyper step; 0: ten times `rate_ai_bps`, the ratio of NVIDIA's 50 and 5 Mb/s.
  std::uint64_t rate_hai_bps = 0;
  // Floor; 0: a thousandth of the port's rate (100 Mb/s of 100 Gb/s in the DCQCN that accompanies HPCC, SIGCOMM 2019;
  // the paper names none).
  std::uint64_t rate_min_bps = 0;
};

// RoCEv2 RC: go-back-N, one path per QP.
struct RoceSettings {
  // DCQCN; false: every QP sends at the line rate and only PFC slows it.
  bool dcqcn = true;
  // Rates of DCQCN.
  DcqcnSettings rate = {};
  // The requester requests an acknowledgement in every n-th packet, and in the last one of a message.
  std::uint32_t ack_packets = 4;
  // First retransmission timer: 4.096 us x 2^10. The usual value of verbs is 14 (67 ms), but NICs with adaptive
  // retransmission try again after a few milliseconds; with 67 ms every lost tail would decide the run, which is not
  // compared here. Much less would fire while PFC holds a path up.
  TimePs timeout = 4'194'304'000;
  // Adaptive retransmission waits longer each time that nothing comes back, up to the usual 4.096 us x 2^14: eight
  // timeouts of 4 ms would end a QP before routing has found another way.
  TimePs timeout_max = 67'108'864'000;
  // Timeouts in a row that are answered by sending again; the next one ends the QP. `retry_cnt` of verbs, where 7 is
  // the most and the usual value.
  std::uint32_t retries = 7;
  // Most that a QP has unacknowledged, counted in full packets; 0: PSNs are the only bound (2^23), as in a NIC.
  std::uint64_t window_bytes = 0;
  // A QP whose port goes down sends through the next port that is up, as behind a bonded interface; lost packets are
  // sent again by timeout. False: it waits for its port and fails after `retries`.
  bool failover = true;
};

// DCTCP over ECMP, one path per connection.
struct DctcpSettings {
  // g = 1/2^n (RFC 8257, section 4.1; the same in Linux).
  std::uint32_t gain_shift = 4;
  // First window (RFC 6928).
  std::uint32_t initial_window = 10;
  // Smallest window after a mark or a loss (Linux dctcp_ssthresh).
  std::uint32_t min_window = 2;
  // Most in flight, as a receive buffer would bound it; 0: no bound.
  std::uint64_t window_bytes = 0;
  // DupThresh of RFC 6675: a packet is lost once this many later ones have arrived.
  std::uint32_t reordering_packets = 3;
  // Delayed acknowledgements (RFC 5681): one per this many packets.
  std::uint32_t ack_packets = 2;
  // The longest that one waits. Linux has 40 ms, which is above a data centre's smallest RTO; it has to be below.
  TimePs ack_delay = 1'000'000'000;
  // Smallest RTO. RFC 6298 has 1 s and Linux 200 ms; data centres set 1 to 10 ms (Vasudevan et al., SIGCOMM 2009; the
  // DCTCP paper measured with 10 ms).
  TimePs rto_min = 10'000'000'000;
  // Largest RTO (Linux TCP_RTO_MAX).
  TimePs rto_max = 120'000'000'000'000;
  // Timeouts in a row before it gives up (Linux tcp_retries2).
  std::uint32_t retries = 15;
  // RFC 8985, section 7; on in Linux since 3.10.
  bool tail_loss_probe = true;
  // A flow whose interface is down moves to the next port that is up, as behind a bonded interface. False: a TCP flow
  // belongs to its interface, and times out while that is down.
  bool failover = false;
};

// Settings of one simulation: a fabric, its NICs, and exactly one of the three transports.
struct SimulationSettings {
  // Numbers of hosts, planes and switches.
  FabricShape shape = {};
  // Ports of every plane that `unlike` does not replace.
  PlanePorts ports = {};
  // Ports of each plane, where planes differ.
  std::vector<PlanePorts> unlike = {};
  // Real queues. None: queues by arithmetic.
  std::optional<SharedQueues> queued = {};
  // Time until routing avoids a dead link. None: never.
  std::optional<Reconvergence> reconvergence = {};
  // Seed of all random choices.
  std::uint64_t seed = 0;
  // Payload of a full packet.
  std::uint32_t payload_mtu = 4096;
  // Bytes of every packet on the wire around the transport's own header and payload: UDP, IP, encapsulation, Ethernet
  // framing; the ICRC is the transport's.
  std::uint32_t header_bytes = 126;
  // Round trip of a full packet and its acknowledgement across the longest path while nothing waits.
  TimePs base_rtt = 0;
  // Delay of every packet in the sending and in the receiving NIC.
  TimePs nic_latency = 0;
  // Time from the start of a send to its first packet.
  TimePs doorbell = 0;
  // QPs (connections of DCTCP) per peer.
  std::uint16_t lanes = 1;
  // Threads of the simulation; the result does not depend on them.
  std::uint32_t threads = 1;
  // MRC.
  std::optional<MrcSettings> mrc = {};
  // RoCEv2.
  std::optional<RoceSettings> roce = {};
  // DCTCP.
  std::optional<DctcpSettings> dctcp = {};
};

}  // namespace openmrc::netsim
