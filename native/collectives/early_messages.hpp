// Messages of a rank for operations that have not begun here, by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collectives/message.hpp"

namespace openmrc::collectives {

class EarlyMessages {
 public:
  // Beyond these limits the sender gets no slots back, until some of the operations begin.
  static constexpr std::size_t kCountMax = 1U << 16;
  static constexpr std::size_t kBytesMax = 16U << 20;
  // Only a faulty peer continues to send without slots.
  static constexpr std::size_t kCountSlack = 512;
  static constexpr std::size_t kBytesSlack = kCountSlack * kSlotBytes;

  struct Message {
    MessageHead head;
    std::vector<std::uint8_t> data;
  };

  void hold(const MessageHead& head, const std::uint8_t* data) {
    ++count_;
    bytes_ += kEntryBytes + head.bytes;
    by_key_[head.key].push_back({head, std::vector<std::uint8_t>(data, data + head.bytes)});
  }
  // The first that is held for an operation; nullptr: none.
  const MessageHead* first(std::uint64_t key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &found->second.front().head;
  }
  bool contains(std::uint64_t key) const { return by_key_.contains(key); }
  // All for an operation, in order; their room is free.
  std::vector<Message> take(std::uint64_t key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return {};
    std::vector<Message> messages = std::move(found->second);
    by_key_.erase(found);
    for (const Message& message : messages) bytes_ -= kEntryBytes + message.head.bytes;
    count_ -= messages.size();
    return messages;
  }
  void clear() {
    by_key_.clear();
    count_ = bytes_ = 0;
  }

  std::size_t count() const { return count_; }
  std::size_t bytes() const { return bytes_; }
  // The sender shall wait.
  bool crowded() const { return bytes_ > kBytesMax || count_ > kCountMax; }
  // The sender went on where it should have waited. `in_bytes`: the transport bounds them.
  bool overrun(bool in_bytes) const {
    return count_ > kCountMax + kCountSlack || (in_bytes && bytes_ > kBytesMax + kBytesSlack);
  }

 private:
  static constexpr std::size_t kEntryBytes = 128;  // about what holding a message takes beside its data

  std::map<std::uint64_t, std::vector<Message>> by_key_;
  std::size_t count_ = 0, bytes_ = 0;
};

}  // namespace openmrc::collectives
