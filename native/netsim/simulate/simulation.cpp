#include "netsim/simulate/simulation.hpp"

#include <algorithm>
#include <tuple>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::size_t slot(LinkKind kind) { return static_cast<std::size_t>(kind); }

// More shards than threads, so that a thread which finishes early takes over work of the others.
constexpr std::uint32_t kShardsPerThread = 4;

// The smallest delay of a kind of link: no window may be longer than the shortest cable.
TimePs shortest(const FabricConfig& fabric, LinkKind kind) {
  TimePs least = kNever;
  for (std::uint32_t plane = 0; plane < fabric.shape.planes; ++plane) {
    least = std::min(least, fabric.ports_of(plane)[slot(kind)].delay);
  }
  return least;
}

FabricConfig with_latency(const SimulationConfig& config) {
  FabricConfig fabric = config.fabric;
  const auto delayed = [&](std::array<PortConfig, kLinkKinds>& ports) {
    ports[slot(LinkKind::kNicUp)].delay += config.nic_latency;
    ports[slot(LinkKind::kNicDown)].delay += config.nic_latency;
  };
  delayed(fabric.ports);
  for (auto& ports : fabric.unlike) delayed(ports);
  fabric.delivery_lead = shortest(fabric, LinkKind::kNicDown);
  return fabric;
}

}  // namespace

// Passes packets that leave a plane to the shard of their NIC, and returns the parts of lost ones. One object per
// plane.
class Simulation::PlaneEdge final : public Edge {
 public:
  explicit PlaneEdge(const ShardMap& map) : map_(map) {}

  void deliver(TimePs when, std::uint32_t plane, const Packet& packet) override {
    map_.of(packet.destination_host).inbox(plane).put(when, packet);
  }
  void share(const Packet& packet) override { shared_.push_back(owner(packet)); }
  void release(const Packet& packet) override { lost_.push_back(owner(packet)); }
  void pause(TimePs when, std::uint32_t plane, std::uint32_t host, bool paused) override {
    Packet packet;
    packet.destination_host = host;
    packet.link = paused ? kPauseOn : kPauseOff;
    map_.of(host).inbox(plane).put(when, packet);
  }

  std::vector<Return>& shared() { return shared_; }
  std::vector<Return>& lost() { return lost_; }

 private:
  Return owner(const Packet& packet) const { return {map_.index_of(packet.source_host), packet.payload}; }

  const ShardMap& map_;
  std::vector<Return> shared_, lost_;
};

Simulation::Simulation(const SimulationConfig& config, Workload workload, const EndpointFactory& make_endpoint)
    : surroundings_(config.surroundings),
      workload_(std::move(workload)),
      fabric_(with_latency(config)),
      thread_team_(config.threads) {
  const FabricConfig fabric = with_latency(config);
  way_up_ = shortest(fabric, LinkKind::kNicUp);
  way_down_ = fabric.delivery_lead;
  MRC_ASSERT(way_up_ + way_down_ > 0);
  nic_config_ = {fabric.shape, {}, &fabric_.routing()};
  for (std::uint32_t plane = 0; plane < fabric.shape.planes; ++plane) {
    nic_config_.uplinks.emplace_back(fabric.ports_of(plane)[slot(LinkKind::kNicUp)]);
  }
  surroundings_.routing = &fabric_.routing();
  make_nics(config, make_endpoint);
  make_connections();
  for (const auto& shard : map_.shards) {
    shard->note_memory();
    for (std::uint32_t i = 0; i < shard->hosts(); ++i) shard->nic(shard->first_host() + i).begin(workload_);
    shard->refresh_next_time();
  }
}

Simulation::~Simulation() = default;

void Simulation::make_nics(const SimulationConfig& config, const EndpointFactory& make_endpoint) {
  const std::uint32_t hosts = shape().hosts;
  const std::uint32_t shards = config.threads == 1 ? 1 : std::min(hosts, config.threads * kShardsPerThread);
  map_.hosts_per_shard = (hosts + shards - 1) / shards;
  for (std::uint32_t first = 0; first < hosts; first += map_.hosts_per_shard) {
    map_.shards.push_back(std::make_unique<Shard>(first, std::min(map_.hosts_per_shard, hosts - first)));
  }
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) {
    edges_.push_back(std::make_unique<PlaneEdge>(map_));
  }
  thread_team_.run(static_cast<std::uint32_t>(map_.shards.size()), [&](std::uint32_t i) {
    for (std::uint32_t k = 0; k < map_.shards[i]->hosts(); ++k) {
      const std::uint32_t host = map_.shards[i]->first_host() + k;
      map_.shards[i]->set_nic(host, std::make_unique<Nic>(nic_config_, host, make_endpoint(surroundings_, host)));
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
  std::vector<std::vector<ConnectionEnd>> ends(shape().hosts);
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
      workload_.connection[flow.op] = static_cast<std::uint32_t>(ends[flow.from_a ? a : b].size());
    }
    for (std::uint16_t lane = 0; lane < workload_.lanes; ++lane) {
      connections_.push_back({.a = a,
                              .b = b,
                              .lane = lane,
                              .index_a = static_cast<std::uint32_t>(ends[a].size()),
                              .index_b = static_cast<std::uint32_t>(ends[b].size())});
      ends[a].push_back(end_a);
      ends[b].push_back(end_b);
    }
    first = last;
  }
  open_and_connect(ends);
}

