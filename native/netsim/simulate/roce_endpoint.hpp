// RoCEv2 Reliable Connection with RDMA WRITEs, as the baseline: one QP is one hashed path, go-back-N, DCQCN.
#pragma once

#include <cstdint>
#include <memory>

#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

// The RoCEv2 NIC number `host`. `surroundings` must outlive it.
std::unique_ptr<Endpoint> make_roce_endpoint(const Surroundings& surroundings, const RoceSettings& settings,
                                             std::uint32_t host);

}  // namespace openmrc::netsim
