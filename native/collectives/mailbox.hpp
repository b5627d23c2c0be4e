// Memory that the ranks of a group write small messages into: one area per peer and lane, the same layout everywhere.
//
// An area is a ring of slots that the peer fills, and behind it the peer's account of what it has taken from our ring at
// its side (Credit). A slot is free again when the account says so. The outbox mirrors it: where our messages lie until
// they have arrived.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "collectives/call.hpp"

namespace openmrc::collectives {

inline constexpr std::uint32_t kSlots = 64;
inline constexpr std::size_t kSlotBytes = 4096;
inline constexpr std::size_t kCreditBytes = 256;

// First bytes of a slot. `key` names the operation, at all ranks alike.
struct MessageHead {
  // Offer: a send waits to be told our buffers. Part: of a message that is too large for a slot, in shared memory alone;
  // elsewhere such a message is written directly. Call: nothing but the sender's call, which has waited for long, or
  // which differs from ours.
  enum Kind : std::uint32_t { kData = 1, kAnnounce = 2, kOffer = 3, kPart = 4, kCall = 5 };
  std::uint64_t key = 0;
  std::uint32_t kind = 0;
  std::uint32_t pair_index = 0;  // data: which of the receives from the sender
  std::uint32_t bytes = 0;       // behind the head
  std::uint32_t op_slot = 0;     // announce: what immediates of this operation carry
  Call call{};                   // the sender's
};
inline constexpr std::size_t kHeadBytes = sizeof(MessageHead);
inline constexpr std::size_t kEagerBytesMax = kSlotBytes - kHeadBytes;
static_assert(kHeadBytes == 40);

// Where a peer may write for one operation: its buffers by number.
struct RemoteBuffer {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t unused = 0;
};

// What the reader of a ring has taken from it so far, and of all immediates.
struct Credit {
  std::uint64_t slots = 0, immediates = 0;
};

class Mailbox {
 public:
  // Zeroed by the kernel page by page when first used: most pairs of a large job never exchange anything.
  Mailbox(std::uint32_t ranks, std::uint32_t lanes)
      : lanes_(lanes),
        size_(static_cast<std::size_t>(ranks) * lanes * kAreaBytes),
        bytes_(static_cast<std::uint8_t*>(std::calloc(size_, 1))) {
    if (bytes_ == nullptr) throw std::bad_alloc();
  }

  std::uint8_t* base() { return bytes_.get(); }
  std::size_t size() const { return size_; }

  static constexpr std::size_t kAreaBytes = kSlots * kSlotBytes + kCreditBytes;
  static std::size_t area(std::uint32_t lanes, std::uint32_t rank, std::uint32_t lane) {
    return (static_cast<std::size_t>(rank) * lanes + lane) * kAreaBytes;
  }
  std::size_t slot(std::uint32_t rank, std::uint32_t lane, std::uint32_t index) const {
    return area(lanes_, rank, lane) + index * kSlotBytes;
  }
  std::size_t credit(std::uint32_t rank, std::uint32_t lane) const {
    return area(lanes_, rank, lane) + kSlots * kSlotBytes;
  }
  // The I/O thread writes it while we read.
  Credit read_credit(std::uint32_t rank, std::uint32_t lane) {
    auto* words = reinterpret_cast<std::uint64_t*>(bytes_.get() + credit(rank, lane));
    Credit credit;
    credit.slots = std::atomic_ref(words[0]).load(std::memory_order_acquire);
    credit.immediates = std::atomic_ref(words[1]).load(std::memory_order_acquire);
    return credit;
  }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const { std::free(bytes); }
  };
  std::uint32_t lanes_;
  std::size_t size_;
  std::unique_ptr<std::uint8_t[], Free> bytes_;
};

}  // namespace openmrc::collectives
