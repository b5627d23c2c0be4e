// Long link failures: hashed paths avoid them once routing has converged, at times computed by hand.
#include <cstdint>
#include <string>
#include <vector>

#include "netsim/routing_tables.hpp"
#include "tests/check.hpp"
#include "tests/simulate_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

FaultTarget uplink(std::uint32_t t0, std::uint32_t t1) {
  FaultTarget target;
  target.t0 = t0;
  target.t1 = t1;
  return target;
}

// Host 0 sends one packet to host 2, under the other T0, with `effects` on one of the two paths from the start.
struct Crossing {
  std::string transport = "dctcp";
  Effects effects = carrier_loss();
  Reconvergence reconvergence;
  Routing routing = Routing::kHash;
  std::uint32_t threads = 1;

  // Arrival times over the failed path; -1: never.
  std::vector<TimePs> received(std::uint64_t* trace = nullptr) const {
    std::vector<TimePs> times;
    for (std::uint32_t t1 = 0; t1 < 2; ++t1) {
      Cluster cluster = one_plane();
      cluster.shape().routing = routing;
      cluster.config.fabric.reconvergence = reconvergence;
      cluster.config.threads = threads;
      cluster.dctcp.tail_loss_probe = false;
      cluster.send(0, 2, kPayload);
      const auto simulation = cluster.start(transport);
      (void)simulation->add_fault(fault_on(uplink(0, t1), effects, 0, kNever));
      simulation->run_until(kLong);
      times.push_back(simulation->workload().received[0]);
      if (trace != nullptr) *trace = *trace * 31 + simulation->trace();
    }
    return times;
  }
};

// A packet stored and forwarded over four links of 10 us; TCP adds 24 bytes to the common headers.
constexpr TimePs kOneWay = 4 * (10 * kPsPerUs + 8000 * TimePs{kAround + 24 + kPayload});

}  // namespace

TEST_CASE(routing_moves_only_the_packets_of_dead_paths) {
  ClosShape shape;
  shape.hosts = 4;
  shape.hosts_per_t0 = 2;
  shape.t1s = 8;
  shape.routing = Routing::kHash;
  RoutingTables tables(shape);
  CHECK(!tables.avoids(0) && tables.reaches(0, 0, 2));
  tables.set(0, shape.t0_up(0, 3), true);
  CHECK(tables.avoids(0));
  std::vector<std::uint32_t> moved(8);
  for (std::uint32_t ev = 0; ev < 4000; ++ev) {
    Packet there, back;
    there.source_host = back.destination_host = 0;
    there.destination_host = back.source_host = 2;
    there.ev = back.ev = ev;
    for (const Packet& packet : {there, back}) {  // a link with one dead direction is unusable for routing
      const Route hashed = route_of(shape, packet.source_host, packet.destination_host, ev);
      const Route route = tables.route(0, packet, hashed);
      if (hashed.t0_uplink == 3) {
        ++moved[route.t0_uplink];
      } else {
        CHECK(route.t0_uplink == hashed.t0_uplink);
      }
    }
  }
  // A thousand flows of the dead path, spread over seven others.
  for (std::uint32_t t1 = 0; t1 < 8; ++t1) CHECK(t1 == 3 ? moved[t1] == 0 : moved[t1] > 100 && moved[t1] < 190);
  for (std::uint32_t t1 = 0; t1 < 8; ++t1) tables.set(0, shape.t1_down(1, t1), true);
  CHECK(!tables.reaches(0, 0, 2) && tables.reaches(0, 0, 1));
  for (std::uint32_t t1 = 0; t1 < 8; ++t1) tables.set(0, shape.t1_down(1, t1), false);
  tables.set(0, shape.t0_up(0, 3), false);
  CHECK(!tables.avoids(0));
}

TEST_CASE(routing_avoids_dead_links_between_pods) {
  ClosShape shape;
  shape.hosts = 8;
  shape.hosts_per_t0 = 1;
  shape.t1s = 2;
  shape.t0s_per_pod = 4;
  shape.t1_uplinks = 2;
  RoutingTables tables(shape);
  tables.set(0, shape.t1_up(0, 0), true);    // of the first pod, towards T2 0
  tables.set(0, shape.t2_down(3, 1), true);  // T2 3 down to the second T1 of the other pod
  Packet packet;
  packet.source_host = 0;
  packet.destination_host = 7;
  for (std::uint16_t first = 0; first < 2; ++first) {
    for (std::uint16_t second = 0; second < 2; ++second) {
      const Route route = tables.route(0, packet, {first, second});
      CHECK((route.t0_uplink == 0 && route.t1_uplink == 1) || (route.t0_uplink == 1 && route.t1_uplink == 0));
    }
  }
  packet.destination_host = 1;  // inside the pod no T2 matters
  CHECK(tables.route(0, packet, {0, 0}).t0_uplink == 0);
}

// Lost at 0, sent again by the RTO at 10 ms, and by the doubled one at 30 ms.
TEST_CASE(dctcp_goes_around_a_lasting_cut_once_routing_has_converged) {
  for (const TimePs converged : {9 * kPsPerMs, 20 * kPsPerMs}) {
    Crossing crossing;
    crossing.reconvergence.down = converged;
    const TimePs again = (converged < 10 * kPsPerMs ? 10 : 30) * kPsPerMs + kOneWay;
    const auto times = crossing.received();
    CHECK((times == std::vector<TimePs>{kOneWay, again} || times == std::vector<TimePs>{again, kOneWay}));
  }
}

