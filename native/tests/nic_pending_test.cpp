// A port whose socket is full: the retained bursts, and the memory they refer to. Loopback's buffers never fill up, so
// the test replaces the kernel.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <vector>

#include "nic/clock.hpp"
#include "tests/nic_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

std::atomic<std::uint32_t> full_address{0};  // sockets bound to it are full; as in sockaddr_in, 0: none
std::atomic<int> sendto_refusal{0};          // errno of sendto, as in a sandbox; 0: permitted
std::atomic<std::uint64_t> sendto_calls{0};

bool is_full(int fd) {
  const std::uint32_t full = full_address.load();
  sockaddr_in local{};
  socklen_t length = sizeof local;
  return full != 0 && ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
         local.sin_family == AF_INET && local.sin_addr.s_addr == full;
}

bool complete(End& end, std::size_t count) {
  std::array<Completion, 16> done;
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  std::size_t completed = 0;
  while (completed < count && nic::now_ns() < deadline) {
    completed += end.device.wait_cq(end.cq, done, 100'000'000);
  }
  return completed == count;
}

}  // namespace

// Replaces the C library's function in this program. Like that, it reads six words, however many there are.
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) {
  using Function = long (*)(long, ...);
  static const auto original = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "syscall"));
  std::array<long, 6> words{};
  va_list list;
  va_start(list, number);
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  const bool sendto = number == SYS_sendto;
  if (sendto) ++sendto_calls;
  int refusal = sendto ? sendto_refusal.load() : 0;
  if ((sendto || number == SYS_sendmsg) && is_full(static_cast<int>(words[0]))) refusal = EAGAIN;
  if (refusal != 0) {
    errno = refusal;
    return -1;
  }
  return original(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

TEST_CASE(nic_small_packets_take_sendto_where_it_is_permitted) {
  for (const int refusal : {0, EPERM, ENOSYS}) {
    DevicePair pair(settings_for({"127.0.0.90"}), settings_for({"127.0.0.93"}));
    sendto_refusal = refusal;
    const std::uint64_t before = sendto_calls;
    for (int i = 0; i < 64; ++i) CHECK(pair.a.write(pair.b, 64) == Status::kOk && complete(pair.a, 1));
    sendto_refusal = 0;
    const std::uint64_t calls = sendto_calls - before;
    CHECK(refusal == 0 ? calls > 64 : calls >= 1 && calls <= 2);  // one refusal for each port is enough
    for (End* end : {&pair.a, &pair.b}) {
      const nic::SocketStats stats = end->device.socket_stats()[0];
      CHECK(stats.send_errors == 0 && stats.dropped_datagrams == 0);
    }
    CHECK(std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 64, pair.b.memory.begin()));
  }
}

TEST_CASE(nic_deregistering_drops_only_waiting_bursts_of_this_memory) {
  std::vector<std::uint8_t> kept(64), other(64);
  DevicePair pair(settings_for({"127.0.0.84", "127.0.0.85"}), settings_for({"127.0.0.86", "127.0.0.87"}));
  End& from = pair.a;
  const auto first_port = [&from] { return from.device.socket_stats()[0]; };
  std::uint32_t kept_key = 0, other_key = 0;
  CHECK(from.device.register_memory(kept.data(), kept.size(), kLocalRead, kept_key) == Status::kOk);
  CHECK(from.device.register_memory(other.data(), other.size(), kLocalRead, other_key) == Status::kOk);
  full_address = ::inet_addr("127.0.0.84");
  std::size_t posted = 0;
  for (; posted < 32 && first_port().would_block == 0; ++posted) {
    CHECK(from.write(pair.b, kept_key, kept.data(), kept.size()) == Status::kOk);
  }
  CHECK(first_port().would_block > 0);
  CHECK(complete(from, posted));  // by another copy, over the other port
  CHECK(from.write(pair.b, other_key, other.data(), other.size()) == Status::kOk && complete(from, 1));
  CHECK(from.device.deregister_memory(other_key) == Status::kOk);
  CHECK(first_port().dropped_datagrams == 0);
  CHECK(from.device.deregister_memory(kept_key) == Status::kOk);
  CHECK(first_port().dropped_datagrams == 1);
  full_address = 0;
  CHECK(from.write(pair.b, from.memory.size()) == Status::kOk && complete(from, 1));
  CHECK(from.memory == pair.b.memory);
}

