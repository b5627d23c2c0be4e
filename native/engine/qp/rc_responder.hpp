// The receiving half of the fallback: RoCEv2 RC WRITE in order, a NAK for the first packet out of order.
#pragma once

#include "engine/qp/halves.hpp"
#include "engine/qp/placement.hpp"
#include "engine/qp/psn.hpp"

namespace openmrc {

class RcResponder final : public Responder {
 public:
  RcResponder(QpContext& context, const Ev& path)
      : Responder(context), placement_(context.services.memory, context.init.domain), path_(path) {}

  void start(TimePs now, const QpToRtr& attributes) override;
  void handle_data(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) override;
  void handle_timer(TimePs) override {}
  TimePs next_timer() const override { return kNever; }
  void rebase(TimePs) override {}
  bool refusing() const override {
    return syndrome_ != wire::AethSyndrome::kAck && syndrome_ != wire::AethSyndrome::kNakPsnSequence;
  }
  BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) override;
  void hot_memory(HotMemory& memory) const override { memory.push_back(bytes_of(*this)); }

 private:
  bool well_formed(const wire::Packet& packet) const;
  bool accept(const RxDatagram& datagram, const wire::Packet& packet);
  bool deliver_immediate(std::uint32_t immediate);
  void nak(wire::AethSyndrome syndrome, QpErrorCause cause);

  Placement placement_;
  Ev path_;
  wire::Reth message_;           // of the message under way; its address advances
  std::uint64_t remaining_ = 0;  // bytes still to come
  Psn expected_ = kPsnOrigin;
  std::uint32_t completed_ = 0;
  wire::AethSyndrome syndrome_ = wire::AethSyndrome::kAck;
  bool in_message_ = false;
  bool answer_due_ = false;
  bool sequence_nak_sent_ = false;  // one NAK for each hole
};

}  // namespace openmrc
