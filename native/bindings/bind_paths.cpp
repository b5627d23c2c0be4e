// openmrc._native.paths and openmrc._native.cc: EV sets and congestion controllers without an engine, for models and
// tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/generated/statistics.hpp"
#include "engine/cc/controller.hpp"
#include "engine/paths/ev_set.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace openmrc::bindings {
namespace {

// An EvSet with its events. Checks that time does not go backwards and that indexes are in range: the engine guarantees
// both, a test program does not.
class PyEvSet {
 public:
  PyEvSet(const std::vector<std::pair<std::uint32_t, PortId>>& universe, const EvSetConfig& config,
          const std::string& selector, std::uint64_t seed, std::uint32_t qp)
      : set_(checked(universe), config, selector_named(selector, seed), Rng::for_component(seed, "ev_set"), &log_, qp) {
  }

  EvIndex next(TimePs now, PortMask free_ports, EvIndex avoid) {
    return set_.next(forwards(now), free_ports, avoid == kNoEv ? avoid : in_range(avoid));
  }
  void on_feedback(TimePs now, EvIndex ev, std::uint8_t feedback) {
    if (feedback > static_cast<std::uint8_t>(EvFeedback::kTimeout))
      throw std::invalid_argument("feedback: an EvFeedback");
    set_.on_feedback(forwards(now), in_range(ev), static_cast<EvFeedback>(feedback));
  }
  EvIndex next_probe(TimePs now) { return set_.next_probe(forwards(now)); }
  void on_probe_answer(TimePs now, EvIndex ev, bool marked) {
    set_.on_probe_answer(forwards(now), in_range(ev), marked);
  }
  void on_probe_timeout(TimePs now, EvIndex ev) { set_.on_probe_timeout(forwards(now), in_range(ev)); }
  void set_usable_ports(TimePs now, PortMask ports) { set_.set_usable_ports(forwards(now), ports); }
  bool deny(TimePs now, std::uint32_t value) { return set_.deny(forwards(now), value); }
  bool enable(TimePs now, std::uint32_t value) { return set_.enable(forwards(now), value); }

  std::vector<std::tuple<TimePs, int, std::uint32_t, std::uint32_t, std::uint32_t>> take_events() {
    std::vector<std::tuple<TimePs, int, std::uint32_t, std::uint32_t, std::uint32_t>> taken;
    for (const Event& e : log_.events) taken.emplace_back(e.time, static_cast<int>(e.type), e.ev, e.value, e.detail);
    log_.events.clear();
    return taken;
  }

  unsigned state(EvIndex ev) const { return static_cast<unsigned>(set_.state(in_range(ev))); }
  bool is_active(EvIndex ev) const { return set_.is_active(in_range(ev)); }
  std::pair<std::uint32_t, PortId> ev(EvIndex index) const {
    const Ev& found = set_.ev(in_range(index));
    return {found.value, found.port};
  }
  const EvSet& set() const { return set_; }

 private:
  struct Log final : EventSink {
    void emit(const Event& event) override { events.push_back(event); }
    std::vector<Event> events;
  };

  static std::vector<Ev> checked(const std::vector<std::pair<std::uint32_t, PortId>>& universe) {
    std::vector<Ev> evs;
    for (const auto& [value, port] : universe) evs.push_back({value, port});
    if (!EvSet::valid_universe(evs)) {
      throw std::invalid_argument("universe: at most 1024 EVs, ports 0..15, values that differ from each other");
    }
    return evs;
  }

  static std::unique_ptr<EvSelector> selector_named(const std::string& name, std::uint64_t seed) {
    auto selector = make_ev_selector(name, Rng::for_component(seed, "ev_selector"));
    if (selector == nullptr) throw std::invalid_argument("selector: unknown name '" + name + "'");
    return selector;
  }

  EvIndex in_range(EvIndex ev) const {
    if (ev >= set_.size()) throw std::out_of_range("ev: no such index");
    return ev;
  }

  TimePs forwards(TimePs now) {
    if (now < now_) throw std::invalid_argument("now_ps: must not go backwards");
    return now_ = now;
  }

