// openmrc._native.simulate: a simulated cluster. Settings and graphs go in, columns of numbers come out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
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

template <class T>
nb::object column(std::vector<T> values, std::size_t rows = 0, std::size_t columns = 0) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns > 0) return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), {rows, columns}, owner));
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), {kept->size()}, owner));
}

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
  nb::dict out;
  out["started_ps"] = column(work.started);
  out["received_ps"] = column(work.received);
  out["completed_ps"] = column(work.completed);
  out["failed"] = column(work.failed);
  return out;
}

nb::dict PySimulation::links(std::uint32_t plane, std::uint32_t kind) {
  Simulation& simulation = running();
  const ClosShape& shape = simulation.shape();
  if (plane >= shape.planes || kind >= kLinkKinds) raise_value_error("no such plane or kind of link");
  const auto link_kind = static_cast<LinkKind>(kind);
  const LinkId first = shape.first(link_kind);
  const std::uint32_t count = shape.count(link_kind);
  constexpr const char* kNames[] = {"packets",     "bytes",
                                    "marks",       "trims",
                                    "drop_queue",  "drop_control_queue",
                                    "drop_down",   "drop_blackhole",
                                    "drop_loss",   "queue_peak_bytes",
                                    "queue_bytes", "pauses",
                                    "paused_ps"};
  std::vector<std::vector<std::uint64_t>> columns(std::size(kNames), std::vector<std::uint64_t>(count));
  PlaneModel& model = simulation.fabric().plane(plane);
  for (std::uint32_t i = 0; i < count; ++i) {
    LinkCounters& c = model.counters(first + i);
    std::uint64_t packets = c.packets, bytes = c.bytes;
    if (link_kind == LinkKind::kNicUp) {  // the NIC replaces the uplink's port
      const PortTraffic& traffic = simulation.nic(i).traffic()[plane];
      packets = traffic.tx_packets;
      bytes = traffic.tx_bytes;
    }
    const PauseCounters pauses = model.pause_counters(simulation.now(), first + i);
    const auto drops = [&](DropCause cause) { return c.drops[static_cast<std::size_t>(cause)]; };
    const std::uint64_t values[] = {packets,
                                    bytes,
                                    c.marks,
                                    c.trims,
                                    drops(DropCause::kQueueFull),
                                    drops(DropCause::kControlQueueFull),
                                    drops(DropCause::kDown),
                                    drops(DropCause::kBlackhole),
                                    drops(DropCause::kLoss),
                                    model.queue_peak_bytes(first + i),
                                    model.queue_bytes(simulation.now(), first + i),
                                    pauses.pauses,
                                    static_cast<std::uint64_t>(pauses.paused)};
    for (std::size_t k = 0; k < columns.size(); ++k) columns[k][i] = values[k];
    c.queue_peak = 0;
  }
  nb::dict out;
  for (std::size_t k = 0; k < columns.size(); ++k) out[kNames[k]] = column(std::move(columns[k]));
  return out;
}

nb::dict PySimulation::hosts() {
  Simulation& simulation = running();
  const ClosShape& shape = simulation.shape();
  const std::size_t cells = std::size_t{shape.hosts} * shape.planes;
  std::vector<std::uint64_t> tx_bytes(cells), rx_bytes(cells), tx_packets(cells), rx_packets(cells);
  std::vector<std::uint64_t> goodput(shape.hosts);
  for (std::uint32_t host = 0; host < shape.hosts; ++host) {
    const auto traffic = simulation.nic(host).traffic();
    for (std::uint32_t plane = 0; plane < shape.planes; ++plane) {
      const std::size_t cell = std::size_t{host} * shape.planes + plane;
      tx_bytes[cell] = traffic[plane].tx_bytes;
      rx_bytes[cell] = traffic[plane].rx_bytes;
      tx_packets[cell] = traffic[plane].tx_packets;
      rx_packets[cell] = traffic[plane].rx_packets;
    }
  }
  for (const ConnectionPair& pair : simulation.connections()) {
    goodput[pair.a] += simulation.nic(pair.a).endpoint().stats(pair.index_a).received_bytes;
    goodput[pair.b] += simulation.nic(pair.b).endpoint().stats(pair.index_b).received_bytes;
  }
  nb::dict out;
  out["tx_bytes"] = column(std::move(tx_bytes), shape.hosts, shape.planes);
  out["rx_bytes"] = column(std::move(rx_bytes), shape.hosts, shape.planes);
  out["tx_packets"] = column(std::move(tx_packets), shape.hosts, shape.planes);
  out["rx_packets"] = column(std::move(rx_packets), shape.hosts, shape.planes);
  out["goodput_bytes"] = column(std::move(goodput));
  return out;
}

