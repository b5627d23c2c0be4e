// The last EV of both ends is dead and min_active keeps it in use: probes still find a live path.
#include <algorithm>
#include <string_view>
#include <vector>

#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kTarget = 512 * 1024;
constexpr std::uint64_t kBytes = 200'000;

std::vector<EvIndex> in_use(Pair& pair, int end, PortId port) {
  const EvSet& set = *pair.engine(end).ev_set(pair.qp[Pair::at(end)]);
  std::vector<EvIndex> found;
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    const auto index = static_cast<EvIndex>(i);
    if (set.ev(index).port == port && set.state(index) != EvState::kAssumedBad) found.push_back(index);
  }
  return found;
}

// Nothing passes for two seconds; then a third of the EVs of plane 0 works again, but not the ones still in use at the
// two ends.
void recover(const PairOptions& options, int first_sender, int last_sender) {
  Pair pair(options);
  pair.connect();
  std::vector<std::uint32_t> alive;
  bool started = false;
  pair.filter = [&](int, const wire::Packet&, const Flying& flying) {
    if (!started) return Fate::kPass;
    const std::uint32_t ev = wire::ev_of_fields(flying.fields, options.ev_format);
    return std::find(alive.begin(), alive.end(), ev) != alive.end() ? Fate::kPass : Fate::kDrop;
  };
  for (int end = first_sender; end <= last_sender; ++end) CHECK(pair.write(end, 1, kBytes, kTarget) == Status::kOk);
  for (int end = first_sender; end <= last_sender; ++end) CHECK(pair.run_until_sends(end, 1));
  started = true;
  for (int end = first_sender; end <= last_sender; ++end) CHECK(pair.write(end, 2, kBytes, kTarget) == Status::kOk);
  pair.run_for(2 * kPsPerSecond);
  std::vector<EvIndex> left;
  for (int end = first_sender; end <= last_sender; ++end) {
    const std::vector<EvIndex> of_end = in_use(pair, end, 0);
    CHECK(of_end.size() <= 1 || options.planes > 1);
    left.insert(left.end(), of_end.begin(), of_end.end());
  }
  const EvSet& set = *pair.engine(0).ev_set(pair.qp[0]);
  for (std::uint32_t i = 0; i < set.size() && alive.size() < options.evs_per_port / 3; ++i) {
    const auto index = static_cast<EvIndex>(i);
    if (set.ev(index).port == 0 && std::find(left.begin(), left.end(), index) == left.end())
      alive.push_back(set.ev(index).value);
  }
  CHECK(!alive.empty());
  for (int end = first_sender; end <= last_sender; ++end) CHECK(pair.run_until_sends(end, 2, 20 * kPsPerSecond));
  for (int end = first_sender; end <= last_sender; ++end) {
    CHECK(pair.landed(end, kBytes, kTarget));
    CHECK(pair.state(end) == QpState::kRts);
  }
}

// proves X.6.1
TEST_CASE(a_dead_ev_that_the_floor_holds_does_not_take_every_answer) {
  for (const PathSignal signal : {PathSignal::kMarks, PathSignal::kDelay, PathSignal::kDiscover}) {
    for (const std::uint32_t planes : {1U, 2U, 4U}) {
      for (const wire::EvFormat format : {wire::EvFormat::kUdp, wire::EvFormat::kStev, wire::EvFormat::kSrv6}) {
        for (const char* selector : {"mrc", "reps", "single"}) {
          // A pinned QP tries the EVs of dead planes one by one, longer with every back-off, which is not tested here.
          if (planes > 1 && std::string_view(selector) == "single") continue;
          PairOptions options;
          options.planes = static_cast<std::uint8_t>(planes);
          options.evs_per_port = 12;
          options.path_signal = signal;
          options.ev_format = format;
          options.selector = selector;
          options.capabilities.plane_sacks = signal == PathSignal::kDelay;
          options.linear_retries = 7;
          recover(options, 0, 1);  // both ends send, and have no usable path
          recover(options, 0, 0);
          recover(options, 1, 1);
        }
      }
    }
  }
}

// By the time that one of two EVs works again in each direction, the retry timer has backed off to seconds.
TEST_CASE(evs_that_the_floor_holds_are_found_by_probes_and_not_by_the_retry_timer) {
  for (const PathSignal signal : {PathSignal::kMarks, PathSignal::kDelay}) {
    PairOptions options;
    options.planes = 1;
    options.evs_per_port = 2;
    options.min_active = 2;
    options.path_signal = signal;
    Pair pair(options);
    pair.connect();
    CHECK(pair.write(0, 1, kBytes, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    bool dead = true;
    pair.filter = [&](int from, const wire::Packet&, const Flying& flying) {
      return dead || flying.fields.source_port != 0xC000 + from ? Fate::kDrop : Fate::kPass;
    };
    CHECK(pair.write(0, 2, kBytes, kTarget) == Status::kOk);
    pair.run_for(3 * kPsPerSecond);
    const std::uint64_t timeouts = pair.stats(0).timeouts;
    dead = false;
    CHECK(pair.run_until([&] { return pair.landed(0, kBytes, kTarget) && pair.sends[0].size() == 2; }, 500 * kPsPerMs));
    CHECK(signal != PathSignal::kMarks || pair.stats(0).timeouts <= timeouts + 1);
  }
}

}  // namespace
