// Window bitmap: one bit per PSN of a sliding window, addressed by PSN.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/assert.hpp"
#include "engine/qp/psn.hpp"

namespace openmrc {

class BitRing {
 public:
  BitRing() = default;

  // Room for `bits` consecutive PSNs; rounded up to a power of two of at least one word.
  explicit BitRing(std::uint32_t bits)
      : words_(std::max(1U, std::bit_ceil(bits) / 64)), storage_(std::make_unique<std::uint64_t[]>(words_)) {}

  bool test(Psn psn) const { return (word(psn) >> (psn & 63)) & 1; }
  void set(Psn psn) { word(psn) |= 1ULL << (psn & 63); }
  void clear(Psn psn) { word(psn) &= ~(1ULL << (psn & 63)); }
  std::uint32_t capacity() const { return words_ * 64; }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span<const std::uint64_t>(storage_.get(), words_));
  }

  // Length of the run of set bits that starts at `psn`, at most `limit`.
  std::uint32_t run_of_ones(Psn psn, std::uint32_t limit) const {
    if (limit == 1) return test(psn) ? 1 : 0;  // most packets arrive in order
    std::uint32_t run = 0;
    while (run < limit) {
      const unsigned offset = static_cast<unsigned>((psn + run) & 63);
      const unsigned ones = static_cast<unsigned>(std::countr_one(word(psn + run) >> offset));
      run += ones;
      if (ones < 64 - offset) break;
    }
    return std::min(run, limit);
  }

  // Sets [psn, psn + count).
  void set_range(Psn psn, std::uint32_t count) {
    while (count > 0) {
      const unsigned offset = static_cast<unsigned>(psn & 63);
      const std::uint32_t here = std::min<std::uint32_t>(count, 64 - offset);
      word(psn) |= (here == 64 ? ~0ULL : ((1ULL << here) - 1)) << offset;
      psn += here;
      count -= here;
    }
  }

  // Clears [psn, psn + count) and returns how many bits were set.
  std::uint32_t clear_range(Psn psn, std::uint32_t count) {
    std::uint32_t cleared = 0;
    if (count == 1) {
      cleared = test(psn) ? 1 : 0;
      clear(psn);
      return cleared;
    }
    while (count > 0) {
      const unsigned offset = static_cast<unsigned>(psn & 63);
      const std::uint32_t here = std::min<std::uint32_t>(count, 64 - offset);
      const std::uint64_t mask = (here == 64 ? ~0ULL : ((1ULL << here) - 1)) << offset;
      cleared += static_cast<std::uint32_t>(std::popcount(word(psn) & mask));
      word(psn) &= ~mask;
      psn += here;
      count -= here;
    }
    return cleared;
  }

  // First set bit in [psn, end), or `end`.
  Psn find_first(Psn psn, Psn end) const {
    while (psn < end) {
      const unsigned offset = static_cast<unsigned>(psn & 63);
      const std::uint64_t rest = word(psn) >> offset;
      if (rest != 0) return std::min<Psn>(psn + static_cast<Psn>(std::countr_zero(rest)), end);
      psn += 64 - offset;
    }
    return end;
  }

  // The 64 bits that start at `psn`, bit i for psn + i.
  std::uint64_t window64(Psn psn) const {
    const unsigned offset = static_cast<unsigned>(psn & 63);
    const std::uint64_t low = word(psn) >> offset;
    return offset == 0 ? low : low | (word(psn + 64) << (64 - offset));
  }

 private:
  std::uint64_t& word(Psn psn) { return storage_[(psn >> 6) & (words_ - 1)]; }
  const std::uint64_t& word(Psn psn) const { return storage_[(psn >> 6) & (words_ - 1)]; }

  std::uint32_t words_ = 0;
  std::unique_ptr<std::uint64_t[]> storage_;
};

}  // namespace openmrc
