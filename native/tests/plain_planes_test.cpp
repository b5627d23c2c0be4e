// Planes that do not mark, with any rate, delay and buffer: the throughput of a QP without configuration.
#include <algorithm>
#include <memory>

#include "engine/qp/plane_set.hpp"
#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using test::kKb;
using test::kMbps;
using test::PlainLink;
using test::PlainNetwork;
using test::PlainOptions;
using test::plane;
using test::planes;
using test::Result;
using test::Stream;

Result run(const PlainOptions& options) { return Stream(options).judge(kPsPerSecond, 5 * kPsPerSecond / 2); }

LONG_TEST_CASE(equal_planes_are_filled_without_losses_and_with_short_queues) {
  for (const std::int64_t fifo_kb : {64, 256, 1024}) {
    const Result fast = run(planes({4, plane(500, fifo_kb)}));
    CHECK(fast.share >= 0.97);
    CHECK(fast.resent <= 0.001);
    CHECK(fast.queued <= 2 * kPsPerMs);
    const Result slow = run(planes({4, plane(100, fifo_kb)}));
    CHECK(slow.share >= 0.97);
    CHECK(slow.resent <= 0.001);
    CHECK(slow.queued <= 4 * kPsPerMs);
  }
}

// Windows of ten packets that left as one burst met their own queue, and the plane was empty in between.
LONG_TEST_CASE(planes_of_slow_ethernet_are_filled) {
  for (const std::int64_t mbps : {50, 100, 125, 150, 200}) {
    for (const std::size_t count : {1U, 2U, 4U}) CHECK(run(planes({count, plane(mbps, 256)})).share >= 0.99);
  }
}

TEST_CASE(jumbo_frames_fill_planes_with_short_queues) {
  const Result result = run(planes({4, plane(500, 256)}, 8192));
  CHECK(result.share >= 0.97);
  CHECK(result.resent <= 0.001);
  CHECK(result.queued <= 3 * kPsPerMs);
}

// proves X.4.1
TEST_CASE(unequal_planes_add_up) {
  const Result four = run(planes({plane(500, 256), plane(500, 256), plane(250, 256), plane(100, 64)}));
  CHECK(four.share >= 0.95);
  CHECK(four.resent <= 0.001);
  const Result slow = run(planes({plane(900, 256), plane(40, 64), plane(40, 64), plane(40, 64)}));
  CHECK(slow.share >= 0.95);
  CHECK(slow.resent <= 0.001);
  const Result two = run(planes({plane(1000, 256), plane(100, 64)}));
  CHECK(two.share >= 0.95);
  CHECK(two.resent <= 0.001);
}

TEST_CASE(a_buffer_of_a_millisecond_is_enough) {
  const Result result = run(planes({4, plane(300, 40)}));
  CHECK(result.share >= 0.95);
  CHECK(result.resent <= 0.001);
}

// The pulses that probe for a higher rate are not filled here, so they prove nothing: the rate once grew without bound.
LONG_TEST_CASE(a_pulse_that_is_not_filled_does_not_raise_the_rate) {
  PlainOptions options =
      planes({plane(1561, 480), plane(69, 375, 350 * kPsPerUs), plane(624, 587, 350 * kPsPerUs), plane(4109, 49),
              plane(4563, 704, 4'150 * kPsPerUs), plane(564, 31, 4'600 * kPsPerUs)});
  options.mpr_units = 255;
  Stream stream(options);
  stream.flow().outstanding_max = 200;
  stream.flow().message_bytes = 1 << 20;
  CHECK(stream.judge(3 * kPsPerSecond / 2, 5 * kPsPerSecond / 2).resent <= 0.01);
}

TEST_CASE(a_long_buffer_stays_short) {
  const Result result = run(planes({4, plane(50, 4096, 10 * kPsPerMs)}));
  CHECK(result.share >= 0.9);
  CHECK(result.queued <= 5 * kPsPerMs);
}

