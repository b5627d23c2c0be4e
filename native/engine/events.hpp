// The one event stream: every state change a person, a plot or a dashboard can ask for leaves the engine as one of these.
#pragma once

#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/time.hpp"

namespace openmrc {

enum class EventType : std::uint8_t {
  kQpState = 0,       // value = new QpState, detail = QpErrorCause
  kEvState = 1,       // ev, port; value = new EvState, detail = EvCause
  kEvReplaced = 2,    // ev left the active set; value = the EV that took its place
  kPortState = 3,     // value = 1 up, 0 down; detail = 0 local, 1 learned from the peer
  kRetryTimeout = 4,  // value = consecutive timeouts so far
  kCqOverrun = 5,
  kPortRefused = 6,  // by the driver: the operating system refused to send or receive; value = errno
  kPlaneState = 7,   // port; value = 1 answers, 0 silent: packets get no answer while those of other planes do
  kCount,
};

struct Event {
  TimePs time = 0;
  EventType type{};
  PortId port = 0;
  std::uint32_t qp = 0;  // 0: not of one QP
  std::uint32_t ev = 0;
  std::uint32_t value = 0;
  std::uint32_t detail = 0;
};

// Where components put events. The engine's queue is bounded; what does not fit is counted.
class EventSink {
 public:
  virtual void emit(const Event& event) = 0;

 protected:
  ~EventSink() = default;
};

}  // namespace openmrc
