// The effect, target and duration of each fault.
#include "netsim/faults.hpp"

#include <algorithm>

#include "netsim/fabric.hpp"
#include "tests/check.hpp"
#include "tests/netsim_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

constexpr TimePs kPacketTime = kPacketBytes * kBytePs;
constexpr TimePs kGap = 10 * kPsPerUs;  // longer than a link's service time: no queue

FaultSpec fault_at(std::uint32_t plane, std::uint32_t host, std::uint32_t t0, std::uint32_t t1) {
  FaultSpec fault;
  fault.target.plane = plane;
  fault.target.host = host;
  fault.target.t0 = t0;
  fault.target.t1 = t1;
  return fault;
}

FaultSpec fault_of_plane(std::uint32_t plane) { return fault_at(plane, kAnywhere, kAnywhere, kAnywhere); }

// Number of `count` packets from host 0 to host 2 that arrive on plane 0 while `fault` lasts.
struct Outcome {
  std::size_t arrived = 0;
  RecordingEdge edge;
};

Outcome run_with(const FaultSpec& fault, std::uint32_t count, Packet packet = packet_between(0, 2)) {
  Fabric fabric(fabric_config());
  fabric.add_fault(fault);
  Outcome outcome;
  fabric.run_until(0, outcome.edge);
  send_many(fabric, outcome.edge, kGap, kGap, count, packet);
  fabric.run_until(10 * kPsPerSecond, outcome.edge);
  outcome.arrived = outcome.edge.deliveries.size();
  CHECK(fabric.packets_inside() == 0);
  for (const auto& [payload, references] : outcome.edge.references) CHECK(references == 0);
  return outcome;
}

TEST_CASE(netsim_a_black_hole_swallows_everything_in_its_place_and_nothing_elsewhere) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.blackhole = true;
  CHECK(run_with(fault, 100).arrived == 0);
  fault.target.plane = 1;
  CHECK(run_with(fault, 100).arrived == 100);
  fault = fault_at(0, kAnywhere, 0, 1);  // EV 0 takes T1 0
  fault.effects.blackhole = true;
  CHECK(run_with(fault, 100).arrived == 100);
  CHECK(run_with(fault, 100, packet_between(0, 2, 1)).arrived == 0);
  fault = fault_at(kAnywhere, kAnywhere, kAnywhere, 0);
  fault.effects.blackhole = true;
  CHECK(run_with(fault, 100).arrived == 0);
  CHECK(run_with(fault, 100, packet_between(0, 1)).arrived == 100);  // turns at the T0
  fault = fault_at(0, 3, kAnywhere, kAnywhere);
  fault.effects.blackhole = true;
  CHECK(run_with(fault, 100).arrived == 100);
}

TEST_CASE(netsim_a_fault_acts_from_its_start_for_its_duration) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.blackhole = true;
  fault.start = 300 * kGap;
  fault.duration = 200 * kGap;
  const Outcome outcome = run_with(fault, 1000);
  CHECK(outcome.arrived >= 785 && outcome.arrived <= 800);  // packets in flight are affected, too
}

TEST_CASE(netsim_a_flap_is_on_for_half_of_each_period) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.blackhole = true;
  fault.period = 100 * kGap;
  fault.duration = 1000 * kGap;
  const Outcome outcome = run_with(fault, 1500);
  CHECK(outcome.arrived > 900 && outcome.arrived < 1100);
  // It begins active and recovers: the first packet is lost, one of the second half of the first period is not.
  const auto& all = outcome.edge.deliveries;
  CHECK(all.front().packet.payload > 40 && all.front().packet.payload < 60);
}

TEST_CASE(netsim_a_direction_is_spared_when_the_other_is_named) {
  FaultSpec fault = fault_at(0, 0, kAnywhere, kAnywhere);
  fault.effects.blackhole = true;
  fault.target.direction = FaultDirection::kRx;
  CHECK(run_with(fault, 50).arrived == 50);
  CHECK(run_with(fault, 50, packet_between(2, 0)).arrived == 0);
  fault.target.direction = FaultDirection::kTx;
  CHECK(run_with(fault, 50).arrived == 0);
  CHECK(run_with(fault, 50, packet_between(2, 0)).arrived == 50);
}

