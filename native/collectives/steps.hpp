// Steps of the operations under way: which of them are ready, and the arithmetic of those that need no other rank.
#pragma once

#include <cstdint>
#include <deque>

#include "collectives/executor_stats.hpp"
#include "collectives/operation.hpp"

namespace openmrc::collectives {

struct ReadyStep {
  std::uint32_t op_slot;
  OpId op;
  std::uint32_t step;
};

class Steps {
 public:
  // Of an operation that begins: the steps that wait for nothing but a message.
  void begin(const Operation& op);
  void push(const Operation& op, std::uint32_t step) {
    ready_.push_back({.op_slot = op.slot, .op = op.id, .step = step});
  }
  bool empty() const { return ready_.empty(); }
  ReadyStep pop();

  // Steps that waited for this one alone are ready. True: it was the last one of the operation.
  bool finish(Operation& op, std::uint32_t step);
  // Likewise for a receive. `reduced`: together with the reduction that reads it.
  bool finish_receive(Operation& op, std::uint32_t receive, bool reduced);

  // A step between own buffers.
  void compute(Operation& op, std::uint32_t step);
  // Puts a small message into its place. True: it is reduced already.
  bool place(Operation& op, std::uint32_t receive, const std::uint8_t* data);
  // True if a message can be combined from its arrival buffer: nothing else reads it, and all other inputs of its
  // reduction are present.
  static bool reduces_now(const Operation& op, std::uint32_t receive);
  // A part of such a message, `offset` bytes behind its beginning.
  void reduce_part(Operation& op, std::uint32_t receive, std::uint64_t offset, const std::uint8_t* data,
                   std::uint64_t bytes);

  // Bytes that were combined elsewhere.
  void count_reduced(std::uint64_t bytes) { reduced_bytes_ += bytes; }

  void add_to(ExecutorStats& stats) const;

 private:
  std::deque<ReadyStep> ready_;
  std::uint64_t reduced_bytes_ = 0, copied_bytes_ = 0;
};

}  // namespace openmrc::collectives