// A waiting packet is sealed when it leaves: by then another QP may have stored its bytes in the same place.
TEST_CASE(nic_packets_of_a_destroyed_or_reset_qp_never_leave) {
  DevicePair pair(settings_for({"127.0.0.88"}), settings_for({"127.0.0.89"}));
  End& from = pair.a;
  const std::array<std::uint64_t, 2> early{~0ULL, ~0ULL}, late{1, 2};
  const auto wr_of = [&](const std::array<std::uint64_t, 2>& words, std::uint64_t length_bytes, std::size_t at) {
    SendWr wr{.local_address = reinterpret_cast<std::uintptr_t>(words.data()), .length_bytes = length_bytes};
    wr.rkey = pair.b.key;
    wr.remote_address = reinterpret_cast<std::uintptr_t>(pair.b.memory.data() + at);
    wr.inline_data = true;
    return wr;
  };
  for (const bool reset : {true, false}) {
    full_address = ::inet_addr("127.0.0.88");
    // Two bursts: the kernel refuses the first one, and the second has no ICRC yet.
    std::size_t posted = 0;
    const std::array wrs{wr_of(early, 8, 0), wr_of(early, 16, 16)};
    CHECK(from.device.post_sends(from.qp, wrs, posted) == Status::kOk);
    const std::uint32_t ended = from.qp;
    const std::uint64_t dropped = from.device.socket_stats()[0].dropped_datagrams;
    CHECK(from.device.end_qps({&ended, 1}, [&](Engine& engine, TimePs now) {
      return reset ? engine.reset_qp(now, ended) : engine.destroy_qp(now, ended);
    }) == Status::kOk);
    CHECK(from.device.socket_stats()[0].dropped_datagrams > dropped);
    from.add_qp();
    pair.b.add_qp();
    pair.a.connect(pair.b, 5, 9);
    pair.b.connect(pair.a, 9, 5);
    full_address = 0;
    CHECK(from.device.post_send(from.qp, wr_of(late, 16, 32)) == Status::kOk && complete(from, 1));
    CHECK(std::count(pair.b.memory.begin(), pair.b.memory.begin() + 32, 0) == 32);
  }
}

// The peer's acknowledgements are held back, so that a stream stays in flight.
TEST_CASE(nic_posts_to_a_stream_leave_with_the_next_poll) {
  DevicePair pair(settings_for({"127.0.0.94"}), settings_for({"127.0.0.95"}));
  End& from = pair.a;
  const auto sent_packets = [&from] {
    QpStats stats;
    from.device.look([&](const Engine& engine) { return engine.qp_stats(from.qp, stats); });
    return stats.sent_packets;
  };
  std::size_t posted = 0;
  SendWr small{.lkey = from.key, .local_address = reinterpret_cast<std::uintptr_t>(from.memory.data())};
  small.length_bytes = 64;
  small.rkey = pair.b.key;
  small.remote_address = reinterpret_cast<std::uintptr_t>(pair.b.memory.data());
  for (int round = 0; round < 3; ++round) {
    from.device.begin_polling(60 * nic::kNsPerSecond);
    CHECK(from.device.post_stream(from.qp, {&small, 1}, posted) == Status::kOk && posted == 1);
    CHECK(sent_packets() > 0);  // no stream yet
    from.device.rest_polling();
    CHECK(complete(from, 1));
    from.device.begin_polling(60 * nic::kNsPerSecond);
    full_address = ::inet_addr("127.0.0.95");
    CHECK(from.write(pair.b, from.memory.size()) == Status::kOk);
    const std::uint64_t before = sent_packets();
    if (round == 2) {  // the announced calls end without a word
      from.device.rest_polling();
      from.device.begin_polling(20 * nic::kNsPerMs);
    }
    CHECK(from.device.post_stream(from.qp, {&small, 1}, posted) == Status::kOk && posted == 1);
    if (round < 2) CHECK(sent_packets() == before);
    if (round == 0) {
      from.device.progress(0);
      CHECK(sent_packets() > before);
    }
    full_address = 0;
    if (round < 2) from.device.rest_polling();
    CHECK(complete(from, 2));
  }
}
