// Posted messages of one QP, in posting order: their PSNs and bytes, and their completion in order.
#pragma once

#include <cstdint>
#include <deque>

#include "engine/qp/context.hpp"
#include "engine/qp/psn.hpp"

namespace openmrc {

// A posted WRITE or WRITE_IMM.
struct Wqe {
  SendWr wr;
  const std::uint8_t* local = nullptr;  // nullptr: phantom region or no bytes
  Region* region = nullptr;             // holds its posted_sends; nullptr for a message of 0 bytes
  Psn first_psn = 0;
  std::uint32_t packet_count = 1;
  std::uint16_t msn = 0;
  std::uint16_t rqmsn = 0;

  Psn end_psn() const { return first_psn + packet_count; }
};

class SendQueue {
 public:
  explicit SendQueue(QpContext& context) : context_(context) {}

  void start(std::uint32_t sq_psn) { next_psn_ = first_psn(sq_psn); }

  // Checks the request against the local region and appends it.
  Status post(const SendWr& wr);

  bool empty() const { return wqes_.empty(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(wqes_.size()); }
  Psn end_psn() const { return next_psn_; }               // one past the last posted PSN
  std::uint64_t completed() const { return completed_; }  // messages completed since RTS

  // The message that `psn` belongs to.
  const Wqe& at(Psn psn) const;
  const Wqe& front() const { return wqes_.front(); }

  // Completes the first message with success.
  void complete_front();
  // Completes the first message, if any, with `status`, and everything behind it as flushed.
  void fail_all(WcStatus status);
  void discard_all();

 private:
  void finish(WcStatus status);

  QpContext& context_;
  std::deque<Wqe> wqes_;
  mutable std::uint64_t latest_ = 0;  // index of the message that at() returned last: usually the next call's, too
  Psn next_psn_ = kPsnOrigin;
  std::uint64_t posted_ = 0;      // MSN of the next message
  std::uint64_t posted_imm_ = 0;  // RQMSN of the next message
  std::uint64_t completed_ = 0;
};

}  // namespace openmrc
