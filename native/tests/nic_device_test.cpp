// Two devices in one process over loopback, so that sanitizers observe threads, sockets and memory.
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "nic/device.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"
#include "tests/nic_fixture.hpp"

namespace {

using namespace openmrc;
using nic::Device;
using namespace openmrc::test;

std::uint16_t srv6_port(int number) { return static_cast<std::uint16_t>(own_udp_port() + number); }

// EV format SRV6 without switches: the only rule's path is the peer itself.
nic::Settings srv6_settings(int number) {
  nic::Settings settings = settings_for({"::1"});
  settings.udp_port = srv6_port(number);
  settings.ev_format = wire::EvFormat::kSrv6;
  settings.evs_per_port = 6;
  settings.ports[0].receive = settings.ports[0].local;
  settings.ports[0].selectors = {0, 7, 65535};
  settings.paths = nic::PathRules({{settings.ports[0].local, 128, settings.ports[0].local, {}}});
  return settings;
}

// True if the kernel joins datagrams of a socket that is bound to the device's first port.
bool joins(const Device& device) {
  const nic::SocketAddress local = nic::to_socket_address(device.settings().ports[0].local, device.settings().udp_port);
  for (int fd = 3; fd < 1024; ++fd) {
    nic::SocketAddress own;
    int on = 0;
    socklen_t bytes = sizeof on;
    own.length = sizeof own.storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0 || own.length != local.length)
      continue;
    if (std::memcmp(&own.storage, &local.storage, local.length) != 0) continue;
    if (::getsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, &bytes) == 0 && on != 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE(nic_write_reaches_the_peers_memory_by_the_io_threads) {
  DevicePair pair;
  std::array<Completion, 4> done;
  CHECK(pair.a.write(pair.b, pair.a.memory.size()) == Status::kOk);
  CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1);
  CHECK(done[0].status == WcStatus::kSuccess);
  CHECK(pair.a.memory == pair.b.memory);
}

TEST_CASE(nic_cq_is_filled_until_a_poll_empties_it) {
  DevicePair pair;
  const auto cq = pair.a.device.cq_handle(pair.a.cq);
  CHECK(pair.a.device.cq_handle(pair.a.cq + 100) == nullptr);
  const auto filled = [&cq] { return nic::Device::filled(*cq); };
  CHECK(!filled());
  for (int i = 0; i < 3; ++i) CHECK(pair.a.write(pair.b, 64) == Status::kOk);
  std::array<Completion, 2> done;
  std::size_t completed = 0;
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  while (completed < 3 && nic::now_ns() < deadline) {
    if (filled()) completed += pair.a.device.poll_cq(*cq, done);
  }
  CHECK(completed == 3);
  CHECK(pair.a.device.poll_cq(*cq, done) == 0 && !filled());
}

TEST_CASE(nic_handle_of_a_destroyed_cq_finds_nothing) {
  DevicePair pair;
  CqId cq = 0;
  CHECK(pair.a.device.create_cq(8, cq) == Status::kOk);
  const auto handle = pair.a.device.cq_handle(cq);
  CHECK(pair.a.device.destroy_cq(cq) == Status::kOk);
  std::array<Completion, 2> done;
  CHECK(pair.a.device.poll_cq(*handle, done) == 0 && pair.a.device.poll_cq(cq, done) == 0);
}

TEST_CASE(nic_write_reaches_the_peers_memory_while_both_ends_poll) {
  DevicePair pair;
  std::array<Completion, 4> done;
  std::size_t completed = 0;
  for (int i = 0; i < 50; ++i) CHECK(pair.a.write(pair.b, 64) == Status::kOk);
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  while (completed < 50 && nic::now_ns() < deadline) {
    pair.a.device.progress();
    pair.b.device.progress();
    completed += pair.a.device.poll_cq(pair.a.cq, done);
  }
  CHECK(completed == 50);
  CHECK(std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 64, pair.b.memory.begin()));
}

// The kernel's joining of datagrams ends while only short ones come, and begins again with the next larger one.
TEST_CASE(nic_datagrams_are_joined_before_and_after_many_short_ones) {
  DevicePair pair;
  const bool supported = pair.b.device.socket_stats()[0].receive_offload;
  std::array<Completion, 4> done;
  const auto complete = [&](std::uint64_t bytes) {
    CHECK(pair.a.write(pair.b, bytes) == Status::kOk);
    CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1 && done[0].status == WcStatus::kSuccess);
  };
  for (int time = 0; time < 2; ++time) {
    const auto joined = [&] { return pair.b.device.socket_stats()[0].coalesced_receives; };
    const std::uint64_t before = joined();
    for (int i = 0; i < 100 && joined() == before; ++i) complete(pair.a.memory.size());
    CHECK(joined() > before || !supported);
    CHECK(pair.a.memory == pair.b.memory);
    CHECK(joins(pair.b.device) == supported);
    for (int i = 0; i < 20'000 && joins(pair.b.device); ++i) complete(64);
    CHECK(!joins(pair.b.device));
  }
}

