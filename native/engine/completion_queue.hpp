// Completion queues: bounded rings. A completion that does not fit is an overrun, which is fatal to its QP.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/types.hpp"

namespace openmrc {

class CompletionQueue {
 public:
  CompletionQueue(CqId id, std::uint32_t capacity, std::deque<CqId>& signaled)
      : id_(id), capacity_(capacity), signaled_(signaled) {}

  // False if full: the completion is lost and the queue stays in overrun.
  bool push(const Completion& completion) {
    if (entries_.size() >= capacity_) {
      overrun_ = true;
      return false;
    }
    entries_.push_back(completion);
    if (!is_signaled_) {
      is_signaled_ = true;
      signaled_.push_back(id_);
    }
    return true;
  }

  std::size_t poll(std::span<Completion> out) {
    std::size_t count = 0;
    for (; count < out.size() && !entries_.empty(); ++count) {
      out[count] = entries_.front();
      entries_.pop_front();
    }
    return count;
  }

  void signal_taken() { is_signaled_ = false; }
  bool overrun() const { return overrun_; }

  std::uint32_t users = 0;  // QPs that complete into this queue

 private:
  CqId id_;
  std::uint32_t capacity_;
  std::deque<CqId>& signaled_;
  std::deque<Completion> entries_;
  bool is_signaled_ = false;
  bool overrun_ = false;
};

}  // namespace openmrc
