#include "nic/measure.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace openmrc::nic {
namespace {

constexpr std::uint32_t kPostBatch = 32;
constexpr std::uint32_t kLooksPerClock = 16;  // a spinning loop need not read the clock in every iteration

class Stream {
 public:
  Stream(Device& device, const StreamPlan& plan, const Interrupted& interrupted)
      : device_(device), plan_(plan), asker_(interrupted) {}

  StreamResult run() {
    const std::int64_t start = now_ns();
    const std::int64_t end = start + plan_.duration_ns;
    std::int64_t last = start;
    bool posting = true;
    while (posting || outstanding_ > 0) {
      const std::int64_t now = now_ns();
      if (posting && (now >= end || exhausted() || broken())) posting = false;
      if (asker_(now)) result_.was_interrupted = true;
      if (result_.was_interrupted || (!posting && now > std::max(last, end) + plan_.drain_ns)) break;
      if (posting) post();
      if (collect() > 0) last = now_ns();
    }
    result_.elapsed_ns = last - start;
    result_.unfinished = outstanding_;
    return result_;
  }

 private:
  bool exhausted() const { return plan_.messages_max != 0 && posted_ >= plan_.messages_max; }
  bool broken() const { return result_.failed > 0 || result_.post_status != Status::kOk || device_.closed(); }

  void post() {
    std::array<SendWr, kPostBatch> batch;
    std::uint64_t count = std::min<std::uint64_t>(plan_.depth - std::min(outstanding_, plan_.depth), kPostBatch);
    if (plan_.messages_max != 0) count = std::min(count, plan_.messages_max - posted_);
    if (count == 0) return;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t slots =
          std::max<std::uint64_t>(plan_.region_bytes / std::max<std::uint64_t>(plan_.message_bytes, 1), 1);
      const std::uint64_t offset = (posted_ + i) % slots * plan_.message_bytes;
      SendWr& wr = batch[i];
      wr.wr_id = posted_ + i;
      wr.lkey = plan_.lkey;
      wr.local_address = plan_.local_address + offset;
      wr.length_bytes = plan_.message_bytes;
      wr.remote_address = plan_.remote_address + offset;
      wr.rkey = plan_.rkey;
    }
    std::size_t taken = 0;
    const Status status = device_.post_sends(plan_.qp, {batch.data(), count}, taken);
    posted_ += taken;
    outstanding_ += static_cast<std::uint32_t>(taken);
    if (status != Status::kOk && status != Status::kQueueFull) result_.post_status = status;
  }

  std::size_t collect() {
    std::array<Completion, 64> done;
    std::size_t count = 0;
    if (plan_.busy_poll) {
      device_.progress();
      count = device_.poll_cq(plan_.cq, done);
    } else {
      count = device_.wait_cq(plan_.cq, done, Asker::kInterval);
    }
    for (const Completion& completion : std::span(done.data(), count)) {
      if (completion.qp != plan_.qp) continue;
      --outstanding_;
      if (completion.status == WcStatus::kSuccess) {
        ++result_.messages;
        result_.bytes += plan_.message_bytes;
      } else if (result_.failed++ == 0) {
        result_.first_failure = completion.status;
      }
    }
    return count;
  }

  Device& device_;
  const StreamPlan& plan_;
  Asker asker_;
  StreamResult result_;
  std::uint64_t posted_ = 0;
  std::uint32_t outstanding_ = 0;
};

// One side of the ping-pong: its own message and the peer's, each ending in a sequence number.
class Rally {
 public:
  Rally(Device& device, const PingPlan& plan, const Interrupted& interrupted)
      : device_(device), plan_(plan), asker_(interrupted) {}

  bool send(std::uint64_t sequence) {
    std::memcpy(at(plan_.send_address), &sequence, sizeof sequence);
    SendWr wr;
    wr.wr_id = sequence;
    wr.lkey = plan_.lkey;
    wr.local_address = plan_.send_address;
    wr.length_bytes = plan_.message_bytes;
    wr.remote_address = plan_.remote_address;
    wr.rkey = plan_.rkey;
    // One completion in 16 is enough to notice errors and costs the path nothing.
    wr.signaled = sequence % 16 == 0;
    if (wr.signaled) {
      std::array<Completion, 16> done;
      const std::size_t count = device_.poll_cq(plan_.cq, done);
      for (std::size_t i = 0; i < count; ++i) failed_ |= done[i].status != WcStatus::kSuccess;
    }
    return !failed_ && device_.post_send(plan_.qp, wr) == Status::kOk;
  }