TEST_CASE(nic_srv6_goes_through_all_selectors_with_each_source_port) {
  Device device(srv6_settings(1));
  const std::vector<Ev> evs = device.evs();
  CHECK(evs.size() == 6);
  for (std::size_t i = 0; i < evs.size(); ++i) {
    CHECK(evs[i].value >> 16 == device.settings().ports[0].selectors[i % 3]);
    CHECK((evs[i].value & 0xFFFFU) == (evs[i / 3 * 3].value & 0xFFFFU));
  }
  CHECK((evs[0].value & 0xFFFFU) != (evs[3].value & 0xFFFFU));
}

TEST_CASE(nic_srv6_write_reaches_the_peers_memory_without_offloads) {
  DevicePair pair(srv6_settings(1), srv6_settings(2));
  std::array<Completion, 4> done;
  CHECK(pair.a.write(pair.b, pair.a.memory.size()) == Status::kOk);
  CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1);
  CHECK(done[0].status == WcStatus::kSuccess);
  CHECK(pair.a.memory == pair.b.memory);
  const nic::SocketStats sender = pair.a.device.socket_stats()[0], receiver = pair.b.device.socket_stats()[0];
  CHECK(!sender.segmentation_offload && sender.segmented_sends == 0);
  CHECK(!receiver.receive_offload && receiver.coalesced_receives == 0);
  CHECK(sender.no_path == 0 && sender.dropped_datagrams == 0);
  CHECK(pair.a.device.path_mtu(0, pair.b.device.settings().ports[0].local, srv6_port(2)) >= 1280);
}

TEST_CASE(nic_srv6_drops_and_counts_packets_without_a_path_rule) {
  nic::Settings lost = srv6_settings(1);
  Address other;
  CHECK(nic::parse_address("fd00::", other));
  lost.paths = nic::PathRules({{other, 16, other, {}}});
  DevicePair pair(lost, srv6_settings(2));
  CHECK(pair.a.write(pair.b, 100'000) == Status::kOk);
  const nic::SocketStats stats = pair.a.device.socket_stats()[0];
  CHECK(stats.no_path >= 1 && stats.dropped_datagrams == stats.no_path);
  CHECK(stats.sent_datagrams == 0 && stats.send_errors == 0);
  bool refused = false;
  try {
    pair.a.device.path_mtu(0, pair.b.device.settings().ports[0].local, srv6_port(2));
  } catch (const nic::NicError& error) {
    refused = error.code() == EHOSTUNREACH;
  }
  CHECK(refused);
}

TEST_CASE(nic_counts_waits_wakeups_and_acknowledgements) {
  DevicePair pair;
  const nic::WaitStats before = pair.a.device.wait_stats();
  std::array<Completion, 4> done;
  CHECK(pair.b.device.wait_cq(pair.b.cq, done, nic::kNsPerMs) == 0);
  const nic::WaitStats idle = pair.b.device.wait_stats();
  CHECK(idle.wait_calls > 0);
  constexpr int kWrites = 20;
  for (int i = 0; i < kWrites; ++i) {
    CHECK(pair.a.write(pair.b, pair.a.memory.size()) == Status::kOk);
    CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1);
  }
  const nic::WaitStats sender = pair.a.device.wait_stats(), receiver = pair.b.device.wait_stats();
  CHECK(sender.wait_calls > before.wait_calls && receiver.wait_calls > idle.wait_calls);
  CHECK(sender.wakeups > before.wakeups && sender.wakeups <= sender.wait_calls);
  CHECK(receiver.wakeups > idle.wakeups);
  CHECK(sender.eventfd_writes > 0 && sender.eventfd_reads > 0);

  const auto totals = [](const Engine& engine) { return engine.qp_totals(); };
  const QpTotals sent = pair.a.device.look(totals), received = pair.b.device.look(totals);
  CHECK(sent.completed_bytes == kWrites * pair.a.memory.size() && received.placed_bytes >= sent.completed_bytes);
  CHECK(received.sacks_sent > 0 && sent.sacks_received > 0);
  CHECK(pair.a.device.command([&](Engine& engine, TimePs now) { return engine.destroy_qp(now, pair.a.qp); }) ==
        Status::kOk);
  const QpTotals after = pair.a.device.look(totals);
  CHECK(after.completed_bytes == sent.completed_bytes && after.sacks_received >= sent.sacks_received);
}

TEST_CASE(nic_posts_from_several_threads_all_complete) {
  DevicePair pair;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&pair] {
      for (int i = 0; i < 10; ++i) pair.a.write(pair.b, 4096);
    });
  }
  std::size_t completed = 0;
  std::array<Completion, 8> done;
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  while (completed < 30 && nic::now_ns() < deadline) completed += pair.a.device.wait_cq(pair.a.cq, done, 100'000'000);
  for (std::thread& thread : threads) thread.join();
  CHECK(completed == 30);
}

