// NSCC rule by rule (A.14): parameters, quadrants, averages, adjustments, decreases, quick adapt, penalty, trims, loss.
#include "engine/cc/nscc.hpp"

#include <algorithm>

#include "engine/base/rng.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;

constexpr std::uint64_t kMtu = 4096;
constexpr TimePs kRtt = 12 * kPsPerUs;
constexpr std::uint64_t kGbps = 1'000'000'000;

// The network of the published tables: scaling_a and scaling_b are 1.
CcConfig reference() { return {.mtu_bytes = kMtu, .link_rate_bps = 100 * kGbps, .base_rtt = kRtt}; }

struct Driver {
  explicit Driver(const CcConfig& config = reference()) : cc(config) {}

  // One SACK of a full packet, 1/37 of a base RTT (a packet's time at line rate) after the one before.
  void ack(TimePs delay, bool marked = false, std::uint64_t new_bytes = kMtu) {
    now += kRtt / 37;
    cc.on_ack(now, {.new_bytes = new_bytes, .in_flight_bytes = in_flight, .rtt = kRtt + delay, .marked = marked});
  }
  void acks(int count, TimePs delay, bool marked = false) {
    for (int i = 0; i < count; ++i) ack(delay, marked);
  }
  std::uint64_t window() const { return cc.window_bytes(); }
  // Shrinks the window far below the maximum, by losses; the average delay stays zero.
  void shrink_to(std::uint64_t bytes) {
    ack(0);
    while (window() > bytes) cc.on_loss(now, std::min(kMtu, window() - bytes), in_flight);
  }

  Nscc cc;
  TimePs now = kPsPerMs;
  std::uint64_t in_flight = 100'000;
};

