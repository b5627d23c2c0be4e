// A single port: rate, bound, classes, marks, trims.
#include "netsim/output_port.hpp"

#include "tests/check.hpp"
#include "tests/netsim_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;
using namespace openmrc::test;

Packet data(std::uint32_t bytes = kPacketBytes) {
  Packet packet = packet_between(0, 2);
  packet.bytes = bytes;
  return packet;
}

Packet control(std::uint32_t bytes) {
  Packet packet = data(bytes);
  packet.traffic_class = TrafficClass::kControl;
  return packet;
}

TEST_CASE(netsim_a_port_sends_at_exactly_its_rate) {
  for (const std::uint64_t rate : {1'000'000'000ULL, 250'000'000ULL, 300'000'000ULL, 400'000'000'000ULL}) {
    PortConfig config = port_config();
    config.rate_bps = rate;
    config.queue_bytes = 100'000'000;
    const Port port(config);
    OutputPort link;
    Rng rng(1);
    TimePs last = 0;
    for (int i = 0; i < 3000; ++i) {
      Packet packet = data();
      const OutputPort::Sent sent = link.offer(0, packet, port, nullptr, rng);
      CHECK(sent.sent);
      last = sent.arrival;
    }
    const TimePs exact = static_cast<TimePs>(3000ULL * kPacketBytes * 8 * 1'000'000 / (rate / 1'000'000)) + kDelay;
    CHECK(exact - last >= 0 && exact - last <= 3000);  // less than a picosecond a packet
  }
}

TEST_CASE(netsim_an_idle_port_adds_one_transmission_and_the_delay) {
  const Port port(port_config());
  OutputPort link;
  Rng rng(1);
  Packet packet = data();
  CHECK(link.offer(5 * kPsPerMs, packet, port, nullptr, rng).arrival == 5 * kPsPerMs + kPacketBytes * kBytePs + kDelay);
}

TEST_CASE(netsim_control_waits_behind_data_where_it_has_no_priority) {
  for (const bool priority : {true, false}) {
    PortConfig config = port_config();
    config.priority = priority;
    const Port port(config);
    OutputPort link;
    Rng rng(1);
    for (int i = 0; i < 5; ++i) {
      Packet packet = data();
      link.offer(0, packet, port, nullptr, rng);
    }
    Packet answer = control(100), after = data();
    const int before = priority ? 0 : 5;  // no part of the first packet has been sent yet
    CHECK(link.offer(0, answer, port, nullptr, rng).arrival == (before * 1000 + 100) * kBytePs + kDelay);
    CHECK(link.offer(0, after, port, nullptr, rng).arrival == (6 * 1000 + 100) * kBytePs + kDelay);
  }
}

TEST_CASE(netsim_control_is_dropped_with_data_where_it_has_no_priority) {
  PortConfig config = port_config();
  config.priority = false;
  config.queue_bytes = 2 * kPacketBytes;
  config.ecn = true;  // a step at zero: even dropped packets might be marked
  const Port port(config);
  OutputPort link;
  Rng rng(1);
  Packet first = data(), second = data(), answer = control(100);
  CHECK(link.offer(0, first, port, nullptr, rng).sent && link.offer(0, second, port, nullptr, rng).sent);
  CHECK(!link.offer(0, answer, port, nullptr, rng).sent);
  CHECK(link.counters().drops[static_cast<std::size_t>(DropCause::kQueueFull)] == 1);
  CHECK(link.counters().drops[static_cast<std::size_t>(DropCause::kControlQueueFull)] == 0);
}

TEST_CASE(netsim_a_full_queue_drops_the_arriving_packet_and_only_that) {
  PortConfig config = port_config();
  config.queue_bytes = 10 * kPacketBytes;
  const Port port(config);
  OutputPort link;
  Rng rng(1);
  int sent = 0;
  for (int i = 0; i < 25; ++i) {
    Packet packet = data();
    if (link.offer(0, packet, port, nullptr, rng).sent) ++sent;
  }
  CHECK(sent == 10);
  CHECK(link.counters().drops[static_cast<std::size_t>(DropCause::kQueueFull)] == 15);
  CHECK(link.counters().packets == 10);
  CHECK(port.bytes_in(link.counters().queue_peak) == 9 * kPacketBytes);
  Packet packet = data();
  CHECK(link.offer(kPacketBytes * kBytePs, packet, port, nullptr, rng).sent);  // one has left
}

