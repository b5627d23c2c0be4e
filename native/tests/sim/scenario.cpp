#include "tests/sim/scenario.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>

#include "engine/base/rng.hpp"

namespace openmrc::sim {

namespace {

constexpr TimePs kUs = kPsPerUs;
constexpr TimePs kMs = kPsPerMs;

// Named draws of integers.
class Draw {
 public:
  Draw(std::uint64_t seed, const char* component) : rng_(Rng::for_component(seed, component)) {}

  template <typename T>
  T between(T low, T high) {
    return static_cast<T>(low + static_cast<T>(rng_.below(static_cast<std::uint64_t>(high - low) + 1)));
  }
  bool permille(std::uint32_t share) { return rng_.chance(share, 1000); }
  template <typename T, std::size_t N>
  T pick(const T (&values)[N]) {
    return values[rng_.below(N)];
  }
  template <typename C>
  const auto& pick_of(const C& values) {
    return values[rng_.below(values.size())];
  }

 private:
  Rng rng_;
};

LinkPlan draw_link(Draw& draw, bool trimming, bool marking, bool slow_run) {
  LinkPlan link;
  constexpr std::uint64_t kRates[] = {1'000'000'000, 10'000'000'000, 25'000'000'000, 100'000'000'000, 400'000'000'000};
  link.rate_bps = slow_run ? draw.pick(kRates) : 100'000'000'000;
  link.delay = draw.between<TimePs>(1 * kUs, 30 * kUs);
  link.ev_spread = draw.permille(500) ? draw.between<TimePs>(0, 5 * kUs) : 0;
  link.jitter = draw.permille(300) ? draw.between<TimePs>(0, 3 * kUs) : 0;
  link.queue_bytes = draw.between<std::uint64_t>(20'000, 600'000);
  link.ecn_bytes = marking ? link.queue_bytes / draw.between<std::uint64_t>(2, 8) : 0;
  link.trim = trimming && draw.permille(800);
  link.trim_at_last_hop = draw.permille(400);
  return link;
}

std::uint32_t draw_psn(Draw& draw, std::uint32_t packets) {
  // A third of the runs wrap during the traffic.
  if (draw.permille(333)) return (kPsnSpace - draw.between<std::uint32_t>(1, packets + 1)) & (kPsnSpace - 1);
  return draw.between<std::uint32_t>(0, kPsnSpace - 1);
}

std::vector<Ev> draw_universe(Draw& draw, const Scenario& scenario) {
  std::vector<Ev> universe;
  std::set<std::uint32_t> used;
  constexpr std::uint32_t kPerPort[] = {1, 2, 4, 8, 16, 32};
  const std::uint32_t per_port = draw.pick(kPerPort);
  for (std::uint32_t port = 0; port < scenario.planes; ++port) {
    // Occasionally a port has fewer, and the others must be cut to the same number.
    const std::uint32_t count = draw.permille(50) ? draw.between<std::uint32_t>(1, per_port) : per_port;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t value = 0;
      do {
        value = draw.between<std::uint32_t>(0xC000, 0xFFFF);
        if (scenario.ev_format != wire::EvFormat::kUdp) value |= draw.between<std::uint32_t>(0, 0xFFFF) << 16;
      } while (!used.insert(value).second);
      universe.push_back({value, static_cast<PortId>(port)});
    }
  }
  return universe;
}

void draw_paths(Draw& draw, const Scenario& scenario, QpPlan& plan) {
  constexpr const char* kSelectors[] = {"mrc", "mrc", "mrc", "round_robin", "random", "single"};
  plan.init.ev_selector = draw.pick(kSelectors);
  plan.init.ev_universe = draw_universe(draw, scenario);
  EvSetConfig& set = plan.init.ev_set;
  constexpr std::uint16_t kActive[] = {1, 4, 16, 32};
  set.active_per_port = draw.pick(kActive);
  set.min_active = draw.permille(300) ? draw.between<std::uint16_t>(1, 4) : std::uint16_t{1};
  set.probe_successes = draw.between<std::uint8_t>(1, 3);
  set.probe_interval = draw.between<TimePs>(100 * kUs, 5 * kMs);
  set.skip_lapse = draw.permille(300) ? draw.between<TimePs>(10 * kUs, 200 * kUs) : 0;
  set.marked_probe_revives_to_good = draw.permille(300);

  plan.init.controller = draw.permille(600) ? "nscc" : "none";
  CcConfig& cc = plan.init.cc;
  cc.mtu_bytes = plan.payload_mtu + 100;
  cc.link_rate_bps = scenario.links[0].rate_bps * scenario.planes;
  cc.base_rtt = 2 * scenario.links[0].delay + 2 * kUs;
  cc.trimming = scenario.links[0].trim && plan.rtr.capabilities.trim_nack;
  cc.disable_qa = draw.permille(200);
  cc.ignore_rcv_penalty = draw.permille(200);
  if (draw.permille(150)) cc.max_cwnd_bytes = draw.between<std::uint64_t>(1, 64) * cc.mtu_bytes;
}

// Uses a generator of its own, so that the other draws of recorded seeds stay the same.
void draw_signal(std::uint64_t seed, std::size_t index, QpPlan& plan) {
  Rng rng = Rng::for_component(seed, "path_signal", index);
  constexpr PathSignal kSignals[] = {PathSignal::kMarks, PathSignal::kMarks, PathSignal::kDelay, PathSignal::kDiscover};
  plan.init.signal = kSignals[rng.below(std::size(kSignals))];
  plan.rtr.capabilities.plane_sacks = plan.init.signal != PathSignal::kMarks && rng.below(4) != 0;
  plan.rtr.capabilities.sack_transit = plan.rtr.capabilities.plane_sacks && rng.below(4) != 0;
  plan.rtr.capabilities.sack_sharers = plan.rtr.capabilities.sack_transit && rng.below(4) != 0;
}

// So does this.
void draw_drivers(Scenario& scenario) {
  Rng rng = Rng::for_component(scenario.seed, "drivers");
  for (bool& acks_with_data : scenario.acks_with_data) acks_with_data = rng.below(2) == 0;
}

void draw_qp(Draw& draw, const Scenario& scenario, std::uint32_t packets_of_run, QpPlan& plan) {
  constexpr std::uint32_t kMtus[] = {256, 512, 1024, 1024, 2048, 4096, 4096, 8192};
  plan.payload_mtu = draw.permille(200) ? draw.between<std::uint32_t>(64, 2048) * 4 : draw.pick(kMtus);
  if (packets_of_run > (1U << 16)) plan.payload_mtu = 256;
  plan.rtr.payload_mtu = plan.payload_mtu;
  plan.rtr.capabilities = {draw.permille(700), draw.permille(400), draw.permille(700)};
  constexpr std::uint32_t kSackBytes[] = {1, 1024, 4096, 16384, 65536};
  plan.rtr.sack_bytes = draw.pick(kSackBytes);
  plan.rts.timeout_exponent = draw.between<std::uint8_t>(5, 11);
  plan.rts.linear_retries = draw.between<std::uint8_t>(0, 7);
  plan.rts.exponential_retries = draw.permille(750) ? std::uint8_t{25} : draw.between<std::uint8_t>(0, 8);
  plan.rts.timestamp_resolution_ns = draw.permille(700) ? 128 : 1000;
  plan.rts.trimmable = plan.transport == Transport::kMrc && draw.permille(700);
  plan.rts.rc_window_packets = draw.between<std::uint32_t>(1, 128);
  const bool one_way = draw.permille(500);
  for (int end = 0; end < kEnds; ++end) {
    const auto i = static_cast<std::size_t>(end);
    constexpr std::uint8_t kMpr[] = {1, 1, 2, 8, 32};
    plan.mpr_units[i] = packets_of_run > (1U << 16) ? std::uint8_t{32} : draw.pick(kMpr);
    plan.wimm_max[i] = draw.permille(300) ? draw.between<std::uint16_t>(1, 4) : std::uint16_t{32};
    plan.packets[i] = one_way && end == 1 ? 0 : draw.between<std::uint32_t>(packets_of_run / 2, packets_of_run);
    plan.psn[i] = draw_psn(draw, std::max(plan.packets[i], 1U));
    plan.send_wr_max[i] = draw.permille(200) ? draw.between<std::uint32_t>(1, 4) : draw.between<std::uint32_t>(8, 128);
  }
  plan.recv_wr_max = draw.permille(200) ? draw.between<std::uint32_t>(1, 4) : draw.between<std::uint32_t>(16, 128);
  const std::uint64_t largest = std::min<std::uint64_t>(draw.between<std::uint32_t>(1, 120), packets_of_run / 2 + 1);
  plan.message_bytes_max = largest * plan.payload_mtu;
  plan.imm_permille = draw.permille(300) ? 0 : draw.between<std::uint32_t>(10, 1000);
  plan.unsignaled_permille = draw.permille(500) ? 0 : draw.between<std::uint32_t>(0, 800);
  plan.think_permille = draw.permille(600) ? 0 : draw.between<std::uint32_t>(0, 1000);
  draw_paths(draw, scenario, plan);
}

Fault draw_fault(Draw& draw, const Scenario& scenario, FaultKind kind) {
  Fault fault;
  fault.kind = kind;
  const TimePs span = scenario.safety_end;
  fault.start = draw.between<TimePs>(0, span * 3 / 4);
  fault.stop = draw.permille(400) ? span : draw.between<TimePs>(fault.start, span);
  if (draw.permille(500)) fault.plane = draw.between<int>(0, scenario.planes - 1);
  if (draw.permille(500)) fault.ev_class = draw.between<int>(0, static_cast<int>(kEvClasses) - 1);
  if (draw.permille(500)) fault.sender = draw.between<int>(0, 1);
  constexpr std::uint32_t kRates[] = {1, 5, 20, 50, 200, 500};
  fault.permille = draw.pick(kRates);
  fault.amount = draw.between<TimePs>(1 * kUs, 400 * kUs);
  fault.qp = draw.between<std::uint32_t>(0, static_cast<std::uint32_t>(scenario.qps.size()) - 1);
  switch (kind) {
    case FaultKind::kBlackhole:
      // Silence of the whole fabric is a separate case, kept short and rare.
      if (fault.plane < 0 && fault.ev_class < 0 && draw.permille(700)) fault.plane = 0;
      break;
    case FaultKind::kPortDown:
      fault.plane = std::max(fault.plane, 0);
      fault.sender = std::max(fault.sender, 0);
      break;
    case FaultKind::kStall:
      fault.sender = std::max(fault.sender, 0);
      fault.stop = std::min(fault.stop, fault.start + draw.between<TimePs>(10 * kUs, 5 * kMs));
      break;
    case FaultKind::kDenyEv:
    case FaultKind::kPenalty:
    case FaultKind::kShrinkWindow:
    case FaultKind::kGarbage:
    case FaultKind::kEvProbe:
    case FaultKind::kRestart:
      fault.sender = std::max(fault.sender, 0);
      break;
    default:
      break;
  }
  return fault;
}

void draw_faults(Draw& draw, Scenario& scenario) {
  // Swarm: choose the kinds of this run first, then a number of faults of these kinds.
  if (draw.permille(50)) return;
  std::vector<FaultKind> kinds;
  for (int kind = 0; kind < static_cast<int>(FaultKind::kCount); ++kind) {
    if (draw.permille(250)) kinds.push_back(static_cast<FaultKind>(kind));
  }
  const bool any_rc = std::any_of(scenario.qps.begin(), scenario.qps.end(),
                                  [](const QpPlan& plan) { return plan.transport == Transport::kRc; });
  std::erase_if(kinds, [&](FaultKind kind) {
    // Without the ICRC nothing detects corruption; RC requires an in-order network.
    if (!scenario.icrc && (kind == FaultKind::kCorrupt || kind == FaultKind::kGarbage)) return true;
    return any_rc && (kind == FaultKind::kReorder || kind == FaultKind::kJitter || kind == FaultKind::kReplay);
  });
  if (kinds.empty()) return;
  const int count = draw.between<int>(1, 8);
  for (int i = 0; i < count; ++i) scenario.faults.push_back(draw_fault(draw, scenario, draw.pick_of(kinds)));
}

// Uses generators of its own, too. Nothing detects damage to packets without an ICRC.
void draw_integrity(Scenario& scenario) {
  const auto damages = [](const Fault& fault) {
    return fault.kind == FaultKind::kCorrupt || fault.kind == FaultKind::kGarbage;
  };
  if (std::ranges::any_of(scenario.faults, damages)) return;
  for (std::size_t index = 0; index < scenario.qps.size(); ++index) {
    Rng rng = Rng::for_component(scenario.seed, "integrity", index);
    QpCapabilities& capabilities = scenario.qps[index].rtr.capabilities;
    capabilities.no_icrc = rng.below(4) == 0;
    capabilities.kernel_check = rng.below(2) == 0;
  }
}

void draw_healing(Draw& draw, Scenario& scenario) {
  const std::uint32_t all_planes = (1U << scenario.planes) - 1;
  scenario.healed_planes = draw.between<std::uint32_t>(1, all_planes);
  scenario.healed_ev_classes = draw.between<std::uint32_t>(1, (1U << kEvClasses) - 1);
  scenario.heal_denied = draw.permille(500);
  bool all = false;
  for (const QpPlan& plan : scenario.qps) {
    if (plan.transport == Transport::kRc) all = true;
    const auto alive = [&](const Ev& ev) {
      return ((scenario.healed_planes >> ev.port) & 1) != 0 &&
             ((scenario.healed_ev_classes >> ev_class_of(ev.value)) & 1) != 0;
    };
    // Finding one live path among very many dead ones takes longer with every back-off, which is not tested here.
    const auto live = std::count_if(plan.init.ev_universe.begin(), plan.init.ev_universe.end(), alive);
    if (3 * static_cast<std::size_t>(live) < plan.init.ev_universe.size()) all = true;
  }
  if (all) {
    scenario.healed_planes = all_planes;
    scenario.healed_ev_classes = (1U << kEvClasses) - 1;
    scenario.heal_denied = true;
  }
}

}  // namespace

const char* name_of(FaultKind kind) {
  static constexpr const char* kNames[] = {
      "loss",  "burst_loss", "control_loss", "duplicate",     "reorder", "jitter",   "corrupt",
      "trim",  "mark",       "blackhole",    "flap",          "slow",    "replay",   "port_down",
      "stall", "deny_ev",    "penalty",      "shrink_window", "garbage", "ev_probe", "restart"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(FaultKind::kCount));
  return kNames[static_cast<std::size_t>(kind)];
}

Scenario draw_scenario(std::uint64_t seed) {
  Draw draw(seed, "scenario");
  Scenario scenario;
  scenario.seed = seed;
  scenario.planes = draw.between<std::uint8_t>(1, 8);
  scenario.family = draw.permille(500) ? AddressFamily::kIpv6 : AddressFamily::kIpv4;
  if (scenario.family == AddressFamily::kIpv6 && draw.permille(600)) scenario.ev_format = wire::EvFormat::kStev;
  scenario.icrc = draw.permille(850);
  scenario.shared_cq = draw.permille(400);
  const bool trimming = draw.permille(500);
  const bool marking = draw.permille(600);
  const bool slow_run = draw.permille(500);
  for (std::size_t plane = 0; plane < scenario.planes; ++plane)
    scenario.links[plane] = draw_link(draw, trimming, marking, slow_run);
  scenario.nic_rate_bps = draw.permille(400) ? 0 : draw.between<std::uint64_t>(1, 100) * 4'000'000'000;
  constexpr std::uint32_t kBursts[] = {1, 1, 2, 8, 44, 64};
  scenario.burst_max = draw.pick(kBursts);
  draw_drivers(scenario);
  for (int end = 0; end < kEnds; ++end) {
    const auto i = static_cast<std::size_t>(end);
    scenario.drift_ppm[i] = draw.permille(400) ? draw.between<std::int64_t>(0, 400) - 200 : 0;
    scenario.clock_offset[i] = draw.between<TimePs>(0, 1000 * kMs);
  }
  scenario.safety_end = draw.between<TimePs>(500 * kUs, 12 * kMs);

  constexpr std::uint32_t kQpCounts[] = {1, 1, 1, 2, 3, 8};
  const std::uint32_t qp_count = draw.pick(kQpCounts);
  std::uint32_t packets = draw.between<std::uint32_t>(20, 1200) / qp_count + 2;
  if (qp_count == 1 && draw.permille(3)) packets = (1U << 16) + 4000;
  const std::uint32_t rc_permille = draw.permille(850) ? 0 : 700;
  for (std::uint32_t i = 0; i < qp_count; ++i) {
    QpPlan plan;
    plan.transport = draw.permille(rc_permille) ? Transport::kRc : Transport::kMrc;
    draw_qp(draw, scenario, packets, plan);
    draw_signal(scenario.seed, scenario.qps.size(), plan);
    // RC requires an in-order network.
    if (plan.transport == Transport::kRc) {
      for (LinkPlan& link : scenario.links) link.jitter = 0;
    }
    scenario.qps.push_back(std::move(plan));
  }
  Draw fault_draw(seed, "faults");
  draw_faults(fault_draw, scenario);
  draw_integrity(scenario);
  draw_healing(fault_draw, scenario);
  TimePs longest_timeout = 0;
  for (const QpPlan& plan : scenario.qps) {
    longest_timeout = std::max(longest_timeout, TimePs{1'024'000} << plan.rts.timeout_exponent);
  }
  scenario.liveness_limit = 20'000 * kMs + 200 * longest_timeout;
  if (packets > (1U << 16)) scenario.liveness_limit += 60'000 * kMs;
  return scenario;
}

std::string Scenario::describe() const {
  std::string text;
  char line[400];
  const auto add = [&](auto... values) {
    std::snprintf(line, sizeof line, values...);
    text += line;
  };
  add("seed %llu: %u planes, IPv%u, EV format %u, icrc %d, nic %llu b/s, burst %u, drift %lld/%lld ppm, safety %lld "
      "us\n",
      static_cast<unsigned long long>(seed), planes, static_cast<unsigned>(family), static_cast<unsigned>(ev_format),
      icrc, static_cast<unsigned long long>(nic_rate_bps), burst_max, static_cast<long long>(drift_ppm[0]),
      static_cast<long long>(drift_ppm[1]), static_cast<long long>(safety_end / kPsPerUs));
  for (std::size_t plane = 0; plane < planes; ++plane) {
    const LinkPlan& link = links[plane];
    add("  plane %zu: %llu b/s, delay %lld ns, spread %lld ns, jitter %lld ns, queue %llu B, ecn %llu B, trim %d%s\n",
        plane, static_cast<unsigned long long>(link.rate_bps), static_cast<long long>(link.delay / kPsPerNs),
        static_cast<long long>(link.ev_spread / kPsPerNs), static_cast<long long>(link.jitter / kPsPerNs),
        static_cast<unsigned long long>(link.queue_bytes), static_cast<unsigned long long>(link.ecn_bytes), link.trim,
        link.trim_at_last_hop ? " last hop" : "");
  }
  for (std::size_t i = 0; i < qps.size(); ++i) {
    const QpPlan& plan = qps[i];
    add("  qp %zu: %s, mtu %u, psn %u/%u, mpr %u/%u, wimm %u/%u, packets %u/%u, sends %u/%u, recvs %u, largest %llu B, "
        "imm %u, "
        "unsignaled %u, think %u\n",
        i, plan.transport == Transport::kRc ? "rc" : "mrc", plan.payload_mtu, plan.psn[0], plan.psn[1],
        plan.mpr_units[0], plan.mpr_units[1], plan.wimm_max[0], plan.wimm_max[1], plan.packets[0], plan.packets[1],
        plan.send_wr_max[0], plan.send_wr_max[1], plan.recv_wr_max,
        static_cast<unsigned long long>(plan.message_bytes_max), plan.imm_permille, plan.unsignaled_permille,
        plan.think_permille);
    add("        selector %s, %zu EVs, %u active a port, floor %u, controller %s, signal %u%s, sack %u B, timeout "
        "%u/%u/%u, "
        "trim_nack %d, "
        "dynamic_mpr %d, service_time %d, class %u\n",
        plan.init.ev_selector.c_str(), plan.init.ev_universe.size(), plan.init.ev_set.active_per_port,
        plan.init.ev_set.min_active, plan.init.controller.c_str(), static_cast<unsigned>(plan.init.signal),
        plan.rtr.capabilities.sack_transit
            ? plan.rtr.capabilities.sack_sharers ? " by plane, with transit and sharers" : " by plane, with transit"
        : plan.rtr.capabilities.plane_sacks ? " by plane"
                                            : "",
        plan.rtr.sack_bytes, plan.rts.timeout_exponent, plan.rts.linear_retries, plan.rts.exponential_retries,
        plan.rtr.capabilities.trim_nack, plan.rtr.capabilities.dynamic_mpr, plan.rtr.capabilities.service_time,
        static_cast<unsigned>(plan.rts.trimmable));
  }
  for (const Fault& fault : faults) {
    add("  fault %s: %lld..%lld us, plane %d, EV class %d, sender %d, %u permille, %lld ns, qp %u\n",
        name_of(fault.kind), static_cast<long long>(fault.start / kPsPerUs),
        static_cast<long long>(fault.stop / kPsPerUs), fault.plane, fault.ev_class, fault.sender, fault.permille,
        static_cast<long long>(fault.amount / kPsPerNs), fault.qp);
  }
  add("  heals: planes 0x%x, EV classes 0x%x, denied EVs %s\n", healed_planes, healed_ev_classes,
      heal_denied ? "enabled again" : "stay denied");
  return text;
}

}  // namespace openmrc::sim
