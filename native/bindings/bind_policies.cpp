// openmrc._native.policies: registration of policies by the addresses of their functions, and the cost of a selector.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "engine/cc/custom_controller.hpp"
#include "engine/paths/custom_selector.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace openmrc::bindings {
namespace {

using Address = std::uintptr_t;  // of a C function; 0: none

template <typename Function>
Function function_at(Address address) {
  return reinterpret_cast<Function>(address);
}

RegisterResult add_selector(const std::string& name, Address init, Address next, Address on_feedback,
                            std::uint32_t state_words) {
  return register_ev_selector(name, {.init = function_at<CustomSelectorInit>(init),
                                     .next = function_at<CustomSelectorNext>(next),
                                     .on_feedback = function_at<CustomSelectorFeedback>(on_feedback),
                                     .state_words = state_words});
}

RegisterResult add_controller(const std::string& name, Address init, Address on_sent, Address on_ack, Address on_trim,
                              Address on_loss, Address window_bytes, std::uint32_t state_words) {
  return register_controller(name, {.init = function_at<CustomControllerInit>(init),
                                    .on_sent = function_at<CustomControllerSent>(on_sent),
                                    .on_ack = function_at<CustomControllerAck>(on_ack),
                                    .on_trim = function_at<CustomControllerTrim>(on_trim),
                                    .on_loss = function_at<CustomControllerLoss>(on_loss),
                                    .window_bytes = function_at<CustomControllerWindow>(window_bytes),
                                    .state_words = state_words});
}

// Runs `packets` packets through an EV set of `ports` x `evs_per_port` paths, with `in_flight` packets in flight at any
// time. Packets on one of the first `marking` EVs of a port come back marked.
nb::dict run_selector(const std::string& name, std::uint64_t packets, std::uint16_t ports, std::uint16_t evs_per_port,
                      std::uint16_t marking, std::uint16_t in_flight, std::uint64_t seed) {
  auto selector = make_ev_selector(name, Rng::for_component(seed, "ev_selector"));
  if (selector == nullptr) throw std::invalid_argument("name: unknown selector '" + name + "'");
  if (ports == 0 || ports > kPortCountMax || evs_per_port == 0 || ports * evs_per_port > kEvCountMax ||
      in_flight == 0) {
    throw std::invalid_argument("ports, evs_per_port: 1 to 16 ports and 1024 EVs at most; in_flight: at least 1");
  }
  std::vector<Ev> universe;
  for (std::uint32_t i = 0; i < std::uint32_t{ports} * evs_per_port; ++i) {
    universe.push_back({.value = i / ports, .port = static_cast<PortId>(i % ports)});
    universe.back().value |= (i % ports) << 16;
  }
  const EvSetConfig config{.active_per_port = evs_per_port};
  EvSet set(universe, config, std::move(selector), Rng::for_component(seed, "ev_set"), nullptr, 1);
  std::vector<EvIndex> flying(in_flight, kNoEv);
  std::uint64_t marked = 0;
  TimePs now = 0;
  const auto started = std::chrono::steady_clock::now();
  {
    const nb::gil_scoped_release release;
    for (std::uint64_t i = 0; i < packets; ++i) {
      now += 10 * kPsPerNs;
      EvIndex& ev = flying[i % in_flight];
      if (ev != kNoEv) {
        const bool mark = (set.ev(ev).value & 0xFFFF) < marking;
        marked += mark ? 1 : 0;
        set.on_feedback(now, ev, mark ? EvFeedback::kSkipOnce : EvFeedback::kDelivered);
      }
      ev = set.next(now, ~PortMask{0});
    }
  }
  const auto elapsed = std::chrono::steady_clock::now() - started;
  nb::dict out;
  out["elapsed_ns"] = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  out["marked"] = marked;
  return out;
}

}  // namespace

void bind_policies(nb::module_& m) {
  nb::module_ policies = m.def_submodule("policies", "EV selectors and congestion controllers from outside.");
  policies.attr("NAME_BYTES_MAX") = nb::int_(kPolicyNameBytesMax);
  policies.attr("STATE_WORDS_MAX") = nb::int_(kPolicyStateWordsMax);
  policies.attr("ADDED_MAX") = nb::int_(kAddedPoliciesMax);
  nb::enum_<RegisterResult>(policies, "RegisterResult")
      .value("OK", RegisterResult::kOk)
      .value("NAME_INVALID", RegisterResult::kNameInvalid)
      .value("NAME_TAKEN", RegisterResult::kNameTaken)
      .value("FULL", RegisterResult::kFull)
      .value("FUNCTIONS_INVALID", RegisterResult::kFunctionsInvalid);
  policies.def("register_ev_selector", &add_selector, "name"_a, nb::kw_only(), "init"_a, "next"_a, "on_feedback"_a,
               "state_words"_a);
  policies.def("register_controller", &add_controller, "name"_a, nb::kw_only(), "init"_a, "on_sent"_a, "on_ack"_a,
               "on_trim"_a, "on_loss"_a, "window_bytes"_a, "state_words"_a);
  policies.def("run_selector", &run_selector, "name"_a, nb::kw_only(), "packets"_a, "ports"_a, "evs_per_port"_a,
               "marking"_a, "in_flight"_a, "seed"_a);
}

}  // namespace openmrc::bindings
