// The receiving half of RC: requests in order, a NAK for the first packet out of order (X.8.1).
#pragma once

#include <vector>

#include "engine/base/ring.hpp"
#include "engine/qp/halves.hpp"
#include "engine/qp/packet_builder.hpp"
#include "engine/qp/placement.hpp"
#include "engine/qp/psn.hpp"
#include "engine/qp/rc_paths.hpp"

namespace openmrc {

class RcResponder final : public Responder {
 public:
  RcResponder(QpContext& context, const RcPaths& paths)
      : Responder(context), placement_(context.services.memory, context.init.domain), paths_(paths) {}

  void start(TimePs now, const QpToRtr& attributes) override;
  void handle_data(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) override;
  void handle_timer(TimePs) override {}
  TimePs next_timer() const override { return kNever; }
  void rebase(TimePs) override {}
  bool refusing() const override { return refusing_; }
  void add_ack(TxBurst& burst) override;
  BuildResult build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) override;
  bool answering() const override { return !answers_.empty() || acknowledgement_waits_; }
  BuildResult build_answers(PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) override;
  void hot_memory(HotMemory& memory) const override { memory.push_back(bytes_of(*this)); }

 private:
  // Answer to a READ or atomic that has yet to leave.
  struct Answer {
    Psn next = 0;  // PSN of its next packet
    Psn end = 0;
    std::uint64_t address = 0;  // of the next byte
    std::uint64_t bytes = 0;    // still to be sent
    std::uint32_t rkey = 0;
    bool atomic = false;
    bool begun = false;
    bool repeated = false;       // of a duplicate
    std::uint64_t original = 0;  // result of an atomic
  };
  // Result of an atomic, for duplicates of its request.
  struct Executed {
    Psn psn = 0;
    std::uint64_t original = 0;
  };

  bool report_due() const { return ack_due_ || nak_due_ || forgotten_ != 0; }
  void handle_duplicate(Psn psn, const wire::Packet& packet);
  void repeat_read(Psn psn, const wire::Reth& reth);
  void repeat_atomic(Psn psn);
  bool accept_result(const wire::Packet& packet);
  bool accept_read(const wire::Reth& reth);
  bool accept_atomic(const wire::Packet& packet);
  bool allows(std::uint32_t rkey, std::uint64_t address, std::uint64_t bytes, std::uint8_t access) const;
  std::uint64_t execute(const wire::Packet& packet) const;
  Psn packets_of(std::uint64_t bytes) const;
  void add_answer(BurstBuilder& builder, Answer& answer, std::uint32_t payload);
  bool well_formed(const wire::Packet& packet) const;
  bool permits(wire::Opcode opcode) const;
  bool lacks_receive(const wire::Packet& packet) const;
  bool accept(const RxDatagram& datagram, const wire::Packet& packet);
  bool place_write(const std::uint8_t* payload, const wire::Packet& packet);
  bool place_send(const std::uint8_t* payload, const wire::Packet& packet);
  bool complete_receive(const wire::Packet& packet);
  void add_report(BurstBuilder& builder);
  void nak(wire::AethSyndrome syndrome);
  void refuse(wire::AethSyndrome syndrome, QpErrorCause cause);

  Placement placement_;
  RcPaths paths_;
  std::vector<Answer> answers_;  // by PSN
  Ring<Executed> executed_;
  wire::Reth message_;           // of the WRITE under way; its address advances
  std::uint64_t remaining_ = 0;  // bytes of the WRITE still to come
  std::uint64_t placed_ = 0;     // bytes of the SEND so far
  Psn expected_ = kPsnOrigin;
  std::uint32_t completed_ = 0;
  wire::AethSyndrome syndrome_ = wire::AethSyndrome::kAck;  // of the NAK that is due
  std::uint8_t reads_max_ = 1;
  bool in_message_ = false;
  bool in_send_ = false;
  Psn forgotten_ = 0;  // an atomic whose result is repeated in vain; 0: none
  bool ack_due_ = false;
  bool nak_due_ = false;
  bool acknowledgement_waits_ = false;  // until the answers have left
  bool refusing_ = false;
  bool hole_reported_ = false;  // one NAK for each hole
};

}  // namespace openmrc