// A verbs program may wait for the completion of its previous work as well as for the reply.
TEST_CASE(nic_acknowledgements_follow_the_reply_for_which_they_waited) {
  DevicePair pair;
  Device &asks = pair.a.device, &replies = pair.b.device;
  constexpr nic::TimeNs kLong = Device::kDeferMax - 1;
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  replies.begin_polling();
  CHECK(pair.a.write(pair.b, 64) == Status::kOk);
  while (replies.placed_packets() == 0 && nic::now_ns() < deadline) replies.progress(kLong);
  CHECK(replies.placed_packets() == 1 && replies.placed_at() > 0 && asks.placed_packets() == 0);
  CHECK(pair.b.write(pair.a, 64) == Status::kOk);
  QpStats stats;
  replies.look([&](const Engine& engine) { return engine.qp_stats(pair.b.qp, stats); });
  CHECK(stats.sent_packets == 1 && stats.acks_sent == 1);
}

// The I/O threads stand back for longer than the test takes, so the acknowledgements are those of the polling thread.
TEST_CASE(nic_acknowledgements_leave_when_an_exchange_of_polling_threads_pauses) {
  DevicePair pair;
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  pair.b.device.begin_polling(60 * nic::kNsPerSecond);
  std::array<Completion, 4> done;
  for (std::uint64_t number = 1; number <= 40; ++number) {
    CHECK(pair.a.write(pair.b, 64) == Status::kOk);
    while (pair.b.device.placed_packets() < number && nic::now_ns() < deadline) pair.b.device.progress();
    CHECK(pair.b.device.placed_packets() >= number);
  }
  std::size_t completed = 0;
  while (completed < 40 && nic::now_ns() < deadline) {
    pair.b.device.progress();
    completed += pair.a.device.poll_cq(pair.a.cq, done);
  }
  CHECK(completed == 40);
}

// A thread that sleeps in await_progress() must not consume the wake-up of the I/O thread: it would leave, and nothing
// would be sent until the I/O thread's sleep of seconds ends.
TEST_CASE(nic_a_call_for_the_io_thread_is_taken_by_no_other) {
  using namespace std::chrono_literals;
  DevicePair pair;
  nic::Device& device = pair.a.device;
  for (int round = 0; round < 100; ++round) {
    std::thread waiter([&] { device.await_progress(20 * nic::kNsPerMs); });
    std::this_thread::sleep_for(2ms);
    const std::uint64_t before = device.stats().turns;
    device.rest_polling();
    waiter.join();
    for (int i = 0; i < 300 && device.stats().turns == before; ++i) std::this_thread::sleep_for(10ms);
    CHECK(device.stats().turns > before);
  }
}

TEST_CASE(nic_io_threads_tell_when_they_take_over_from_polling_threads) {
  DevicePair pair;
  nic::Device& device = pair.a.device;
  const auto told = device.cq_takeover(pair.a.cq);
  CHECK(device.cq_takeover(pair.a.cq + 100) == nullptr);
  pollfd readable{device.cq_fd(pair.a.cq), POLLIN, 0};
  for (int round = 0; round < 3; ++round) {
    CHECK(pair.b.write(pair.a, 64) == Status::kOk);  // wakes the I/O thread, which finds that another one polls
    const nic::TimeNs begun = nic::now_ns();
    while (nic::now_ns() < begun + 5 * nic::kNsPerMs) device.progress();
    told->store(true);
    device.progress();
    CHECK(::poll(&readable, 1, 20'000) == 1 && !told->load());
    CHECK(!device.arm_cq(pair.a.cq));  // clears the descriptor
  }
  CHECK(device.wait_stats().timer_calls > 0);
  std::array<Completion, 4> done;
  CHECK(pair.a.write(pair.b, 64) == Status::kOk);
  CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1);
}

TEST_CASE(nic_close_wakes_those_who_wait_and_is_final) {
  DevicePair pair;
  std::array<Completion, 4> done;
  std::thread waiter([&] { pair.b.device.wait_cq(pair.b.cq, done, 20'000'000'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  pair.b.device.close();
  waiter.join();
  CHECK(pair.b.device.progress() == 0);
  CHECK(pair.b.device.socket_stats().size() == 1);
}

TEST_CASE(nic_second_device_on_a_port_is_refused) {
  const Device first(settings_for({"127.0.0.83"}));
  bool refused = false;
  try {
    const Device second(settings_for({"127.0.0.83"}));
  } catch (const nic::NicError& error) {
    refused = error.code() == EADDRINUSE;
  }
  CHECK(refused);
}
