// Two RC QPs under loss, reordering, repetition and corruption, by seed: mixed operations in both directions. Data and
// atomics take effect once, in the order of posting, and completions keep that order.
#include <deque>

#include "engine/base/rng.hpp"
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;

// Parts of each end's memory: sources that nobody changes, targets of WRITEs, receives, results, counters.
constexpr std::uint64_t kSourceBytes = 64 * 1024, kWrites = kSourceBytes, kWriteBytes = 64 * 1024;
constexpr std::uint64_t kReceives = kWrites + kWriteBytes, kSlotBytes = 16 * 1024, kSlots = 8;
constexpr std::uint64_t kResults = kReceives + kSlots * kSlotBytes, kResultSlots = 16;
constexpr std::uint64_t kCounters = kResults + kResultSlots * kSlotBytes, kCounterCount = 4;
constexpr std::uint32_t kKey = Pair::kKey;
constexpr std::uint64_t kOperations = 60;

PairOptions drawn(Rng& rng) {
  PairOptions options;
  options.transport = Transport::kRc;
  options.mtu = rng.chance(1, 2) ? 256 : 1024;
  options.psn = {static_cast<std::uint32_t>(rng.below(kPsnSpace)), kPsnSpace - 20};
  options.rc_reads_max = options.rc_reads_max_dest = static_cast<std::uint8_t>(1 + rng.below(6));
  options.rc_window_packets = static_cast<std::uint32_t>(1 + rng.below(40));
  options.rc_rnr_timer = 2;
  options.wr_max = 16;
  return options;
}

class Swarm {
 public:
  explicit Swarm(std::uint64_t seed) : rng_(Rng::for_component(seed, "rc_swarm")), pair_(drawn(rng_)) {
    const std::uint64_t loss = rng_.below(60), twice = rng_.below(60), late = rng_.below(60), flip = rng_.below(30);
    pair_.filter = [this, loss, twice, late, flip](int, const wire::Packet&, Flying& flying) {
      if (calm_) return Fate::kPass;
      if (rng_.chance(late, 1000)) flying.arrival += static_cast<TimePs>(rng_.below(200 * kPsPerUs));
      if (rng_.chance(flip, 1000)) flying.bytes[rng_.below(flying.bytes.size())] ^= 0x20;
      if (rng_.chance(loss, 1000)) return Fate::kDrop;
      return rng_.chance(twice, 1000) ? Fate::kTwice : Fate::kPass;
    };
    pair_.connect(0);
    for (std::size_t end = 0; end < 2; ++end) model_[end] = pair_.memory[end];
  }

  void run() {
    for (int round = 0; round < 20'000 && !finished(); ++round) {
      for (int end = 0; end < 2; ++end) act(end);
      pair_.run_for(static_cast<TimePs>(1 + rng_.below(100)) * kPsPerUs);
      for (int end = 0; end < 2; ++end) check(end);
      calm_ = round > 3000;
    }
    CHECK(finished());
    for (std::size_t end = 0; end < 2; ++end) {
      const auto same = [&](std::uint64_t from, std::uint64_t bytes) {
        return std::memcmp(pair_.memory[end].data() + from, model_[end].data() + from, bytes) == 0;
      };
      CHECK(same(0, kSourceBytes) && same(kWrites, kWriteBytes) && same(kCounters, 8 * kCounterCount));
    }
  }

 private:
  struct Posted {
    SendWr wr;
    std::vector<std::uint8_t> result;  // expected at `wr.local_address`
  };
  struct Sent {
    std::uint64_t source = 0, bytes = 0;
    bool send = false, immediate = false;
    std::uint32_t value = 0;
  };

  bool finished() const {
    return done_[0] == kOperations && done_[1] == kOperations && sent_[0].empty() && sent_[1].empty();
  }

  void act(int end) {
    const std::size_t i = Pair::at(end);
    if (receives_[i] - received_[i] < kSlots && rng_.chance(1, 2)) {
      const std::uint64_t slot = kReceives + receives_[i] % kSlots * kSlotBytes, cut = rng_.below(kSlotBytes);
      CHECK(pair_.receive(end, receives_[i]++, {{slot, cut, kKey}, {slot + cut, kSlotBytes - cut, kKey}}) ==
            Status::kOk);
    }
    while (posted_[i].size() < 16 && count_[i] < kOperations && rng_.chance(2, 3)) post(end);
  }

