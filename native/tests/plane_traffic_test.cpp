#include "engine/planes/plane_traffic.hpp"
#include "tests/check.hpp"

namespace openmrc::test {
namespace {

TEST_CASE(a_plane_with_a_small_part_of_the_data_bears_no_acknowledgements_of_others) {
  PlaneTraffic traffic;
  const TimePs now = kPsPerMs;
  CHECK(traffic.bears_acknowledgements(0, false));  // nothing is known yet
  traffic.received(now, 0, 100'000);
  traffic.received(now, 1, 10'000);
  traffic.received(now, 2, 5'000);
  CHECK(traffic.bears_acknowledgements(0, false));
  CHECK(traffic.bears_acknowledgements(1, false));
  CHECK(!traffic.bears_acknowledgements(2, false));
  CHECK(traffic.bears_acknowledgements(2, true));  // as it does already
  CHECK(!traffic.bears_acknowledgements(3, true));
}

}  // namespace
}  // namespace openmrc::test
