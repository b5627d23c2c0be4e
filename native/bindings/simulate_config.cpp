#include "bindings/simulate_config.hpp"

#include <algorithm>

#include "bindings/netsim_config.hpp"
#include "netsim/simulate/dctcp_endpoint.hpp"
#include "netsim/simulate/mrc_endpoint.hpp"
#include "netsim/simulate/roce_endpoint.hpp"

namespace openmrc::bindings {

using namespace netsim;

namespace {

EndpointFactory mrc_of(const MrcSettings& mrc) {
  return [mrc](const Surroundings& surroundings, std::uint32_t host) {
    const auto& watched = mrc.watched;
    const bool watch =
        mrc.path_events && (watched.empty() || std::find(watched.begin(), watched.end(), host) != watched.end());
    return make_mrc_endpoint(surroundings, mrc, host, watch);
  };
}

EndpointFactory roce_of(const RoceSettings& roce) {
  return [roce](const Surroundings& surroundings, std::uint32_t host) {
    return make_roce_endpoint(surroundings, roce, host);
  };
}

EndpointFactory dctcp_of(const DctcpSettings& dctcp) {
  return [dctcp](const Surroundings& surroundings, std::uint32_t host) {
    return make_dctcp_endpoint(surroundings, dctcp, host);
  };
}

}  // namespace

SimulationConfig simulation_config_of(const SimulationSettings& settings) {
  SimulationConfig config;
  config.fabric.shape = shape_of(settings.shape);
  config.fabric.ports = ports_of(settings.ports);
  config.fabric.unlike = ports_of(settings.unlike, settings.shape.planes);
  config.fabric.seed = settings.seed;
  config.fabric.queued = settings.queued;
  if (settings.reconvergence) config.fabric.reconvergence = *settings.reconvergence;
  Surroundings& surroundings = config.surroundings;
  surroundings.shape = config.fabric.shape;
  surroundings.seed = settings.seed;
  surroundings.payload_mtu = settings.payload_mtu;
  surroundings.header_bytes = settings.header_bytes;
  surroundings.base_rtt = settings.base_rtt;
  config.nic_latency = settings.nic_latency;
  config.threads = settings.threads;
  for (std::uint32_t plane = 0; plane < surroundings.shape.planes; ++plane) {
    const auto& ports = config.fabric.ports_of(plane);
    surroundings.port_rate_bps = std::max(surroundings.port_rate_bps, ports[0].rate_bps);
    if (config.nic_latency + std::min(ports[0].delay, ports[1].delay) <= 0) {
      raise_value_error("the way between NIC and T0 needs a delay");
    }
  }
  return config;
}

EndpointFactory transport_of(const SimulationSettings& settings) {
  if (settings.mrc.has_value() + settings.roce.has_value() + settings.dctcp.has_value() != 1) {
    raise_value_error("exactly one transport: mrc, roce or dctcp");
  }
  if (settings.mrc) return mrc_of(*settings.mrc);
  return settings.roce ? roce_of(*settings.roce) : dctcp_of(*settings.dctcp);
}

}  // namespace openmrc::bindings
