// Settings of an executor and of the transports below it.
#pragma once

#include <cstdint>

#include "engine/base/ids.hpp"
#include "nic/clock.hpp"

namespace openmrc::collectives {

struct ExecutorSettings {
  std::uint16_t rank = 0, ranks = 1;
  std::uint8_t lanes = 1;  // per peer, one per traffic class: what waits in one does not hold up another
  std::uint32_t recv_depth = 512;
  // A waiting thread drives the device until nothing has come for so long. For an operation without large messages
  // it looks again and again at first, and lets others run in between; else it sleeps until something comes.
  nic::TimeNs spin = 50 * nic::kNsPerMs, poll = 0;
  DomainId domain = 0;  // of the QPs, and of all memory that peers write to
};

}  // namespace openmrc::collectives
