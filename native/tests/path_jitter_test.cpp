#include "engine/planes/path_jitter.hpp"

#include "tests/check.hpp"

namespace {

using openmrc::kPsPerMs;
using openmrc::PathJitter;
using openmrc::TimePs;

constexpr PathJitter::Epoch kSteady{.usual = kPsPerMs / 2, .window = 100'000, .rate = 10'000'000};

// Delays of packets sent one millisecond apart, `step` less for each than for the one before.
void fall(PathJitter& path, TimePs start, TimePs delay, TimePs step) {
  for (TimePs sent = start; delay >= 0; delay -= step, sent += kPsPerMs) path.add(sent, delay);
}

TimePs after(const PathJitter::Epoch& epoch, TimePs step) {
  PathJitter path;
  path.end_epoch(kSteady);
  fall(path, kPsPerMs, 8 * kPsPerMs, step);
  path.end_epoch(epoch);
  return path.jitter();
}

}  // namespace

TEST_CASE(path_jitter_is_a_delay_that_falls_as_time_passes) {
  CHECK(after(kSteady, 2 * kPsPerMs) == 7'500 * openmrc::kPsPerUs);
  CHECK(after(kSteady, kPsPerMs) == 7'500 * openmrc::kPsPerUs);
  CHECK(after(kSteady, kPsPerMs / 4 * 3) == 0);  // a queue that is still fed
}

TEST_CASE(path_jitter_is_no_queue_that_its_sender_lets_run_empty) {
  PathJitter::Epoch smaller = kSteady;
  smaller.window = 40'000;  // 6 ms less
  CHECK(after(smaller, kPsPerMs) == 1'500 * openmrc::kPsPerUs);
  smaller.window = 20'000;  // 8 ms less
  CHECK(after(smaller, kPsPerMs) == 0);
  PathJitter::Epoch paused = kSteady;
  paused.paused = true;
  CHECK(after(paused, kPsPerMs) == 0);
}

TEST_CASE(path_jitter_starts_anew_after_a_pause) {
  PathJitter path;
  path.end_epoch(kSteady);
  path.add(0, 9 * kPsPerMs);
  PathJitter::Epoch paused = kSteady;
  paused.paused = true;
  path.end_epoch(paused);
  path.add(kPsPerMs, 0);
  path.end_epoch(kSteady);
  CHECK(path.jitter() == 0);
}

TEST_CASE(path_jitter_is_forgotten) {
  PathJitter path;
  path.end_epoch(kSteady);
  fall(path, kPsPerMs, 8 * kPsPerMs, kPsPerMs);
  path.end_epoch(kSteady);
  for (int epoch = 0; epoch < 2'000; ++epoch) {
    path.add((20 + epoch) * kPsPerMs, 0);
    path.end_epoch(kSteady);
  }
  CHECK(path.jitter() < 10 * openmrc::kPsPerUs);
}
