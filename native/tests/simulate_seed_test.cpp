// Random small clusters with random work and random faults, by seed: every op happens exactly once or fails, received
// bytes equal sent bytes, and no packet remains in flight.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/rng.hpp"
#include "tests/check.hpp"
#include "tests/simulate_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr TimePs kGivenUp = 15 * kPsPerSecond;  // by then every transport has succeeded or failed

void draw_ports(Rng& rng, Cluster& cluster) {
  for (netsim::PortConfig& port : cluster.config.fabric.ports) {
    port.delay = static_cast<TimePs>(1 + rng.below(20)) * kPsPerUs;
    port.queue_bytes = static_cast<std::uint32_t>(10'000 + rng.below(200'000));
    port.trim = rng.chance(1, 3);
    port.trim_bytes = kAround + kMrcHeader + kImmediate;
    port.trim_threshold_bytes = port.queue_bytes / 2;
    port.ecn = rng.chance(1, 2);
    port.ecn_min_bytes = port.queue_bytes / 8;
    port.ecn_max_bytes = port.queue_bytes / 2;
  }
  cluster.config.nic_latency = static_cast<TimePs>(rng.below(3)) * 400'000;
  cluster.doorbell = static_cast<TimePs>(rng.below(2)) * 250'000;
}

Cluster draw_cluster(std::uint64_t seed, Rng& rng) {
  Cluster cluster(seed);
  ClosShape& shape = cluster.shape();
  shape.planes = static_cast<std::uint32_t>(1 + rng.below(4));
  shape.hosts = static_cast<std::uint32_t>(2 + rng.below(11));
  shape.hosts_per_t0 = static_cast<std::uint32_t>(1 + rng.below(4));
  shape.t1s = static_cast<std::uint32_t>(1 + rng.below(4));
  if (rng.chance(1, 2)) {
    shape.t0s_per_pod = static_cast<std::uint32_t>(1 + rng.below(2));
    shape.t1_uplinks = static_cast<std::uint32_t>(1 + rng.below(3));
  }
  shape.routing = static_cast<Routing>(rng.below(3));
  draw_ports(rng, cluster);
  if (rng.chance(1, 2)) {
    const bool pfc = rng.chance(1, 2);
    cluster.config.fabric.queued = SharedQueues{.buffer_bytes = 100'000 + rng.below(500'000),
                                                .alpha_permille = static_cast<std::uint32_t>(500 + rng.below(1000)),
                                                .pfc = pfc,
                                                .pfc_xoff_bytes = 20'000,
                                                .pfc_xon_bytes = 10'000};
  }
  cluster.lanes = static_cast<std::uint16_t>(1 + rng.below(3));
  cluster.config.threads = rng.chance(1, 4) ? 3 : 1;
  return cluster;
}

// Ops depend on earlier ones only, at their own host, so that without faults all of them happen.
void draw_work(Rng& rng, Cluster& cluster) {
  const std::uint32_t hosts = cluster.shape().hosts;
  const auto count = static_cast<std::uint32_t>(10 + rng.below(30));
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto host = static_cast<std::uint32_t>(rng.below(hosts));
    const auto earliest = static_cast<TimePs>(rng.below(2'000)) * kPsPerUs;
    std::uint32_t op = 0;
    if (rng.chance(1, 4)) {
      op = cluster.compute(host, static_cast<TimePs>(rng.below(500)) * kPsPerUs, earliest);
    } else {
      const auto peer = static_cast<std::uint32_t>((host + 1 + rng.below(hosts - 1)) % hosts);
      op = cluster.send(host, peer, rng.below(1ULL << rng.below(20)), earliest);
    }
    for (std::uint32_t on = 0; on < op; ++on) {
      if (!rng.chance(1, 4)) continue;
      const Op& before = cluster.ops[on];
      if (before.kind == OpKind::kSend && before.peer == host) {
        cluster.after(op, on, OpEvent::kReceived);
      } else if (before.host == host) {
        cluster.after(op, on);
      }
    }
  }
}

netsim::Effects draw_effects(Rng& rng) {
  netsim::Effects effects;
  switch (rng.below(6)) {
    case 0:
      effects.down = true;
      break;
    case 1:
      effects.blackhole = true;
      break;
    case 2:
      effects.loss_ppb = static_cast<std::uint32_t>(rng.below(100'000'000));
      effects.corrupt_ppb = static_cast<std::uint32_t>(rng.below(50'000'000));
      break;
    case 3:
      effects.duplicate_ppb = static_cast<std::uint32_t>(rng.below(200'000'000));
      effects.reorder_ppb = static_cast<std::uint32_t>(rng.below(200'000'000));
      effects.reorder_delay = 50 * kPsPerUs;
      break;
    case 4:
      effects.rate_ppm = static_cast<std::uint32_t>(100'000 + rng.below(900'000));
      break;
    default:
      effects.delay = 30 * kPsPerUs;
      effects.jitter = 40 * kPsPerUs;
  }
  return effects;
}

