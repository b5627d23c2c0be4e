// Threads that together run one batch of tasks at a time, and wait for the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace openmrc::netsim {

class ThreadTeam {
 public:
  explicit ThreadTeam(std::uint32_t threads);  // the calling thread counts as one
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Calls task(0) ... task(count - 1), each once, on any thread; returns when all are done.
  void run(std::uint32_t count, const std::function<void(std::uint32_t)>& task);
  std::uint32_t threads() const { return static_cast<std::uint32_t>(workers_.size()) + 1; }

 private:
  void work();
  void take_tasks();

  std::vector<std::thread> workers_;
  const std::function<void(std::uint32_t)>* task_ = nullptr;
  std::uint32_t count_ = 0;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> batch_{0};
  std::atomic<std::uint32_t> busy_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace openmrc::netsim
