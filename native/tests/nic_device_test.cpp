// Two devices in one process over loopback: enough for the sanitizers to see threads, sockets and memory at work.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "nic/device.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using nic::Device;

nic::Settings settings_for(const char* address) {
  nic::Settings settings;
  nic::PortSettings port;
  CHECK(nic::parse_address(address, port.local));
  port.advertise = port.local;
  settings.ports.push_back(port);
  settings.evs_per_port = 4;
  settings.udp_port = 14793;
  settings.seed = 7;
  return settings;
}

struct End {
  explicit End(const char* address) : device(settings_for(address)), memory(1U << 20) {
    CHECK(device.create_cq(64, cq) == Status::kOk);
    CHECK(device.register_memory(memory.data(), memory.size(), kRemoteWrite, key) == Status::kOk);
    QpInitAttributes attributes;
    attributes.send_cq = attributes.recv_cq = cq;
    CHECK(device.command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, qp); }) == Status::kOk);
  }

  void connect(const End& peer, std::uint32_t send_psn, std::uint32_t receive_psn) {
    const auto move = [&](const auto& attributes) {
      return device.command([&](Engine& engine, TimePs now) { return engine.modify_qp(now, qp, attributes); });
    };
    PeerConfig config;
    config.ports.push_back(peer.device.settings().ports[0].advertise);
    config.udp_port = 14793;
    QpToInit init;
    init.ev_universe = device.evs();
    init.ev_set.active_per_port = 4;
    init.controller = "none";
    QpToRtr rtr;
    rtr.destination_qp = peer.qp;
    rtr.rq_psn = receive_psn;
    CHECK(device.command([&](Engine& engine, TimePs) { return engine.add_peer(config, rtr.peer); }) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = send_psn;
    rts.timeout_exponent = 14;
    CHECK(move(init) == Status::kOk);
    CHECK(move(rtr) == Status::kOk);
    CHECK(move(rts) == Status::kOk);
  }

  Status write(const End& peer, std::uint64_t bytes) {
    SendWr wr;
    wr.lkey = key;
    wr.local_address = reinterpret_cast<std::uintptr_t>(memory.data());
    wr.length_bytes = bytes;
    wr.rkey = peer.key;
    wr.remote_address = reinterpret_cast<std::uintptr_t>(peer.memory.data());
    return device.post_send(qp, wr);
  }

  Device device;
  std::vector<std::uint8_t> memory;
  CqId cq = 0;
  std::uint32_t key = 0, qp = 0;
};

struct Pair {
  Pair() {
    a.connect(b, 5, 9);
    b.connect(a, 9, 5);
    for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
  }
  End a{"127.0.0.81"}, b{"127.0.0.82"};
};

}  // namespace

TEST_CASE(nic_write_reaches_the_peers_memory_by_the_io_threads) {
  Pair pair;
  std::array<Completion, 4> done;
  CHECK(pair.a.write(pair.b, pair.a.memory.size()) == Status::kOk);
  CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1);
  CHECK(done[0].status == WcStatus::kSuccess);
  CHECK(pair.a.memory == pair.b.memory);
}

TEST_CASE(nic_write_reaches_the_peers_memory_while_both_ends_poll) {
  Pair pair;
  std::array<Completion, 4> done;
  std::size_t completed = 0;
  for (int i = 0; i < 50; ++i) CHECK(pair.a.write(pair.b, 64) == Status::kOk);
  const TimePs deadline = nic::now_ps() + 20 * kPsPerSecond;
  while (completed < 50 && nic::now_ps() < deadline) {
    pair.a.device.progress();
    pair.b.device.progress();
    completed += pair.a.device.poll_cq(pair.a.cq, done);
  }
  CHECK(completed == 50);
  CHECK(std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 64, pair.b.memory.begin()));
}

TEST_CASE(nic_posts_from_several_threads_all_complete) {
  Pair pair;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&pair] {
      for (int i = 0; i < 10; ++i) pair.a.write(pair.b, 4096);
    });
  }
  std::size_t completed = 0;
  std::array<Completion, 8> done;
  const TimePs deadline = nic::now_ps() + 20 * kPsPerSecond;
  while (completed < 30 && nic::now_ps() < deadline) completed += pair.a.device.wait_cq(pair.a.cq, done, 100'000'000);
  for (std::thread& thread : threads) thread.join();
  CHECK(completed == 30);
}

TEST_CASE(nic_close_wakes_those_who_wait_and_is_final) {
  Pair pair;
  std::array<Completion, 4> done;
  std::thread waiter([&] { pair.b.device.wait_cq(pair.b.cq, done, 20'000'000'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  pair.b.device.close();
  waiter.join();
  CHECK(pair.b.device.progress() == 0);
  CHECK(pair.b.device.socket_stats().size() == 1);
}

TEST_CASE(nic_second_device_on_a_port_is_refused) {
  const Device first(settings_for("127.0.0.83"));
  bool refused = false;
  try {
    const Device second(settings_for("127.0.0.83"));
  } catch (const nic::NicError& error) {
    refused = error.code() == EADDRINUSE;
  }
  CHECK(refused);
}
