// All planes of a fabric, with faults that begin and end in it. Time is an argument: the simulator passes virtual time,
// the emulator the wall clock.
//
// Order of calls: enter the packets that arrive until some instant, then run_until that instant; call poll_notice until
// empty at any time; next_event returns the time of the next internal event. A driver that runs the planes itself,
// perhaps in parallel, runs them to next_fault_change, calls change_faults with that instant, and continues.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "netsim/faults.hpp"
#include "netsim/generated/fabric_statistics.hpp"
#include "netsim/generated/simulator.hpp"
#include "netsim/plane_model.hpp"
#include "netsim/routing_tables.hpp"

namespace openmrc::netsim {

struct FabricConfig {
  ClosShape shape;
  std::array<PortConfig, kLinkKinds> ports;
  std::vector<std::array<PortConfig, kLinkKinds>> unlike;  // by plane, in place of `ports`; empty: planes are alike
  std::uint32_t packets_max = 0;                           // per plane; 0: no limit
  TimePs delivery_lead = 0;                                // as in PlaneConfig
  std::optional<SharedQueues> queued;
  Reconvergence reconvergence;  // by default never: paths are fixed
  std::uint64_t seed = 0;

  const std::array<PortConfig, kLinkKinds>& ports_of(std::uint32_t plane) const {
    return unlike.empty() ? ports : unlike[plane];
  }
};

// A host's uplink whose effects have changed, for the driver that plays the NIC.
struct ChangedUplink {
  std::uint32_t plane = 0, host = 0;
};

class Fabric {
 public:
  explicit Fabric(const FabricConfig& config);

  void enter(TimePs when, std::uint32_t plane, const Packet& packet, Edge& edge);
  void run_until(TimePs until, Edge& edge);

  // Adds a fault that begins at spec.start, which must not lie in the past. Returns its id, counted from 1.
  std::uint32_t add_fault(const FaultSpec& spec);
  // Ends the fault now and for good; false if there is no such fault or it has ended.
  bool repair(TimePs now, std::uint32_t fault);
  // Ends all faults within the target; returns their number.
  std::uint32_t repair_all(TimePs now, const FaultTarget& target);
  // The same at a future time: ends the fault, or for 0 all faults within the target at that time.
  void add_repair(TimePs when, std::uint32_t fault, const FaultTarget& target);

  bool poll_notice(Notice& notice);
  bool poll_changed_uplink(ChangedUplink& changed);

  TimePs next_event() const;
  TimePs next_fault_change() const;
  void change_faults(TimePs now);
  bool carrier(std::uint32_t host, std::uint32_t plane) const;
  std::vector<std::uint32_t> active_faults() const;
  PlaneModel& plane(std::uint32_t index) { return *planes_[index]; }
  const PlaneModel& plane(std::uint32_t index) const { return *planes_[index]; }
  const ClosShape& shape() const { return shape_; }
  const RoutingTables& routing() const { return routing_; }
  std::uint32_t packets_inside() const;

 private:
  struct Fault {
    std::uint32_t id = 0;
    FaultSpec spec;
    TimePs next_change = 0;
    TimePs end = kNever;
    bool on = false;
  };

  struct Repair {
    TimePs when = 0;
    std::uint32_t fault = 0;
    FaultTarget target;
  };

  void do_repairs(TimePs now);
  void run_planes(TimePs until, Edge& edge);
  void begin_and_end(TimePs now);
  void switch_fault(TimePs now, Fault& fault, bool on);
  void refresh_links(TimePs now, const FaultTarget& target);
  void note_carrier(TimePs now, std::uint32_t plane, LinkId changed);
  void note_route(TimePs now, std::uint32_t plane, LinkId changed, const Effects& effects);
  void converge(TimePs now);

  // Final state of a link from the view of routing.
  enum class LinkHealth : std::uint8_t { kAlive = 0, kDown, kBlackhole };
  struct Convergence {
    std::uint32_t plane = 0;
    LinkId link = 0;
    std::uint64_t change = 0;  // invalid if the link has changed again since
  };
  struct LinkChange {
    LinkHealth health{};
    std::uint64_t number = 0;
  };

  ClosShape shape_;
  Reconvergence reconvergence_;
  RoutingTables routing_;
  std::vector<std::map<LinkId, LinkChange>> link_changes_;  // by plane, of links with at least one change so far
  std::multimap<TimePs, Convergence> convergences_;         // to come
  std::uint64_t changes_ = 0;
  std::vector<std::unique_ptr<PlaneModel>> planes_;
  std::vector<Fault> faults_;    // in the order of their ids
  std::vector<Repair> repairs_;  // to come
  std::deque<Notice> notices_;
  std::deque<ChangedUplink> changed_uplinks_;
  std::vector<bool> carrier_;  // plane * hosts + host
  std::uint32_t faults_added_ = 0;
};

}  // namespace openmrc::netsim