TEST_CASE(netsim_random_loss_on_a_plane_hits_each_packet_once) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.loss_ppb = 50'000'000;
  const std::size_t arrived = run_with(fault, 20'000).arrived;
  CHECK(arrived > 18'850 && arrived < 19'150);
  fault.target = {};
  const std::size_t everywhere = run_with(fault, 20'000).arrived;
  CHECK(everywhere > 18'850 && everywhere < 19'150);
}

TEST_CASE(netsim_loss_on_a_switch_hits_each_packet_once) {
  for (FaultSpec fault : {fault_at(kAnywhere, kAnywhere, 0, kAnywhere), fault_at(kAnywhere, kAnywhere, kAnywhere, 0)}) {
    for (const FaultDirection direction : {FaultDirection::kBoth, FaultDirection::kTx}) {
      fault.effects.loss_ppb = 100'000'000;
      fault.target.direction = direction;
      const std::size_t arrived = run_with(fault, 10'000).arrived;
      CHECK(arrived > 8'850 && arrived < 9'150);
    }
  }
}

TEST_CASE(netsim_bursty_loss_loses_its_share_in_runs_of_its_length) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.burst_loss_ppb = 50'000'000;
  fault.effects.burst_packets = 20;
  const Outcome outcome = run_with(fault, 100'000);
  CHECK(outcome.arrived > 93'500 && outcome.arrived < 96'500);
  std::uint32_t runs = 0;
  std::uint32_t expected = 0;
  for (const Delivery& delivery : outcome.edge.deliveries) {
    if (delivery.packet.payload != expected) ++runs;
    expected = delivery.packet.payload + 1;
  }
  const double length = static_cast<double>(100'000 - outcome.arrived) / runs;
  CHECK(length > 15 && length < 25);
}

TEST_CASE(netsim_a_cut_rate_is_what_gets_through) {
  FaultSpec fault = fault_at(0, 0, kAnywhere, kAnywhere);
  fault.effects.rate_ppm = kFullRatePpm / 10;
  const Outcome outcome = run_with(fault, 100);
  CHECK(outcome.arrived == 100);
  const TimePs span = outcome.edge.deliveries.back().time - outcome.edge.deliveries.front().time;
  CHECK(span == 99 * 10 * kPacketTime);
}

TEST_CASE(netsim_extra_delay_is_added_once) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.delay = 2 * kPsPerMs;
  const Outcome late = run_with(fault, 1);
  CHECK(late.edge.deliveries[0].time == kGap + 4 * (kPacketTime + kDelay) + 2 * kPsPerMs);
  fault.effects.jitter = kPsPerMs;
  TimePs least = kNever;
  TimePs most = 0;
  const Outcome jittered = run_with(fault, 500);
  for (const Delivery& delivery : jittered.edge.deliveries) {
    const TimePs extra = delivery.time - (kGap * (1 + delivery.packet.payload) + 4 * (kPacketTime + kDelay));
    least = std::min(least, extra);
    most = std::max(most, extra);
  }
  CHECK(least >= 2 * kPsPerMs && least < 2 * kPsPerMs + kPsPerMs / 10);
  CHECK(most < 3 * kPsPerMs && most > 3 * kPsPerMs - kPsPerMs / 10);
}

TEST_CASE(netsim_corruption_marks_its_share_of_packets_and_delivers_them) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.corrupt_ppb = 100'000'000;
  const Outcome outcome = run_with(fault, 5'000);
  CHECK(outcome.arrived == 5'000);
  const auto corrupted = std::count_if(outcome.edge.deliveries.begin(), outcome.edge.deliveries.end(),
                                       [](const Delivery& d) { return d.packet.corruption != kNotCorrupted; });
  CHECK(corrupted > 420 && corrupted < 580);
}

TEST_CASE(netsim_duplicates_are_whole_packets_that_share_the_payload) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.duplicate_ppb = 100'000'000;
  const Outcome outcome = run_with(fault, 5'000);
  CHECK(outcome.arrived > 5'420 && outcome.arrived < 5'580);
}

TEST_CASE(netsim_a_t1_link_duplicates_on_the_way_too) {
  FaultSpec fault = fault_at(0, kAnywhere, 0, 0);
  fault.effects.duplicate_ppb = kPartsPerBillion;
  CHECK(run_with(fault, 100).arrived == 200);
}

TEST_CASE(netsim_reordering_holds_some_packets_back) {
  FaultSpec fault = fault_of_plane(0);
  fault.effects.reorder_ppb = 100'000'000;
  fault.effects.reorder_delay = 5 * kGap + kGap / 2;
  const Outcome outcome = run_with(fault, 2'000);
  CHECK(outcome.arrived == 2'000);
  std::uint32_t highest = 0;
  std::uint32_t overtaken = 0;
  for (const Delivery& delivery : outcome.edge.deliveries) {
    if (delivery.packet.payload < highest) ++overtaken;
    highest = std::max(highest, delivery.packet.payload);
  }
  CHECK(overtaken > 140 && overtaken < 260);
}

std::vector<Notice> notices_of(Fabric& fabric) {
  std::vector<Notice> all;
  Notice notice;
  while (fabric.poll_notice(notice)) all.push_back(notice);
  return all;
}

TEST_CASE(netsim_a_nic_link_that_goes_down_with_notice_takes_the_carrier_away) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  FaultSpec fault = fault_at(1, 2, kAnywhere, kAnywhere);
  fault.effects.down = true;
  fault.start = kPsPerMs;
  fault.duration = kPsPerMs;
  const std::uint32_t id = fabric.add_fault(fault);
  CHECK(fabric.next_event() == kPsPerMs);
  fabric.run_until(kPsPerMs, edge);
  CHECK(!fabric.carrier(2, 1) && fabric.carrier(2, 0) && fabric.carrier(1, 1));
  fabric.run_until(3 * kPsPerMs, edge);
  CHECK(fabric.carrier(2, 1));
  const std::vector<Notice> all = notices_of(fabric);
  CHECK(all.size() == 4);
  CHECK(all[0].kind == NoticeKind::kFaultBegins && all[0].fault == id && all[0].time == kPsPerMs);
  CHECK(all[1].kind == NoticeKind::kCarrier && all[1].host == 2 && all[1].plane == 1 && !all[1].up);
  CHECK(all[2].kind == NoticeKind::kFaultEnds && all[2].time == 2 * kPsPerMs);
  CHECK(all[3].kind == NoticeKind::kCarrier && all[3].up);
  CHECK(fabric.next_event() == kNever);
}

TEST_CASE(netsim_a_switch_down_tells_its_hosts_a_black_hole_tells_nobody) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  FaultSpec fault = fault_at(0, kAnywhere, 1, kAnywhere);
  fault.effects.blackhole = true;
  fabric.add_fault(fault);
  fault.effects = {};
  fault.effects.down = true;
  fabric.add_fault(fault);
  fabric.run_until(0, edge);
  CHECK(fabric.carrier(0, 0) && fabric.carrier(1, 0) && !fabric.carrier(2, 0) && !fabric.carrier(3, 0));
  CHECK(fabric.carrier(2, 1));
  FaultSpec spine = fault_at(0, kAnywhere, kAnywhere, 1);
  spine.effects.down = true;
  fabric.add_fault(spine);
  fabric.run_until(1, edge);
  CHECK(fabric.carrier(0, 0));  // not visible to a NIC
}

TEST_CASE(netsim_a_link_is_whole_only_when_every_fault_on_it_is_gone) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  FaultSpec fault = fault_at(0, 0, kAnywhere, kAnywhere);
  fault.effects.down = true;
  const std::uint32_t first = fabric.add_fault(fault);
  FaultSpec wide = fault_of_plane(0);
  wide.effects.down = true;
  fabric.add_fault(wide);
  fabric.run_until(0, edge);
  CHECK(fabric.active_faults().size() == 2);
  CHECK(fabric.repair(1, first));
  CHECK(!fabric.repair(1, first));
  CHECK(!fabric.carrier(0, 0));
  CHECK(fabric.repair_all(2, fault.target) == 0);  // the plane is not inside the link
  CHECK(fabric.repair_all(2, wide.target) == 1);
  CHECK(fabric.carrier(0, 0) && fabric.carrier(3, 0));
}

TEST_CASE(netsim_a_repair_can_be_scheduled_and_reaches_what_lies_inside) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  FaultSpec fault = fault_at(0, 3, kAnywhere, kAnywhere);
  fault.effects.blackhole = true;
  fabric.add_fault(fault);
  fabric.run_until(0, edge);
  fabric.add_repair(5 * kPsPerMs, 0, fault_at(0, kAnywhere, 1, kAnywhere).target);  // host 3 is below T0 1
  fabric.run_until(4 * kPsPerMs, edge);
  CHECK(fabric.active_faults().size() == 1);
  CHECK(fabric.next_event() == 5 * kPsPerMs);
  fabric.run_until(5 * kPsPerMs, edge);
  CHECK(fabric.active_faults().empty());
}

TEST_CASE(netsim_a_repaired_slow_link_is_fast_for_new_packets_at_once) {
  Fabric fabric(fabric_config());
  RecordingEdge edge;
  FaultSpec fault = fault_at(0, 0, kAnywhere, kAnywhere);
  fault.effects.rate_ppm = kFullRatePpm / 100;
  const std::uint32_t id = fabric.add_fault(fault);
  fabric.run_until(0, edge);
  send_many(fabric, edge, 0, 0, 20, packet_between(0, 2));
  fabric.run_until(kPsPerMs, edge);
  fabric.repair(kPsPerMs, id);
  const std::size_t before = edge.deliveries.size();
  send_many(fabric, edge, kPsPerMs, 0, 1, packet_between(0, 2), 0, 1000);
  fabric.run_until(kPsPerMs + 20 * kPacketTime + 4 * (kPacketTime + kDelay), edge);
  CHECK(edge.deliveries.size() > before);
  CHECK(edge.deliveries.back().packet.payload == 1000);
}

}  // namespace
