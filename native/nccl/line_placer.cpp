#include "nccl/line_placer.hpp"

#include <string.h>

#include <algorithm>
#include <cstring>

namespace openmrc::nccl {
namespace {

using Word = std::uint64_t __attribute__((may_alias));
constexpr std::size_t kWord = sizeof(Word);
[[maybe_unused]] constexpr std::size_t kCacheLine = 64;

template <int order>
void store_word(std::uint8_t* to, const std::uint8_t* from) {
  std::uint64_t word;
  std::memcpy(&word, from, kWord);
  __atomic_store_n(reinterpret_cast<Word*>(to), word, order);
}

void store_bytes(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

void store_in_order(std::uint8_t* to, const std::uint8_t* from, std::size_t words) {
  for (; words > 0; --words, to += kWord, from += kWord) {
    if (reinterpret_cast<std::uintptr_t>(to + kWord) % kLineBytes == 0) {
      store_word<__ATOMIC_RELEASE>(to, from);
    } else {
      store_word<__ATOMIC_RELAXED>(to, from);
    }
  }
}

// Whole cache lines with a string instruction, as the kernel copies what NCCL's own sockets receive.
void store_words(std::uint8_t* to, const std::uint8_t* from, std::size_t words) {
#if defined(__x86_64__)
  const std::size_t before = std::min(words, (0 - reinterpret_cast<std::uintptr_t>(to)) % kCacheLine / kWord);
  store_in_order(to, from, before);
  to += before * kWord;
  from += before * kWord;
  std::size_t bytes = (words - before) * kWord / kCacheLine * kCacheLine;
  words -= before + bytes / kWord;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#endif
  store_in_order(to, from, words);
}

}  // namespace

bool needs_lines_in_order(const char* nccl_proto) {
#if defined(__x86_64__)
  return nccl_proto != nullptr && ::strcasestr(nccl_proto, "LL128") != nullptr;
#else
  (void)nccl_proto;
  return true;
#endif
}

bool LinePlacer::place(std::uint64_t offset, std::span<const std::uint8_t> payload) {
  std::uint8_t* to = base_ + offset;
  const std::uint8_t* from = payload.data();
  const std::size_t first = std::min(payload.size(), (0 - reinterpret_cast<std::uintptr_t>(to)) % kWord);
  const std::size_t words = (payload.size() - first) / kWord, last = (payload.size() - first) % kWord;
  store_bytes(to, from, first);
  (in_order_ ? store_in_order : store_words)(to + first, from + first, words);
  store_bytes(to + first + words * kWord, from + first + words * kWord, last);
  return true;
}

}  // namespace openmrc::nccl
