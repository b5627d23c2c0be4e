// Reference memory: the expected value of every byte of a registered region, kept outside the engine.
//
// Before a WRITE is posted its destination is filled with the complement of the source, so that each byte shows whether
// it has arrived. After the completion the application overwrites it, so that a late duplicate is detected.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "tests/sim/verdict.hpp"

namespace openmrc::sim {

class TargetMemory {
 public:
  static constexpr std::size_t kGuardBytes = 256;

  explicit TargetMemory(std::size_t bytes) : bytes_(bytes), actual_(bytes + 2 * kGuardBytes, kGuard), expected_(bytes) {
    std::memset(base(), 0, bytes);
  }

  std::uint8_t* base() { return actual_.data() + kGuardBytes; }
  std::size_t size() const { return bytes_; }

  // Allocates `length` bytes for a message with content `source`; ranges are released in the order of allocation.
  bool take(std::size_t length, std::size_t gap, const std::uint8_t* source, std::size_t& offset) {
    const std::size_t need = length + gap + 1;
    std::size_t at = tail_;
    if (taken_.empty()) {
      if (at + need > bytes_) at = 0;
      if (need > bytes_) return false;
    } else if (tail_ >= taken_.front()) {
      if (at + need > bytes_) {
        if (need >= taken_.front()) return false;
        at = 0;
      }
    } else if (at + need >= taken_.front()) {
      return false;
    }
    require_untouched(at, length, "before reuse");
    offset = at;
    taken_.push_back(at);
    tail_ = at + need;
    scribble(at, length, source);
    return true;
  }

  bool landed(std::size_t offset, std::size_t length, const std::uint8_t* source) {
    return std::memcmp(base() + offset, source, length) == 0;
  }

  // Each byte is unchanged or as sent, the only guarantee for an interrupted message.
  void require_partial(std::size_t offset, std::size_t length, const std::uint8_t* source) {
    for (std::size_t i = 0; i < length; ++i) {
      const std::uint8_t value = base()[offset + i];
      SIM_REQUIRE(value == source[i] || value == static_cast<std::uint8_t>(~source[i]),
                  "flushed message: byte %zu at offset %zu is neither old nor new", i, offset);
    }
  }

  // Returns the oldest allocated range to the application.
  void retire(std::size_t offset, std::size_t length, const std::uint8_t* source) {
    SIM_REQUIRE(!taken_.empty() && taken_.front() == offset, "harness: ranges are retired in order");
    taken_.pop_front();
    scribble(offset, length, source);
  }

  // Requires that nothing is in flight towards this memory.
  void require_all_untouched() {
    require_untouched(0, bytes_, "at rest");
    require_guards();
  }

  void require_guards() {
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      SIM_REQUIRE(actual_[i] == kGuard && actual_[kGuardBytes + bytes_ + i] == kGuard,
                  "a byte outside the registered region was written");
    }
  }

 private:
  static constexpr std::uint8_t kGuard = 0xA5;

  void scribble(std::size_t offset, std::size_t length, const std::uint8_t* source) {
    for (std::size_t i = 0; i < length; ++i) {
      base()[offset + i] = expected_[offset + i] = static_cast<std::uint8_t>(~source[i]);
    }
  }

  void require_untouched(std::size_t offset, std::size_t length, const char* when) {
    if (length == 0 || std::memcmp(base() + offset, expected_.data() + offset, length) == 0) return;
    std::size_t at = offset;
    while (base()[at] == expected_[at]) ++at;
    std::size_t end = offset + length;
    while (base()[end - 1] == expected_[end - 1]) --end;
    fail(Verdict::kCorrectness, "memory %s: bytes %zu to %zu were written though nobody may", when, at, end - 1);
  }

  std::size_t bytes_;
  std::vector<std::uint8_t> actual_;
  std::vector<std::uint8_t> expected_;
  std::deque<std::size_t> taken_;
  std::size_t tail_ = 0;
};

}  // namespace openmrc::sim
