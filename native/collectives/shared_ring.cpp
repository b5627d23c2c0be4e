#include "collectives/shared_ring.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

constexpr std::uint32_t kSkip =
    0;  // as the kind of a message: the rest of the ring is empty, continue at its beginning

// A record and the empty rest of the ring before it fit into what is free when the reader rings.
static_assert(2 * (kPartBytesMax + kRecordAlignment) <= kRingBytes / 2);

template <typename Word>
std::atomic_ref<Word> shared(Word& word) {
  static_assert(std::atomic_ref<Word>::is_always_lock_free, "a lock would be of one process alone");
  return std::atomic_ref<Word>(word);
}

std::size_t record_bytes(std::size_t data_bytes) {
  return (kRingHeadBytes + data_bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// Each word is read once, so that checked and used values are the same.
RingHead read_head(std::uint8_t* at) {
  std::array<std::uint64_t, kRingHeadBytes / sizeof(std::uint64_t)> words;
  auto* source = reinterpret_cast<std::uint64_t*>(at);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = shared(source[i]).load(std::memory_order_relaxed);
  return std::bit_cast<RingHead>(words);
}

}  // namespace

// --- writing

RingWriter::RingWriter(std::uint8_t* area)
    : control_(reinterpret_cast<RingControl*>(area)), records_(area + sizeof(RingControl)) {}

RingAnswer RingWriter::put(const RingHead& head, const void* data) {
  MRC_ASSERT(head.message.bytes <= kPartBytesMax && head.message.kind != kSkip);
  const std::size_t at = static_cast<std::size_t>(written_ % kRingBytes), rest = kRingBytes - at;
  const std::size_t bytes = record_bytes(head.message.bytes);
  const std::size_t skipped = bytes > rest ? rest : 0;
  const RingAnswer room = find_room(skipped + bytes);
  if (room != RingAnswer::kOk) return room;
  if (skipped > 0) {
    RingHead skip;
    skip.message.kind = kSkip;
    std::memcpy(records_ + at, &skip, kRingHeadBytes);
  }
  std::uint8_t* record = records_ + (skipped > 0 ? 0 : at);
  std::memcpy(record, &head, kRingHeadBytes);
  if (head.message.bytes > 0) std::memcpy(record + kRingHeadBytes, data, head.message.bytes);
  written_ += skipped + bytes;
  // Sequentially consistent, as the reader's words are: of a writer that has written and a reader about to sleep, one
  // sees the other.
  shared(control_->written).store(written_, std::memory_order_seq_cst);
  return RingAnswer::kOk;
}

RingAnswer RingWriter::find_room(std::size_t needed) {
  for (bool said = false;; said = true) {
    const std::uint64_t taken = shared(control_->taken).load(std::memory_order_seq_cst);
    if (taken > written_ || written_ - taken > kRingBytes) return RingAnswer::kBroken;
    if (kRingBytes - (written_ - taken) >= needed) return RingAnswer::kOk;
    if (said) return RingAnswer::kNothing;
    // Checks again: the reader may have advanced before it could see that we wait.
    shared(control_->writer_waits).store(1, std::memory_order_seq_cst);
    waits_ = true;
  }
}

bool RingWriter::freed() {
  if (!waits_ || shared(control_->writer_waits).load(std::memory_order_seq_cst) != 0) return false;
  waits_ = false;
  return true;
}

std::uint32_t RingWriter::sleepers() {
  const auto sleepers = shared(control_->sleepers);
  return sleepers.load(std::memory_order_seq_cst) == 0 ? 0 : sleepers.exchange(0);
}

// --- reading

RingReader::RingReader(std::uint8_t* area)
    : control_(reinterpret_cast<RingControl*>(area)), records_(area + sizeof(RingControl)) {}

RingAnswer RingReader::look() {
  const std::uint64_t written = shared(control_->written).load(std::memory_order_acquire);
  if (written < seen_ || written - taken_ > kRingBytes || written % kRecordAlignment != 0) return RingAnswer::kBroken;
  seen_ = written;
  return seen_ == taken_ ? RingAnswer::kNothing : RingAnswer::kOk;
}

RingAnswer RingReader::next(RingMessage& message) {
  MRC_ASSERT(current_ == 0);
  while (taken_ != seen_) {
    const std::size_t at = static_cast<std::size_t>(taken_ % kRingBytes), rest = kRingBytes - at;
    const std::uint64_t there = seen_ - taken_;
    message.head = read_head(records_ + at);
    if (message.head.message.kind == kSkip) {
      if (rest > there) return RingAnswer::kBroken;
      advance(rest);
      continue;
    }
    if (message.head.message.bytes > kPartBytesMax) return RingAnswer::kBroken;
    const std::size_t bytes = record_bytes(message.head.message.bytes);
    if (bytes > rest || bytes > there) return RingAnswer::kBroken;
    message.data = records_ + at + kRingHeadBytes;
    current_ = bytes;
    return RingAnswer::kOk;
  }
  return RingAnswer::kNothing;
}

bool RingReader::pop() {
  MRC_ASSERT(current_ > 0);
  advance(current_);
  current_ = 0;
  // Not for every message: a woken writer should find work for a while.
  if (seen_ - taken_ > kRingBytes / 2) return false;
  const auto waits = shared(control_->writer_waits);
  return waits.load(std::memory_order_seq_cst) != 0 && waits.exchange(0) != 0;
}

void RingReader::advance(std::size_t bytes) {
  taken_ += bytes;
  shared(control_->taken).store(taken_, std::memory_order_seq_cst);
}

bool RingReader::sleep(std::uint32_t sleeper) {
  shared(control_->sleepers).fetch_or(sleeper, std::memory_order_seq_cst);
  return shared(control_->written).load(std::memory_order_seq_cst) != taken_;
}

void RingReader::stay_awake(std::uint32_t sleeper) {
  shared(control_->sleepers).fetch_and(~sleeper, std::memory_order_relaxed);
}

}  // namespace openmrc::collectives