// proves X.4.3
LONG_TEST_CASE(random_loss_is_not_congestion) {
  std::vector<PlainLink> links(4, plane(500, 256));
  links[0].loss_ppm = 10'000;
  CHECK(run(planes(links)).share >= 0.97);
  for (PlainLink& link : links) link.loss_ppm = 10'000;
  CHECK(run(planes(links)).share >= 0.90);
}

// No congestion control cures such losses, but a permanent reduction because of them would be worse.
TEST_CASE(a_plane_that_loses_a_third_does_not_come_to_a_stand) {
  for (const std::uint32_t loss_ppm : {200'000U, 330'000U}) {
    PlainOptions options = planes({plane(1000, 256)});
    options.planes[0].loss_ppm = loss_ppm;
    const Result result = Stream(options).judge(8 * kPsPerSecond, 12 * kPsPerSecond, 2 * kMbps);
    CHECK(result.share >= 1);
  }
}

// proves X.4.1
TEST_CASE(planes_of_unequal_delay_add_up) {
  const Result result = run(planes({plane(300, 256, 100 * kPsPerUs), plane(300, 256, 2'500 * kPsPerUs),
                                    plane(300, 256, 10 * kPsPerMs), plane(300, 256, 15 * kPsPerMs)}));
  CHECK(result.share >= 0.90);
  CHECK(result.resent <= 0.001);
}

// During the start, the slow plane's queue grows beyond the range of timestamps.
TEST_CASE(a_slow_plane_does_not_take_the_acknowledgements_of_a_quick_one) {
  for (const std::uint64_t seed : {1U, 3U}) {
    PlainOptions options = planes(
        {plane(138, 1100, 970 * kPsPerUs), plane(402, 146, 220 * kPsPerUs), plane(13, 259, 12'920 * kPsPerUs)}, 8192);
    options.seed = seed;
    options.sack_bytes = 65'536;
    CHECK(run(options).share >= 0.97);
  }
}

// proves X.4.4
TEST_CASE(a_silent_plane_costs_its_share_and_no_pause) {
  Stream stream(planes({4, plane(500, 256)}));
  PlainNetwork& network = stream.network;
  const auto set_dead = [&](bool dead) { network.link(0, 0).link.dead = network.link(1, 0).link.dead = dead; };
  network.at_time(kPsPerSecond, [&] { set_dead(true); });
  network.at_time(2 * kPsPerSecond, [&] { set_dead(false); });
  network.run_until(kPsPerSecond);
  stream.flow().longest_gap = 0;
  CHECK(stream.judge(3 * kPsPerSecond / 2, 2 * kPsPerSecond, 1500 * kMbps).share >= 0.95);
  CHECK(stream.flow().longest_gap <= 50 * kPsPerMs);
  CHECK(network.plane(stream.flow(), 0).silent);
  CHECK(stream.judge(3 * kPsPerSecond, 7 * kPsPerSecond / 2).share >= 0.97);
  const auto changes = std::count_if(network.events.begin(), network.events.end(),
                                     [](const Event& event) { return event.type == EventType::kPlaneState; });
  CHECK(changes == 2);
  CHECK(network.stats(stream.flow()).timeouts == 0);
}

// Posts a small message, and waits for its completion.
void exchange(PlainNetwork& network, PlainNetwork::Flow& flow) {
  const std::uint64_t completed = flow.completed_bytes;
  flow.message_bytes = flow.left_bytes = 64;
  network.post(flow);
  network.run_until(network.now + 20 * kPsPerMs);
  CHECK(flow.completed_bytes == completed + 64);
}

// proves X.4.11
TEST_CASE(a_plane_that_one_qp_finds_silent_is_left_by_others_with_nothing_in_flight) {
  for (const bool everywhere : {true, false}) {
    PlainOptions options = planes({4, plane(500, 256)});
    options.hosts = 3;
    PlainNetwork network(options);
    const std::size_t stream = network.connect(0, 1), small = network.connect(0, 2);
    network.post(network.flows[stream]);
    network.flows[small].outstanding_max = 1;
    for (int i = 0; i < 20; ++i) exchange(network, network.flows[small]);
    for (const int host : {0, 1, 2}) network.link(host, 0).link.dead = everywhere || host == 1;
    network.run_until(network.now + 200 * kPsPerMs);
    CHECK(network.plane(network.flows[stream], 0).silent);
    CHECK(!network.plane(network.flows[small], 0).silent);

    const std::uint64_t before = network.plane(network.flows[small], 0).sent_packets;
    for (int i = 0; i < 20; ++i) exchange(network, network.flows[small]);
    CHECK(network.stats(network.flows[small]).retransmitted_packets == 0);
    CHECK(network.stats(network.flows[small]).timeouts == 0);
    // A plane that works for this peer is used again after the answer to a probe.
    CHECK((network.plane(network.flows[small], 0).sent_packets > before) == !everywhere);
  }
}

// Planes are probed many times before such a timer expires.
TEST_CASE(dead_paths_are_left_although_the_retry_timer_is_long) {
  PlainOptions options = planes({2, plane(500, 256)});
  options.active_per_port = 1;
  options.timeout_exponent = 20;
  Stream stream(options);
  PlainNetwork& network = stream.network;
  network.at_time(kPsPerSecond, [&] {
    const EvSet& evs = *network.engine(0).ev_set(stream.flow().qp);
    for (EvIndex ev = 0; ev < evs.size(); ++ev) {
      if (evs.is_active(ev)) network.dead_evs.insert(evs.ev(ev).value);
    }
  });
  network.run_until(kPsPerSecond);
  CHECK(network.dead_evs.size() == 2);
  const std::uint64_t completed = stream.flow().completed_bytes;
  network.run_until(5 * kPsPerSecond);
  CHECK(!stream.flow().failed);
  CHECK(stream.flow().completed_bytes > completed + 100'000'000);
}

TEST_CASE(a_plane_that_slows_down_and_recovers_is_followed) {
  Stream stream(planes({4, plane(500, 256)}));
  PlainNetwork& network = stream.network;
  network.at_time(kPsPerSecond, [&] { network.link(1, 0).link.rate_bps = 125 * kMbps; });
  network.at_time(2 * kPsPerSecond, [&] { network.link(1, 0).link.rate_bps = 500 * kMbps; });
  CHECK(stream.judge(3 * kPsPerSecond / 2, 2 * kPsPerSecond, 1625 * kMbps).share >= 0.95);
  CHECK(stream.judge(3 * kPsPerSecond, 7 * kPsPerSecond / 2).share >= 0.97);
}

std::uint64_t dropped(PlainNetwork& network, int to) {
  std::uint64_t packets = 0;
  for (PortId port = 0; port < network.options.planes.size(); ++port) packets += network.link(to, port).dropped;
  return packets;
}

// All hosts send to one receiver: at most 1.10 of the minimum time, and few losses. Regression: windows grew while all
// senders drained the queue at the same time, 0.2 s after the start, and then overfilled it.
void judge_incast(std::int64_t mbps, std::int64_t fifo_kb) {
  PlainOptions options = planes({4, plane(mbps, fifo_kb)});
  options.hosts = 9;
  PlainNetwork network(options);
  const std::uint64_t bytes = 80'000U * static_cast<std::uint64_t>(mbps);
  for (int host = 1; host < options.hosts; ++host) network.flows[network.connect(host, 0)].left_bytes = bytes;
  network.run_until(50 * kPsPerMs);
  const TimePs began = network.now;
  for (PlainNetwork::Flow& flow : network.flows) network.post(flow);
  network.run_until(began + 100 * kPsPerMs);
  const std::uint64_t at_the_start = dropped(network, 0);
  network.run_until(4 * kPsPerSecond);
  TimePs last = 0;
  std::uint64_t sent = 0, resent = 0;
  for (const PlainNetwork::Flow& flow : network.flows) {
    CHECK(flow.done > 0);
    last = std::max(last, flow.done);
    sent += network.stats(flow).sent_packets;
    resent += network.stats(flow).retransmitted_packets;
  }
  const double ideal =
      8.0 * static_cast<double>(bytes) * 8 * (1408 + 122.0) / 1408 / static_cast<double>(network.sum_bps());
  CHECK(static_cast<double>(last - began) / static_cast<double>(kPsPerSecond) <= 1.10 * ideal);
  CHECK(static_cast<double>(resent) <= 0.005 * static_cast<double>(sent));
  CHECK(static_cast<double>(dropped(network, 0) - at_the_start) <= 0.0005 * static_cast<double>(sent));
}

TEST_CASE(an_incast_ends_in_time_with_few_losses) {
  judge_incast(100, 64);
  judge_incast(500, 256);
}

// While the receiver stops, windows end the flow and the queue runs empty: no sign of free capacity.
TEST_CASE(stops_of_the_receiver_of_an_incast_lose_few_packets) {
  PlainOptions options = planes({4, plane(100, 64)});
  options.hosts = 9;
  PlainNetwork network(options);
  for (int host = 1; host < options.hosts; ++host) network.flows[network.connect(host, 0)].left_bytes = 8U << 20;
  network.run_until(50 * kPsPerMs);
  const TimePs began = network.now;
  for (PlainNetwork::Flow& flow : network.flows) network.post(flow);
  for (TimePs at = 150 * kPsPerMs; at < kPsPerSecond; at += 150 * kPsPerMs) {
    network.at_time(began + at, [&] { network.stop(0, network.now + 10 * kPsPerMs); });
    network.at_time(began + at + 15 * kPsPerMs, [&] { network.stop(0, network.now + 25 * kPsPerMs); });
  }
  network.run_until(began + 100 * kPsPerMs);
  const std::uint64_t at_the_start = dropped(network, 0);
  network.run_until(4 * kPsPerSecond);
  std::uint64_t sent = 0;
  for (const PlainNetwork::Flow& flow : network.flows) {
    CHECK(flow.done > 0);
    sent += network.stats(flow).sent_packets;
  }
  CHECK(static_cast<double>(dropped(network, 0) - at_the_start) <= 0.002 * static_cast<double>(sent));
}

// Each host sends to all others: its QPs share the queues of its ports, and the SACKs that it returns share them, too.
TEST_CASE(an_all_to_all_loses_few_packets) {
  PlainOptions options = planes({4, plane(100, 64)});
  options.hosts = 8;
  PlainNetwork network(options);
  for (int from = 0; from < options.hosts; ++from) {
    for (int to = 0; to < options.hosts; ++to) {
      if (to != from) network.flows[network.connect(from, to)].left_bytes = 2U << 20;
    }
  }
  for (PlainNetwork::Flow& flow : network.flows) network.post(flow);
  network.run_until(2 * kPsPerSecond);
  std::uint64_t sent = 0, resent = 0;
  for (const PlainNetwork::Flow& flow : network.flows) {
    CHECK(flow.done > 0);
    sent += network.stats(flow).sent_packets;
    resent += network.stats(flow).retransmitted_packets;
  }
  CHECK(static_cast<double>(resent) <= 0.01 * static_cast<double>(sent));
}

// Reports of planes that are alike overtake each other, too.
TEST_CASE(losses_that_were_none_leave_no_trace) {
  constexpr std::uint32_t kCount = 60, kLate = 10;
  constexpr TimePs kRound = kPsPerMs;
  PlaneSharers sharers;
  PlaneTraffic traffic;
  PlaneSet set(0, 2, /*discover=*/false, 1500, 0, sharers, traffic);
  const TimePs target = set.stats(0).target_delay;
  SendWindow window;
  window.start(1);
  for (Psn psn = 1; psn <= kCount; ++psn) {
    window.append().nominal_bytes = 1500;
    window.sent(psn, 0, 0);
    set.sent(0, 0, 1, {.psn = psn, .bytes = 1500});
  }
  std::vector<Psn> lost;
  for (TimePs now = kRound; now <= 4 * kRound; now += kRound) {
    for (Psn psn = kLate + 1; psn <= kCount; ++psn) {
      set.acknowledged(now, psn, window.record(psn), 0, /*certain=*/true);
      if (window.record(psn).state == SendState::kInFlight) window.leave_flight(psn, SendState::kAcked);
      set.sampled(0, {.rtt = kRound, .transit = {}, .psn = psn}, /*marked=*/false);
    }
    set.end_feedback(now, window, lost);
  }
  CHECK(lost.size() == kLate);
  CHECK(set.stats(0).target_delay < target);
  for (const Psn psn : lost) {
    window.leave_flight(psn, SendState::kLost);
    set.acknowledged(5 * kRound, psn, window.record(psn), 0, /*certain=*/true);
  }
  set.end_feedback(5 * kRound, window, lost);
  CHECK(set.stats(0).target_delay >= target);
}

// A QP that gave up its work no longer counts among those with data on a plane: the others have the target of one QP.
TEST_CASE(a_failed_qp_leaves_the_planes_to_the_others) {
  PlaneSharers sharers;
  PlaneTraffic traffic;
  PlaneSet one(0, 1, /*discover=*/false, 1500, 0, sharers, traffic);
  auto two = std::make_unique<PlaneSet>(0, 1, /*discover=*/false, 1500, 0, sharers, traffic);
  one.sent(0, 0, 0, {.psn = 0, .bytes = 1500});
  two->sent(0, 0, 0, {.psn = 0, .bytes = 1500});
  CHECK(sharers.on(0) == 2);
  one.end_work();
  CHECK(sharers.on(0) == 1);
  two = nullptr;
  one.sent(0, 0, 0, {.psn = 1, .bytes = 1500});
  CHECK(sharers.on(0) == 1);
}

// The start fills every queue, and the ends of bursts are lost first, which is not evidence about later bursts.
TEST_CASE(bursts_grow_again_after_the_start) {
  double sum = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    PlainOptions options = planes({4, plane(100, 64)});
    options.seed = seed;
    Stream stream(options);
    sum += stream.judge(kPsPerSecond, 2 * kPsPerSecond).share;
    for (PortId port = 0; port < 4; ++port) CHECK(stream.network.plane(stream.flow(), port).burst_bytes >= 5 * 1408);
  }
  CHECK(sum / 4 >= 0.97);
}

// A stream has long bursts, which cost less processor time. Whole windows that leave at once would alternate with
// pauses.
TEST_CASE(bursts_are_parts_of_a_window) {
  Stream stream(planes({4, plane(250, 256)}));
  stream.network.run_until(2 * kPsPerSecond);
  for (PortId port = 0; port < 4; ++port) CHECK(stream.network.plane(stream.flow(), port).burst_bytes >= 15'000);
  stream.network.post(stream.network.flows[stream.network.connect(1, 0)]);
  stream.network.run_until(5 * kPsPerSecond);
  for (PortId port = 0; port < 4; ++port) {
    const PlaneStats stats = stream.network.plane(stream.flow(), port);
    CHECK(2 * stats.burst_bytes <= stats.window_bytes);
  }
}

TEST_CASE(a_short_buffer_is_not_overrun_again_and_again) {
  double resent = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    PlainOptions options = planes({4, plane(500, 64)}, 8192);
    options.seed = seed;
    Stream stream(options);
    const Result result = stream.judge(kPsPerSecond, 3 * kPsPerSecond);
    CHECK(result.share >= 0.97);
    resent += result.resent;
  }
  CHECK(resent / 4 <= 0.001);
}

// Time for which a driver may leave acknowledgements unread: zero at the end of a message.
TEST_CASE(patience_ends_with_the_work) {
  PlainNetwork network(planes({4, plane(100, 64)}));
  PlainNetwork::Flow& flow = network.flows[network.connect(0, 1)];
  CHECK(network.engine(0).patience() == kNever);
  flow.outstanding_max = 1;
  flow.message_bytes = flow.left_bytes = 32U << 20;
  network.post(flow);
  network.run_until(400 * kPsPerMs);
  CHECK(network.engine(0).patience() >= 40 * kPsPerUs && network.engine(0).patience() <= kPsPerMs);
  CHECK(network.engine(1).patience() == kNever);  // it only receives
  bool hurried = false;
  for (TimePs now = 400; flow.done == 0 && now < 2000; ++now) {
    network.run_until(now * kPsPerMs);
    hurried = hurried || network.engine(0).patience() == 0;
  }
  CHECK(flow.done > 0 && hurried);
  CHECK(network.engine(0).patience() == kNever);
}

// proves X.4.2
TEST_CASE(planes_that_mark_are_left_to_the_controller) {
  // Marks begin at a quarter of the buffer, which the target delay exceeds.
  std::vector<PlainLink> links{plane(500, 64), plane(500, 256)};
  links[0].marks = true;
  PlainOptions options = planes(links);
  options.signal = PathSignal::kDiscover;
  Stream stream(options);
  const Result result = stream.judge(kPsPerSecond, 2 * kPsPerSecond);
  CHECK(stream.network.plane(stream.flow(), 0).marking);
  CHECK(!stream.network.plane(stream.flow(), 1).marking);
  CHECK(result.share >= 0.75);  // by chance the controller fills half or four fifths of its plane
}

TEST_CASE(a_receiver_that_does_not_count_by_plane_still_works) {
  PlainOptions options = planes({plane(500, 256), plane(100, 64)});
  options.plane_sacks = false;
  options.sack_bytes = 4096;
  CHECK(run(options).share >= 0.9);
}

TEST_CASE(two_streams_on_the_same_planes_share_them) {
  PlainOptions options = planes({4, plane(200, 256)});
  PlainNetwork network(options);
  for (int i = 0; i < 2; ++i) {
    const std::size_t flow = network.connect(0, 1);
    network.at_time((i + 1) * 300 * kPsPerMs, [&network, flow] { network.post(network.flows[flow]); });
  }
  network.run_until(kPsPerSecond);
  const std::uint64_t first = network.flows[0].completed_bytes, second = network.flows[1].completed_bytes;
  network.run_until(4 * kPsPerSecond);
  const double a = static_cast<double>(network.flows[0].completed_bytes - first);
  const double b = static_cast<double>(network.flows[1].completed_bytes - second);
  CHECK((a + b) * (a + b) / (2 * (a * a + b * b)) >= 0.8);  // Jain's index
}

TEST_CASE(small_messages_alone_cause_no_questions) {
  PlainOptions options = planes({4, plane(500, 256)});
  PlainNetwork network(options);
  PlainNetwork::Flow& flow = network.flows[network.connect(0, 1)];
  flow.message_bytes = 64;
  flow.outstanding_max = 1;
  network.run_until(20 * kPsPerMs);
  const std::uint64_t probes = network.stats(flow).probes_sent;
  network.post(flow);
  network.run_until(300 * kPsPerMs);
  CHECK(flow.completed_bytes > 64'000);
  CHECK(network.stats(flow).probes_sent <= probes + 20);
}

// Like a peer that is not ready yet when its first probe arrives.
TEST_CASE(an_unanswered_question_about_an_idle_plane_is_repeated) {
  PlainNetwork network(planes({4, plane(100, 64)}));
  const auto set_dead = [&](bool dead) {
    for (int host = 0; host < 2; ++host) {
      for (PortId port = 0; port < 4; ++port) network.link(host, port).link.dead = dead;
    }
  };
  set_dead(true);
  const PlainNetwork::Flow& flow = network.flows[network.connect(0, 1)];
  network.at_time(network.now + 15 * kPsPerMs, [&] { set_dead(false); });
  network.run_until(300 * kPsPerMs);
  for (PortId port = 0; port < 4; ++port) {
    CHECK(network.plane(flow, port).base_rtt > 0);
    CHECK(network.plane(flow, port).base_rtt < kPsPerMs);
  }
}

TEST_CASE(questions_about_idle_planes_end_without_an_answer) {
  PlainNetwork network(planes({4, plane(100, 64)}));
  for (PortId port = 0; port < 4; ++port) network.link(1, port).link.dead = true;
  const PlainNetwork::Flow& flow = network.flows[network.connect(0, 1)];
  network.run_until(10 * kPsPerSecond);
  CHECK(network.stats(flow).probes_sent <= 4 * 8);
}

}  // namespace
