// Memory of an idle QP: at most 4 KiB plus its EV set and window bitmaps.
#include <cstdio>
#include <cstring>

#include "engine/engine.hpp"
#include "tests/check.hpp"

namespace {

TEST_CASE(an_idle_qp_costs_at_most_4_kib) {
  std::size_t total = 0;
  for (const openmrc::QpFootprint& part : openmrc::qp_footprint()) {
    std::printf("  %-32s %6zu bytes\n", part.component, part.bytes);
    CHECK(part.bytes > 0);
    total += part.bytes;
  }
  std::printf("  %-32s %6zu bytes\n", "idle QP", total);
  CHECK(total > 256);
  CHECK(total <= 4096);
}

}  // namespace
