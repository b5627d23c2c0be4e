// openmrc._native.simulate: a simulated cluster. Settings and graphs go in, columns of numbers come out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/generated/results.hpp"
#include "bindings/generated/simulator.hpp"
#include "bindings/netsim_config.hpp"
#include "bindings/simulate_config.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace openmrc::bindings {
namespace {

using namespace netsim;

constexpr std::uint64_t kSendBytesMax = std::uint64_t{256} << 30;  // capacity of a send queue, in the largest messages
constexpr TimePs kTimeMax = TimePs{1} << 61;                       // sums of times stay within 64 bits

template <class T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class PySimulation {
 public:
  explicit PySimulation(const SimulationSettings& settings)
      : config_(simulation_config_of(settings)),
        transport_(transport_of(settings)),
        lanes_(settings.lanes),
        doorbell_(settings.doorbell) {}

  void add_ops(Input<std::uint8_t> kind, Input<std::uint32_t> host, Input<std::uint32_t> peer,
               Input<std::uint64_t> bytes, Input<std::int64_t> duration, Input<std::int64_t> earliest,
               Input<std::uint32_t> dep_op, Input<std::uint32_t> dep_on, Input<std::uint8_t> dep_event);
  std::uint32_t add_fault(const nb::dict& from);

  bool run_until(TimePs until) {
    Simulation& simulation = running();
    const nb::gil_scoped_release release;
    return simulation.run_until(until);
  }
  TimePs now() { return simulation_ == nullptr ? 0 : simulation_->now(); }
  bool finished() { return running().all_done(); }
  std::string verdict();
  nb::dict op_times();
  nb::dict links(std::uint32_t plane, std::uint32_t kind);
  nb::dict ports();
  nb::dict hosts();
  nb::dict connections();
  nb::dict path_events();
  nb::dict counters();
  std::uint64_t trace() { return running().trace(); }
  std::uint64_t memory_bytes() { return running().memory_bytes(); }

 private:
  Simulation& running() {
    if (simulation_ == nullptr) raise_value_error("add_ops comes first");
    return *simulation_;
  }
  void check_ops(const std::vector<Op>& ops, const std::vector<Dependency>& dependencies) const;

  SimulationConfig config_;
  EndpointFactory transport_;
  std::uint16_t lanes_;
  TimePs doorbell_;
  std::unique_ptr<Simulation> simulation_;
};

void PySimulation::check_ops(const std::vector<Op>& ops, const std::vector<Dependency>& dependencies) const {
  const std::uint32_t hosts = config_.fabric.shape.hosts;
  for (const Op& op : ops) {
    if (op.host >= hosts || op.peer >= hosts || (op.kind == OpKind::kSend && op.host == op.peer)) {
      raise_value_error("an op names a host that does not exist, or sends to itself");
    }
    if (op.bytes > kSendBytesMax) raise_value_error("a send has at most 256 GiB");
    if (op.duration < 0 || op.earliest < 0 || op.duration > kTimeMax || op.earliest > kTimeMax) {
      raise_value_error("times are 0 to 26 days");
    }
  }
  for (const Dependency& dependency : dependencies) {
    if (dependency.op >= ops.size() || dependency.on >= ops.size()) raise_value_error("a dependency names no op");
    const Op& on = ops[dependency.on];
    const bool received = dependency.event == OpEvent::kReceived;
    if (received && on.kind != OpKind::kSend) raise_value_error("only sends are received");
    if ((received ? on.peer : on.host) != ops[dependency.op].host) {
      raise_value_error("an op may only wait for what happens at its own host");
    }
  }
}

void PySimulation::add_ops(Input<std::uint8_t> kind, Input<std::uint32_t> host, Input<std::uint32_t> peer,
                           Input<std::uint64_t> bytes, Input<std::int64_t> duration, Input<std::int64_t> earliest,
                           Input<std::uint32_t> dep_op, Input<std::uint32_t> dep_on, Input<std::uint8_t> dep_event) {
  if (simulation_ != nullptr) raise_value_error("add_ops comes once");
  const std::size_t count = kind.size();
  if (count == 0 || count >= std::numeric_limits<std::uint32_t>::max()) raise_value_error("a run needs ops");
  if (host.size() != count || peer.size() != count || bytes.size() != count || duration.size() != count ||
      earliest.size() != count || dep_on.size() != dep_op.size() || dep_event.size() != dep_op.size()) {
    raise_value_error("columns of different lengths");
  }
  std::vector<Op> ops(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (kind(i) > 1) raise_value_error("kind: 0 send, 1 compute");
    ops[i] = {static_cast<OpKind>(kind(i)), host(i), peer(i), bytes(i), duration(i), earliest(i)};
    if (ops[i].kind == OpKind::kCompute) ops[i].peer = ops[i].host;
  }
  std::vector<Dependency> dependencies(dep_op.size());
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    if (dep_event(i) > 1) raise_value_error("dep_event: 0 completed, 1 received");
    dependencies[i] = {dep_op(i), dep_on(i), static_cast<OpEvent>(dep_event(i))};
  }
  check_ops(ops, dependencies);
  const nb::gil_scoped_release release;
  Workload work(std::move(ops), dependencies, config_.fabric.shape.hosts, lanes_, config_.surroundings.payload_mtu);
  work.doorbell = doorbell_;
  simulation_ = std::make_unique<Simulation>(config_, std::move(work), transport_);
}

