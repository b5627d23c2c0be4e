// DCQCN, the rate control of RoCEv2 (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015):
// the receiver of a marked packet sends a CNP, the sender cuts its rate by alpha / 2 and climbs back in three stages.
#pragma once

#include <cstdint>

#include "engine/base/time.hpp"
#include "netsim/generated/simulator.hpp"

namespace openmrc::netsim {

// The reaction point of one QP. Its timers are updated when a rate is requested, since nothing else observes them.
class Dcqcn {
 public:
  // `settings` is shared by all QPs and must outlive this object.
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
