// NSCC in closed loops: windows fill a queue, whose delay, marks and trims control the windows. In packets, not bytes.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/cc/controller.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint64_t kGbps = 1'000'000'000;

struct Network {
  std::uint64_t rate_bps = 100 * kGbps;  // of the bottleneck
  TimePs base_rtt = 12 * kPsPerUs;       // without queues and serialization
  std::uint32_t mark_packets = 0;        // queue length at which marking starts; 0: never
  std::uint32_t trim_packets = 0;        // queue length at which trimming starts; 0: never
  std::uint32_t loss_permille = 0;       // random loss
  TimePs jitter = 0;                     // maximum lateness of a SACK, as on a busy host
};

struct Feedback {
  TimePs at;
  TimePs sent;
  std::uint32_t flow;
  enum Kind : std::uint8_t { kAck, kMarked, kTrim, kLoss } kind;
};

// N senders with endless data into one FIFO bottleneck. Steps from one packet's service to the next.
class Loop {
 public:
  Loop(const Network& network, const CcConfig& config, std::uint32_t flows) : network_(network), rng_(5) {
    for (std::uint32_t i = 0; i < flows; ++i) {
      controllers_.push_back(make_controller("nscc", config));
      in_flight_.push_back(0);
      delivered_.push_back(0);
    }
    packet_time_ = static_cast<TimePs>(std::uint64_t{kMtu} * 8 * (kPsPerSecond / 1000) / (network_.rate_bps / 1000));
  }

  void run(TimePs duration) {
    const TimePs end = now_ + duration;
    std::fill(delivered_.begin(), delivered_.end(), 0);
    queue_sum_ = samples_ = trims_ = sent_ = 0;
    for (; now_ < end; now_ += packet_time_) {
      handle_feedback();
      send();
      queue_sum_ += queue_.size();
      ++samples_;
      if (queue_.empty()) continue;
      Feedback served = queue_.front();
      queue_.pop_front();
      ++delivered_[served.flow];
      const TimePs late =
          network_.jitter > 0 ? static_cast<TimePs>(rng_.below(static_cast<std::uint64_t>(network_.jitter))) : 0;
      served.at = std::max(now_ + network_.base_rtt + late, last_at_);
      last_at_ = served.at;
      if (rng_.chance(network_.loss_permille, 1000)) served.kind = Feedback::kLoss;
      feedback_.push_back(served);
    }
    slots_ = duration / packet_time_;
  }

  std::int64_t utilization_permille() const {
    std::int64_t sum = 0;
    for (const std::int64_t packets : delivered_) sum += packets;
    return 1000 * sum / slots_;
  }
  std::int64_t trimmed_permille() const { return static_cast<std::int64_t>(1000 * trims_ / sent_); }
  std::int64_t queue_packets() const { return static_cast<std::int64_t>(queue_sum_ / samples_); }
  std::int64_t least() const { return *std::min_element(delivered_.begin(), delivered_.end()); }
  std::int64_t most() const { return *std::max_element(delivered_.begin(), delivered_.end()); }
  CcStats stats(std::uint32_t flow) const { return controllers_[flow]->stats(); }
  std::uint64_t window_packets(std::uint32_t flow) const { return controllers_[flow]->window_bytes() / kMtu; }

 private:
  void handle_feedback() {
    while (!feedback_.empty() && feedback_.front().at <= now_) {
      const Feedback f = feedback_.front();
      feedback_.pop_front();
      CongestionController& cc = *controllers_[f.flow];
      in_flight_[f.flow] -= kMtu;
      if (f.kind == Feedback::kTrim) {
        cc.on_trim(now_, kMtu, in_flight_[f.flow], true);
      } else if (f.kind == Feedback::kLoss) {
        cc.on_loss(now_, kMtu, in_flight_[f.flow]);
      } else {
        cc.on_ack(now_, {.new_bytes = kMtu,
                         .in_flight_bytes = in_flight_[f.flow],
                         .rtt = now_ - f.sent,
                         .marked = f.kind == Feedback::kMarked});
      }
      CHECK(cc.window_bytes() >= kMtu && cc.window_bytes() <= cc.stats().max_window_bytes);
    }
  }

  void send() {
    const auto flows = static_cast<std::uint32_t>(controllers_.size());
    const auto first = static_cast<std::uint32_t>(rng_.below(flows));
    for (std::uint32_t i = 0; i < flows; ++i) {
      const std::uint32_t flow = (first + i) % flows;
      // A sender's own link can send one or two packets in the time that the bottleneck serves one.
      for (int burst = 0; burst < 2 && in_flight_[flow] + kMtu <= controllers_[flow]->window_bytes(); ++burst) {
        in_flight_[flow] += kMtu;
        controllers_[flow]->on_sent(now_, kMtu);
        enqueue(flow);
      }
    }
  }

  void enqueue(std::uint32_t flow) {
    Feedback packet{.at = 0, .sent = now_, .flow = flow, .kind = Feedback::kAck};
    ++sent_;
    if (network_.trim_packets != 0 && queue_.size() >= network_.trim_packets) {
      ++trims_;
      packet.kind = Feedback::kTrim;
      packet.at = std::max(now_ + network_.base_rtt, last_at_);
      last_at_ = packet.at;
      feedback_.push_back(packet);
      return;
    }
    if (network_.mark_packets != 0 && queue_.size() >= network_.mark_packets) packet.kind = Feedback::kMarked;
    queue_.push_back(packet);
  }

