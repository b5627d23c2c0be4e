// Written by tools/spec.py from spec/profiles.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc {

// Rules of an EV set.
struct EvSetConfig {
  // EVs in use at a time on each port; the rest is the backup set.
  std::uint16_t active_per_port = 32;
  // No EV becomes ASSUMED_BAD where that would leave fewer usable ones (GOOD or SKIP).
  std::uint16_t min_active = 1;
  // Answered probes in a row that revive an EV.
  std::uint8_t probe_successes = 3;
  // Between two probes of an EV that is ASSUMED_BAD, at least.
  TimePs probe_interval = 10'000 * kPsPerUs;
  // An EV in SKIP becomes GOOD after so long out of use at the latest; 0: when its turn comes.
  TimePs skip_lapse = 0;
  // A marked answer to a probe revives an EV to GOOD, in place of SKIP (record 0003).
  bool marked_probe_revives_to_good = false;
  // While more than half of the active EVs are in SKIP, none is passed over (UEC).
  bool half_marked_rule = false;
};

// Surroundings of a congestion controller, and parameters of NSCC, of which 0 means the published formula.
struct CcConfig {
  // Nominal size of a full packet.
  std::uint32_t mtu_bytes = 4096;
  // The smaller rate of the two ends, all planes together; 0: 100 Gb/s.
  std::uint64_t link_rate_bps = 0;
  // Idle round trip, which sizes everything; the delay alone is measured against the smallest sample. 0: 12 us.
  TimePs base_rtt = 0;
  // The fabric trims, and the peer answers with TRIMMED.
  bool trimming = false;
  // Largest window.
  std::uint64_t max_cwnd_bytes = 0;
  // Queueing delay that the window is steered to.
  TimePs target_qdelay = 0;
  // Average delay above which quick adaptation may act.
  TimePs qa_threshold = 0;
  // Time between two adjustments of the window, and between two decreases.
  TimePs adjust_period = 0;
  // Bytes between two adjustments of the window.
  std::uint64_t adjust_bytes = 0;
  // Fair increase: 5 x MTU x scaling_a.
  std::uint32_t fi_permille = 5000;
  // Increase in each `adjust_period_ns`: 0.15 x MTU x scaling_a.
  std::uint32_t eta_permille = 150;
  // Fast increase: 0.25 x scaling_a.
  std::uint32_t fi_scale_permille = 250;
  // One decrease cuts the window by this share of the part of the average delay that exceeds the target.
  std::uint32_t gamma_permille = 800;
  // Smallest share of the window that one decrease leaves.
  std::uint32_t max_md_jump_permille = 500;
  // Quick adaptation acts where less than 1/2^n of the largest window got through in a period.
  std::uint32_t qa_gate_shift = 3;
  // No quick adaptation.
  bool disable_qa = false;
  // The receiver's penalty does not reduce the window.
  bool ignore_rcv_penalty = false;
  // Delay that counts as none; 0: 1 us x scaling_b, at least 1 us.
  TimePs no_delay_tolerance = 0;
  // Largest share of a bandwidth-delay product that one round trip of proportional increase adds; 0: no cap.
  std::uint32_t proportional_cap_permille = 250;
  // Senders that start at one receiver together (the QP hint): each begins with its share of the largest window; 0:
  // unknown, all of it.
  std::uint32_t incast_degree = 0;
  // A trim on the last hop does not turn delay into marks.
  bool ignore_last_hop_trims = false;
  // The largest window by formula never falls below this many packets.
  std::uint32_t max_cwnd_packets_min = 8;
};

}  // namespace openmrc
