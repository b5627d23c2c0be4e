// A whole simulated cluster in virtual time: planes, NICs with their transports, the workload, the faults.
//
// Time is divided into windows: first all NICs run one, then all planes. An action of a NIC reaches a plane only after
// the delay of its cable, and the other way round, so that inside a window every NIC and every plane runs alone: in
// parallel with several threads, and with its own memory in the cache with one. Packets are exchanged between windows
// in an order that does not depend on threads; the same seed gives the same events for any number of threads, and for
// any end of run_until. A finished run has completed its last window, which is shorter if run_until stopped in it;
// packets in transit at that time, such as acknowledgements and probes, may or may not be in the trace.
//
// Order of calls: add_fault as needed; run_until until it returns true or the caller stops.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "netsim/fabric.hpp"
#include "netsim/simulate/shard.hpp"
#include "netsim/simulate/thread_team.hpp"

namespace openmrc::netsim {

using EndpointFactory = std::function<std::unique_ptr<Endpoint>(const Surroundings& surroundings, std::uint32_t host)>;

struct SimulationConfig {
  FabricConfig fabric;  // `delivery_lead` is set here
  Surroundings surroundings;
  TimePs nic_latency = 0;  // of every packet, in each of the sending and the receiving NIC
  std::uint32_t threads = 1;
};

// A pair of NICs with traffic between them, one lane of it.
struct ConnectionPair {
  std::uint32_t a = 0, b = 0;  // hosts, a < b
  std::uint16_t lane = 0;
  std::uint32_t index_a = 0, index_b = 0;  // their numbers at the two endpoints
};

class Simulation {
 public:
  Simulation(const SimulationConfig& config, Workload workload, const EndpointFactory& make_endpoint);
  ~Simulation();

  std::uint32_t add_fault(const FaultSpec& spec) { return fabric_.add_fault(spec); }
  // True: all ops are done, or no further event can occur.
  bool run_until(TimePs until);

  TimePs now() const { return now_; }
  bool all_done() const { return finished_ == workload_.ops.size(); }
  bool stalled() const { return stalled_; }  // no event is pending, and some ops are unfinished
  std::uint64_t finished() const { return finished_; }
  std::uint64_t failed() const;

  const Workload& workload() const { return workload_; }
  Fabric& fabric() { return fabric_; }
  const ClosShape& shape() const { return fabric_.shape(); }
  Nic& nic(std::uint32_t host) { return map_.of(host).nic(host); }
  const std::vector<ConnectionPair>& connections() const { return connections_; }
  std::uint64_t windows() const { return windows_; }
  std::uint64_t data_packets();
  // Transport parts of packets in transit: none once the simulation is at rest.
  std::uint64_t parts_held() const;
  std::uint64_t events() const;
  std::uint64_t trace();
  std::uint64_t memory_bytes();

 private:
  class PlaneEdge;

  void make_nics(const SimulationConfig& config, const EndpointFactory& make_endpoint);
  void make_connections();
  void open_and_connect(const std::vector<std::vector<ConnectionEnd>>& ends);
  TimePs next_of_nics() const;
  TimePs next_of_planes() const;
  void change_faults(TimePs now);
  void run_window(TimePs nics_end, TimePs planes_end);
  void exchange(std::uint32_t plane);

  Surroundings surroundings_;
  Workload workload_;
  Fabric fabric_;
  NicConfig nic_config_;
  TimePs way_up_ = 0, way_down_ = 0;  // the delays between NICs and planes
  ShardMap map_;
  std::vector<std::unique_ptr<PlaneEdge>> edges_;
  std::vector<ConnectionPair> connections_;
  ThreadTeam thread_team_;
  TimePs now_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t windows_ = 0;
  bool stalled_ = false;
};

}  // namespace openmrc::netsim
