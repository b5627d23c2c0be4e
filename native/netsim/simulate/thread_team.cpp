#include "netsim/simulate/thread_team.hpp"

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

// Batches follow each other within microseconds: for a while, spinning is cheaper than sleeping.
constexpr int kLooks = 4'000;

template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int look = 0; look < kLooks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
    if (look % 64 == 63) std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(std::uint32_t threads) {
  MRC_ASSERT(threads > 0);
  for (std::uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_release);
  batch_.fetch_add(1, std::memory_order_release);
  batch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(std::uint32_t count, const std::function<void(std::uint32_t)>& task) {
  if (workers_.empty()) {
    for (std::uint32_t i = 0; i < count; ++i) task(i);
    return;
  }
  task_ = &task;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  batch_.fetch_add(1, std::memory_order_release);
  batch_.notify_all();
  take_tasks();
  for (std::uint32_t left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    wait_while(busy_, left);
  }
}

void ThreadTeam::take_tasks() {
  for (std::uint32_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    (*task_)(i);
  }
}

void ThreadTeam::work() {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while(batch_, seen);
    seen = batch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    take_tasks();
    busy_.fetch_sub(1, std::memory_order_release);
    busy_.notify_one();
  }
}

}  // namespace openmrc::netsim