std::uint32_t PySimulation::add_fault(const nb::dict& from) {
  Simulation& simulation = running();
  const FaultSpec spec = fault_from(from);
  if (!exists(spec.target, simulation.shape())) raise_value_error("the fabric has no such place");
  if (spec.start < simulation.now()) raise_value_error("start_ps: not before now_ps");
  return simulation.add_fault(spec);
}

std::string PySimulation::verdict() {
  Simulation& simulation = running();
  if (simulation.all_done()) return "done";
  if (simulation.failed() > 0) return "failed";
  return simulation.stalled() ? "stalled" : "running";
}

nb::dict PySimulation::op_times() {
  const Workload& work = running().workload();
  OpTimeColumns columns;
  for (std::size_t op = 0; op < work.ops.size(); ++op) {
    columns.add({.started = work.started[op],
                 .received = work.received[op],
                 .completed = work.completed[op],
                 .failed = work.failed[op]});
  }
  return columns.take();
}

nb::dict PySimulation::links(std::uint32_t plane, std::uint32_t kind) {
  Simulation& simulation = running();
  const ClosShape& shape = simulation.shape();
  if (plane >= shape.planes || kind >= kLinkKinds) raise_value_error("no such plane or kind of link");
  const auto link_kind = static_cast<LinkKind>(kind);
  const LinkId first = shape.first(link_kind);
  LinkColumns columns;
  PlaneModel& model = simulation.fabric().plane(plane);
  for (std::uint32_t i = 0; i < shape.count(link_kind); ++i) {
    LinkCounters& c = model.counters(first + i);
    const PauseCounters pauses = model.pause_counters(simulation.now(), first + i);
    const auto drops = [&](DropCause cause) { return c.drops[static_cast<std::size_t>(cause)]; };
    LinkRow row{.packets = c.packets,
                .bytes = c.bytes,
                .marks = c.marks,
                .trims = c.trims,
                .drop_queue = drops(DropCause::kQueueFull),
                .drop_control_queue = drops(DropCause::kControlQueueFull),
                .drop_down = drops(DropCause::kDown),
                .drop_blackhole = drops(DropCause::kBlackhole),
                .drop_loss = drops(DropCause::kLoss),
                .queue_peak_bytes = model.queue_peak_bytes(first + i),
                .queue_bytes = model.queue_bytes(simulation.now(), first + i),
                .pauses = pauses.pauses,
                .paused = pauses.paused};
    if (link_kind == LinkKind::kNicUp) {  // the NIC replaces the uplink's port
      const PortTraffic& traffic = simulation.nic(i).traffic()[plane];
      row.packets = traffic.tx_packets;
      row.bytes = traffic.tx_bytes;
    }
    columns.add(row);
    c.queue_peak = 0;
  }
  return columns.take();
}

nb::dict PySimulation::ports() {
  Simulation& simulation = running();
  PortColumns columns;
  for (std::uint32_t host = 0; host < simulation.shape().hosts; ++host) {
    for (const PortTraffic& port : simulation.nic(host).traffic()) {
      columns.add({.tx_bytes = port.tx_bytes,
                   .rx_bytes = port.rx_bytes,
                   .tx_packets = port.tx_packets,
                   .rx_packets = port.rx_packets});
    }
  }
  return columns.take();
}

nb::dict PySimulation::hosts() {
  Simulation& simulation = running();
  std::vector<HostRow> rows(simulation.shape().hosts);
  for (const ConnectionPair& pair : simulation.connections()) {
    rows[pair.a].goodput_bytes += simulation.nic(pair.a).endpoint().stats(pair.index_a).received_bytes;
    rows[pair.b].goodput_bytes += simulation.nic(pair.b).endpoint().stats(pair.index_b).received_bytes;
  }
  HostColumns columns;
  for (const HostRow& row : rows) columns.add(row);
  return columns.take();
}

