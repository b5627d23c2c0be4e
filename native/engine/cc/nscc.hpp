// NSCC, the congestion control of MRC ("uet-1.0-nscc"): ECN and queueing delay, clocked by SACKs (A.14).
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "engine/cc/controller.hpp"
#include "engine/cc/nscc_params.hpp"

namespace openmrc {

class Nscc final : public CongestionController {
 public:
  explicit Nscc(const CcConfig& config);

  void on_sent(TimePs now, std::uint64_t bytes) override;
  void on_ack(TimePs now, const AckSample& sample) override;
  void on_trim(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes, bool last_hop) override;
  void on_loss(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes) override;
  std::uint64_t window_bytes() const override { return window_; }
  CcStats stats() const override;
  void rebase(TimePs by) override;
  void hot_memory(HotMemory& memory) const override { memory.push_back(bytes_of(*this)); }

 private:
  __extension__ using Wide = unsigned __int128;

  TimePs measure(TimePs now, const AckSample& sample);
  void steer(TimePs now, const AckSample& sample, TimePs delay);
  void increase_proportional(std::uint64_t new_bytes, TimePs delay);
  void increase_fair(std::uint64_t new_bytes);
  bool increase_fast(std::uint64_t new_bytes, TimePs delay);
  void decrease(TimePs now);
  void adjust(TimePs now, std::uint64_t new_bytes);
  void apply_penalty(const AckSample& sample);
  void end_penalty(bool restore);
  void congestion(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes);
  bool quick_adapt(TimePs now, std::uint64_t in_flight_bytes);
  void start_clocks(TimePs now);
  void forget_increase();
  void set_window(Wide bytes);

  nscc::Params params_;
  std::uint64_t window_ = 0;

  TimePs base_rtt_;              // smallest sample so far
  TimePs full_packet_base_rtt_;  // smallest sample of packets with an MTU of payload
  TimePs average_delay_ = 0;
  TimePs last_sample_ = 0;
  TimePs last_decrease_ = 0;

  Wide increase_q10_ = 0;  // bytes^2 / 1024, waiting for `adjust`
  std::uint64_t adjust_bytes_ = 0;
  TimePs last_adjust_ = 0;
  TimePs last_eta_ = 0;

  std::uint64_t undelayed_bytes_ = 0;  // acknowledged in a row without delay
  bool fast_ = false;

  TimePs qa_end_ = 0;  // end of the period in which `achieved_` is counted
  std::uint64_t achieved_ = 0;
  std::uint64_t bytes_to_ignore_ = 0;
  bool qa_trigger_ = false;  // trim or loss in this period

  std::uint64_t window_before_penalty_ = 0;
  bool penalised_ = false;
  bool penalty_restores_ = false;
  bool last_hop_trimmed_ = false;
  bool started_ = false;
  bool sampled_ = false;
  bool decreased_ = false;

  std::uint64_t proportional_ = 0, fair_ = 0, fast_count_ = 0, decreases_ = 0, quick_adapts_ = 0, trims_ = 0,
                losses_ = 0;
};

}  // namespace openmrc
