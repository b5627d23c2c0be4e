// Messages between the ranks of a group: a head, and behind it the data of a small message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/call.hpp"

namespace openmrc::collectives {

// `key` names the operation, at all ranks alike.
struct MessageHead {
  // Offer: a send waits for the announcement of our buffers. Part: of a large message that the transport does not write
  // directly. Call: only the sender's call, after a long wait or because it differs from ours.
  enum Kind : std::uint32_t { kData = 1, kAnnounce = 2, kOffer = 3, kPart = 4, kCall = 5 };
  std::uint64_t key = 0;
  std::uint32_t kind = 0;
  std::uint32_t pair_index = 0;  // data: index among the receives from the sender
  std::uint32_t bytes = 0;       // behind the head
  std::uint32_t op_slot = 0;     // announce: value that immediates of this operation carry
  Call call{};                   // the sender's
};
inline constexpr std::size_t kHeadBytes = sizeof(MessageHead);
static_assert(kHeadBytes == 40);

// Head and data of a small message. Larger ones wait for the receiver's announcement of its buffers.
inline constexpr std::size_t kSlotBytes = 4096;
inline constexpr std::size_t kEagerBytesMax = kSlotBytes - kHeadBytes;

// Numbers that share a word: below the operation's id in a work request's, and below its slot in an immediate.
inline constexpr std::uint32_t kStepBits = 20, kStepMask = (1U << kStepBits) - 1;
inline constexpr std::uint32_t kPairBits = 16, kPairMask = (1U << kPairBits) - 1;
inline constexpr std::uint32_t kOpSlotsMax = 1U << (31 - kPairBits);

// A buffer that a peer may write to in one operation, by number.
struct RemoteBuffer {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t unused = 0;
};

}  // namespace openmrc::collectives
