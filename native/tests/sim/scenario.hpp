// The settings of one seed: everything that a run draws before it starts. Swarm style: whole features are off in many
// runs and limits are sometimes tiny, because a mix of everything hides the effect of each feature alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace openmrc::sim {

inline constexpr int kEnds = 2;
inline constexpr std::uint32_t kEvClasses =
    4;  // EVs of a class share switches, so faults and repairs hit them together

// One link per plane and direction.
struct LinkPlan {
  std::uint64_t rate_bps = 0;
  TimePs delay = 0;
  TimePs ev_spread = 0;  // maximum difference between paths
  TimePs jitter = 0;
  std::uint64_t queue_bytes = 0;
  std::uint64_t ecn_bytes = 0;  // 0: no marking
  bool trim = false;            // instead of dropping
  bool trim_at_last_hop = false;
};

struct QpPlan {
  Transport transport = Transport::kMrc;
  std::uint32_t payload_mtu = 4096;
  std::array<std::uint32_t, kEnds> psn{};       // first PSN of end i
  std::array<std::uint8_t, kEnds> mpr_units{};  // receive window of end i
  std::array<std::uint16_t, kEnds> wimm_max{};  // WRITE_IMM messages in flight towards end i
  std::array<std::uint32_t, kEnds> packets{};   // packets that end i may send
  std::array<std::uint32_t, kEnds> send_wr_max{};
  std::uint32_t recv_wr_max = 64;
  std::uint64_t message_bytes_max = 0;
  std::uint32_t imm_permille = 0;
  std::uint32_t unsignaled_permille = 0;
  std::uint32_t think_permille = 0;  // share of posts with a random delay
  QpToInit init;                     // universe and profile, same at both ends
  QpToRtr rtr;
  QpToRts rts;
};

enum class FaultKind : std::uint8_t {
  // on packets
  kLoss,
  kBurstLoss,
  kControlLoss,
  kDuplicate,
  kReorder,
  kJitter,
  kCorrupt,
  kTrim,
  kMark,
  kBlackhole,
  kFlap,
  kSlow,
  kReplay,
  // on the ends
  kPortDown,
  kStall,
  kDenyEv,
  kPenalty,
  kShrinkWindow,
  kGarbage,
  kEvProbe,
  kRestart,
  kCount,
};
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind{};
  TimePs start = 0;
  TimePs stop = 0;
  int plane = -1;     // -1: all
  int ev_class = -1;  // -1: all
  int sender = -1;    // direction: sending end, -1: both. For faults on ends: the end
  std::uint32_t permille = 0;
  TimePs amount = 0;  // delay, period
  std::uint32_t qp = 0;
};

struct Scenario {
  std::uint64_t seed = 0;
  std::uint8_t planes = 1;
  AddressFamily family = AddressFamily::kIpv4;
  wire::EvFormat ev_format = wire::EvFormat::kUdp;
  bool icrc = true;
  bool shared_cq = false;
  std::uint64_t nic_rate_bps = 0;  // per port; 0: ports are always free
  std::uint32_t burst_max = 1;
  std::array<bool, kEnds> acks_with_data{};  // this end's driver sends data first, with the ACKs that are due
  std::array<std::int64_t, kEnds> drift_ppm{};
  std::array<TimePs, kEnds> clock_offset{};
  std::vector<TimePs> clock_rebases;  // when the clocks of both ends are set back by kClockRebase
  std::array<LinkPlan, kPortCountMax> links{};
  std::vector<QpPlan> qps;
  std::vector<Fault> faults;
  TimePs safety_end = 0;  // faults end, some paths heal
  TimePs liveness_limit = 0;
  std::uint32_t healed_planes = 0;  // bit masks
  std::uint32_t healed_ev_classes = 0;
  bool heal_denied = true;

  std::string describe() const;
};

Scenario draw_scenario(std::uint64_t seed);

// The class of switches that an EV passes.
constexpr std::uint32_t ev_class_of(std::uint32_t ev) {
  return static_cast<std::uint32_t>((std::uint64_t{ev} * 0x9E3779B97F4A7C15ULL) >> 60) % kEvClasses;
}

}  // namespace openmrc::sim