  Network network_;
  Rng rng_;
  TimePs packet_time_ = 0;
  TimePs now_ = 0;
  TimePs last_at_ = 0;
  std::int64_t slots_ = 1;
  std::uint64_t queue_sum_ = 0, samples_ = 0, trims_ = 0, sent_ = 0;
  std::vector<std::unique_ptr<CongestionController>> controllers_;
  std::vector<std::uint64_t> in_flight_;
  std::vector<std::int64_t> delivered_;
  std::deque<Feedback> queue_;
  std::deque<Feedback> feedback_;
};

CcConfig config_for(const Network& network) {
  return {.mtu_bytes = kMtu,
          .link_rate_bps = network.rate_bps,
          .base_rtt = network.base_rtt,
          .trimming = network.trim_packets != 0};
}

// 37 packets are one BDP of 100 Gb/s x 12 us, and the same number in the queue is the target delay.
constexpr std::int64_t kBdpPackets = 37;

TEST_CASE(nscc_scenario_one_flow_fills_its_link) {
  const Network network{.mark_packets = 30};
  Loop loop(network, config_for(network), 1);
  loop.run(2 * kPsPerMs);
  loop.run(2 * kPsPerMs);
  CHECK(loop.utilization_permille() >= 990);
  CHECK(loop.queue_packets() <= kBdpPackets);
}

TEST_CASE(nscc_scenario_flows_share_a_bottleneck) {
  for (const std::uint32_t flows : {2U, 4U, 8U}) {
    const Network network{.mark_packets = 30};
    Loop loop(network, config_for(network), flows);
    loop.run(5 * kPsPerMs);
    loop.run(5 * kPsPerMs);
    CHECK(loop.utilization_permille() >= 950);
    CHECK(loop.queue_packets() <= 3 * kBdpPackets);
    CHECK(loop.most() <= 2 * loop.least());
  }
}

TEST_CASE(nscc_scenario_slower_path_than_the_link) {
  const Network network{.rate_bps = 25 * kGbps, .mark_packets = 6};
  CcConfig config = config_for(network);
  config.link_rate_bps = 100 * kGbps;  // a path of a quarter of the link's rate
  Loop loop(network, config, 1);
  loop.run(5 * kPsPerMs);
  loop.run(5 * kPsPerMs);
  CHECK(loop.utilization_permille() >= 900);
  CHECK(loop.queue_packets() <= kBdpPackets);
}

TEST_CASE(nscc_scenario_incast_with_trimming_adapts_quickly) {
  const Network network{.trim_packets = 56};
  Loop loop(network, config_for(network), 32);
  loop.run(4 * kPsPerMs);
  std::uint64_t quick_adapts = 0;
  for (std::uint32_t flow = 0; flow < 32; ++flow) quick_adapts += loop.stats(flow).quick_adapts;
  CHECK(quick_adapts >= 16);
  loop.run(4 * kPsPerMs);
  CHECK(loop.utilization_permille() >= 950);
  CHECK(loop.queue_packets() <= 56);
  CHECK(loop.most() <= 3 * loop.least());
}

TEST_CASE(nscc_scenario_lasting_incast_hardly_trims) {
  for (const std::uint32_t flows : {8U, 16U, 32U}) {
    const Network network{.trim_packets = 56};
    Loop loop(network, config_for(network), flows);
    loop.run(4 * kPsPerMs);
    loop.run(8 * kPsPerMs);
    CHECK(loop.utilization_permille() >= 950);
    CHECK(loop.trimmed_permille() <= 100);
    CHECK(loop.most() <= 2 * loop.least());
  }
}

TEST_CASE(nscc_scenario_random_loss_does_not_collapse_the_window) {
  for (const auto& [loss_permille, least_permille] : {std::pair{10U, 900}, std::pair{50U, 700}}) {
    const Network network{.loss_permille = loss_permille};
    Loop loop(network, config_for(network), 1);
    loop.run(2 * kPsPerMs);
    loop.run(4 * kPsPerMs);
    CHECK(loop.utilization_permille() >= least_permille);
  }
}

TEST_CASE(nscc_scenario_software_transport_with_scheduling_jitter) {
  // 1 Gb/s, 100 us of path, SACKs up to 1 ms late: the configured RTT includes the host's share, and the samples vary
  // widely.
  const Network network{.rate_bps = kGbps, .base_rtt = 100 * kPsPerUs, .mark_packets = 40, .jitter = kPsPerMs};
  CcConfig config = config_for(network);
  config.base_rtt = 2 * kPsPerMs;
  for (const std::uint32_t loss_permille : {0U, 10U}) {
    Network lossy = network;
    lossy.loss_permille = loss_permille;
    Loop loop(lossy, config, 1);
    loop.run(200 * kPsPerMs);
    loop.run(500 * kPsPerMs);
    CHECK(loop.utilization_permille() >= 970);
  }
}

TEST_CASE(nscc_scenario_recovers_after_an_outage) {
  const Network network{.mark_packets = 30};
  auto cc = make_controller("nscc", config_for(network));
  TimePs now = kPsPerMs;
  for (int i = 0; i < 100; ++i) cc->on_loss(now += kPsPerUs, kMtu, 0);
  CHECK(cc->window_bytes() == kMtu);
  int rtts = 0;
  for (; cc->window_bytes() < 150'000 && rtts < 100; ++rtts) {
    now += network.base_rtt;
    for (std::uint64_t packets = std::max<std::uint64_t>(cc->window_bytes() / kMtu, 1); packets > 0; --packets) {
      cc->on_ack(now, {.new_bytes = kMtu, .in_flight_bytes = (packets - 1) * kMtu, .rtt = network.base_rtt});
    }
  }
  CHECK(rtts <= 15);
}

}  // namespace
