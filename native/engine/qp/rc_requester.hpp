// The sending half of RC: RoCEv2 on a single path, go-back-N (X.8.1).
#pragma once

#include "engine/base/ring.hpp"
#include "engine/qp/halves.hpp"
#include "engine/qp/packet_builder.hpp"
#include "engine/qp/rc_paths.hpp"
#include "engine/qp/retry_timer.hpp"
#include "engine/qp/rnr_time.hpp"
#include "engine/qp/rtt.hpp"

namespace openmrc {

class RcRequester final : public Requester {
 public:
  RcRequester(QpContext& context, const RcPaths& paths) : Requester(context), paths_(paths) {}

  void start(TimePs now, const QpToRts& attributes) override;
  void handle_acknowledgement(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) override;
  void handle_timer(TimePs now) override;
  TimePs next_timer() const override;
  void resume(TimePs now) override { timer_base_ = now; }
  void rebase(TimePs by) override;
  BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) override;
  void handle_ports(TimePs now) override;
  std::uint64_t unsent_packets() const override { return queue_.end_psn() - end_; }
  std::uint64_t in_flight_packets() const override { return next_ - first_; }
  void fill(QpStats& stats) const override;
  void hot_memory(HotMemory& memory) const override { memory.push_back(bytes_of(*this)); }

 private:
  void work_began(TimePs now) override { timer_base_ = now; }
  void advance(TimePs now, Psn end);
  bool acknowledge_below(TimePs now, Psn end);
  void handle_result(TimePs now, const RxDatagram& datagram, const wire::Packet& packet);
  bool place_result(const Wqe& wqe, Psn psn, const RxDatagram& datagram, const wire::Packet& packet);
  void repeat_request();
  void handle_nak(TimePs now, Psn psn, const wire::Aeth& aeth);
  void go_back();
  bool ready() const;
  std::uint32_t room() const { return window_packets_ - static_cast<std::uint32_t>(next_ - first_); }
  void add(BurstBuilder& builder, const Wqe& wqe, std::uint32_t payload);
  void add_request(BurstBuilder& builder, const Wqe& wqe);
  Psn request_end(const Wqe& wqe) const;
  void sent(std::uint32_t psns);

  RetryTimer retry_;
  RttEstimator rtt_;
  RcPaths paths_;
  Psn first_ = kPsnOrigin;  // lowest PSN not acknowledged
  Psn next_ = kPsnOrigin;   // next PSN to send; goes back on a NAK or a timeout
  Psn end_ = kPsnOrigin;    // one past the highest PSN sent so far
  Ring<Psn> requests_;      // READs and atomics, also those to be repeated: one past their last PSN
  Psn repeated_at_ = 0;     // of the latest request that was repeated because its answer was lost
  Psn timed_ = 0;           // PSN whose round trip is being measured; 0: none
  TimePs timed_sent_ = 0;
  TimePs timer_base_ = 0;
  TimePs receiver_ready_ = 0;  // end of the wait that an RNR NAK asked for
  Psn not_ready_ = 0;          // PSN of that NAK
  std::uint32_t window_packets_ = 0;
  std::uint8_t reads_max_ = 1;
  std::uint8_t rnr_retries_ = kRnrRetriesForEver;
  std::uint8_t rnr_naks_ = 0;  // since the latest progress
  bool receiver_not_ready_ = false;
  TrafficClass data_class_ = TrafficClass::kNoTrim;
};

}  // namespace openmrc