  bool await(std::uint64_t sequence) {
    const std::int64_t deadline = now_ns() + plan_.timeout_ns;
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(at(plan_.watch_address)));
    while (word.load(std::memory_order_acquire) != sequence) {
      device_.progress();
      if (word.load(std::memory_order_acquire) == sequence) break;
      if (++looks_ % kLooksPerClock != 0) continue;
      const std::int64_t now = now_ns();
      if (now > deadline || device_.closed() || asker_(now)) return false;
    }
    return true;
  }

 private:
  std::uint8_t* at(std::uint64_t address) const {
    return reinterpret_cast<std::uint8_t*>(address) + plan_.message_bytes - sizeof(std::uint64_t);
  }

  Device& device_;
  const PingPlan& plan_;
  Asker asker_;
  std::uint32_t looks_ = 0;
  bool failed_ = false;
};

class UdpSpinner {
 public:
  UdpSpinner(const UdpPingPlan& plan, const Interrupted& interrupted)
      : plan_(plan),
        asker_(interrupted),
        message_(std::max<std::uint32_t>(plan.message_bytes, 8)),
        fd_(plan.ends.open()) {}

  void send(std::uint64_t sequence) {
    std::memcpy(message_.data(), &sequence, sizeof sequence);
    [[maybe_unused]] const ssize_t sent = ::send(fd_.get(), message_.data(), message_.size(), 0);
  }

  bool await(std::uint64_t sequence) {
    const std::int64_t deadline = now_ns() + plan_.timeout_ns;
    std::uint64_t got = 0;
    while (true) {
      const ssize_t bytes = ::recv(fd_.get(), message_.data(), message_.size(), 0);
      if (bytes >= static_cast<ssize_t>(sizeof got)) std::memcpy(&got, message_.data(), sizeof got);
      if (bytes > 0 && got == sequence) return true;
      if (++looks_ % kLooksPerClock != 0) continue;
      const std::int64_t now = now_ns();
      if (now > deadline || asker_(now)) return false;
    }
  }

 private:
  const UdpPingPlan& plan_;
  Asker asker_;
  std::vector<std::uint8_t> message_;
  FileDescriptor fd_;
  std::uint32_t looks_ = 0;
};

}  // namespace

StreamResult measure_stream(Device& device, const StreamPlan& plan, const Interrupted& interrupted) {
  return Stream(device, plan, interrupted).run();
}

std::vector<std::int64_t> measure_ping(Device& device, const PingPlan& plan, const Interrupted& interrupted) {
  std::vector<std::int64_t> round_trips;
  round_trips.reserve(plan.iterations);
  Rally rally(device, plan, interrupted);
  for (std::uint64_t i = 1; i <= plan.iterations; ++i) {
    const std::int64_t start = now_ns();
    if (!rally.send(i) || !rally.await(i)) break;
    round_trips.push_back(now_ns() - start);
  }
  return round_trips;
}

std::uint32_t measure_pong(Device& device, const PingPlan& plan, const Interrupted& interrupted) {
  Rally rally(device, plan, interrupted);
  for (std::uint32_t i = 1; i <= plan.iterations; ++i) {
    if (!rally.await(i) || !rally.send(i)) return i - 1;
  }
  return plan.iterations;
}

std::vector<std::int64_t> measure_udp_ping(const UdpPingPlan& plan, const Interrupted& interrupted) {
  std::vector<std::int64_t> round_trips;
  round_trips.reserve(plan.iterations);
  UdpSpinner spinner(plan, interrupted);
  for (std::uint64_t i = 1; i <= plan.iterations; ++i) {
    const std::int64_t start = now_ns();
    spinner.send(i);
    if (!spinner.await(i)) break;
    round_trips.push_back(now_ns() - start);
  }
  return round_trips;
}

std::uint32_t measure_udp_pong(const UdpPingPlan& plan, const Interrupted& interrupted) {
  UdpSpinner spinner(plan, interrupted);
  for (std::uint32_t i = 1; i <= plan.iterations; ++i) {
    if (!spinner.await(i)) return i - 1;
    spinner.send(i);
  }
  return plan.iterations;
}

ProgressSampler::ProgressSampler(Device& device, std::uint32_t qp, std::int64_t interval_ns)
    : thread_([this, &device, qp, interval_ns] { run(device, qp, interval_ns); }) {}

void ProgressSampler::run(Device& device, std::uint32_t qp, std::int64_t interval_ns) {
  std::int64_t next = now_ns();
  while (!stop_.load()) {
    QpStats stats;
    const bool found = device.look([&](const Engine& engine) { return engine.qp_stats(qp, stats); });
    if (found) {
      const std::lock_guard guard(mutex_);
      samples_.push_back({now_ns(), stats.placed_bytes});
    }
    next += interval_ns;
    const timespec until{static_cast<time_t>(next / 1'000'000'000), static_cast<long>(next % 1'000'000'000)};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

void ProgressSampler::stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

std::vector<ProgressSample> ProgressSampler::samples() {
  const std::lock_guard guard(mutex_);
  return samples_;
}

}  // namespace openmrc::nic
