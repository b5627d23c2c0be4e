// A port whose socket is full: the retained bursts, and the memory they refer to. Loopback's buffers never fill up, so
// the test replaces the kernel.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "nic/clock.hpp"
#include "tests/nic_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

std::atomic<std::uint32_t> full_address{0};  // sockets bound to it are full; as in sockaddr_in, 0: none

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

// Replaces the C library's function in this program.
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (is_full(fd)) {
    errno = EAGAIN;
    return -1;
  }
  return ::syscall(SYS_sendmsg, fd, message, flags);
}

TEST_CASE(nic_deregistering_drops_only_waiting_bursts_of_this_memory) {
  std::vector<std::uint8_t> kept(64), other(64);
  Pair pair(settings_for({"127.0.0.84", "127.0.0.85"}), settings_for({"127.0.0.86", "127.0.0.87"}));
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
