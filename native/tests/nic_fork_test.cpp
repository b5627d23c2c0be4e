// fork() with running devices: the child has none of their sockets, and its copies refuse every use.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "nic/fork.hpp"
#include "nic/socket_port.hpp"
#include "tests/nic_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

// Exit status of `body` in a forked child; 0: it returned true.
template <typename Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

bool refuses(DevicePair& pair) {
  try {
    pair.a.write(pair.b, 64);
  } catch (const nic::ForkedError& error) {
    return std::string(error.what()).find("process " + std::to_string(::getppid())) != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE(fork_01_the_childs_copy_is_closed_refuses_and_can_be_destroyed) {
  auto pair = std::make_unique<DevicePair>();
  CHECK(in_child([&] {
          const bool dead = pair->a.device.closed() && refuses(*pair);
          pair.reset();
          return dead;
        }) == 0);
  CHECK(in_child([&] {
          const DevicePair own(settings_for({"127.0.0.83"}), settings_for({"127.0.0.84"}));
          return !own.a.device.closed();
        }) == 0);
  std::array<Completion, 4> done;
  CHECK(!pair->a.device.closed());
  CHECK(pair->a.write(pair->b, 64) == Status::kOk);
  CHECK(pair->a.device.wait_cq(pair->a.cq, done, 20'000'000'000) == 1);
}

TEST_CASE(fork_02_a_child_may_be_forked_whatever_other_threads_do) {
  DevicePair pair;
  std::atomic<bool> over{false};
  std::thread busy([&] {
    std::array<Completion, 4> done;
    while (!over) {
      pair.a.write(pair.b, 4096);
      pair.a.device.wait_cq(pair.a.cq, done, 1'000'000);
    }
  });
  std::thread opener([&] {
    while (!over) {
      try {
        const nic::Device device(settings_for({"127.0.0.85"}));
      } catch (const nic::NicError&) {
        // A child that was just forked may not have closed its copies of the last device's sockets yet.
      }
    }
  });
  for (int i = 0; i < 30; ++i) {
    CHECK(in_child([&] {
            pair.a.device.close();
            return refuses(pair);
          }) == 0);
  }
  over = true;
  busy.join();
  opener.join();
}

// The ports of a device that is being opened are not all there yet when another thread forks.
TEST_CASE(fork_03_a_fork_waits_until_a_device_is_open) {
  std::atomic<bool> opening{false};
  const nic::PortFactory slow = [&](PortId id, const nic::Settings& settings, std::uint32_t& next_source_port) {
    if (id == 1) {
      opening = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return std::make_unique<nic::SocketPort>(id, settings, next_source_port);
  };
  std::unique_ptr<nic::Device> device;
  std::thread opener([&] { device = std::make_unique<nic::Device>(settings_for({"127.0.0.86", "127.0.0.87"}), slow); });
  while (!opening) std::this_thread::yield();
  CHECK(in_child([] { return true; }) == 0);
  opener.join();
  CHECK(!device->closed());
}
