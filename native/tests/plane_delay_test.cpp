// Queues of a long path, told apart by transit times that repeat.
#include "engine/planes/plane_delay.hpp"

#include "tests/check.hpp"

namespace openmrc::test {
namespace {

constexpr TimePs kRange = 32'768 * kPsPerUs;
constexpr TimePs kClocks = 20 * kPsPerMs;  // difference of the clocks
constexpr TimePs kWay = 30 * kPsPerMs;

// A path between sites, with a sample every millisecond.
class Path {
 public:
  void sample() {
    now_ += kPsPerMs;
    const Transit transit{(kClocks + kWay + forward) % kRange, kRange};
    CHECK(delay.add(now_, 2 * kWay + forward + back, transit, 1500, 0));
  }
  // Moves a queue to this length, half a millisecond at a time.
  void move(TimePs& queue, TimePs to) {
    while (queue != to) {
      queue += queue < to ? std::min(to - queue, kPsPerMs / 2) : -std::min(queue - to, kPsPerMs / 2);
      sample();
    }
  }
  void pause(TimePs span) { now_ += span; }

  PlaneDelay delay;
  TimePs forward = 0, back = 0;

 private:
  TimePs now_ = kPsPerSecond;
};

// Regression: transit times of 2 and of 34.8 ms look the same, and both fit into a delay of 42.
TEST_CASE(a_long_queue_on_the_return_path_is_not_taken_for_one_of_the_own_packets) {
  Path path;
  path.sample();
  path.move(path.forward, 2 * kPsPerMs);
  path.move(path.back, 40 * kPsPerMs);
  CHECK(path.delay.least_of(1) == 2 * kPsPerMs);
  path.move(path.back, 0);
  path.move(path.forward, 40 * kPsPerMs);
  CHECK(path.delay.least_of(1) == 40 * kPsPerMs);
  path.move(path.back, 40 * kPsPerMs);
  CHECK(path.delay.least_of(1) == 40 * kPsPerMs);
  path.move(path.forward, 0);
  CHECK(path.delay.least_of(1) == 0);
}

TEST_CASE(after_a_pause_a_delay_is_attributed_to_the_own_packets_as_far_as_possible) {
  Path path;
  path.sample();
  path.pause(kPsPerSecond);
  path.forward = 2 * kPsPerMs;
  path.back = 40 * kPsPerMs;
  path.sample();
  CHECK(path.delay.least_of(1) == 2 * kPsPerMs + kRange);
  path.move(path.back, 20 * kPsPerMs);
  CHECK(path.delay.least_of(1) == 2 * kPsPerMs);  // the longer queue no longer fits
}

}  // namespace
}  // namespace openmrc::test
