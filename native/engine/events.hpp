// The event stream: every state change that users, plots or dashboards may need leaves the engine as one of these
// records.
#pragma once

#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/time.hpp"
#include "engine/generated/enums.hpp"

namespace openmrc {

struct Event {
  TimePs time = 0;
  EventType type{};
  PortId port = 0;
  std::uint32_t qp = 0;  // 0: not of one QP
  std::uint32_t ev = 0;
  std::uint32_t value = 0;   // meaning depends on the type: state, EV, up, consecutive timeouts, errno
  std::uint32_t detail = 0;  // cause, or whether a port's state was learned
};

// Destination of events of all components. The engine's queue is bounded; events that do not fit are counted.
class EventSink {
 public:
  virtual void emit(const Event& event) = 0;

 protected:
  ~EventSink() = default;
};

}  // namespace openmrc