// The sender's view of one direction, and the receiver's of what arrived.
ConnectionRow connection_row(std::uint32_t host, std::uint32_t peer, std::uint16_t lane, const ConnectionStats& sender,
                             const ConnectionStats& receiver) {
  return {.host = host,
          .peer = peer,
          .lane = lane,
          .sent_packets = sender.sent_packets,
          .sent_bytes = sender.sent_bytes,
          .retransmitted_packets = sender.retransmitted_packets,
          .received_bytes = receiver.received_bytes,
          .duplicate_packets = receiver.duplicate_packets,
          .marks = sender.marks,
          .trims = sender.trims,
          .losses_inferred = sender.losses_inferred,
          .timeouts = sender.timeouts,
          .window_bytes = sender.window_bytes,
          .rate_bps = sender.rate_bps,
          .smoothed_rtt = sender.smoothed_rtt};
}

nb::dict PySimulation::connections() {
  Simulation& simulation = running();
  ConnectionColumns columns;
  for (const ConnectionPair& pair : simulation.connections()) {
    const ConnectionStats a = simulation.nic(pair.a).endpoint().stats(pair.index_a);
    const ConnectionStats b = simulation.nic(pair.b).endpoint().stats(pair.index_b);
    columns.add(connection_row(pair.a, pair.b, pair.lane, a, b));
    columns.add(connection_row(pair.b, pair.a, pair.lane, b, a));
  }
  return columns.take();
}

nb::dict PySimulation::path_events() {
  Simulation& simulation = running();
  PathEventColumns columns;
  for (std::uint32_t host = 0; host < simulation.shape().hosts; ++host) {
    PathEvent event;
    while (simulation.nic(host).endpoint().poll_path_event(event)) {
      const Route route = route_of(simulation.shape(), host, host, event.ev);
      columns.add({.time = event.time,
                   .host = host,
                   .connection = event.connection,
                   .ev = event.ev,
                   .port = event.port,
                   .state = event.state,
                   .cause = event.cause,
                   .replacement = event.replacement,
                   .t0_uplink = route.t0_uplink,
                   .t1_uplink = route.t1_uplink});
    }
  }
  return columns.take();
}

nb::dict PySimulation::counters() {
  Simulation& simulation = running();
  SimulationCounters counters{.data_packets = simulation.data_packets(),
                              .events = simulation.events(),
                              .windows = simulation.windows(),
                              .ops_finished = simulation.finished(),
                              .ops_failed = simulation.failed()};
  for (std::uint32_t host = 0; host < simulation.shape().hosts; ++host) {
    counters.corrupted += simulation.nic(host).corrupted();
  }
  return to_dict(counters);
}

}  // namespace

void bind_simulate(nb::module_& m) {
  nb::module_ simulate = m.def_submodule("simulate", "Simulated clusters.");
  nb::class_<PySimulation>(simulate, "Simulation")
      .def(
          "__init__",
          [](PySimulation* self, const nb::dict& from) {
            SimulationSettings settings;
            read(from, settings);
            new (self) PySimulation(settings);
          },
          "settings"_a)
      .def("add_ops", &PySimulation::add_ops, "kind"_a, "host"_a, "peer"_a, "bytes"_a, "duration_ps"_a, "earliest_ps"_a,
           "dep_op"_a, "dep_on"_a, "dep_event"_a)
      .def("add_fault", &PySimulation::add_fault, "fault"_a)
      .def("run_until", &PySimulation::run_until, "until_ps"_a)
      .def_prop_ro("now_ps", &PySimulation::now)
      .def_prop_ro("finished", &PySimulation::finished)
      .def_prop_ro("verdict", &PySimulation::verdict)
      .def("op_times", &PySimulation::op_times,
           nb::sig("def op_times(self) -> openmrc.sim.result_schema.OpTimeColumns"))
      .def("links", &PySimulation::links, "plane"_a, "kind"_a,
           nb::sig("def links(self, plane: int, kind: int) -> openmrc.sim.result_schema.LinkColumns"))
      .def("ports", &PySimulation::ports, nb::sig("def ports(self) -> openmrc.sim.result_schema.PortColumns"))
      .def("hosts", &PySimulation::hosts, nb::sig("def hosts(self) -> openmrc.sim.result_schema.HostColumns"))
      .def("connections", &PySimulation::connections,
           nb::sig("def connections(self) -> openmrc.sim.result_schema.ConnectionColumns"))
      .def("path_events", &PySimulation::path_events,
           nb::sig("def path_events(self) -> openmrc.sim.result_schema.PathEventColumns"))
      .def("counters", &PySimulation::counters,
           nb::sig("def counters(self) -> openmrc.sim.result_schema.SimulationCounters"))
      .def("trace", &PySimulation::trace)
      .def("memory_bytes", &PySimulation::memory_bytes);
}

}  // namespace openmrc::bindings