  void post(int end) {
    const std::size_t i = Pair::at(end), peer = Pair::at(1 - end);
    Posted posted;
    SendWr& wr = posted.wr;
    const std::uint64_t bytes = rng_.chance(1, 4) ? rng_.below(12'000) : rng_.below(600);
    wr = pair_.work(count_[i], bytes, 0);
    wr.local_address = rng_.below(kSourceBytes - bytes + 1);
    wr.opcode = static_cast<WrOpcode>(rng_.below(7));
    wr.immediate = static_cast<std::uint32_t>(rng_.next());
    wr.fence = rng_.chance(1, 8);
    const auto local = [&](std::uint64_t at) { return pair_.memory[i].data() + at; };
    if (wr.opcode <= WrOpcode::kWriteImm) {
      wr.remote_address = kWrites + rng_.below(kWriteBytes - bytes + 1);
      std::memcpy(model_[peer].data() + wr.remote_address, local(wr.local_address), bytes);
    }
    if (wr.opcode >= WrOpcode::kWriteImm && wr.opcode <= WrOpcode::kSendImm) {
      const bool send = wr.opcode != WrOpcode::kWriteImm;
      sent_[peer].push_back({wr.local_address, bytes, send, wr.opcode != WrOpcode::kSend, wr.immediate});
    }
    if (wr.opcode >= WrOpcode::kRead) set_result(posted, end);
    CHECK(pair_.post(end, wr) == Status::kOk);
    posted_[i].push_back(std::move(posted));
    ++count_[i];
  }

  void set_result(Posted& posted, int end) {
    SendWr& wr = posted.wr;
    const std::size_t peer = Pair::at(1 - end);
    wr.local_address = kResults + wr.wr_id % kResultSlots * kSlotBytes;
    if (wr.opcode == WrOpcode::kRead) {
      wr.remote_address = rng_.below(kSourceBytes - wr.length_bytes + 1);
      const std::uint8_t* from = pair_.memory[peer].data() + wr.remote_address;
      posted.result.assign(from, from + wr.length_bytes);
      return;
    }
    wr.length_bytes = kAtomicBytes;
    wr.remote_address = kCounters + 8 * rng_.below(kCounterCount);
    std::uint8_t* counter = model_[peer].data() + wr.remote_address;
    posted.result.assign(counter, counter + 8);
    std::uint64_t value = 0;
    std::memcpy(&value, counter, 8);
    wr.swap_add = rng_.next();
    wr.compare = rng_.chance(1, 2) ? value : value + 1;
    if (wr.opcode == WrOpcode::kFetchAdd) {
      value += wr.swap_add;
    } else if (wr.compare == value) {
      value = wr.swap_add;
    }
    std::memcpy(counter, &value, 8);
  }

  void check(int end) {
    const std::size_t i = Pair::at(end);
    CHECK(pair_.state(end) == QpState::kRts);
    for (const Completion& done : pair_.sends[i]) {
      CHECK(done.wr_id == done_[i] && done.status == WcStatus::kSuccess && !posted_[i].empty());
      const Posted& posted = posted_[i].front();
      CHECK(done.bytes == posted.wr.length_bytes);
      CHECK(std::equal(posted.result.begin(), posted.result.end(),
                       pair_.memory[i].begin() + static_cast<std::ptrdiff_t>(posted.wr.local_address)));
      posted_[i].pop_front();
      ++done_[i];
    }
    pair_.sends[i].clear();
    for (const Completion& done : pair_.recvs[i]) {
      CHECK(done.wr_id == received_[i] && !sent_[i].empty());
      const Sent sent = sent_[i].front();
      sent_[i].pop_front();
      CHECK(done.bytes == sent.bytes && (!sent.immediate || done.immediate == sent.value));
      CHECK((done.opcode == WcOpcode::kRecvWriteImm) == !sent.send);
      const std::uint64_t slot = kReceives + received_[i] % kSlots * kSlotBytes;
      if (sent.send) {
        CHECK(std::memcmp(pair_.memory[i].data() + slot, pair_.memory[1 - i].data() + sent.source, sent.bytes) == 0);
      }
      ++received_[i];
    }
    pair_.recvs[i].clear();
  }

  Rng rng_;
  Pair pair_;
  bool calm_ = false;
  std::array<std::vector<std::uint8_t>, 2> model_;
  std::array<std::deque<Posted>, 2> posted_;
  std::array<std::deque<Sent>, 2> sent_;  // to this end, not received yet
  std::array<std::uint64_t, 2> count_{}, done_{}, receives_{}, received_{};
};

// proves X.8.1, X.8.3, X.8.6, X.8.7, X.8.8
TEST_CASE(rc_swarm_mixed_operations_take_effect_once_and_in_order) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) Swarm(seed).run();
}

}  // namespace
