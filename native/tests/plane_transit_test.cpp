// Transit times of a plane, told apart although only their lower bits are known.
#include "engine/planes/plane_transit.hpp"

#include "tests/check.hpp"

namespace openmrc::test {
namespace {

constexpr TimePs kUnit = kPsPerUs;
constexpr std::int64_t kClocks = 3'000'000;  // difference of the clocks, in microseconds
constexpr std::int64_t kIdle = kClocks + 30'000;

class Arrivals {
 public:
  void add(std::int64_t queue_us) {
    transit.add(now, kUnit, static_cast<std::uint16_t>(kIdle + queue_us), near);
    near = transit.latest();
  }
  // Adds a packet some time after the one before, and checks that exactly its queue sets it apart from the first one.
  void follow(TimePs after, std::int64_t queue_us) {
    now += after;
    add(queue_us);
    CHECK(transit.latest() == idle + queue_us);
    CHECK(transit.least() == idle);
  }

  PlaneTransit transit;
  TimePs now = kPsPerSecond;
  std::int64_t near = 0;
  std::int64_t idle = 0;
};

Arrivals begun() {
  Arrivals plane;
  plane.add(0);
  plane.idle = plane.transit.latest();
  return plane;
}

// Regression: a queue of more than half the range of the timestamps after a silence of 10 ms looked like a shorter path.
// Planes that were alike then had transit times 65 ms apart, and SACKs took turns on them.
TEST_CASE(a_long_queue_after_a_short_silence_is_no_shorter_path) {
  constexpr TimePs kShrinks = 43 * kPsPerMs;  // time that the queue takes from 45 to 2 ms
  for (const TimePs more : {kPsPerMs, 15 * kPsPerMs, 100 * kPsPerMs, kPsPerSecond}) {
    Arrivals plane = begun();
    for (const std::int64_t queue_us : {40'000, 45'000, 2'000, 44'000}) plane.follow(kShrinks + more, queue_us);
  }
}

TEST_CASE(a_queue_is_followed_beyond_the_range_of_timestamps) {
  Arrivals plane = begun();
  for (std::int64_t queue_us = 0; queue_us <= 200'000; queue_us += 40'000) plane.follow(kPsPerMs, queue_us);
  for (std::int64_t queue_us = 200'000; queue_us >= 0; queue_us -= 10'000) plane.follow(10 * kPsPerMs, queue_us);
}

TEST_CASE(the_least_transit_time_is_forgotten_after_twenty_seconds) {
  Arrivals plane = begun();
  for (int second = 0; second < 9; ++second) {
    plane.now += kPsPerSecond;
    plane.add(8'000);
  }
  CHECK(plane.transit.least() == plane.idle);
  for (int second = 0; second < 14; ++second) {
    plane.now += kPsPerSecond;
    plane.add(8'000);
  }
  CHECK(plane.transit.least() == plane.idle + 8'000);
}

TEST_CASE(after_a_long_silence_a_transit_time_is_near_those_of_other_planes) {
  Arrivals plane = begun();
  plane.now += 20 * kPsPerSecond;
  CHECK(!plane.transit.heard_since(plane.now - kPsPerSecond));
  plane.near = plane.idle - 10'000;  // clocks drift
  plane.add(-20'000);
  CHECK(plane.transit.least() == plane.idle - 20'000);
  CHECK(plane.transit.heard_since(plane.now));
}

TEST_CASE(a_transit_time_takes_the_multiple_that_is_next_to_what_is_known_otherwise) {
  constexpr std::int64_t kRange = 1 << 16;
  for (const std::int64_t multiple : {-2, -1, 0, 1, 3}) {
    for (const std::int64_t off : {-30'000, 0, 30'000}) {
      Arrivals plane = begun();
      plane.transit.resolve(plane.idle + multiple * kRange + off);
      CHECK(plane.transit.least() == plane.idle + multiple * kRange);
      plane.idle += multiple * kRange;
      plane.follow(kPsPerMs, 10'000);  // later ones follow
    }
  }
}

}  // namespace
}  // namespace openmrc::test
