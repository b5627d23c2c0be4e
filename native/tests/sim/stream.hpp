// One direction of one QP, seen from outside: posted work, packets on the wire, completions. Checks every externally
// visible guarantee of the verbs and rule of the requester.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/engine.hpp"
#include "tests/sim/memory.hpp"
#include "tests/sim/scenario.hpp"

namespace openmrc::sim {

struct Message {
  SendWr wr;
  std::size_t source_offset = 0;
  std::size_t target_offset = 0;
  std::uint64_t first_seq = 0;  // PSNs counted from 0
  std::uint32_t packets = 0;
  bool delivered = false;  // WRITE_IMM: the receive has completed
};

// Keys and addresses of the memory at the two ends.
struct StreamMemory {
  const std::vector<std::uint8_t>* source = nullptr;
  std::uint64_t source_address = 0;
  std::uint32_t lkey = 0;
  TargetMemory* target = nullptr;
  std::uint64_t target_address = 0;
  std::uint32_t rkey = 0;
};

class Stream {
 public:
  Stream(const QpPlan& plan, int sender, const StreamMemory& memory, std::uint32_t first_psn,
         std::uint32_t packet_budget, Rng rng, std::uint64_t wr_id_base);

  // Draws the next message; false if room, a receive or budget is missing.
  bool draw(Message& message);
  void posted(const Message& message);
  std::uint32_t budget() const { return budget_; }
  std::uint64_t outstanding() const { return messages_.size() - completed_; }
  bool idle() const { return outstanding() == 0; }

  // Receives of the far end.
  std::uint64_t next_recv_wr_id() { return recv_base_ + recvs_posted_++; }
  std::uint64_t recvs_posted() const { return recvs_posted_ - recvs_completed_; }

  // Wire: a data packet left; feedback about this direction arrived at its sender.
  void on_sent(TimePs now, const wire::Packet& packet, TrafficClass traffic_class, const TxPacket& tx);
  void on_cumulative(TimePs now, std::uint32_t cack_psn);

  // Completions. `broken`: the QP at that end is in ERR, so flushes are correct.
  void on_send_completion(const Completion& completion, bool broken);
  void on_recv_completion(const Completion& completion, bool broken);
  // The number of incomplete sends according to the engine, the only trace of unsignaled ones.
  void on_outstanding(std::uint32_t outstanding);

  // The sender's QP is in ERR: all outstanding completions have been flushed.
  void on_broken() const;
  // The receiver's QP is in ERR: every receive has been flushed.
  void on_receiver_broken() const;
  // Everything posted has completed and every WRITE_IMM was delivered.
  bool settled() const { return idle() && wimms_posted_ == wimms_delivered_; }
  // Ends new work.
  void stop() { budget_ = 0; }
  // Both QPs are gone: all packets in flight are lost.
  void abandon();

  TimePs last_progress() const { return last_progress_; }
  std::uint64_t posted_packets() const { return next_seq_; }
  std::uint64_t acked_packets() const { return acked_; }
  std::uint64_t sent_new() const { return sent_new_; }
  std::uint64_t sent_again() const { return sent_again_; }
  std::uint64_t bytes_posted() const { return bytes_posted_; }

 private:
  std::uint64_t draw_length();
  const Message& message_of(std::uint64_t seq) const;
  void require_landed(const Message& message, const char* when) const;
  void complete_through(std::uint64_t index);
  void retire_ready();
  const std::uint8_t* source_of(const Message& message) const { return memory_.source->data() + message.source_offset; }

  const QpPlan& plan_;
  StreamMemory memory_;
  Rng rng_;
  std::uint32_t first_psn_;
  std::uint32_t budget_;
  std::uint32_t mpr_psns_;
  std::uint32_t wimm_max_;
  std::uint64_t wr_id_base_;
  std::uint64_t recv_base_;
  std::vector<Message> messages_;  // all of this incarnation
  std::uint64_t completed_ = 0;    // messages_[0, completed_) are complete
  std::uint64_t retired_ = 0;      // and their memory was released
  std::uint64_t delivered_ = 0;    // messages_[0, delivered_) contain no WRITE_IMM that waits for its receive
  bool flushed_ = false;           // a send completion carried an error
  bool recv_flushed_ = false;
  bool abandoned_ = false;
  std::uint64_t recvs_posted_ = 0;
  std::uint64_t recvs_completed_ = 0;
  std::uint64_t wimms_posted_ = 0;
  std::uint64_t wimms_delivered_ = 0;
  std::uint64_t next_seq_ = 0;
  std::uint64_t sent_end_ = 0;       // one past the highest PSN sent
  std::uint64_t acked_ = 0;          // PSNs cumulatively acknowledged to the sender
  std::uint64_t wimms_started_ = 0;  // WRITE_IMM messages with at least one packet sent
  std::uint64_t wimms_acked_ = 0;
  std::uint64_t start_scan_ = 0;  // messages_[0, start_scan_) have been started
  std::uint64_t ack_scan_ = 0;    // messages_[0, ack_scan_) are acknowledged
  TimePs last_progress_ = 0;
  std::uint64_t sent_new_ = 0;
  std::uint64_t sent_again_ = 0;
  std::uint64_t bytes_posted_ = 0;
};

}  // namespace openmrc::sim
