// Measuring loops without Python overhead: a stream of WRITEs, a ping-pong of small WRITEs, progress samples, and a
// bare UDP ping-pong for comparison. Each stops early when `interrupted`, called about 20 times per second, returns
// true.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nic/asker.hpp"
#include "nic/device.hpp"
#include "nic/udp_ends.hpp"

namespace openmrc::nic {

struct StreamPlan {
  std::uint32_t qp = 0;
  CqId cq = 0;  // send CQ of the QP; reserved for this loop meanwhile
  std::uint32_t lkey = 0, rkey = 0;
  std::uint64_t local_address = 0, remote_address = 0;
  std::uint64_t region_bytes = 0;  // message i uses offset (i x message_bytes) modulo this at both ends
  std::uint64_t message_bytes = 0;
  std::uint32_t depth = 0;         // messages outstanding
  std::int64_t duration_ns = 0;    // no message is posted later than this
  std::uint64_t messages_max = 0;  // limit on their number; 0: no limit
  std::int64_t drain_ns = 0;       // wait at most this long for the last completions
  bool busy_poll = false;          // drive the device from this thread instead of sleeping
};

struct StreamResult {
  std::uint64_t messages = 0, bytes = 0;  // completed successfully
  std::int64_t elapsed_ns = 0;            // first post to last completion
  std::uint64_t failed = 0, unfinished = 0;
  WcStatus first_failure = WcStatus::kSuccess;
  Status post_status = Status::kOk;  // reason for an early end of posting
  bool was_interrupted = false;
};

StreamResult measure_stream(Device& device, const StreamPlan& plan, const Interrupted& interrupted);

struct PingPlan {
  std::uint32_t qp = 0;
  CqId cq = 0;
  std::uint32_t lkey = 0, rkey = 0;
  std::uint64_t send_address = 0;  // the message; its last 8 bytes are the sequence number
  std::uint64_t remote_address = 0;
  std::uint64_t watch_address = 0;  // address of the peer's message in this process
  std::uint32_t message_bytes = 64;
  std::uint32_t iterations = 0;
  std::int64_t timeout_ns = 0;  // of one iteration
};

// The calling thread spins on memory and drives the device. `ping` returns one round trip per iteration, fewer if the
// peer stopped answering; `pong` returns the number of iterations answered.
std::vector<std::int64_t> measure_ping(Device& device, const PingPlan& plan, const Interrupted& interrupted);
std::uint32_t measure_pong(Device& device, const PingPlan& plan, const Interrupted& interrupted);

// The same over bare UDP sockets, spinning, for comparison. Throws NicError if the sockets cannot be opened.
struct UdpPingPlan {
  UdpEnds ends;
  std::uint32_t message_bytes = 64;
  std::uint32_t iterations = 0;
  std::int64_t timeout_ns = 0;
};
std::vector<std::int64_t> measure_udp_ping(const UdpPingPlan& plan, const Interrupted& interrupted);
std::uint32_t measure_udp_pong(const UdpPingPlan& plan, const Interrupted& interrupted);

struct ProgressSample {
  std::int64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t placed_bytes = 0;
};

// A thread that records the bytes placed by a QP every `interval_ns`, until stopped.
class ProgressSampler {
 public:
  ProgressSampler(Device& device, std::uint32_t qp, std::int64_t interval_ns);
  ~ProgressSampler() { stop(); }
  ProgressSampler(const ProgressSampler&) = delete;
  ProgressSampler& operator=(const ProgressSampler&) = delete;

  void stop();
  std::vector<ProgressSample> samples();

 private:
  void run(Device& device, std::uint32_t qp, std::int64_t interval_ns);

  std::mutex mutex_;
  std::vector<ProgressSample> samples_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace openmrc::nic