  Log log_;
  EvSet set_;
  TimePs now_ = 0;
};

std::vector<std::string> strings(std::span<const std::string_view> names) { return {names.begin(), names.end()}; }

void bind_ev_set(nb::module_& m) {
  m.attr("NO_EV") = nb::int_(kNoEv);
  m.attr("NEVER") = nb::int_(kNever);
  m.def("selector_names", [] { return strings(ev_selector_names()); });
  nb::class_<PyEvSet>(m, "EvSet")
      .def(
          "__init__",
          [](PyEvSet* self, const std::vector<std::pair<std::uint32_t, PortId>>& universe,
             std::uint16_t active_per_port, std::uint16_t min_active, std::uint8_t probe_successes,
             TimePs probe_interval_ps, TimePs skip_lapse_ps, bool marked_probe_revives_to_good, bool half_marked_rule,
             const std::string& selector, std::uint64_t seed, std::uint32_t qp) {
            const EvSetConfig config{.active_per_port = active_per_port,
                                     .min_active = min_active,
                                     .probe_successes = probe_successes,
                                     .probe_interval = probe_interval_ps,
                                     .skip_lapse = skip_lapse_ps,
                                     .marked_probe_revives_to_good = marked_probe_revives_to_good,
                                     .half_marked_rule = half_marked_rule};
            new (self) PyEvSet(universe, config, selector, seed, qp);
          },
          "universe"_a, nb::kw_only(), "active_per_port"_a = 32, "min_active"_a = 1, "probe_successes"_a = 3,
          "probe_interval_ps"_a = 10 * kPsPerMs, "skip_lapse_ps"_a = 0, "marked_probe_revives_to_good"_a = false,
          "half_marked_rule"_a = false, "selector"_a = "mrc", "seed"_a = 0, "qp"_a = 0)
      .def("next", &PyEvSet::next, "now_ps"_a, "free_ports"_a, "avoid"_a = kNoEv)
      .def("on_feedback", &PyEvSet::on_feedback, "now_ps"_a, "ev"_a, "feedback"_a)
      .def("next_probe", &PyEvSet::next_probe, "now_ps"_a)
      .def("next_probe_time", [](const PyEvSet& s) { return s.set().next_probe_time(); })
      .def("on_probe_answer", &PyEvSet::on_probe_answer, "now_ps"_a, "ev"_a, "marked"_a)
      .def("on_probe_timeout", &PyEvSet::on_probe_timeout, "now_ps"_a, "ev"_a)
      .def("set_usable_ports", &PyEvSet::set_usable_ports, "now_ps"_a, "ports"_a)
      .def("deny", &PyEvSet::deny, "now_ps"_a, "ev_value"_a)
      .def("enable", &PyEvSet::enable, "now_ps"_a, "ev_value"_a)
      .def(
          "find", [](const PyEvSet& s, std::uint32_t value) { return s.set().find(value); }, "ev_value"_a)
      .def("ev", &PyEvSet::ev, "ev"_a)
      .def("state", &PyEvSet::state, "ev"_a)
      .def("is_active", &PyEvSet::is_active, "ev"_a)
      .def("take_events", &PyEvSet::take_events)
      .def("__len__", [](const PyEvSet& s) { return s.set().size(); })
      .def("active_count", [](const PyEvSet& s) { return s.set().active_count(); })
      .def("position_count", [](const PyEvSet& s) { return s.set().position_count(); })
      .def("memory_bytes", [](const PyEvSet& s) { return s.set().memory_bytes(); })
      .def("stats", [](const PyEvSet& s) { return to_dict(s.set().stats()); });
}

void bind_controllers(nb::module_& m) {
  m.def("controller_names", [] { return strings(controller_names()); });
  m.def(
      "make_controller",
      [](const std::string& name, std::uint32_t mtu_bytes, std::uint64_t link_rate_bps, TimePs base_rtt_ps,
         bool trimming, std::uint64_t max_cwnd_bytes, bool disable_qa) {
        auto controller = make_controller(name, {.mtu_bytes = mtu_bytes,
                                                 .link_rate_bps = link_rate_bps,
                                                 .base_rtt = base_rtt_ps,
                                                 .trimming = trimming,
                                                 .max_cwnd_bytes = max_cwnd_bytes,
                                                 .disable_qa = disable_qa});
        if (controller == nullptr) throw std::invalid_argument("name: unknown controller '" + name + "'");
        return controller;
      },
      "name"_a, nb::kw_only(), "mtu_bytes"_a = 4096, "link_rate_bps"_a = 0, "base_rtt_ps"_a = 0, "trimming"_a = false,
      "max_cwnd_bytes"_a = 0, "disable_qa"_a = false);
  nb::class_<CongestionController>(m, "CongestionController")
      .def("on_sent", &CongestionController::on_sent, "now_ps"_a, "size_bytes"_a)
      .def(
          "on_ack",
          [](CongestionController& c, TimePs now, std::uint64_t new_bytes, std::uint64_t in_flight_bytes, TimePs rtt,
             bool marked, std::uint8_t pen, bool restore) {
            c.on_ack(now, {.new_bytes = new_bytes,
                           .in_flight_bytes = in_flight_bytes,
                           .rtt = rtt,
                           .marked = marked,
                           .rcv_cwnd_pen = pen,
                           .restore_cwnd = restore});
          },
          "now_ps"_a, "new_bytes"_a, "in_flight_bytes"_a, "rtt_ps"_a = 0, "marked"_a = false, "rcv_cwnd_pen"_a = 0,
          "restore_cwnd"_a = false)
      .def("on_trim", &CongestionController::on_trim, "now_ps"_a, "size_bytes"_a, "in_flight_bytes"_a,
           "last_hop"_a = false)
      .def("on_loss", &CongestionController::on_loss, "now_ps"_a, "size_bytes"_a, "in_flight_bytes"_a)
      .def("window_bytes", &CongestionController::window_bytes)
      .def("stats", [](const CongestionController& c) { return to_dict(c.stats()); });
}

}  // namespace

void bind_paths(nb::module_& m) {
  nb::module_ paths = m.def_submodule("paths", "EV sets and selectors (protocol A.11).");
  bind_ev_set(paths);
  nb::module_ cc = m.def_submodule("cc", "Congestion controllers (protocol A.14).");
  bind_controllers(cc);
}

}  // namespace openmrc::bindings
