// A ring of messages in memory that two processes share: one writes, the other reads. Neither trusts the other: what the
// other may change is read once and checked, and own positions are kept outside of the memory.
//
// Who is about to sleep says so in the ring; whoever writes or makes room then rings a doorbell, which is none of the
// ring's business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/mailbox.hpp"

namespace openmrc::collectives {

inline constexpr std::size_t kRingBytes = 512U << 10;
inline constexpr std::size_t kPartBytesMax = 64U << 10;  // of a message that travels in several parts
inline constexpr std::size_t kRecordAlignment = 64;

// First bytes of a record. `left`: of a part, how many bytes of its message come after it.
struct RingHead {
  MessageHead message;
  std::uint64_t left = 0;
};
inline constexpr std::size_t kRingHeadBytes = sizeof(RingHead);
static_assert(kRingHeadBytes == 48 && kRecordAlignment >= kRingHeadBytes && kRingBytes % kRecordAlignment == 0);

// In front of the records: what each side tells the other, in bytes since the beginning; who sleeps at the reader's
// side, a bit for each; whether the writer has found no room.
struct RingControl {
  alignas(64) std::uint64_t written = 0;
  alignas(64) std::uint64_t taken = 0;
  alignas(64) std::uint32_t sleepers = 0;
  std::uint32_t writer_waits = 0;
};
inline constexpr std::size_t kRingAreaBytes = sizeof(RingControl) + kRingBytes;
static_assert(sizeof(RingControl) % kRecordAlignment == 0);

// kBroken: the other side wrote what cannot be.
enum class RingAnswer : std::uint8_t { kOk, kNothing, kBroken };

class RingWriter {
 public:
  // `area`: kRingAreaBytes, zero at first, aligned to kRecordAlignment.
  explicit RingWriter(std::uint8_t* area);

  // At most kPartBytesMax behind the head. kNothing: no room; freed() will tell when half of the ring is free.
  RingAnswer put(const RingHead& head, const void* data);
  // Room has been made since put() found none. True once.
  bool freed();
  // Who sleeps at the other side, and is to be woken: asked after put(), and when that side's messages were taken, once.
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

  // What next() may then give, and no more: a writer that goes on and on holds up nobody.
  RingAnswer look();
  // The next message, until pop().
  RingAnswer next(RingMessage& message);
  // Its place is free. True: the writer had found no room, and has some now.
  bool pop();
  // Asks for a ring at the next message. True: there is something already.
  bool sleep(std::uint32_t sleeper);
  void stay_awake(std::uint32_t sleeper);

 private:
  void advance(std::size_t bytes);

  RingControl* control_;
  std::uint8_t* records_;
  std::uint64_t taken_ = 0, seen_ = 0;
  std::size_t current_ = 0;  // bytes of the record that next() gave
};

}  // namespace openmrc::collectives
