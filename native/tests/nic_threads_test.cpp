// Several I/O threads beside threads that post, poll, deregister, take ports down and close.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "nic/device.hpp"
#include "tests/check.hpp"
#include "tests/nic_fixture.hpp"
#include "tests/pipe_port.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr std::uint32_t kPorts = 4;

nic::Settings several(int host) {
  nic::Settings settings = host == 0 ? settings_for({"127.0.0.101", "127.0.0.102", "127.0.0.103", "127.0.0.104"})
                                     : settings_for({"127.0.0.105", "127.0.0.106", "127.0.0.107", "127.0.0.108"});
  settings.io_threads = kPorts;
  return settings;
}

std::size_t complete(End& end, std::size_t count) {
  std::array<Completion, 16> done;
  std::size_t completed = 0;
  const nic::TimeNs deadline = nic::now_ns() + 60 * nic::kNsPerSecond;
  while (completed < count && nic::now_ns() < deadline) {
    const std::size_t found = end.device.wait_cq(end.cq, done, 100'000'000);
    for (std::size_t i = 0; i < found; ++i) CHECK(done[i].status == WcStatus::kSuccess);
    completed += found;
  }
  return completed;
}

void write_from_two_threads(DevicePair& pair) {
  constexpr int kWrites = 12;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&pair] {
      for (int i = 0; i < kWrites; ++i) CHECK(pair.a.write(pair.b, pair.a.memory.size()) == Status::kOk);
    });
  }
  const std::size_t completed = complete(pair.a, 2 * kWrites);
  for (std::thread& thread : threads) thread.join();
  CHECK(completed == 2 * kWrites);
  CHECK(pair.a.memory == pair.b.memory);
}

}  // namespace

TEST_CASE(nic_threads_share_the_ports_of_sockets) {
  DevicePair pair(several(0), several(1));
  write_from_two_threads(pair);
  CHECK(pair.a.device.stats().io_threads == kPorts && pair.b.device.stats().io_threads_peak == kPorts);
  for (const nic::SocketStats& port : pair.b.device.socket_stats()) CHECK(port.received_datagrams > 0);
}

TEST_CASE(nic_threads_share_the_ports_of_a_pipe) {
  Pipe pipe(9'000, 1U << 16);  // short queues, so that ports block frequently
  DevicePair pair(several(0), several(1), pipe.factory());
  write_from_two_threads(pair);
}

TEST_CASE(nic_threads_do_the_work_of_a_lone_one) {
  nic::Settings one = several(0), other = several(1);
  one.io_threads = other.io_threads = 1;
  DevicePair pair(one, other);
  write_from_two_threads(pair);
  CHECK(pair.a.device.stats().io_threads_peak == 1);
}

TEST_CASE(nic_threads_and_polling_threads_take_turns) {
  DevicePair pair(several(0), several(1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> pollers;
  for (nic::Device* device : {&pair.a.device, &pair.b.device, &pair.b.device}) {
    pollers.emplace_back([device, &stop] {
      while (!stop.load()) {
        for (int i = 0; i < 50; ++i) device->progress();
        device->await_progress(nic::kNsPerMs);
        device->rest_polling();
        std::this_thread::yield();
      }
    });
  }
  write_from_two_threads(pair);
  stop.store(true);
  for (std::thread& thread : pollers) thread.join();
}

TEST_CASE(nic_threads_let_go_of_deregistered_memory_and_downed_ports) {
  DevicePair pair(several(0), several(1));
  std::vector<std::uint8_t> source(256U << 10, 0x5A);
  for (std::uint32_t round = 0; round < 8; ++round) {
    std::uint32_t key = 0;
    CHECK(pair.a.device.register_memory(source.data(), source.size(), kLocalRead, key) == Status::kOk);
    const PortId port = static_cast<PortId>(round % kPorts);
    for (int i = 0; i < 4; ++i) CHECK(pair.a.write(pair.b, key, source.data(), source.size()) == Status::kOk);
    pair.a.device.set_port_state(port, false);
    CHECK(complete(pair.a, 4) == 4);
    CHECK(pair.a.device.deregister_memory(key) == Status::kOk);
    pair.a.device.set_port_state(port, true);
  }
  CHECK(std::equal(source.begin(), source.end(), pair.b.memory.begin()));
}

TEST_CASE(nic_threads_end_with_their_device_under_load) {
  for (int round = 0; round < 5; ++round) {
    DevicePair pair(several(0), several(1));
    std::thread poster([&pair] {
      for (int i = 0; i < 200 && !pair.a.device.closed(); ++i) pair.a.write(pair.b, pair.a.memory.size());
    });
    std::thread reader([&pair] {
      std::array<Completion, 16> done;
      while (!pair.a.device.closed()) pair.a.device.wait_cq(pair.a.cq, done, nic::kNsPerMs);
    });
    while (pair.b.device.socket_stats()[0].received_datagrams == 0) std::this_thread::yield();
    pair.a.device.close();
    poster.join();
    reader.join();
    CHECK(pair.a.device.socket_stats().size() == kPorts && pair.a.device.evs().size() == 16);
    pair.b.device.close();
  }
}