// proves A.14.2
TEST_CASE(nscc_parameters_follow_the_published_formulas) {
  const nscc::Params p = nscc::derive(reference());
  CHECK(p.bdp_bytes == 150'000);
  CHECK(p.max_window_bytes == 225'000);
  CHECK(p.target_qdelay == kRtt);
  CHECK(p.qa_threshold == 4 * kRtt);
  CHECK(p.adjust_period == kRtt);
  CHECK(p.adjust_bytes == 8 * kMtu);
  CHECK(p.proportional_q10 == 4 * kMtu * 1024);
  CHECK(p.fair_q10 == 5 * kMtu * 1024);
  CHECK(p.eta_q10 == kMtu * 1024 * 15 / 100);
  CHECK(p.fast_q20 == (1U << 20) / 4);
  CHECK(p.no_delay_tolerance == kPsPerUs);
}

// proves A.14.2
TEST_CASE(nscc_parameters_with_trimming) {
  CcConfig config = reference();
  config.trimming = true;
  const nscc::Params p = nscc::derive(config);
  CHECK(p.target_qdelay == 9 * kPsPerUs);
  CHECK(p.qa_threshold == kNever);
  CHECK(p.proportional_q10 == 3 * kMtu * 1024);  // scaling_b = 0.75
}

// proves A.14.2
TEST_CASE(nscc_parameters_scale_with_the_bdp) {
  CcConfig config = reference();
  config.link_rate_bps = 800 * kGbps;
  const nscc::Params p = nscc::derive(config);
  CHECK(p.bdp_bytes == 1'200'000);
  CHECK(p.fair_q10 == 8 * 5 * kMtu * 1024);
  CHECK(p.fast_q20 == 2U << 20);
}

TEST_CASE(nscc_parameters_can_all_be_set) {
  const CcConfig config{.mtu_bytes = 1500,
                        .link_rate_bps = kGbps,
                        .base_rtt = kRtt,
                        .max_cwnd_bytes = 77'000,
                        .target_qdelay = 5,
                        .qa_threshold = 6,
                        .adjust_period = 7,
                        .adjust_bytes = 8,
                        .no_delay_tolerance = 9};
  const nscc::Params p = nscc::derive(config);
  CHECK(p.max_window_bytes == 77'000 && p.target_qdelay == 5 && p.qa_threshold == 6);
  CHECK(p.adjust_period == 7 && p.adjust_bytes == 8 && p.no_delay_tolerance == 9);
}

// proves X.5.4
TEST_CASE(nscc_parameters_of_slow_networks) {
  // A software transport's 1 Gb/s and 2 ms: the published gain would add 18 BDPs in one RTT.
  CcConfig config{.mtu_bytes = kMtu, .link_rate_bps = kGbps, .base_rtt = 2 * kPsPerMs};
  CHECK(nscc::derive(config).proportional_q10 == 250'000 / 4 * 1024);
  config.proportional_cap_permille = 0;
  CHECK(nscc::derive(config).proportional_q10 > 18ULL * 250'000 * 1024);
  // A BDP below one packet still gives a window that reaches every plane.
  CHECK(nscc::derive({.mtu_bytes = kMtu, .link_rate_bps = 1'000'000, .base_rtt = kPsPerUs}).max_window_bytes ==
        8 * kMtu);
  CHECK(nscc::derive({.mtu_bytes = kMtu, .max_cwnd_bytes = 1}).max_window_bytes == kMtu);
}

// proves A.14.3
TEST_CASE(nscc_starts_at_line_rate) {
  const Driver d;
  CHECK(d.window() == 225'000);
  CHECK(d.cc.stats().max_window_bytes == 225'000);
}

// proves X.5.3
TEST_CASE(nscc_starts_with_its_share_of_an_incast_that_is_announced) {
  CcConfig config = reference();
  config.incast_degree = 9;
  CHECK(Driver(config).window() == 25'000);
  CHECK(Driver(config).cc.stats().max_window_bytes == 225'000);
  config.incast_degree = 1000;
  CHECK(Driver(config).window() == kMtu);
}

// proves A.14.13
TEST_CASE(nscc_base_rtt_is_the_smallest_sample) {
  Driver d;
  CHECK(d.cc.stats().base_rtt == kRtt);
  d.ack(5 * kPsPerUs);
  CHECK(d.cc.stats().base_rtt == kRtt);
  d.ack(-2 * kPsPerUs);
  CHECK(d.cc.stats().base_rtt == 10 * kPsPerUs);
  d.ack(0);
  CHECK(d.cc.stats().base_rtt == 10 * kPsPerUs);
}

// proves A.14.4
TEST_CASE(nscc_quadrant_unmarked_below_target_increases_proportionally) {
  const auto grown = [](TimePs delay) {
    Driver d;
    d.shrink_to(20 * kMtu);
    const std::uint64_t before = d.window();
    d.acks(16, delay);
    CHECK(d.cc.stats().proportional > 0);
    CHECK(d.cc.stats().fair == 0 && d.cc.stats().fast == 0 && d.cc.stats().decreases == 0);
    return d.window() - before;
  };
  const std::uint64_t at_quarter = grown(3 * kPsPerUs);
  const std::uint64_t at_half = grown(6 * kPsPerUs);
  CHECK(at_half > 0);
  CHECK(at_quarter > at_half + at_half / 4);
  // 16 packets of 20 are 0.8 RTT: 0.8 x 4 MTU x 0.5, divided by the growing window.
  CHECK(at_half > kMtu * 14 / 10 && at_half < kMtu * 17 / 10);
}

// proves A.14.4
TEST_CASE(nscc_quadrant_unmarked_at_target_increases_fairly) {
  Driver d;
  d.shrink_to(20 * kMtu);
  const std::uint64_t before = d.window();
  d.acks(16, kRtt);
  CHECK(d.cc.stats().fair == 16);
  CHECK(d.window() > before + 3 * kMtu && d.window() < before + 5 * kMtu);  // 0.8 RTT of 5 MTU
}

// proves A.14.4
TEST_CASE(nscc_quadrant_marked_below_target_does_nothing_but_eta) {
  Driver d;
  d.shrink_to(20 * kMtu);
  const CcStats before = d.cc.stats();
  d.acks(36, kRtt / 2, true);
  const CcStats after = d.cc.stats();
  CHECK(after.proportional == before.proportional && after.fair == before.fair && after.decreases == before.decreases);
  CHECK(after.window_bytes <= before.window_bytes + 614 * 2 && after.window_bytes >= before.window_bytes);
}

// proves A.14.4, A.14.7
TEST_CASE(nscc_quadrant_marked_at_target_decreases_by_the_average) {
  Driver d;
  d.acks(400, 2 * kRtt);  // average reaches 2 x target
  const std::uint64_t before = d.window();
  CHECK(before == 225'000);
  d.ack(2 * kRtt, true);
  CHECK(d.cc.stats().decreases == 1);
  // 1 - 0.8 x (24 - 12) / 24 = 0.6, to a permille of the average's rounding
  CHECK(d.window() >= before * 598 / 1000 && d.window() <= before * 602 / 1000);
}

// proves A.14.7
TEST_CASE(nscc_decrease_is_bounded_by_max_md_jump) {
  Driver d;
  d.acks(400, 40 * kRtt);
  const std::uint64_t before = d.window();
  d.ack(40 * kRtt, true);
  CHECK(d.cc.stats().decreases == 1);
  CHECK(d.window() == before / 2);
}

// proves A.14.7
TEST_CASE(nscc_decrease_needs_the_average_above_target) {
  Driver d;
  d.acks(100, 0);
  d.ack(3 * kRtt, true);  // one late sample: the average is still low
  CHECK(d.cc.stats().decreases == 0);
  CHECK(d.window() == 225'000);
}

// proves A.14.7
TEST_CASE(nscc_decreases_once_per_base_rtt) {
  Driver d;
  d.acks(400, 2 * kRtt);
  d.acks(37, 2 * kRtt, true);
  CHECK(d.cc.stats().decreases == 1);
  d.acks(37, 2 * kRtt, true);
  CHECK(d.cc.stats().decreases == 2);
}

// proves A.14.13
TEST_CASE(nscc_average_follows_within_an_rtt_and_ignores_single_spikes) {
  Driver d;
  d.acks(100, 0);
  d.ack(80 * kPsPerUs);
  CHECK(d.cc.stats().average_delay < 3 * kPsPerUs);
  Driver e;
  e.acks(100, 0);
  e.acks(37, 20 * kPsPerUs);
  CHECK(e.cc.stats().average_delay > 12 * kPsPerUs);
  e.now += kRtt;  // after silence the next sample has full weight
  e.ack(kPsPerUs);
  CHECK(e.cc.stats().average_delay < 2 * kPsPerUs);
}

// Of 16 packets one takes a slow path, is marked, and causes a SACK between two of the byte trigger.
TEST_CASE(nscc_average_weighs_a_mark_as_one_packet) {
  Driver d;
  for (int i = 0; i < 1600; ++i) {
    if (i % 16 == 13) {
      d.now += kRtt / 37;
      d.ack(40 * kPsPerUs, true, 2 * kMtu);
    } else if (i % 16 == 15) {
      d.now += kRtt / 37;
      d.ack(0, false, 2 * kMtu);
    } else if (i % 4 == 3) {
      d.now += 3 * (kRtt / 37);
      d.ack(0, false, 4 * kMtu);
    }
  }
  CHECK(d.cc.stats().average_delay < 4 * kPsPerUs);
  CHECK(d.cc.stats().decreases == 0);
}

TEST_CASE(nscc_without_a_sample_the_average_decides) {
  Driver d;
  d.acks(400, 2 * kRtt);
  const CcStats before = d.cc.stats();
  d.now += 1;
  d.cc.on_ack(d.now, {.new_bytes = kMtu, .in_flight_bytes = d.in_flight});
  CHECK(d.cc.stats().average_delay == before.average_delay);
  CHECK(d.cc.stats().base_rtt == before.base_rtt);
  CHECK(d.cc.stats().fair == before.fair + 1);
}

// proves A.14.5
TEST_CASE(nscc_adjusts_every_adjust_bytes_or_period) {
  Driver d;
  d.shrink_to(20 * kMtu);
  d.acks(7, kRtt / 4);  // the 8th packet of the period, with shrink_to's
  const std::uint64_t adjusted = d.window();
  CHECK(adjusted > 20 * kMtu);
  d.acks(7, kRtt / 4);
  CHECK(d.window() == adjusted);
  d.ack(kRtt / 4);
  CHECK(d.window() > adjusted);
  const std::uint64_t by_bytes = d.window();
  d.now += kRtt;
  d.ack(kRtt / 4);
  CHECK(d.window() > by_bytes);
}

// proves A.14.5
TEST_CASE(nscc_eta_comes_once_per_period) {
  CcConfig config = reference();
  config.fi_permille = 0;
  Driver d(config);
  d.shrink_to(20 * kMtu);
  const std::uint64_t before = d.window();
  d.acks(37 * 4 + 8, kRtt);  // four periods and the bytes that make the last adjustment
  CHECK(d.window() >= before + 4 * 614 && d.window() <= before + 5 * 614 + 5);
}

// proves A.14.6
TEST_CASE(nscc_fast_increase_after_a_window_without_delay) {
  Driver d;
  d.shrink_to(10 * kMtu);
  d.acks(9, 0);
  CHECK(d.cc.stats().fast == 0);
  d.acks(8, 0);  // the window has grown to about 14 packets meanwhile
  CHECK(d.cc.stats().fast > 0);
  const CcStats before = d.cc.stats();
  d.ack(0);
  CHECK(d.cc.stats().fast == before.fast + 1);
  CHECK(d.window() >= before.window_bytes + kMtu / 4);
  d.ack(2 * kPsPerUs);  // some delay ends it
  d.ack(0);
  CHECK(d.cc.stats().fast == before.fast + 1);
}

// proves A.14.6
TEST_CASE(nscc_fast_increase_ends_with_a_mark_or_a_loss) {
  for (const bool loss : {false, true}) {
    Driver d;
    d.shrink_to(10 * kMtu);
    d.acks(20, 0);
    const std::uint64_t fast = d.cc.stats().fast;
    CHECK(fast > 0);
    if (loss) {
      d.cc.on_loss(d.now, kMtu, d.in_flight);
    } else {
      d.ack(0, true);
    }
    d.acks(3, 0);
    CHECK(d.cc.stats().fast == fast);
  }
}

// proves A.14.10
TEST_CASE(nscc_trims_and_losses_take_their_packet) {
  Driver d;
  d.ack(0);
  d.cc.on_trim(d.now, kMtu, d.in_flight, false);
  CHECK(d.window() == 225'000 - kMtu);
  d.cc.on_trim(d.now, kMtu, d.in_flight, true);
  d.cc.on_loss(d.now, 1000, d.in_flight);
  CHECK(d.window() == 225'000 - 2 * kMtu - 1000);
  CHECK(d.cc.stats().trims == 2 && d.cc.stats().losses == 1);
  for (int i = 0; i < 100; ++i) d.cc.on_loss(d.now, kMtu, d.in_flight);
  CHECK(d.window() == kMtu);
}

// A period of quick adapt is base RTT + target = two base RTTs; MaxWnd / 8 is 28,125 bytes. Here one or two packets are
// delivered per period.
struct Starved : Driver {
  explicit Starved(const CcConfig& config = reference()) : Driver(config) { starve(6, 0); }
  void starve(int packets, TimePs delay, bool marked = false) {
    for (int i = 0; i < packets; ++i) {
      ack(delay, marked);
      now += kRtt;
    }
  }
};

// proves A.14.8
TEST_CASE(nscc_quick_adapt_on_loss_falls_to_the_achieved_amount) {
  Starved d;
  CHECK(d.cc.stats().quick_adapts == 0);
  d.cc.on_loss(d.now, kMtu, 200'000);
  for (int i = 0; i < 4 && d.cc.stats().quick_adapts == 0; ++i) d.starve(1, 0);
  CHECK(d.cc.stats().quick_adapts == 1);
  CHECK(d.window() >= kMtu && d.window() <= 4 * kMtu);
}

CcConfig with_trimming() {
  CcConfig config = reference();
  config.trimming = true;
  return config;
}

// proves X.5.1
TEST_CASE(nscc_delay_counts_as_a_mark_once_the_last_hop_has_trimmed) {
  Driver d(with_trimming());
  d.shrink_to(20 * kMtu);
  d.cc.on_trim(d.now, kMtu, d.in_flight, true);
  const std::uint64_t trimmed = d.window();
  d.acks(200, 2 * kRtt);
  CHECK(d.cc.stats().fair == 0);
  CHECK(d.cc.stats().decreases >= 3);
  CHECK(d.window() < trimmed);
}

TEST_CASE(nscc_delay_is_no_mark_without_a_trim_on_the_last_hop) {
  for (const bool last_hop : {false, true}) {
    CcConfig config = with_trimming();
    config.ignore_last_hop_trims = last_hop;
    Driver d(config);
    d.shrink_to(20 * kMtu);
    d.cc.on_trim(d.now, kMtu, d.in_flight, last_hop);
    const std::uint64_t trimmed = d.window();
    d.acks(200, 2 * kRtt);
    CHECK(d.cc.stats().fair == 200);
    CHECK(d.cc.stats().decreases == 0);
    CHECK(d.window() > trimmed);
  }
}

// proves X.5.1
TEST_CASE(nscc_last_hop_trim_is_forgotten_at_the_largest_window) {
  Driver d(with_trimming());
  d.shrink_to(40 * kMtu);
  d.cc.on_trim(d.now, kMtu, d.in_flight, true);
  for (int i = 0; i < 5'000 && d.window() < 225'000; ++i) d.ack(0);
  CHECK(d.window() == 225'000);
  d.acks(10, 2 * kRtt);
  CHECK(d.cc.stats().fair == 10);
}

// proves X.5.2
TEST_CASE(nscc_full_packets_are_not_compared_with_short_ones) {
  constexpr TimePs kFaster = kPsPerUs;  // advantage of a short packet at the switches
  Driver d;
  const auto ack_short = [&d](TimePs delay) {
    d.now += kRtt / 37;
    d.cc.on_ack(d.now, {.new_bytes = 256, .in_flight_bytes = 0, .rtt = kRtt - kFaster + delay, .short_packet = true});
  };
  d.ack(0);
  ack_short(0);
  d.acks(200, 0);
  CHECK(d.cc.stats().base_rtt == kRtt - kFaster);
  CHECK(d.cc.stats().average_delay == 0);
  for (int i = 0; i < 200; ++i) ack_short(kFaster / 2);
  CHECK(d.cc.stats().average_delay >= kFaster / 3);
}

// proves A.14.8
TEST_CASE(nscc_quick_adapt_on_trim_and_on_delay) {
  Starved trimmed;
  trimmed.cc.on_trim(trimmed.now, kMtu, 200'000, true);
  trimmed.starve(3, 0);
  CHECK(trimmed.cc.stats().quick_adapts == 1);
  Starved delayed;
  delayed.starve(6, 6 * kRtt);
  CHECK(delayed.cc.stats().quick_adapts >= 1);
  CcConfig trimming = reference();
  trimming.trimming = true;
  Starved with_trimming(trimming);
  with_trimming.starve(6, 6 * kRtt);
  CHECK(with_trimming.cc.stats().quick_adapts == 0);  // with trimming, delay is not a trigger
}

// proves A.14.8
TEST_CASE(nscc_quick_adapt_needs_starvation) {
  Driver d;
  for (int i = 0; i < 20; ++i) {
    d.acks(20, 0);
    d.cc.on_loss(d.now, kMtu, d.in_flight);
  }
  CHECK(d.cc.stats().quick_adapts == 0);
  CHECK(d.window() > 100'000);
  Driver third;  // of the largest window in each period: far less than the window, but more than an eighth
  for (int i = 0; i < 300; ++i) {
    if (i == 90) third.cc.on_loss(third.now, kMtu, third.in_flight);
    third.ack(0, false, kMtu / 4);
  }
  CHECK(third.cc.stats().quick_adapts == 0 && third.cc.stats().losses == 1);
}

TEST_CASE(nscc_quick_adapt_can_be_disabled) {
  CcConfig config = reference();
  config.disable_qa = true;
  Starved d(config);
  d.cc.on_trim(d.now, kMtu, 200'000, true);
  d.starve(20, 6 * kRtt);
  CHECK(d.cc.stats().quick_adapts == 0);
}

TEST_CASE(nscc_quick_adapt_does_not_judge_silence) {
  Driver d;
  d.acks(78, 0);  // a new period has just begun: little achieved in it
  d.cc.on_loss(d.now, kMtu, d.in_flight);
  d.now += 50 * kRtt;
  d.ack(40 * kRtt);  // the first feedback after a long stall, itself late
  CHECK(d.cc.stats().quick_adapts == 0);
  CHECK(d.window() > 200'000);
}

// proves A.14.9
TEST_CASE(nscc_quick_adapt_ignores_marks_and_trims_of_packets_in_flight) {
  Starved d;
  d.in_flight = 25 * kMtu;
  d.cc.on_trim(d.now, kMtu, d.in_flight, true);
  for (int i = 0; i < 6 && d.cc.stats().quick_adapts == 0; ++i) d.starve(1, 3 * kRtt, true);
  CHECK(d.cc.stats().quick_adapts == 1);
  const std::uint64_t adapted = d.window();
  CHECK(adapted < 5 * kMtu);
  const std::uint64_t decreases = d.cc.stats().decreases;
  d.acks(12, 3 * kRtt, true);
  for (int i = 0; i < 12; ++i) d.cc.on_trim(d.now, kMtu, d.in_flight, true);
  CHECK(d.cc.stats().decreases == decreases);
  CHECK(d.window() == adapted);
  d.acks(40, 3 * kRtt, true);
  CHECK(d.cc.stats().decreases > decreases);  // afterwards marks count again
}

// proves A.14.11
TEST_CASE(nscc_penalty_64_for_one_rtt_halves_the_window) {
  Driver d;
  d.ack(0);
  std::uint64_t in_flight = d.window();
  std::uint64_t acked = 0;
  for (const std::uint64_t total = d.window(); acked < total; acked += kMtu) {
    in_flight -= kMtu;
    d.now += kRtt / 37;
    d.cc.on_ack(d.now, {.new_bytes = kMtu, .in_flight_bytes = in_flight, .rtt = kRtt, .rcv_cwnd_pen = 64});
    while (in_flight + kMtu <= d.window()) in_flight += kMtu;
  }
  CHECK(d.window() > 225'000 * 48 / 100 && d.window() < 225'000 * 52 / 100);
}

// proves A.14.11
TEST_CASE(nscc_penalty_127_tends_to_one_packet) {
  Driver d;
  std::uint64_t in_flight = d.window();
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t bytes = std::min(in_flight, kMtu);
    in_flight -= bytes;
    d.now += kRtt / 37;
    d.cc.on_ack(d.now, {.new_bytes = bytes, .in_flight_bytes = in_flight, .rtt = kRtt, .rcv_cwnd_pen = 127});
    while (in_flight + kMtu <= d.window()) in_flight += kMtu;
  }
  CHECK(d.window() >= kMtu && d.window() < 2 * kMtu);
}

// proves A.14.11
TEST_CASE(nscc_penalty_caps_the_window_at_the_amount_in_flight) {
  Driver d;
  d.cc.on_ack(++d.now, {.new_bytes = kMtu, .in_flight_bytes = 10 * kMtu, .rtt = kRtt, .rcv_cwnd_pen = 1});
  CHECK(d.window() == 12 * kMtu - kMtu / 128);
}

// proves A.14.12
TEST_CASE(nscc_restore_cwnd_brings_the_earlier_window_back) {
  for (const bool restore : {false, true}) {
    Driver d;
    d.ack(0);
    for (int i = 0; i < 20; ++i) {
      d.cc.on_ack(
          ++d.now,
          {.new_bytes = kMtu, .in_flight_bytes = 20 * kMtu, .rtt = kRtt, .rcv_cwnd_pen = 100, .restore_cwnd = restore});
    }
    CHECK(d.window() < 22 * kMtu);
    d.cc.on_ack(++d.now, {.new_bytes = kMtu, .in_flight_bytes = 20 * kMtu, .rtt = kRtt});
    CHECK((d.window() == 225'000) == restore);
  }
}

// proves A.14.11
TEST_CASE(nscc_penalty_can_be_ignored) {
  CcConfig config = reference();
  config.ignore_rcv_penalty = true;
  Driver d(config);
  for (int i = 0; i < 20; ++i) {
    d.cc.on_ack(++d.now, {.new_bytes = kMtu, .in_flight_bytes = 2 * kMtu, .rtt = kRtt, .rcv_cwnd_pen = 127});
  }
  CHECK(d.window() == 225'000);
}

// proves A.14.14
TEST_CASE(nscc_window_stays_in_bounds_for_any_feedback) {
  constexpr std::uint64_t kRates[] = {0, 1'000'000, kGbps, 100 * kGbps, 800 * kGbps, UINT64_MAX};
  constexpr TimePs kRtts[] = {-5, 0, 1, kPsPerUs, kRtt, 50 * kPsPerMs, 5 * kPsPerSecond, kNever};
  Rng rng(11);
  for (const std::uint64_t rate : kRates) {
    for (const TimePs rtt : kRtts) {
      CcConfig config{.link_rate_bps = rate, .base_rtt = rtt, .trimming = rng.chance(1, 2)};
      config.mtu_bytes = static_cast<std::uint32_t>(rng.below(10'000));
      if (rng.chance(1, 4)) config.max_cwnd_bytes = rng.next() >> rng.below(64);
      if (rng.chance(1, 4)) config.proportional_cap_permille = static_cast<std::uint32_t>(rng.next());
      if (rng.chance(1, 4)) config.fi_permille = config.eta_permille = config.fi_scale_permille = UINT32_MAX;
      if (rng.chance(1, 4)) config.gamma_permille = config.max_md_jump_permille = config.qa_gate_shift = UINT32_MAX;
      Nscc cc(config);
      const nscc::Params params = nscc::derive(config);
      TimePs now = 0;
      for (int i = 0; i < 600; ++i) {
        now += static_cast<TimePs>(rng.next() >> (24 + rng.below(40)));
        const std::uint64_t bytes = rng.next() >> rng.below(64);
        const auto sample = static_cast<TimePs>(rng.next() >> rng.below(64));
        switch (rng.below(6)) {
          case 0:
            cc.on_loss(now, bytes, rng.next() >> rng.below(64));
            break;
          case 1:
            cc.on_trim(now, bytes, rng.next() >> rng.below(64), rng.chance(1, 2));
            break;
          case 2:
            cc.on_sent(now, bytes);
            break;
          default:
            cc.on_ack(now, {.new_bytes = bytes,
                            .in_flight_bytes = rng.next() >> rng.below(64),
                            .rtt = sample,
                            .marked = rng.chance(1, 3),
                            .rcv_cwnd_pen = static_cast<std::uint8_t>(rng.chance(1, 8) ? rng.below(256) : 0),
                            .restore_cwnd = rng.chance(1, 2)});
        }
        CHECK(cc.window_bytes() >= params.mtu_bytes);
        CHECK(cc.window_bytes() <= params.max_window_bytes);
      }
    }
  }
}

TEST_CASE(nscc_same_inputs_same_window) {
  std::uint64_t windows[2];
  for (std::uint64_t& window : windows) {
    Driver d;
    Rng rng(3);
    for (int i = 0; i < 3000; ++i) d.ack(static_cast<TimePs>(rng.below(30 * kPsPerUs)), rng.chance(1, 5));
    window = d.window();
  }
  CHECK(windows[0] == windows[1]);
}

// proves A.14.15
TEST_CASE(controllers_are_registered_by_name) {
  const auto names = controller_names();
  for (const std::string_view name : {"nscc", "none"}) {
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
    CHECK(make_controller(name, reference()) != nullptr);
  }
  CHECK(make_controller("dctcp", reference()) == nullptr);
}

// proves A.14.15
TEST_CASE(controller_none_never_limits) {
  const auto cc = make_controller("none", {});
  for (int i = 0; i < 100; ++i) cc->on_loss(i, 1 << 20, 1 << 20);
  cc->on_trim(1, 1, 1, true);
  cc->on_ack(1, {.new_bytes = 1, .rtt = 500, .marked = true, .rcv_cwnd_pen = 127});
  CHECK(cc->window_bytes() > std::uint64_t{1} << 40);
  CHECK(cc->window_bytes() + (std::uint64_t{1} << 40) > cc->window_bytes());
  CHECK(cc->stats().losses == 100 && cc->stats().trims == 1 && cc->stats().base_rtt == 500);
}

}  // namespace
