#include "netsim/simulate/simulation.hpp"

#include <algorithm>
#include <tuple>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::size_t slot(LinkKind kind) { return static_cast<std::size_t>(kind); }

// More shards than threads, so that a thread which is done early takes over some of the others' work.
constexpr std::uint32_t kShardsPerThread = 4;

FabricConfig with_latency(const SimulationConfig& config) {
  FabricConfig fabric = config.fabric;
  fabric.ports[slot(LinkKind::kNicUp)].delay += config.nic_latency;
  fabric.ports[slot(LinkKind::kNicDown)].delay += config.nic_latency;
  fabric.delivery_lead =
      std::min(fabric.ports[slot(LinkKind::kNicUp)].delay, fabric.ports[slot(LinkKind::kNicDown)].delay);
  return fabric;
}

}  // namespace

// Hands what leaves a plane to the shard of its NIC. Each plane has its own.
class Simulation::PlaneEdge final : public Edge {
 public:
  PlaneEdge(std::vector<std::unique_ptr<Shard>>& shards, std::uint32_t hosts_per_shard)
      : shards_(shards), hosts_per_shard_(hosts_per_shard) {}

  void deliver(TimePs when, std::uint32_t plane, const Packet& packet) override {
    shards_[packet.destination_host / hosts_per_shard_]->inbox(plane).put(when, packet);
  }
  void share(std::uint32_t) override {}
  void release(std::uint32_t) override {}
  void pause(TimePs when, std::uint32_t plane, std::uint32_t host, bool paused) override {
    Packet packet;
    packet.destination_host = host;
    packet.link = paused ? kPauseOn : kPauseOff;
    shards_[host / hosts_per_shard_]->inbox(plane).put(when, packet);
  }

 private:
  std::vector<std::unique_ptr<Shard>>& shards_;
  std::uint32_t hosts_per_shard_;
};

Simulation::Simulation(const SimulationConfig& config, Workload workload, const EndpointFactory& make_endpoint)
    : surroundings_(config.surroundings),
      workload_(std::move(workload)),
      fabric_(with_latency(config)),
      crew_(config.threads) {
  const FabricConfig fabric = with_latency(config);
  window_ = fabric.delivery_lead;
  MRC_ASSERT(window_ > 0);
  nic_config_ = {fabric.shape, Port(fabric.ports[slot(LinkKind::kNicUp)])};
  make_nics(config, make_endpoint);
  make_connections();
  for (const auto& shard : shards_) {
    for (std::uint32_t i = 0; i < shard->hosts(); ++i) shard->nic(shard->first_host() + i).begin(workload_);
    shard->refresh_next_time();
  }
}

Simulation::~Simulation() = default;

void Simulation::make_nics(const SimulationConfig& config, const EndpointFactory& make_endpoint) {
  const std::uint32_t hosts = shape().hosts;
  const std::uint32_t shards = config.threads == 1 ? 1 : std::min(hosts, config.threads * kShardsPerThread);
  hosts_per_shard_ = (hosts + shards - 1) / shards;
  for (std::uint32_t first = 0; first < hosts; first += hosts_per_shard_) {
    shards_.push_back(std::make_unique<Shard>(first, std::min(hosts_per_shard_, hosts - first)));
  }
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) {
    edges_.push_back(std::make_unique<PlaneEdge>(shards_, hosts_per_shard_));
  }
  crew_.run(static_cast<std::uint32_t>(shards_.size()), [&](std::uint32_t i) {
    for (std::uint32_t k = 0; k < shards_[i]->hosts(); ++k) {
      const std::uint32_t host = shards_[i]->first_host() + k;
      shards_[i]->set_nic(host, std::make_unique<Nic>(nic_config_, host, make_endpoint(surroundings_, host)));
    }
  });
}

