// The unacknowledged messages of a connection, cut into packets that are numbered consecutively. A packet never holds
// bytes of two messages, as a WRITE starts its own packet, and so does a TCP sender that pushes each message.
#pragma once

#include <cstdint>

#include "engine/base/ring.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

// Contents of one packet.
struct Segment {
  MessageId message = 0;
  std::uint16_t payload_bytes = 0;
  bool first = false, last = false;  // of its message
};

class MessageQueue {
 public:
  void push(MessageId id, std::uint64_t bytes, std::uint32_t mtu) {
    messages_.push_back({.bytes = bytes, .first = end_, .id = id});
    end_ += bytes == 0 ? 1 : (bytes + mtu - 1) / mtu;
  }

  std::uint64_t end() const { return end_; }  // number after the last packet
  bool empty() const { return messages_.empty(); }

  // The packet `sequence`, which must be unacknowledged. Amortised O(1) for a sender that moves forwards and jumps
  // back.
  Segment segment(std::uint64_t sequence, std::uint32_t mtu) {
    MRC_ASSERT(!messages_.empty() && sequence >= messages_.front().first && sequence < end_);
    while (messages_[cursor_].first > sequence) --cursor_;
    while (sequence >= end_of(cursor_)) ++cursor_;
    const Message& message = messages_[cursor_];
    const std::uint64_t before = (sequence - message.first) * mtu;
    const std::uint64_t left = message.bytes - before;
    return {message.id, static_cast<std::uint16_t>(left < mtu ? left : mtu), sequence == message.first,
            sequence + 1 == end_of(cursor_)};
  }

  // Removes the front message if all its packets are below `acknowledged`.
  bool pop_acknowledged(std::uint64_t acknowledged, MessageId& id) {
    if (messages_.empty() || end_of(0) > acknowledged) return false;
    return pop(id);
  }

  bool pop(MessageId& id) {
    if (messages_.empty()) return false;
    id = messages_.front().id;
    messages_.pop_front();
    if (cursor_ > 0) --cursor_;
    return true;
  }

  std::uint64_t memory_bytes() const { return messages_.memory_bytes(); }

 private:
  struct Message {
    std::uint64_t bytes = 0;
    std::uint64_t first = 0;  // number of its first packet
    MessageId id = 0;
  };

  std::uint64_t end_of(std::size_t index) const {
    return index + 1 < messages_.size() ? messages_[index + 1].first : end_;
  }

  Ring<Message> messages_;
  std::uint64_t end_ = 0;
  std::size_t cursor_ = 0;  // message of the packet last returned
};

}  // namespace openmrc::netsim
