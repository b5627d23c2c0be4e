// A ring of messages in memory shared by a writing and a reading process. Neither trusts the other: values that the
// other may change are read once and checked, and own positions are kept outside of the memory.
//
// A side that is about to sleep marks this in the ring; the other side, after writing or making room, then rings a
// doorbell, which is not part of the ring.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/message.hpp"

namespace openmrc::collectives {

inline constexpr std::size_t kRingBytes = 256U << 10;
inline constexpr std::size_t kPartBytesMax = 32U << 10;  // of a message that travels in several parts
inline constexpr std::size_t kRecordAlignment = 64;

// First bytes of a record. `left`: for a part, number of bytes of its message after it.
struct RingHead {
  MessageHead message;
  std::uint64_t left = 0;
};
inline constexpr std::size_t kRingHeadBytes = sizeof(RingHead);
static_assert(kRingHeadBytes == 48 && kRecordAlignment >= kRingHeadBytes && kRingBytes % kRecordAlignment == 0);

// Shared state in front of the records: positions of both sides, in bytes since the beginning; a bit for each sleeper
// at the reader's side; a flag for a writer without room.
struct RingControl {
  alignas(64) std::uint64_t written = 0;
  alignas(64) std::uint64_t taken = 0;
  alignas(64) std::uint32_t sleepers = 0;
  std::uint32_t writer_waits = 0;
};
inline constexpr std::size_t kRingAreaBytes = sizeof(RingControl) + kRingBytes;
static_assert(sizeof(RingControl) % kRecordAlignment == 0);

// kBroken: the other side wrote invalid values.
enum class RingAnswer : std::uint8_t { kOk, kNothing, kBroken };

class RingWriter {
 public:
  // `area`: kRingAreaBytes, initially zero, aligned to kRecordAlignment.
  explicit RingWriter(std::uint8_t* area);

  // At most kPartBytesMax behind the head. kNothing: no room; freed() returns true when half of the ring is free.
  RingAnswer put(const RingHead& head, const void* data);
  // True once after room has been made since put() found none.
  bool freed();
  // Sleepers at the other side to be woken, each returned once; call after put(), and after taking that side's
  // messages.
  std::uint32_t sleepers();

 private:
  RingAnswer find_room(std::size_t needed);

  RingControl* control_;
  std::uint8_t* records_;
  std::uint64_t written_ = 0;
  bool waits_ = false;
};

struct RingMessage {
  RingHead head;
  const std::uint8_t* data = nullptr;  // the writer may still change it
};

class RingReader {
 public:
  explicit RingReader(std::uint8_t* area);

  // Sets the limit of next(), so that a writer that never pauses does not hold up other work.
  RingAnswer look();
  // The next message, until pop().
  RingAnswer next(RingMessage& message);
  // Frees the message's space. True: the writer had found no room, and has some now.
  bool pop();
  // Asks for a ring at the next message. True: a message is pending already.
  bool sleep(std::uint32_t sleeper);
  void stay_awake(std::uint32_t sleeper);

 private:
  void advance(std::size_t bytes);

  RingControl* control_;
  std::uint8_t* records_;
  std::uint64_t taken_ = 0, seen_ = 0;
  std::size_t current_ = 0;  // size of the record returned by next()
};

}  // namespace openmrc::collectives
