// Transport parts referred to by handles, and the threads that run shards and planes.
#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "engine/base/rng.hpp"
#include "netsim/simulate/parts.hpp"
#include "netsim/simulate/thread_team.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::netsim;

TransportPart numbered(std::uint32_t number) {
  TransportPart part;
  part.payload_bytes = static_cast<std::uint16_t>(number);
  part.header_bytes = 4;
  part.header = {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8),
                 static_cast<std::uint8_t>(number >> 16)};
  return part;
}

bool same(const TransportPart& a, const TransportPart& b) {
  return a.payload_bytes == b.payload_bytes && a.header_bytes == b.header_bytes && a.header == b.header;
}

}  // namespace

TEST_CASE(parts_keep_their_contents_until_the_last_copy_is_returned) {
  struct Held {
    std::uint32_t number = 0, copies = 1;
    const TransportPart* where = nullptr;
  };
  Rng rng(3);
  Parts parts;
  std::map<std::uint32_t, Held> plain;
  for (std::uint32_t step = 0; step < 60'000; ++step) {
    // In waves, so that the storage grows beyond one slab and is reused.
    const bool filling = step / 10'000 % 2 == 0;
    if (plain.empty() || rng.chance(filling ? 8 : 2, 10)) {
      const std::uint32_t handle = parts.take(numbered(step));
      CHECK(!plain.contains(handle));
      plain[handle] = {step, 1, &parts.at(handle)};
      continue;
    }
    auto found = plain.lower_bound(static_cast<std::uint32_t>(rng.below(plain.rbegin()->first + 1U)));
    Held& held = found->second;
    CHECK(&parts.at(found->first) == held.where && same(*held.where, numbered(held.number)));
    if (rng.chance(1, 5)) {
      parts.share(found->first);
      ++held.copies;
    } else {
      parts.give_back(found->first);
      if (--held.copies == 0) plain.erase(found);
    }
    CHECK(parts.held() == plain.size());
  }
  for (const auto& [handle, held] : plain) {
    for (std::uint32_t copy = 0; copy < held.copies; ++copy) parts.give_back(handle);
  }
  CHECK(parts.held() == 0);
  const std::uint64_t memory = parts.memory_bytes();
  for (std::uint32_t i = 0; i < plain.size(); ++i) (void)parts.take(numbered(i));
  CHECK(parts.held() == plain.size() && parts.memory_bytes() == memory);
}

TEST_CASE(a_thread_team_does_every_task_of_every_batch_once) {
  for (const std::uint32_t threads : {1U, 2U, 3U, 5U}) {
    ThreadTeam team(threads);
    CHECK(team.threads() == threads);
    std::vector<std::uint32_t> done(17);  // not atomic: a batch must have ended before the next begins
    for (std::uint32_t batch = 0; batch < 2'000; ++batch) {
      const std::uint32_t count = batch % 18;
      team.run(count, [&](std::uint32_t task) { ++done[task]; });
    }
    std::uint32_t expected = 0;
    for (std::uint32_t batch = 0; batch < 2'000; ++batch) expected += batch % 18 > 0 ? 1 : 0;
    CHECK(done[0] == expected);
    std::uint64_t sum = 0, all = 0;
    for (const std::uint32_t times : done) sum += times;
    for (std::uint32_t batch = 0; batch < 2'000; ++batch) all += batch % 18;
    CHECK(sum == all);
  }
}

TEST_CASE(a_thread_team_that_is_never_asked_ends) {
  for (int i = 0; i < 50; ++i) ThreadTeam team(3);
}

TEST_CASE(the_caller_waits_for_a_task_that_takes_long) {
  ThreadTeam team(3);
  std::atomic<std::uint32_t> ended{0};
  const auto task = [&](std::uint32_t number) {
    volatile std::uint32_t work = 0;
    for (std::uint32_t i = 0; i < (number == 2 ? 2'000'000U : 10U); ++i) work = work + 1;
    ++ended;
  };
  for (std::uint32_t batch = 1; batch <= 3; ++batch) {
    team.run(4, task);
    CHECK(ended == 4 * batch);
  }
}
