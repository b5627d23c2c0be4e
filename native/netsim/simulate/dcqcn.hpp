// DCQCN, the rate control of RoCEv2 (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015):
// the receiver of a marked packet sends a CNP, the sender cuts its rate by alpha / 2 and climbs back in three stages.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"

namespace openmrc::netsim {

// Defaults are the paper's (section 5, and table 1 of Zhu et al., "ECN or Delay", CoNEXT 2016, which repeats them).
// NVIDIA ships others: increase timer 300 us, rate steps 5 and 50 Mb/s, one stage of fast recovery, CNPs 4 us apart.
struct DcqcnSettings {
  TimePs cnp_interval_ps = 50 * kPsPerUs;     // N: at most one CNP per QP in this time
  TimePs alpha_timer_ps = 55 * kPsPerUs;      // K: alpha decays once per so much time without CNP; above cnp_interval
  TimePs increase_timer_ps = 55 * kPsPerUs;   // T: one step up per so much time,
  std::uint64_t increase_bytes = 10'000'000;  // B: and one per so many bytes sent
  std::uint32_t gain_shift = 8;               // g = 2^-8
  std::uint32_t recovery_stages = 5;          // F: steps of fast recovery before the target itself rises
  // Whether every CNP makes the rate of that moment the target, as the paper writes it. False: only the first CNP after a
  // step up does, so that a series of CNPs is one event; NVIDIA's firmware (CLAMP_TGT_RATE) and the authors' simulator.
  bool clamp_target = false;
  std::uint64_t rate_ai_bps = 0;   // additive step of the target; 0: a thousandth of the port's rate, which is the
                                   // paper's 40 Mb/s for its 40 Gb/s
  std::uint64_t rate_hai_bps = 0;  // hyper step; 0: ten times rate_ai_bps, the ratio of NVIDIA's 50 and 5 Mb/s
  std::uint64_t rate_min_bps = 0;  // floor; 0: a thousandth of the port's rate (100 Mb/s of 100 Gb/s in the DCQCN that
                                   // accompanies HPCC, SIGCOMM 2019; the paper names none)
};

// The reaction point of one QP. Its timers are caught up with when a rate is asked for: nothing else can see them.
class Dcqcn {
 public:
  // `settings` is shared by all QPs and must outlive this.
  Dcqcn(const DcqcnSettings& settings, std::uint64_t line_rate_bps);

  void on_cnp(TimePs now);
  void on_sent(TimePs now, std::uint64_t wire_bytes);
  std::uint64_t rate_bps(TimePs now);  // at most the line rate; never 0
  std::uint64_t last_rate_bps() const { return rate_; }
  bool limited() const { return limited_; }  // below the line rate

  TimePs next_increase() const { return limited_ ? next_increase_ : kNever; }  // by the timer

  std::uint32_t alpha() const { return alpha_; }  // of kAlphaOne
  static constexpr std::uint32_t kAlphaOne = 1U << 20;

 private:
  void advance(TimePs now);
  void increase();
  std::uint64_t floor_bps() const;

  const DcqcnSettings* settings_;
  std::uint64_t line_rate_;
  std::uint64_t rate_;    // RC
  std::uint64_t target_;  // RT
  std::uint64_t bytes_ = 0;
  TimePs next_decay_ = kNever;
  TimePs next_increase_ = kNever;
  std::uint32_t alpha_ = kAlphaOne;
  std::uint32_t timer_steps_ = 0, byte_steps_ = 0;  // T and BC
  bool limited_ = false;
};

}  // namespace openmrc::netsim
