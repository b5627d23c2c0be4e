#include "engine/cc/custom_controller.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/policy_clock.hpp"

namespace openmrc {
namespace {

constexpr std::uint64_t kDefaultRateBps = 100'000'000'000;
constexpr TimePs kDefaultBaseRtt = 12 * kPsPerUs;
// Far above any amount in flight, and far below the point at which adding a packet size overflows.
constexpr std::uint64_t kWindowBytesMax = std::uint64_t{1} << 50;

class CustomController final : public CongestionController {
 public:
  CustomController(const CustomControllerFunctions& functions, const CcConfig& config)
      : functions_(functions), state_(functions.state_words) {
    MRC_ASSERT(functions.init != nullptr && !state_.empty());
    window_min_ = config.mtu_bytes;
    window_max_ = config.max_cwnd_bytes == 0 ? kWindowBytesMax : std::min(config.max_cwnd_bytes, kWindowBytesMax);
    window_max_ = std::max(window_max_, window_min_);
    functions_.init(state_.data(), config.mtu_bytes, config.link_rate_bps == 0 ? kDefaultRateBps : config.link_rate_bps,
                    config.base_rtt == 0 ? kDefaultBaseRtt : config.base_rtt, config.max_cwnd_bytes,
                    config.trimming ? 1 : 0);
  }

  void on_sent(TimePs now, std::uint64_t bytes) override {
    if (functions_.on_sent != nullptr) functions_.on_sent(state_.data(), clock_.policy_time(now), bytes);
  }

  void on_ack(TimePs now, const AckSample& sample) override {
    if (sample.rtt > 0 && (base_rtt_ == 0 || sample.rtt < base_rtt_)) base_rtt_ = sample.rtt;
    functions_.on_ack(state_.data(), clock_.policy_time(now), sample.new_bytes, sample.in_flight_bytes, sample.rtt,
                      sample.marked ? 1 : 0, sample.rcv_cwnd_pen, sample.restore_cwnd ? 1 : 0);
  }

  void on_trim(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes, bool last_hop) override {
    ++trims_;
    functions_.on_trim(state_.data(), clock_.policy_time(now), bytes, in_flight_bytes, last_hop ? 1 : 0);
  }

  void on_loss(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes) override {
    ++losses_;
    functions_.on_loss(state_.data(), clock_.policy_time(now), bytes, in_flight_bytes);
  }

  void rebase(TimePs by) override { clock_.rebase(by); }

  std::uint64_t window_bytes() const override {
    return std::clamp(functions_.window_bytes(state_.data()), window_min_, window_max_);
  }

  CcStats stats() const override {
    CcStats stats;
    stats.window_bytes = window_bytes();
    stats.max_window_bytes = window_max_;
    stats.base_rtt = base_rtt_;
    stats.trims = trims_;
    stats.losses = losses_;
    return stats;
  }

 private:
  CustomControllerFunctions functions_;
  PolicyClock clock_;
  std::vector<std::uint64_t> state_;
  std::uint64_t window_min_ = 0;
  std::uint64_t window_max_ = 0;
  TimePs base_rtt_ = 0;  // smallest sample
  std::uint64_t trims_ = 0;
  std::uint64_t losses_ = 0;
};

}  // namespace

std::unique_ptr<CongestionController> make_custom_controller(const CustomControllerFunctions& functions,
                                                             const CcConfig& config) {
  return std::make_unique<CustomController>(functions, config);
}

}  // namespace openmrc
