// Shared fixtures of the EV set tests: universes, an event log, and a set with readable checks.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/paths/ev_set.hpp"

namespace openmrc::test {

struct EventLog final : EventSink {
  void emit(const Event& event) override { events.push_back(event); }
  std::vector<Event> events;
};

// `per_port` EVs on each of `ports` ports; the value encodes port and number: 0x10003 is the fourth EV of port 1.
inline std::vector<Ev> universe_of(std::uint32_t ports, std::uint32_t per_port) {
  std::vector<Ev> universe;
  for (std::uint32_t port = 0; port < ports; ++port) {
    for (std::uint32_t i = 0; i < per_port; ++i) universe.push_back({(port << 16) | i, static_cast<PortId>(port)});
  }
  return universe;
}

inline constexpr PortMask kAllPorts = ~PortMask{0};

struct EvSetFixture {
  explicit EvSetFixture(const std::vector<Ev>& universe, const EvSetConfig& config = {},
                        std::string_view selector = "mrc", std::uint64_t seed = 1)
      : set(universe, config, make_ev_selector(selector, Rng::for_component(seed, "selector")),
            Rng::for_component(seed, "ev_set"), &log, 7) {}

  EvIndex next(PortMask free = kAllPorts, EvIndex avoid = kNoEv) { return set.next(now, free, avoid); }
  void feed(EvIndex ev, EvFeedback feedback) { set.on_feedback(now, ev, feedback); }
  EvState state(EvIndex ev) const { return set.state(ev); }

  // The EVs with (or without) a position, in order of index.
  std::vector<EvIndex> active(bool wanted = true) const {
    std::vector<EvIndex> found;
    for (std::uint32_t i = 0; i < set.size(); ++i) {
      if (set.is_active(static_cast<EvIndex>(i)) == wanted) found.push_back(static_cast<EvIndex>(i));
    }
    return found;
  }

  std::uint32_t active_on(PortId port) const {
    std::uint32_t count = 0;
    for (const EvIndex ev : active()) count += set.ev(ev).port == port ? 1 : 0;
    return count;
  }

  // Answers every due probe of the EV until it is revived; returns the number of answers.
  int revive(EvIndex ev, bool marked = false) {
    for (int answers = 1; answers <= 100; ++answers) {
      now += 10 * kPsPerMs;
      while (set.next_probe(now) != kNoEv) {
      }
      set.on_probe_answer(now, ev, marked);
      if (set.state(ev) != EvState::kAssumedBad) return answers;
    }
    return -1;
  }

  EventLog log;
  EvSet set;
  TimePs now = 0;
};

inline bool is_state_event(const Event& event, std::uint32_t ev_value, EvState state, EvCause cause) {
  return event.type == EventType::kEvState && event.ev == ev_value &&
         event.value == static_cast<std::uint32_t>(state) && event.detail == static_cast<std::uint32_t>(cause);
}

}  // namespace openmrc::test
