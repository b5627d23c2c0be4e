// Bursts between the engine's lock and the port: each leaves once and in order, from any thread.
#include "nic/lane.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/check.hpp"

namespace {

using namespace openmrc;
using nic::Lane;

// Records its input; can be blocked.
class RecordingPort final : public nic::Port {
 public:
  std::uint32_t send(const TxBurst& burst, std::uint32_t first) override {
    CHECK(!busy_.exchange(true));
    if (room > 0) --room;
    const std::uint32_t taken = room == 0 ? first : burst.count;
    if (taken == burst.count) sent.push_back(burst.qp);
    busy_.store(false);
    return taken;
  }
  int blocked_fd() const override { return -1; }
  void drop(std::uint32_t datagrams) override { dropped += datagrams; }
  nic::Received receive(nic::ReceiveBuffers&, nic::TrainSink&) override { return {}; }
  nic::Received receive_endpoint(nic::ReceiveBuffers&, nic::TrainSink&) override { return {}; }
  nic::TimeNs endpoint_rests_until() const override { return 0; }
  int receive_fd() const override { return -1; }
  int endpoint_fd() const override { return -1; }
  bool interface_gone() const override { return false; }
  int rebind() override { return 0; }
  void close() override {}
  nic::SocketStats stats() const override { return {}; }
  std::uint32_t path_mtu(const Address&, std::uint16_t) const override { return 1'500; }
  const std::vector<Ev>& evs() const override { return evs_; }

  int room = -1;  // calls up to and including the one that blocks; negative: never blocks
  std::vector<std::uint32_t> sent;
  std::uint32_t dropped = 0;

 private:
  std::vector<Ev> evs_;
  std::atomic<bool> busy_{false};
};

std::unique_ptr<TxBurst> burst_of(std::uint32_t number, const std::uint8_t* payload = nullptr) {
  auto burst = std::make_unique<TxBurst>();
  burst->qp = number;
  burst->count = 1;
  TxPacket& packet = burst->packets[0];
  packet.headers.fill(0);
  packet.header_bytes = 16;
  packet.payload = payload;
  packet.payload_bytes = payload == nullptr ? 0 : 4;
  packet.trailer_bytes = 4;
  return burst;
}

struct Bench {
  Bench() : lane(std::make_unique<RecordingPort>(), Address{}), port(static_cast<RecordingPort&>(lane.port())) {}

  void push(std::uint32_t number, const std::uint8_t* payload = nullptr) {
    auto burst = burst_of(number, payload);
    lane.push(burst);
  }
  Lane::Sent send(std::uint32_t bursts_max = 100) { return lane.send(bursts_max); }

  Lane lane;
  RecordingPort& port;
};

}  // namespace

TEST_CASE(nic_lane_takes_few_bursts_and_sends_them_in_order) {
  Bench bench;
  std::uint32_t pushed = 0;
  while (bench.lane.has_room()) bench.push(pushed++);
  CHECK(pushed >= 2 && pushed <= 8);
  CHECK(bench.send() == Lane::Sent::kAll);
  CHECK(bench.port.sent.size() == pushed && std::is_sorted(bench.port.sent.begin(), bench.port.sent.end()));
  CHECK(bench.lane.has_room() && !bench.lane.waiting());
}

TEST_CASE(nic_lane_stops_at_the_limit_and_at_a_blocked_port) {
  Bench bench;
  bench.push(0);
  bench.push(1);
  CHECK(bench.send(1) == Lane::Sent::kLimit && bench.port.sent.size() == 1);
  bench.port.room = 1;
  CHECK(bench.send() == Lane::Sent::kBlocked && bench.lane.blocked() && !bench.lane.has_room());
  CHECK(bench.send() == Lane::Sent::kAll && bench.port.sent.size() == 1);  // no effect before retry()
  std::uint32_t bursts_max = 100;
  CHECK(bench.lane.retry(bursts_max) == Lane::Sent::kBlocked);
  bench.port.room = -1;
  CHECK(bench.lane.retry(bursts_max) == Lane::Sent::kAll && bench.port.sent.size() == 2);
  CHECK(!bench.lane.blocked() && bench.lane.has_room());
}

// Another thread may find the port blocked between the check for room and the push.
TEST_CASE(nic_lane_keeps_a_burst_that_comes_while_the_port_is_blocked) {
  Bench bench;
  bench.port.room = 1;
  bench.push(0);
  CHECK(bench.send() == Lane::Sent::kBlocked);
  bench.push(1);
  CHECK(bench.send() == Lane::Sent::kAll && bench.port.sent.empty());
  bench.port.room = -1;
  std::uint32_t bursts_max = 100;
  CHECK(bench.lane.retry(bursts_max) == Lane::Sent::kAll);
  CHECK(bench.port.sent == std::vector<std::uint32_t>({0, 1}));
}

TEST_CASE(nic_lane_drops_only_bursts_that_read_this_memory) {
  const std::vector<std::uint8_t> kept(8), gone(8);
  Bench bench;
  bench.push(0, gone.data());
  bench.push(1, kept.data());
  bench.lane.drop_reading(gone.data(), gone.size());
  CHECK(bench.port.dropped == 1);
  CHECK(bench.send() == Lane::Sent::kAll);
  CHECK(bench.port.sent == std::vector<std::uint32_t>{1});
  bench.push(2, kept.data());
  bench.port.room = 1;
  CHECK(bench.send() == Lane::Sent::kBlocked);
  bench.lane.drop_all();
  CHECK(bench.port.dropped == 2 && !bench.lane.blocked() && !bench.lane.waiting() && bench.lane.has_room());
}

TEST_CASE(nic_lane_closed_sends_nothing) {
  Bench bench;
  bench.push(0);
  bench.lane.close();
  CHECK(bench.send() == Lane::Sent::kAll && bench.port.sent.empty() && !bench.lane.has_room());
}

// A burst pushed while another thread is sending must not be left when that thread finishes.
TEST_CASE(nic_lane_leaves_no_burst_behind_between_threads) {
  constexpr std::uint32_t kBursts = 20'000;
  Bench bench;
  std::mutex engine_lock;
  std::uint32_t next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (bool more = true; more;) {
        {
          const std::lock_guard guard(engine_lock);
          if (next < kBursts && bench.lane.has_room()) bench.push(next++);
          more = next < kBursts;
        }
        bench.send();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(!bench.lane.waiting());
  CHECK(bench.port.sent.size() == kBursts && std::is_sorted(bench.port.sent.begin(), bench.port.sent.end()));
}
