// Written by tools/spec.py from spec/events.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>

#include "engine/events.hpp"

namespace openmrc {

// A QP entered a state.
inline Event qp_state_event(TimePs time, std::uint32_t qp, QpState state, QpErrorCause cause) {
  return {.time = time,
          .type = EventType::kQpState,
          .port = 0,
          .qp = qp,
          .ev = 0,
          .value = static_cast<std::uint32_t>(state),
          .detail = static_cast<std::uint32_t>(cause)};
}

// An EV of a QP entered a state.
inline Event ev_state_event(TimePs time, std::uint32_t qp, PortId port, std::uint32_t ev, EvState state,
                            EvCause cause) {
  return {.time = time,
          .type = EventType::kEvState,
          .port = port,
          .qp = qp,
          .ev = ev,
          .value = static_cast<std::uint32_t>(state),
          .detail = static_cast<std::uint32_t>(cause)};
}

// An EV left the active set of a QP for another one of the same port.
inline Event ev_replaced_event(TimePs time, std::uint32_t qp, PortId port, std::uint32_t ev, std::uint32_t replacement,
                               EvCause cause) {
  return {.time = time,
          .type = EventType::kEvReplaced,
          .port = port,
          .qp = qp,
          .ev = ev,
          .value = replacement,
          .detail = static_cast<std::uint32_t>(cause)};
}

// A port went down or up, here or at a peer.
inline Event port_state_event(TimePs time, PortId port, bool up, bool learned, std::uint32_t qp) {
  return {.time = time,
          .type = EventType::kPortState,
          .port = port,
          .qp = qp,
          .ev = 0,
          .value = static_cast<std::uint32_t>(up),
          .detail = static_cast<std::uint32_t>(learned)};
}

// Packets on one plane get no answer while other planes answer, or do again; where planes are controlled one by one.
inline Event plane_state_event(TimePs time, std::uint32_t qp, PortId port, bool answering) {
  return {.time = time,
          .type = EventType::kPlaneState,
          .port = port,
          .qp = qp,
          .ev = 0,
          .value = static_cast<std::uint32_t>(answering),
          .detail = 0};
}

// The retransmission timer of a QP fired.
inline Event retry_timeout_event(TimePs time, std::uint32_t qp, std::uint32_t consecutive) {
  return {
      .time = time, .type = EventType::kRetryTimeout, .port = 0, .qp = qp, .ev = 0, .value = consecutive, .detail = 0};
}

// A completion found its queue full.
inline Event cq_overrun_event(TimePs time, std::uint32_t qp) {
  return {.time = time, .type = EventType::kCqOverrun, .port = 0, .qp = qp, .ev = 0, .value = 0, .detail = 0};
}

// The first packet of the peer's work reached a QP in RTR: the peer sends already.
inline Event peer_active_event(TimePs time, std::uint32_t qp) {
  return {.time = time, .type = EventType::kPeerActive, .port = 0, .qp = qp, .ev = 0, .value = 0, .detail = 0};
}

// A shared receive queue holds fewer receives than its limit; the limit is then off until it is set again.
inline Event srq_limit_event(TimePs time, std::uint32_t srq, std::uint32_t posted) {
  return {.time = time, .type = EventType::kSrqLimit, .port = 0, .qp = 0, .ev = 0, .value = srq, .detail = posted};
}

// The operating system refuses to send or receive on a port: the first refusal after it last took or gave a packet,
// at most one event per port and second.
inline Event port_refused_event(TimePs time, PortId port, std::uint32_t error) {
  return {.time = time, .type = EventType::kPortRefused, .port = port, .qp = 0, .ev = 0, .value = error, .detail = 0};
}

}  // namespace openmrc
