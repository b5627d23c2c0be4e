// QPs and peers of the executor, and the flags of immediates. Seen by the executor's own files alone.
#pragma once

#include "collectives/executor.hpp"

namespace openmrc::collectives {

inline constexpr std::uint32_t kSlotFlag = 1U << 31;      // the immediate names a slot; else operation and receive
inline constexpr std::uint32_t kCreditFlag = 1U << 30;    // with kSlotFlag: the peer's account has changed
inline constexpr nic::TimeNs kNap = 200 * nic::kNsPerUs;  // longest sleep of a waiting thread between two looks
inline constexpr const char* kClosed = "the group was closed";

// Of a peer's messages for operations that have not begun here. Beyond it the peer gets no slots back, until some begin.
inline constexpr std::size_t kEarlyMax = 1U << 16;
inline constexpr std::size_t kEarlyBytesMax = 16U << 20;
// The last free slots towards a peer are for the oldest operation: its messages let the peer's begin, and with them what
// fills the other slots.
inline constexpr std::uint64_t kReservedSlots = 8;

// A QP to a peer.
struct Executor::Lane {
  std::uint32_t qp = 0;
  std::uint8_t number = 0;
  std::uint64_t slots_sent = 0, immediates_sent = 0;    // towards the peer
  std::uint64_t slots_taken = 0, immediates_taken = 0;  // of what the peer sent
  Credit told;
  std::uint32_t credit_cell = 0;
  std::uint64_t withheld =
      0;  // early messages that the peer is not to learn of yet: with them, too much is held for it
  std::uint32_t receives_owed = 0;
  std::uint64_t posted = 0, completed = 0;
  std::deque<SendWr> backlog;  // the QP's queue was full
  std::deque<Ready> held;      // sends without a slot or a receive to send to
  std::deque<std::pair<MessageHead, std::vector<std::uint8_t>>> held_messages;  // announcements, before everything held
  // In shared memory: how much has left of the message that is held first, and has come of the one that arrives.
  std::uint64_t left_bytes = 0;
  struct Arriving {
    std::uint64_t key = 0;
    std::uint32_t pair_index = 0;
    std::uint64_t bytes = 0;
    bool reducing = false;  // where it arrives, in place of being copied first
  } arriving;
};

struct Executor::Peer {
  std::uint16_t rank = 0;
  std::uint64_t mailbox_address = 0;
  std::uint32_t mailbox_rkey = 0;
  std::vector<Lane> lanes;
  bool connected = false, failed = false;
  bool faulty = false;               // failed by what it sent
  std::unique_ptr<SharedLink> link;  // instead of the QPs, if `shares`
  bool shares = false;
  std::string reason;
  int culprit = kNobody;  // the rank that failures name
  // What arrived for operations that have not begun here, by key.
  struct Early {
    MessageHead head;
    std::vector<std::uint8_t> data;
  };
  std::map<std::uint64_t, std::vector<Early>> early;
  std::size_t early_count = 0, early_bytes = 0;
  bool too_early() const { return early_bytes > kEarlyBytesMax || early_count > kEarlyMax; }
};

}  // namespace openmrc::collectives
