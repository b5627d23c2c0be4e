// SipHash-2-4 over 64-bit words. Without the key its output can be neither predicted nor inverted.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

namespace openmrc {

// Purpose of a hash, as its first word: outputs for different purposes are independent of each other.
inline constexpr std::uint64_t kQpNumberHash = 1, kProbeNonceHash = 2, kConnectionNonceHash = 3;
inline constexpr std::uint64_t kKernelHash = 4, kKernelAskHash = 5, kKernelAnswerHash = 6;

struct HashKey {
  std::uint64_t low = 0, high = 0;

  friend bool operator==(const HashKey&, const HashKey&) = default;
};

namespace keyed_hash_detail {

constexpr std::uint64_t rotate(std::uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

constexpr void round(std::array<std::uint64_t, 4>& v) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0];
  v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2];
  v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

}  // namespace keyed_hash_detail

constexpr std::uint64_t keyed_hash(const HashKey& key, std::initializer_list<std::uint64_t> words) {
  using keyed_hash_detail::round;
  std::array<std::uint64_t, 4> v{key.low ^ 0x736f6d6570736575ULL, key.high ^ 0x646f72616e646f6dULL,
                                 key.low ^ 0x6c7967656e657261ULL, key.high ^ 0x7465646279746573ULL};
  const auto absorb = [&v](std::uint64_t word) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
  };
  for (const std::uint64_t word : words) absorb(word);
  absorb(static_cast<std::uint64_t>(words.size()) << 59);  // the number of bytes, modulo 256, on top
  v[2] ^= 0xFF;
  for (int i = 0; i < 4; ++i) round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

}  // namespace openmrc