TEST_CASE(without_convergence_and_before_it_the_hash_leads_into_the_cut) {
  for (const bool silent : {false, true}) {
    Crossing crossing;
    crossing.effects = silent ? silence() : carrier_loss();
    (silent ? crossing.reconvergence.down : crossing.reconvergence.blackhole) = 20 * kPsPerMs;
    const auto times = crossing.received();  // the other kind of dead link: no rerouting
    CHECK(std::min(times[0], times[1]) == -1 && std::max(times[0], times[1]) == kOneWay);
    std::swap(crossing.reconvergence.down, crossing.reconvergence.blackhole);
    const auto converged = crossing.received();
    CHECK(std::max(converged[0], converged[1]) == 30 * kPsPerMs + kOneWay);
  }
}

TEST_CASE(a_link_that_flaps_faster_than_routing_converges_is_never_left) {
  Cluster cluster = one_plane();
  cluster.config.fabric.reconvergence.down = 5 * kPsPerMs;
  cluster.compute(0, 100 * kPsPerMs);
  const auto simulation = cluster.start("dctcp");
  FaultSpec flaps = fault_on(uplink(0, 0), carrier_loss(), 0, kNever);
  flaps.period = 8 * kPsPerMs;
  (void)simulation->add_fault(flaps);
  for (TimePs now = kPsPerMs; now < 60 * kPsPerMs; now += kPsPerMs) {
    simulation->run_until(now);
    CHECK(!simulation->fabric().routing().avoids(0));
  }
}

TEST_CASE(a_link_that_is_back_is_used_again_after_the_same_time) {
  Cluster cluster = one_plane();
  cluster.config.fabric.reconvergence.down = 5 * kPsPerMs;
  cluster.compute(0, 100 * kPsPerMs);
  const auto simulation = cluster.start("dctcp");
  (void)simulation->add_fault(fault_on(uplink(0, 0), carrier_loss(), kPsPerMs, 20 * kPsPerMs));
  const auto avoids = [&](TimePs ms) {
    simulation->run_until(ms * kPsPerMs + kPsPerMs / 2);
    return simulation->fabric().routing().avoids(0);
  };
  CHECK(!avoids(5) && avoids(6) && avoids(25) && !avoids(26));
}

// Timeouts after 4, 8 and 17 ms: at 4.2, 12.6 and 29.4 ms. By then routing has informed the host that the peer is
// unreachable over the plane.
TEST_CASE(roce_with_failover_leaves_a_plane_on_which_its_peer_is_cut_off) {
  for (std::uint32_t plane = 0; plane < 2; ++plane) {
    Cluster cluster;
    cluster.config.fabric.reconvergence.down = 10 * kPsPerMs;
    cluster.send(0, 2, kPayload);
    const auto simulation = cluster.start("roce");
    (void)simulation->add_fault(fault_on(link_of_host(2, plane), carrier_loss(), 0, kNever));
    CHECK(simulation->run_until(kLong) && simulation->all_done());
    const TimePs took = simulation->workload().received[0];
    const TimePs third = RoceSettings{}.timeout * 3;
    CHECK(took < kPsPerMs || (took > third && took < third + kPsPerMs));
  }
}

TEST_CASE(adaptive_switches_leave_their_own_dead_links_at_once_and_others_when_routing_has_converged) {
  for (const std::uint32_t t0 : {0U, 1U}) {
    Cluster cluster = one_plane();
    cluster.shape().routing = Routing::kAdaptive;
    cluster.config.fabric.reconvergence.down = 5 * kPsPerMs;
    for (int i = 0; i < 200; ++i) cluster.send(0, 2, kPayload, i * 100 * kPsPerUs);
    const auto simulation = cluster.start("dctcp");
    Effects one_way = carrier_loss();
    FaultSpec fault = fault_on(uplink(t0, 0), one_way, 0, kNever);
    fault.target.direction = t0 == 0 ? FaultDirection::kTx : FaultDirection::kRx;  // on the way there
    (void)simulation->add_fault(fault);
    const auto lost = [&] {
      std::uint64_t sum = 0;
      for (LinkId link = 0; link < simulation->shape().links_per_plane(); ++link) {
        sum += simulation->fabric().plane(0).counters(link).drops[static_cast<std::size_t>(DropCause::kDown)];
      }
      return sum;
    };
    simulation->run_until(6 * kPsPerMs);
    const std::uint64_t before = lost();
    CHECK(t0 == 0 ? before == 0 : before > 5);
    CHECK(simulation->run_until(kLong) && simulation->all_done() && lost() == before);
  }
}

TEST_CASE(rerouting_is_the_same_for_any_number_of_threads) {
  std::uint64_t one = 0, three = 0;
  Crossing crossing;
  crossing.transport = "roce";
  crossing.reconvergence = {5 * kPsPerMs, 5 * kPsPerMs};
  const auto times = crossing.received(&one);
  crossing.threads = 3;
  CHECK(crossing.received(&three) == times && one == three);
}
