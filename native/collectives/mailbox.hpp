// Memory for small messages from the ranks of a group: one area per peer and lane, the same layout everywhere.
//
// An area is a ring of slots that the peer fills, followed by the peer's account of the messages it has taken from our
// ring at its side (Credit). A slot is free again when the account covers it. The outbox mirrors it and holds our
// messages until they have arrived.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "collectives/message.hpp"

namespace openmrc::collectives {

inline constexpr std::uint32_t kSlots = 64;
inline constexpr std::size_t kCreditBytes = 256;

// The reader's progress in a ring, and its count of all immediates.
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