// NIC by NIC, so that the state of one is contiguous in memory.
void Simulation::open_and_connect(const std::vector<std::vector<ConnectionEnd>>& ends) {
  std::vector<std::vector<std::uint32_t>> own(shape().hosts), of_peer(shape().hosts);
  const auto each_host = [&](const std::function<void(std::uint32_t)>& task) {
    thread_team_.run(static_cast<std::uint32_t>(map_.shards.size()), [&](std::uint32_t i) {
      for (std::uint32_t k = 0; k < map_.shards[i]->hosts(); ++k) task(map_.shards[i]->first_host() + k);
    });
  };
  each_host([&](std::uint32_t host) {
    for (const ConnectionEnd& end : ends[host]) own[host].push_back(nic(host).endpoint().open(end));
    of_peer[host].resize(own[host].size());
  });
  for (const ConnectionPair& pair : connections_) {
    of_peer[pair.a][pair.index_a] = own[pair.b][pair.index_b];
    of_peer[pair.b][pair.index_b] = own[pair.a][pair.index_a];
  }
  each_host([&](std::uint32_t host) {
    for (std::uint32_t i = 0; i < of_peer[host].size(); ++i) nic(host).endpoint().connect(i, of_peer[host][i]);
  });
}

TimePs Simulation::next_of_nics() const {
  TimePs next = kNever;
  for (const auto& shard : map_.shards) next = std::min(next, shard->next_time());
  return next;
}

TimePs Simulation::next_of_planes() const {
  TimePs next = kNever;
  for (std::uint32_t plane = 0; plane < shape().planes; ++plane) {
    next = std::min(next, fabric_.plane(plane).next_event());
  }
  return next;
}

bool Simulation::run_until(TimePs until) {
  const auto after = [](TimePs time, TimePs delay) { return time > kNever - delay ? kNever : time + delay; };
  while (!all_done() && !stalled_) {
    const TimePs nics = next_of_nics();
    const TimePs planes = next_of_planes();
    const TimePs change = fabric_.next_fault_change();
    const TimePs next = std::min({nics, planes, change});
    stalled_ = next == kNever;
    if (next > until || stalled_) {
      if (until != kNever) now_ = std::max(now_, until);
      return stalled_;
    }
    if (change <= std::min(nics, planes)) {
      now_ = change;
      change_faults(change);
      continue;
    }
    // Planes next act at their own events or at the next packet of a NIC, and a NIC is affected one cable delay later;
    // a packet that a NIC sends after its window cannot reach a plane in the planes' window.
    const TimePs cap = std::min(change, after(until, 1));
    const TimePs nics_end = std::min(after(std::min(planes, after(nics, way_up_)), way_down_), cap);
    run_window(nics_end, std::min(after(nics_end, way_up_), cap));
  }
  return true;
}

void Simulation::run_window(TimePs nics_end, TimePs planes_end) {
  const std::uint32_t planes = shape().planes;
  thread_team_.run(static_cast<std::uint32_t>(map_.shards.size()),
                   [&](std::uint32_t shard) { map_.shards[shard]->run(nics_end, planes, workload_, map_); });
  thread_team_.run(planes, [&](std::uint32_t plane) {
    exchange(plane);
    fabric_.plane(plane).run_until(planes_end - 1, *edges_[plane]);
  });
  finished_ = 0;
  for (const auto& shard : map_.shards) {
    shard->turn(planes);
    finished_ += shard->finished();
  }
  now_ = nics_end - 1;
  ++windows_;
}

// Moves packets that the NICs sent into the plane, and returns the parts of received and lost packets to their owners.
void Simulation::exchange(std::uint32_t plane) {
  PlaneEdge& edge = *edges_[plane];
  for (const Return& copy : edge.shared()) map_.shards[copy.shard]->outbox().parts[plane].share(copy.handle);
  for (const Return& lost : edge.lost()) map_.shards[lost.shard]->outbox().parts[plane].give_back(lost.handle);
  edge.shared().clear();
  edge.lost().clear();
  for (const auto& shard : map_.shards) {
    for (const Return& read : shard->returns(plane))
      map_.shards[read.shard]->outbox().parts[plane].give_back(read.handle);
    shard->returns(plane).clear();
    std::vector<Mail>& sent = shard->outbox().mail[plane];
    for (const Mail& mail : sent) fabric_.plane(plane).arrive(mail.time, mail.packet);
    sent.clear();
  }
}

void Simulation::change_faults(TimePs now) {
  fabric_.change_faults(now);
  Notice notice;
  while (fabric_.poll_notice(notice)) {
    if (notice.kind == NoticeKind::kCarrier) nic(notice.host).set_carrier(now, notice.plane, notice.up);
  }
  ChangedUplink changed;
  while (fabric_.poll_changed_uplink(changed)) {
    const Effects effects = fabric_.plane(changed.plane).effects(shape().nic_up(changed.host));
    nic(changed.host).set_uplink_effects(changed.plane, effects, surroundings_.seed);
  }
  for (const auto& shard : map_.shards) shard->refresh_next_time();
}

std::uint64_t Simulation::failed() const {
  return static_cast<std::uint64_t>(std::count(workload_.failed.begin(), workload_.failed.end(), std::uint8_t{1}));
}

std::uint64_t Simulation::data_packets() {
  std::uint64_t packets = 0;
  for (std::uint32_t host = 0; host < shape().hosts; ++host) packets += nic(host).data_packets();
  return packets;
}

std::uint64_t Simulation::parts_held() const {
  std::uint64_t held = 0;
  for (const auto& shard : map_.shards) {
    for (std::uint32_t plane = 0; plane < fabric_.shape().planes; ++plane) held += shard->parts(plane).held();
  }
  return held;
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
  for (const auto& shard : map_.shards) bytes += shard->memory_bytes();
  for (std::uint32_t host = 0; host < shape().hosts; ++host) bytes += nic(host).endpoint().memory_bytes();
  return bytes;
}

}  // namespace openmrc::netsim
