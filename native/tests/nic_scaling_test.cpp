// Number of I/O threads: more of them only if one is not enough and a processor is free.
#include "nic/io_scaling.hpp"

#include <algorithm>
#include <cstdint>

#include "tests/check.hpp"

namespace {

using namespace openmrc;
using nic::IoScaling;
using nic::kNsPerMs;
using nic::TimeNs;

// A device whose threads share `work_permille` of one processor's time equally, on a machine that has `processors` for
// them. The amount of data moved is proportional to processor time.
struct Host {
  IoScaling scaling;
  TimeNs now = 1'000 * kNsPerMs;
  std::uint32_t threads = 1;
  std::uint32_t changes = 0;
  std::uint64_t moved_bytes = 0;

  explicit Host(std::uint32_t threads_max) : scaling(threads_max) {}

  void run(TimeNs milliseconds, TimeNs work_permille, TimeNs processors) {
    for (const TimeNs end = now + milliseconds * kNsPerMs; now < end;) {
      now += IoScaling::kWindow;
      const std::uint32_t before = threads;
      for (std::uint32_t thread = 0; thread < before; ++thread) {
        const TimeNs awake = std::min<TimeNs>(work_permille / before, 1000);
        const TimeNs served = std::min<TimeNs>(awake, 1000 * processors / before);
        // Work that waits for a processor extends its thread's time awake.
        const TimeNs seen = served < awake ? 1000 : awake;
        moved_bytes += static_cast<std::uint64_t>(served) * 1000;
        const TimeNs span = IoScaling::kWindow;
        threads = scaling.update(now, thread, {span, span * seen / 1000, span * served / 1000}, moved_bytes);
      }
      changes += threads != before ? 1 : 0;
    }
  }
};

}  // namespace

TEST_CASE(nic_scaling_keeps_one_thread_while_it_keeps_up) {
  Host host(8);
  host.run(5'000, 800, 16);
  CHECK(host.threads == 1 && host.changes == 0);
}

TEST_CASE(nic_scaling_takes_as_many_threads_as_the_load_needs) {
  Host host(8);
  host.run(2'000, 2'500, 16);
  CHECK(host.threads == 3);
  host.run(2'000, 20'000, 16);
  CHECK(host.threads == 8);
  host.run(10'000, 100, 16);
  CHECK(host.threads == 1);
}

TEST_CASE(nic_scaling_never_exceeds_its_limit) {
  Host host(2);
  host.run(2'000, 20'000, 16);
  CHECK(host.threads == 2);
  Host lone(1);
  lone.run(2'000, 20'000, 16);
  CHECK(lone.threads == 1);
  Host limited(8);
  limited.scaling.limit(1);
  limited.run(2'000, 20'000, 16);
  CHECK(limited.threads == 1);
}

// As if the peer, or the network, limited the rate, or another process needed the other processors.
TEST_CASE(nic_scaling_gives_threads_back_that_gain_nothing) {
  Host host(4);
  host.run(60'000, 5'000, 1);
  // It retries at growing intervals.
  CHECK(host.threads == 1 && host.changes >= 4 && host.changes <= 14);
  host.run(60'000, 5'000, 4);
  CHECK(host.threads == 4);
}

TEST_CASE(nic_scaling_does_not_oscillate_at_a_steady_load) {
  for (TimeNs work = 950; work < 4'000; work += 50) {
    Host host(8);
    host.run(30'000, work, 16);
    CHECK(host.changes <= 14);
  }
}
