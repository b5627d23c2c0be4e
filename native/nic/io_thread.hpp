// State of one I/O thread of a device: its descriptors, buffers, load and next wake-up. Device::run() is its loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <thread>

#include "engine/wire/icrc.hpp"
#include "nic/clock.hpp"
#include "nic/file_descriptor.hpp"
#include "nic/io_scaling.hpp"
#include "nic/moderation.hpp"
#include "nic/receive_buffers.hpp"

namespace openmrc::nic {

// Buffers and state of a thread that receives.
struct Receiver {
  ReceiveBuffers buffers;
  wire::FlowIcrc icrc;
  std::size_t first_port = 0;  // of the next look
};

// Measures the load of the thread that calls it.
class LoadMeter {
 public:
  void slept(TimeNs span) { asleep_ += span; }
  // Deducts time in which another thread did the device's work.
  void relieved(TimeNs span) { relieved_ += span; }
  // True at the end of a window, with its load.
  bool take(TimeNs now, IoScaling::Load& load) {
    if (now - since_ < IoScaling::kWindow) return false;
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    const TimeNs cpu = to_ns(time);
    load.span = now - since_;
    load.awake = load.span > asleep_ ? load.span - asleep_ : 0;
    load.cpu = cpu - cpu_ + relieved_;
    const bool whole = since_ != 0;
    since_ = now;
    asleep_ = relieved_ = 0;
    cpu_ = cpu;
    return whole;
  }

 private:
  TimeNs since_ = 0, asleep_ = 0, relieved_ = 0, cpu_ = 0;
};

struct IoThread {
  std::uint32_t index = 0;
  FileDescriptor epoll;  // of its ports, and of `wake`
  FileDescriptor wake;
  std::atomic<TimeNs> sleeping_until{0};  // 0: awake
  Receiver receiver;
  Moderation moderation;
  LoadMeter load;
  bool more = false;     // the last turn stopped at a limit
  bool refused = false;  // a readable socket refused a read: retry in a moment, not at once
  TimeNs pause = 0;      // before the next read
  TimeNs deadline = 0;   // of the next timer
  std::thread thread;
};

}  // namespace openmrc::nic
