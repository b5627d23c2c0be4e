// The only source of randomness in the engine: xoshiro256** seeded through splitmix64, with our own integer
// distributions, so that a seed gives the same draws with every compiler and standard library.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace openmrc {

class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  // An independent stream for one component: an added draw in one place does not shift the draws of another.
  static Rng for_component(std::uint64_t run_seed, std::string_view component, std::uint64_t index = 0);

  std::uint64_t next();

  // Uniform in [0, bound), without modulo bias. `bound` must not be 0.
  std::uint64_t below(std::uint64_t bound);

  // True with probability numerator/denominator.
  bool chance(std::uint64_t numerator, std::uint64_t denominator) { return below(denominator) < numerator; }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace openmrc