TEST_CASE(netsim_control_overtakes_waiting_data_and_takes_its_share_of_the_rate) {
  const Port port(port_config());
  OutputPort link;
  Rng rng(1);
  for (int i = 0; i < 10; ++i) {
    Packet packet = data();
    link.offer(0, packet, port, nullptr, rng);
  }
  // Arrives in the middle of the third data packet: waits for its end, not for the other seven.
  const TimePs packet_time = kPacketBytes * kBytePs;
  const TimePs now = 2 * packet_time + packet_time / 2;
  Packet first = control(100);
  Packet second = control(100);
  CHECK(link.offer(now, first, port, nullptr, rng).arrival == 3 * packet_time + 100 * kBytePs + kDelay);
  CHECK(link.offer(now, second, port, nullptr, rng).arrival == 3 * packet_time + 200 * kBytePs + kDelay);
  Packet packet = data();
  CHECK(link.offer(now, packet, port, nullptr, rng).arrival == 11 * packet_time + 200 * kBytePs + kDelay);
}

TEST_CASE(netsim_data_waits_for_control_that_came_first) {
  const Port port(port_config());
  OutputPort link;
  Rng rng(1);
  Packet first = control(500);
  link.offer(0, first, port, nullptr, rng);
  Packet packet = data();
  CHECK(link.offer(0, packet, port, nullptr, rng).arrival == (500 + kPacketBytes) * kBytePs + kDelay);
}

TEST_CASE(netsim_the_control_queue_is_bounded_too) {
  PortConfig config = port_config();
  config.control_queue_bytes = 500;
  const Port port(config);
  OutputPort link;
  Rng rng(1);
  int sent = 0;
  for (int i = 0; i < 10; ++i) {
    Packet packet = control(100);
    if (link.offer(0, packet, port, nullptr, rng).sent) ++sent;
  }
  CHECK(sent == 5);
  CHECK(link.counters().drops[static_cast<std::size_t>(DropCause::kControlQueueFull)] == 5);
}

// Number of marks on 4,000 packets that each find `waiting` bytes ahead of them.
int marks_at(const PortConfig& config, std::uint32_t waiting, Ecn ecn) {
  const Port port(config);
  Rng rng(3);
  int marks = 0;
  for (int i = 0; i < 4000; ++i) {
    OutputPort link;
    Packet ahead = data(waiting);
    ahead.ecn = Ecn::kNotEct;
    if (waiting > 0) link.offer(0, ahead, port, nullptr, rng);
    Packet packet = data();
    packet.ecn = ecn;
    link.offer(0, packet, port, nullptr, rng);
    if (packet.ecn == Ecn::kCe) ++marks;
  }
  return marks;
}

