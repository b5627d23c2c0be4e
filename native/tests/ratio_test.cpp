// Products that exceed 64 bits, and those that do not.
#include "engine/planes/ratio.hpp"

#include <cstdint>
#include <limits>

#include "tests/check.hpp"

using namespace openmrc;

TEST_CASE(ratio_products_of_any_size_are_exact) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(scaled(kMost, 3, 3) == kMost);
  CHECK(scaled(kMost / 2, 6, 3) == kMost - 1);
  CHECK(scaled(-kMost, 5, 10) == -(kMost / 2));
  CHECK(scaled(7, 3, 2) == 10);
  CHECK(scaled(-7, 3, 2) == -10);
  CHECK(time_for(1'500, 125'000'000) == 12 * kPsPerUs);
  CHECK(time_for(64LL << 30, 125'000'000) == 549'755'813'888'000);
  CHECK(bytes_in(100'000'000'000, 2 * kPsPerSecond) == 200'000'000'000);
}
