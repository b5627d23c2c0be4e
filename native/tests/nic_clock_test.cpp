// The clock of a device's engine, with hosts that have been up for years and devices that live for years.
#include "nic/clock.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using nic::EngineClock;
using nic::kNsPerSecond;
using nic::TimeNs;

constexpr TimeNs kDay = 86'400 * kNsPerSecond;

}  // namespace

TEST_CASE(nic_clock_fits_the_engine_however_long_the_host_has_been_up) {
  for (const TimeNs start : {TimeNs{0}, 107 * kDay, 100'000 * kDay}) {
    const EngineClock clock(start);
    const TimePs time = clock.engine_time(start);
    CHECK(time > 0 && time < kEngineTimeMax);
    CHECK(clock.monotonic(time) == start);
    CHECK(clock.engine_time(start + 5) == time + 5 * kPsPerNs);
    CHECK(clock.monotonic(time + 1) == start + 1);
    CHECK(clock.monotonic(kNever) == nic::kNeverNs);
  }
}

TEST_CASE(nic_clock_stays_in_range_for_years_and_keeps_the_time_of_the_host) {
  EngineClock clock(3 * kDay);
  CHECK(!clock.rebase_due(3 * kDay));
  CHECK(clock.rebase_due(3 * kDay + EngineClock::kFirstRebaseAfter));
  int rebases = 0;
  for (TimeNs now = 3 * kDay; now < 4000 * kDay; now += kDay / 7) {
    while (clock.rebase_due(now)) {
      const TimePs before = clock.engine_time(now);
      clock.rebase();
      ++rebases;
      CHECK(clock.engine_time(now) == before - kClockRebase);
    }
    CHECK(clock.engine_time(now) > 0 && clock.engine_time(now) < kEngineTimeMax);
    CHECK(clock.monotonic(clock.engine_time(now)) == now);
  }
  CHECK(rebases > 300);
}

TEST_CASE(rebased_moves_instants_and_leaves_other_values) {
  const TimePs by = kClockRebase;
  CHECK(rebased(by + 5, by) == 5);
  CHECK(rebased(by - 5, by) == 0);  // clamped to the new zero
  CHECK(rebased(0, by) == 0 && rebased(INT64_MIN, by) == INT64_MIN && rebased(kNever, by) == kNever);
}
