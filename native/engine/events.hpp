// The one event stream: every state change a person, a plot or a dashboard can ask for leaves the engine as one of these.
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
  std::uint32_t value = 0;   // what the type says: state, EV, up, consecutive timeouts, errno
  std::uint32_t detail = 0;  // cause, or whether a port's state was learned
};

// Where components put events. The engine's queue is bounded; what does not fit is counted.
class EventSink {
 public:
  virtual void emit(const Event& event) = 0;

 protected:
  ~EventSink() = default;
};

}  // namespace openmrc
