// Gives back every frame that a TAP device is handed, after a time. One thread for all devices of a network.
//
//     delay_line NAME=MICROSECONDS...
//
// Prints "ready" when the devices are there. Lines of the same form on standard input change a delay; the end of
// standard input ends the program. The devices vanish with it.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kFrameBytesMax = 65'536 + 64;
constexpr std::size_t kWaitingBytesMax = 256U << 20U;  // of one device; a link as long as that loses the rest
constexpr int kReadsInTurn = 64;                       // so that one busy device does not delay the others

struct Frame {
  std::int64_t due_ns;
  std::vector<unsigned char> bytes;
};

struct Device {
  std::string name;
  int fd = -1;
  std::int64_t delay_ns = 0;
  std::int64_t last_due_ns = 0;
  std::size_t waiting_bytes = 0;
  std::deque<Frame> waiting;
};

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool parse(const std::string& word, std::string& name, std::int64_t& delay_ns) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || equals >= IFNAMSIZ) return false;
  char* end = nullptr;
  const long long microseconds = std::strtoll(word.c_str() + equals + 1, &end, 10);
  if (*end != '\0' || end == word.c_str() + equals + 1 || microseconds < 0) return false;
  name = word.substr(0, equals);
  delay_ns = microseconds * 1000;
  return true;
}

bool open_tap(Device& device) {
  device.fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device.fd < 0) return false;
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::memcpy(request.ifr_name, device.name.c_str(), device.name.size());
  return ioctl(device.fd, TUNSETIFF, &request) == 0;
}

// Reads frames that are there, up to a bound. A device that is not up yet answers EIO, which is none.
void take(Device& device, std::vector<unsigned char>& buffer) {
  for (int turn = 0; turn < kReadsInTurn; ++turn) {
    const ssize_t length = read(device.fd, buffer.data(), buffer.size());
    if (length <= 0) return;
    const auto bytes = static_cast<std::size_t>(length);
    if (device.waiting_bytes + bytes > kWaitingBytesMax) continue;
    // A link never reorders: after a reduction of the delay, frames wait for the ones already in flight.
    const std::int64_t due_ns = now_ns() + device.delay_ns;
    device.last_due_ns = due_ns > device.last_due_ns ? due_ns : device.last_due_ns;
    device.waiting.push_back({device.last_due_ns, {buffer.begin(), buffer.begin() + length}});
    device.waiting_bytes += bytes;
  }
}

void give(Device& device) {
  while (!device.waiting.empty() && device.waiting.front().due_ns <= now_ns()) {
    const Frame& frame = device.waiting.front();
    while (write(device.fd, frame.bytes.data(), frame.bytes.size()) < 0 && errno == EINTR) {
    }
    device.waiting_bytes -= frame.bytes.size();
    device.waiting.pop_front();
  }
}

// False at the end of standard input.
bool listen_to_commands(std::vector<Device>& devices, std::string& partial) {
  char chunk[512];
  const ssize_t length = read(STDIN_FILENO, chunk, sizeof chunk);
  if (length == 0) return false;
  if (length < 0) return errno == EINTR || errno == EAGAIN;
  partial.append(chunk, static_cast<std::size_t>(length));
  for (std::size_t end = partial.find('\n'); end != std::string::npos; end = partial.find('\n')) {
    std::string name;
    std::int64_t delay_ns = 0;
    if (parse(partial.substr(0, end), name, delay_ns)) {
      for (Device& device : devices) {
        if (device.name == name) device.delay_ns = delay_ns;
      }
    }
    partial.erase(0, end + 1);
  }
  return true;
}

void run(std::vector<Device>& devices) {
  std::vector<pollfd> polled;
  polled.push_back({STDIN_FILENO, POLLIN, 0});
  for (const Device& device : devices) polled.push_back({device.fd, POLLIN, 0});
  std::vector<unsigned char> buffer(kFrameBytesMax);
  std::string partial;
  for (;;) {
    std::int64_t wait_ns = -1;
    const std::int64_t now = now_ns();
    for (const Device& device : devices) {
      if (device.waiting.empty()) continue;
      const std::int64_t left_ns = std::max<std::int64_t>(device.waiting.front().due_ns - now, 0);
      wait_ns = wait_ns < 0 ? left_ns : std::min(wait_ns, left_ns);
    }
    const timespec timeout{.tv_sec = static_cast<time_t>(wait_ns / 1'000'000'000), .tv_nsec = wait_ns % 1'000'000'000};
    if (ppoll(polled.data(), polled.size(), wait_ns < 0 ? nullptr : &timeout, nullptr) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0 && !listen_to_commands(devices, partial)) return;
    for (std::size_t index = 0; index < devices.size(); ++index) {
      if ((polled[index + 1].revents & POLLIN) != 0) take(devices[index], buffer);
      give(devices[index]);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // the kernel would add up to 50 us to each wait
  const sched_param priority{.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR, &priority);  // a wire does not wait for programs; where refused, it waits with them
  std::vector<Device> devices;
  for (int index = 1; index < count; ++index) {
    Device device;
    if (!parse(words[index], device.name, device.delay_ns)) {
      std::fprintf(stderr, "%s: not NAME=MICROSECONDS\n", words[index]);
      return 2;
    }
    if (!open_tap(device)) {
      std::fprintf(stderr, "%s: %s\n", words[index], std::strerror(errno));
      return 1;
    }
    devices.push_back(std::move(device));
  }
  std::puts("ready");
  std::fflush(stdout);
  run(devices);
  return 0;
}