nb::dict PySimulation::connections() {
  Simulation& simulation = running();
  constexpr const char* kNames[] = {"sent_packets", "sent_bytes",   "resent_packets", "received_bytes",
                                    "duplicates",   "marks",        "trims",          "losses",
                                    "timeouts",     "window_bytes", "rate_bps",       "smoothed_rtt_ps"};
  constexpr std::size_t kValues = std::size(kNames);
  const auto& pairs = simulation.connections();
  std::vector<std::vector<std::uint64_t>> columns(2 * kValues, std::vector<std::uint64_t>(pairs.size()));
  std::vector<std::uint32_t> a(pairs.size()), b(pairs.size()), lane(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    a[i] = pairs[i].a;
    b[i] = pairs[i].b;
    lane[i] = pairs[i].lane;
    const ConnectionStats ends[] = {simulation.nic(a[i]).endpoint().stats(pairs[i].index_a),
                                    simulation.nic(b[i]).endpoint().stats(pairs[i].index_b)};
    for (std::size_t way = 0; way < 2; ++way) {  // the sender's view, and the bytes that the other end received
      const ConnectionStats& s = ends[way];
      const ConnectionStats& r = ends[1 - way];
      const std::uint64_t values[] = {s.sent_packets,   s.sent_bytes, s.resent_packets,
                                      r.received_bytes, r.duplicates, s.marks,
                                      s.trims,          s.losses,     s.timeouts,
                                      s.window_bytes,   s.rate_bps,   static_cast<std::uint64_t>(s.smoothed_rtt)};
      for (std::size_t k = 0; k < kValues; ++k) columns[way * kValues + k][i] = values[k];
    }
  }
  nb::dict out;
  out["a"] = column(std::move(a));
  out["b"] = column(std::move(b));
  out["lane"] = column(std::move(lane));
  for (std::size_t k = 0; k < 2 * kValues; ++k) {
    out[(std::string(k < kValues ? "ab_" : "ba_") + kNames[k % kValues]).c_str()] = column(std::move(columns[k]));
  }
  return out;
}

nb::dict PySimulation::path_events() {
  Simulation& simulation = running();
  std::vector<std::int64_t> time;
  std::vector<std::uint32_t> host, connection, ev, replacement;
  std::vector<std::uint16_t> t0_uplink, t1_uplink;
  std::vector<std::uint8_t> port, state, cause;
  for (std::uint32_t h = 0; h < simulation.shape().hosts; ++h) {
    PathEvent event;
    while (simulation.nic(h).endpoint().poll_path_event(event)) {
      const Route route = route_of(simulation.shape(), h, h, event.ev);
      time.push_back(event.time);
      host.push_back(h);
      connection.push_back(event.connection);
      ev.push_back(event.ev);
      port.push_back(event.port);
      state.push_back(event.state);
      cause.push_back(event.cause);
      replacement.push_back(event.replacement);
      t0_uplink.push_back(route.t0_uplink);
      t1_uplink.push_back(route.t1_uplink);
    }
  }
  nb::dict out;
  out["time_ps"] = column(std::move(time));
  out["host"] = column(std::move(host));
  out["connection"] = column(std::move(connection));
  out["ev"] = column(std::move(ev));
  out["port"] = column(std::move(port));
  out["state"] = column(std::move(state));
  out["cause"] = column(std::move(cause));
  out["replacement"] = column(std::move(replacement));
  out["t0_uplink"] = column(std::move(t0_uplink));
  out["t1_uplink"] = column(std::move(t1_uplink));
  return out;
}

nb::dict PySimulation::counters() {
  Simulation& simulation = running();
  std::uint64_t corrupted = 0;
  for (std::uint32_t host = 0; host < simulation.shape().hosts; ++host) corrupted += simulation.nic(host).corrupted();
  nb::dict out;
  out["data_packets"] = simulation.data_packets();
  out["events"] = simulation.events();
  out["windows"] = simulation.windows();
  out["ops_finished"] = simulation.finished();
  out["ops_failed"] = simulation.failed();
  out["corrupted"] = corrupted;
  return out;
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
      .def("op_times", &PySimulation::op_times)
      .def("links", &PySimulation::links, "plane"_a, "kind"_a)
      .def("hosts", &PySimulation::hosts)
      .def("connections", &PySimulation::connections)
      .def("path_events", &PySimulation::path_events)
      .def("counters", &PySimulation::counters)
      .def("trace", &PySimulation::trace)
      .def("memory_bytes", &PySimulation::memory_bytes);
}

}  // namespace openmrc::bindings