TEST_CASE(netsim_the_ecn_ramp_rises_from_nothing_to_everything) {
  PortConfig config = port_config();
  config.ecn = true;
  config.ecn_min_bytes = 20'000;
  config.ecn_max_bytes = 80'000;
  CHECK(marks_at(config, 0, Ecn::kEct0) == 0);
  CHECK(marks_at(config, 20'000, Ecn::kEct0) == 0);
  const int quarter = marks_at(config, 35'000, Ecn::kEct0);
  CHECK(quarter > 900 && quarter < 1100);
  const int half = marks_at(config, 50'000, Ecn::kEct1);
  CHECK(half > 1900 && half < 2100);
  CHECK(marks_at(config, 80'000, Ecn::kEct0) == 4000);
  CHECK(marks_at(config, 80'000, Ecn::kNotEct) == 0);
}

TEST_CASE(netsim_the_ecn_ramp_may_end_below_certainty) {
  PortConfig config = port_config();
  config.ecn = true;
  config.ecn_min_bytes = 20'000;
  config.ecn_max_bytes = 80'000;
  config.ecn_max_permille = 100;
  const int half_of_a_tenth = marks_at(config, 50'000, Ecn::kEct0);  // 200, deviation 14
  CHECK(half_of_a_tenth > 140 && half_of_a_tenth < 260);
  CHECK(marks_at(config, 80'000, Ecn::kEct0) == 4000);
}

TEST_CASE(netsim_equal_ecn_thresholds_are_a_step) {
  PortConfig config = port_config();
  config.ecn = true;
  config.ecn_min_bytes = config.ecn_max_bytes = 30'000;
  CHECK(marks_at(config, 29'999, Ecn::kEct0) == 0);
  CHECK(marks_at(config, 30'000, Ecn::kEct0) == 4000);
}

TEST_CASE(netsim_a_port_without_ecn_never_marks) { CHECK(marks_at(port_config(), 900'000, Ecn::kEct0) == 0); }

struct Trimmed {
  Packet packet;
  OutputPort::Sent sent;
  OutputPort link;
};

// Offers `packet` behind 50,000 bytes of data at a port that trims above 40,000.
Trimmed behind_a_queue(Packet packet, bool last_hop) {
  PortConfig config = port_config();
  config.trim = true;
  config.trim_threshold_bytes = 40'000;
  config.trim_bytes = 128;
  config.last_hop = last_hop;
  const Port port(config);
  Trimmed result;
  Rng rng(1);
  Packet ahead = data(50'000);
  ahead.traffic_class = TrafficClass::kNoTrim;
  result.link.offer(0, ahead, port, nullptr, rng);
  result.packet = packet;
  result.sent = result.link.offer(kPsPerUs, result.packet, port, nullptr, rng);
  return result;
}

TEST_CASE(netsim_data_behind_a_long_queue_is_cut_and_overtakes) {
  const Trimmed trimmed = behind_a_queue(data(), false);
  CHECK(trimmed.sent.sent);
  CHECK(trimmed.packet.bytes == 128);
  CHECK(trimmed.packet.traffic_class == TrafficClass::kTrimmed);
  CHECK(trimmed.link.counters().trims == 1);
  // The packet in service is finished first: 50,000 bytes are one packet here.
  CHECK(trimmed.sent.arrival == (50'000 + 128) * kBytePs + kDelay);
}

TEST_CASE(netsim_the_last_hop_says_so_when_it_trims) {
  CHECK(behind_a_queue(data(), true).packet.traffic_class == TrafficClass::kTrimmedLastHop);
  Packet again = data();
  again.traffic_class = TrafficClass::kTrimmableRetx;
  CHECK(behind_a_queue(again, true).packet.traffic_class == TrafficClass::kTrimmedLastHop);
}

TEST_CASE(netsim_what_must_not_be_trimmed_is_queued_whole) {
  Packet packet = data();
  packet.traffic_class = TrafficClass::kNoTrim;
  CHECK(behind_a_queue(packet, false).packet.bytes == kPacketBytes);
  Packet small = data(100);
  CHECK(behind_a_queue(small, false).packet.traffic_class == TrafficClass::kTrimmable);
}

TEST_CASE(netsim_a_cut_rate_converts_what_waits) {
  const Port port(port_config());
  OutputPort link;
  Rng rng(1);
  for (int i = 0; i < 10; ++i) {
    Packet packet = data();
    link.offer(0, packet, port, nullptr, rng);
  }
  const TimePs packet_time = kPacketBytes * kBytePs;
  CHECK(link.backlog(0) == 10 * packet_time);
  link.change_rate(2 * packet_time, kFullRatePpm, kFullRatePpm / 10);
  CHECK(link.backlog(2 * packet_time) == 80 * packet_time);
  link.change_rate(2 * packet_time, kFullRatePpm / 10, kFullRatePpm);
  CHECK(link.backlog(2 * packet_time) == 8 * packet_time);
}

}  // namespace
