// Posted messages of one QP, in posting order: their PSNs and bytes, and their completion in order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/ring.hpp"
#include "engine/qp/context.hpp"
#include "engine/qp/psn.hpp"
#include "engine/qp/receive_queue.hpp"

namespace openmrc {

// Bytes of a message that no region holds in one piece. Pieces are ordered by their position in the message and cover it.
// No packet spans two of them: the few packets in which the memory changes are staged.
struct Gather {
  struct Piece {
    std::uint64_t end = 0;  // one past its last byte, in the message
    const std::uint8_t* bytes = nullptr;
  };

  const std::uint8_t* at(std::uint64_t offset) const;

  std::vector<Piece> pieces;
  std::vector<Region*> regions;  // whose posted_sends it holds
  std::uint8_t* staged = nullptr;
  std::size_t staged_bytes = 0;
};

// A posted message, or a READ or atomic.
struct Wqe {
  SendWr wr;                               // without the list of SGEs, but with the length of all
  const std::uint8_t* local = nullptr;     // nullptr: phantom region, no bytes, or gathered
  Region* region = nullptr;                // holds its posted_sends; nullptr for a message of 0 bytes, or gathered
  std::unique_ptr<Gather> gather{};        // nullptr: in one piece
  std::unique_ptr<TakenReceive> result{};  // of a READ or atomic: memory that it fills
  Psn fence_psn = 0;                       // everything below has to be acknowledged before it starts
  Psn first_psn = 0;
  std::uint32_t packet_count = 1;
  std::uint32_t payload_mtu = 0;  // of its full packets, also when they are repeated
  std::uint16_t msn = 0;
  std::uint16_t rqmsn = 0;

  Psn end_psn() const { return first_psn + packet_count; }
  const std::uint8_t* payload(std::uint64_t offset) const {
    if (gather != nullptr) return gather->at(offset);
    return local == nullptr ? nullptr : local + offset;
  }
};

class SendQueue {
 public:
  explicit SendQueue(QpContext& context) : context_(context) {}

  void start(std::uint32_t sq_psn) { next_psn_ = first_psn(sq_psn); }

  // Checks the request against the local region and appends it.
  Status post(const SendWr& wr);
  // Checks it only.
  Status check(const SendWr& wr);

  bool empty() const { return wqes_.empty(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(wqes_.size()); }
  Psn end_psn() const { return next_psn_; }               // one past the last posted PSN
  std::uint64_t completed() const { return completed_; }  // messages completed since RTS

  // The message that `psn` belongs to. Valid until the next post.
  const Wqe& at(Psn psn) const;
  const Wqe& front() const { return wqes_.front(); }
  const Wqe& back() const { return wqes_.back(); }

  // Completes the first message with success.
  void complete_front();
  // Completes the first message, if any, with `status`, and everything behind it as flushed. Staged bytes are kept until
  // discard_all(): packets that wait in the driver still read them.
  void fail_all(WcStatus status);
  void discard_all();

 private:
  Status prepare(const SendWr& wr, Wqe& wqe);
  Status bind(const SendWr& wr, Wqe& wqe);
  Status bind_one(const Sge& sge, Wqe& wqe);
  Status bind_list(std::span<const Sge> sges, std::uint64_t mtu, Gather& gather);
  Status bind_result(const SendWr& wr, std::span<const Sge> sges, Wqe& wqe);
  void stage_inline(std::span<const Sge> sges, Wqe& wqe);
  Region* find(const Sge& sge, Status& status);
  void release(const Wqe& wqe);
  void release(const Gather& gather);
  void finish(WcStatus status);

  QpContext& context_;
  Ring<Wqe> wqes_;
  std::vector<std::unique_ptr<Gather>> failed_;  // staged bytes of failed messages
  mutable std::uint64_t latest_ = 0;  // index of the message that at() returned last: usually the next call's, too
  Psn next_psn_ = kPsnOrigin;
  Psn results_end_ = 0;           // one past the latest READ or atomic
  std::uint64_t posted_ = 0;      // MSN of the next message
  std::uint64_t posted_imm_ = 0;  // RQMSN of the next message
  std::uint64_t completed_ = 0;
};

}  // namespace openmrc
