// DCTCP (RFC 8257) over a TCP with selective acknowledgements, as the baseline: one connection is one hashed path.
// Connections are established from the start. Simplified: acknowledgements are always separate packets, even if data
// flows back; no pacing, no slow start after idleness, no undo of a false recovery.
#pragma once

#include <cstdint>
#include <memory>

#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

// The TCP stack of host number `host`. `surroundings` must outlive it.
std::unique_ptr<Endpoint> make_dctcp_endpoint(const Surroundings& surroundings, const DctcpSettings& settings,
                                              std::uint32_t host);

}  // namespace openmrc::netsim
