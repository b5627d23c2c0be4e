#include "engine/base/rng.hpp"

#include "engine/base/assert.hpp"

namespace openmrc {
namespace {

std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr std::uint64_t rotate_left(std::uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

}  // namespace

Rng::Rng(std::uint64_t seed) {
  for (auto& word : state_) word = splitmix64(seed);
}

Rng Rng::for_component(std::uint64_t run_seed, std::string_view component, std::uint64_t index) {
  // FNV-1a over the name, then mixed with seed and index: a stable function of the three, on every platform.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : component) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::uint64_t mixed = run_seed ^ rotate_left(hash, 17);
  (void)splitmix64(mixed);
  mixed ^= index * 0xd6e8feb86659fd93ULL;
  return Rng(mixed);
}

std::uint64_t Rng::next() {
  const std::uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  MRC_ASSERT(bound != 0);
  // Lemire's multiply-shift with rejection of the biased low range.
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace openmrc