// One connection per pair of NICs and lane, numbered at each NIC in the order of the peers.
void Simulation::make_connections() {
  struct Flow {
    std::uint32_t a, b;
    bool from_a;
    std::uint32_t op;
  };
  std::vector<Flow> flows;
  for (std::uint32_t op = 0; op < workload_.ops.size(); ++op) {
    const Op& what = workload_.ops[op];
    if (what.kind != OpKind::kSend) continue;
    flows.push_back({std::min(what.host, what.peer), std::max(what.host, what.peer), what.host < what.peer, op});
  }
  std::sort(flows.begin(), flows.end(),
            [](const Flow& x, const Flow& y) { return std::tie(x.a, x.b, x.op) < std::tie(y.a, y.b, y.op); });
  std::vector<std::uint32_t> opened(shape().hosts, 0);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> numbers;  // what the two ends know the connection by
  for (std::size_t first = 0; first < flows.size();) {
    const auto [a, b] = std::pair{flows[first].a, flows[first].b};
    ConnectionEnd end_a{.peer_host = b}, end_b{.peer_host = a};
    std::size_t last = first;
    for (; last < flows.size() && flows[last].a == a && flows[last].b == b; ++last) {
      const Flow& flow = flows[last];
      ConnectionEnd& from = flow.from_a ? end_a : end_b;
      ConnectionEnd& to = flow.from_a ? end_b : end_a;
      from.bytes_out += workload_.ops[flow.op].bytes;
      to.bytes_in += workload_.ops[flow.op].bytes;
      ++from.messages_out;
      ++to.messages_in;
      workload_.connection[flow.op] = flow.from_a ? opened[a] : opened[b];
    }
    for (std::uint16_t lane = 0; lane < workload_.lanes; ++lane) {
      end_a.lane = end_b.lane = lane;
      connections_.push_back({a, b, lane, opened[a]++, opened[b]++});
      numbers.emplace_back(nic(a).endpoint().open(end_a), nic(b).endpoint().open(end_b));
    }
    first = last;
  }
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    nic(connections_[i].a).endpoint().connect(connections_[i].index_a, numbers[i].second);
    nic(connections_[i].b).endpoint().connect(connections_[i].index_b, numbers[i].first);
  }
}

TimePs Simulation::next_time() const {
  TimePs next = kNever;
  for (const auto& shard : shards_) next = std::min(next, shard->next_time());
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) {
    next = std::min(next, fabric_.plane(plane).next_event());
  }
  return next;
}

bool Simulation::run_until(TimePs until) {
  while (!all_done() && !stalled_) {
    const TimePs next = next_time();
    const TimePs change = fabric_.next_fault_change();
    if (std::min(next, change) > until) {
      stalled_ = next == kNever && change == kNever;
      now_ = until;
      return stalled_;
    }
    if (change <= next) {
      now_ = change;
      change_faults(change);
      continue;
    }
    const TimePs last = until < kNever ? until + 1 : kNever;
    run_window(std::min({next + window_, change, last}));
  }
  return true;
}

void Simulation::run_window(TimePs end) {
  const std::uint32_t planes = shape().planes;
  crew_.run(planes + static_cast<std::uint32_t>(shards_.size()), [&](std::uint32_t task) {
    if (task < planes) {
      fabric_.plane(task).run_until(end - 1, *edges_[task]);
    } else {
      shards_[task - planes]->run(end, planes, workload_);
    }
  });
  crew_.run(planes, [&](std::uint32_t plane) {
    for (const auto& shard : shards_) {
      for (const Mail& mail : shard->outbox()[plane]) fabric_.plane(plane).arrive(mail.time, mail.packet);
      shard->outbox()[plane].clear();
    }
  });
  finished_ = 0;
  for (const auto& shard : shards_) {
    shard->turn(planes);
    finished_ += shard->finished();
  }
  now_ = end - 1;
  ++windows_;
}

void Simulation::change_faults(TimePs now) {
  fabric_.change_faults(now);
  Notice notice;
  while (fabric_.poll_notice(notice)) {
    if (notice.kind == Notice::Kind::kCarrier) nic(notice.host).set_carrier(now, notice.plane, notice.up);
  }
  ChangedUplink changed;
  while (fabric_.poll_changed_uplink(changed)) {
    const Effects effects = fabric_.plane(changed.plane).effects(shape().nic_up(changed.host));
    nic(changed.host).set_uplink_effects(changed.plane, effects, surroundings_.seed);
  }
  for (const auto& shard : shards_) shard->refresh_next_time();
}

std::uint64_t Simulation::failed() const {
  return static_cast<std::uint64_t>(std::count(workload_.failed.begin(), workload_.failed.end(), std::uint8_t{1}));
}

std::uint64_t Simulation::data_packets() {
  std::uint64_t packets = 0;
  for (std::uint32_t host = 0; host < shape().hosts; ++host) packets += nic(host).data_packets();
  return packets;
}

std::uint64_t Simulation::events() const {
  std::uint64_t events = 0;
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) events += fabric_.plane(plane).events();
  return events;
}

std::uint64_t Simulation::trace() {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  std::uint64_t trace = 0;
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) {
    trace = (trace ^ fabric_.plane(plane).trace()) * kPrime;
  }
  for (std::uint32_t host = 0; host < shape().hosts; ++host) trace = (trace ^ nic(host).trace()) * kPrime;
  return trace;
}

std::uint64_t Simulation::memory_bytes() {
  std::uint64_t bytes = 0;
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) bytes += fabric_.plane(plane).memory_bytes();
  for (std::uint32_t host = 0; host < shape().hosts; ++host) bytes += sizeof(Nic) + nic(host).endpoint().memory_bytes();
  return bytes;
}

}  // namespace openmrc::netsim