FaultTarget draw_target(Rng& rng, const ClosShape& shape) {
  FaultTarget target;
  if (rng.chance(3, 4)) target.plane = static_cast<std::uint32_t>(rng.below(shape.planes));
  switch (rng.below(4)) {
    case 0:
      target.host = static_cast<std::uint32_t>(rng.below(shape.hosts));
      break;
    case 1:
      target.t1 = static_cast<std::uint32_t>(rng.below(shape.t1s_in_all()));
      break;
    case 2:
      target.t0 = static_cast<std::uint32_t>(rng.below(shape.t0s()));
      break;
    default:
      break;
  }
  target.direction = static_cast<FaultDirection>(rng.below(3));
  return target;
}

void draw_faults(Rng& rng, Simulation& simulation) {
  for (std::uint64_t i = rng.below(6); i > 0; --i) {
    const FaultTarget target = draw_target(rng, simulation.shape());
    if (!exists(target, simulation.shape())) continue;
    FaultSpec spec = fault_on(target, draw_effects(rng), static_cast<TimePs>(rng.below(3'000)) * kPsPerUs);
    if (rng.chance(2, 3)) spec.duration = static_cast<TimePs>(1 + rng.below(20'000)) * kPsPerUs;
    if (rng.chance(1, 4)) spec.period = static_cast<TimePs>(1 + rng.below(3'000)) * kPsPerUs;
    if (spec.period > 0 && spec.duration == kNever) spec.duration = kPsPerSecond;
    (void)simulation.add_fault(spec);
  }
}

// True if all dependencies of `op` have happened.
bool may_start(const Cluster& cluster, const Workload& work, std::uint32_t op) {
  for (const Dependency& dependency : cluster.dependencies) {
    if (dependency.op != op) continue;
    const auto& times = dependency.event == OpEvent::kReceived ? work.received : work.completed;
    if (times[dependency.on] < 0 || (work.started[op] >= 0 && times[dependency.on] > work.started[op])) return false;
  }
  return true;
}

void check_op(const Cluster& cluster, const Workload& work, std::uint32_t op) {
  const Op& what = work.ops[op];
  const bool is_send = what.kind == OpKind::kSend;
  CHECK((work.started[op] >= 0) == may_start(cluster, work, op));
  CHECK((work.completed[op] >= 0 || work.failed[op] == 1) == (work.started[op] >= 0));
  CHECK(work.started[op] < 0 || work.started[op] >= what.earliest);
  if (work.completed[op] < 0) return;
  CHECK(work.failed[op] == 0 && work.parts_completed[op] == (is_send ? work.parts(op) : 0));
  if (is_send) {
    CHECK(work.started[op] < work.received[op] && work.received[op] < work.completed[op]);
  } else {
    CHECK(work.received[op] == -1 && work.completed[op] == work.started[op] + what.duration);
  }
}

// Returns true if an op failed.
bool check_seed(std::uint64_t seed) {
  constexpr const char* kTransports[] = {"mrc", "roce", "dctcp"};
  Rng rng = Rng::for_component(seed, "cluster", 0);
  Cluster cluster = draw_cluster(seed, rng);
  draw_work(rng, cluster);
  cluster.compute(0, kGivenUp);  // outlasts all the rest
  const auto simulation = cluster.start(kTransports[rng.below(3)]);
  draw_faults(rng, *simulation);
  CHECK(!simulation->run_until(kGivenUp - 1));
  CHECK(simulation->run_until(2 * kGivenUp));
  const Workload& work = simulation->workload();
  std::uint64_t bytes = 0, none = 0, finished = 0;
  for (std::uint32_t op = 0; op < work.ops.size(); ++op) {
    check_op(cluster, work, op);
    finished += work.completed[op] >= 0 ? 1 : 0;
    if (work.received[op] >= 0) bytes += work.ops[op].bytes;
    if (work.failed[op] == 1 && work.received[op] < 0) none += work.ops[op].bytes;
  }
  CHECK(simulation->finished() == finished && simulation->stalled() == (finished < work.ops.size()));
  const std::uint64_t received = totals(*simulation).received;
  CHECK(received >= bytes && received <= bytes + none);  // part of a failed send may have arrived
  CHECK(simulation->parts_held() == 0 && simulation->fabric().packets_inside() == 0);
  return simulation->failed() > 0;
}

}  // namespace

TEST_CASE(simulated_clusters_of_any_seed_end_with_every_op_done_once_or_failed) {
  std::uint32_t failed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const int failures_before = failures();
    failed += check_seed(seed) ? 1 : 0;
    if (failures() != failures_before) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  }
  CHECK(failed > 0 && failed < 20);
}
