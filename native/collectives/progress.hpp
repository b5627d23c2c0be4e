// Progress of operations that somebody waits for, or nobody: whoever waits drives the transports for a while (spin), then
// sleeps; a thread goes on with the work while nobody spins.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "collectives/executor_settings.hpp"
#include "collectives/plan_runner.hpp"
#include "collectives/transports.hpp"
#include "collectives/wait_forecast.hpp"
#include "nic/file_descriptor.hpp"

namespace openmrc::collectives {

class Progress {
 public:
  // `ended`: notified when an operation has ended.
  Progress(const ExecutorSettings& settings, std::mutex& mutex, std::condition_variable& ended, Transports& transports,
           PlanRunner& runner);

  // --- under the lock

  void start();  // the thread
  // A call submits an operation now; and it has done so, and the thread shall look after it.
  void submitting() { forecast_.submitted(nic::now_ns()); }
  void submitted() { watch_later(); }
  // kRunning: the time is over. Negative: for ever.
  OpState await(std::unique_lock<std::mutex>& guard, const std::shared_ptr<Operation>& op, std::int64_t timeout_ns);
  // Until more operations than `seen` have ended, or the time is over.
  void await_end(std::unique_lock<std::mutex>& guard, std::uint64_t seen, std::int64_t timeout_ns);
  // The thread and those that wait go home.
  void stop();
  void leave_to_parent();  // in a forked child

  // --- without it

  bool stopped() const { return stop_; }
  void join() { thread_.join(); }  // after stop()

 private:
  void run();
  void watch();
  void stop_watching();
  void watch_later();
  void wake();
  // A wait for one operation, or for the end of any.
  struct Wait {
    std::shared_ptr<Operation> op;    // of several, the first
    std::uint64_t seen = UINT64_MAX;  // over when more have ended
    std::int64_t timeout_ns = 0;      // negative: for ever
    nic::TimeNs begun = 0;
  };
  bool over(const Wait& wait) const;
  void await(std::unique_lock<std::mutex>& guard, const Wait& wait);
  nic::TimeNs spin(std::unique_lock<std::mutex>& guard, const Wait& wait, nic::TimeNs idle_since);
  bool poll_local(std::unique_lock<std::mutex>& guard);
  bool poll_all(std::unique_lock<std::mutex>& guard, bool polls, nic::TimeNs nap);

  const nic::TimeNs spin_, poll_;
  std::mutex& mutex_;
  std::condition_variable& ended_;
  Transports& transports_;
  PlanRunner& runner_;
  WaitForecast forecast_;
  // The latest wait: its operation, the steps that were left of it, and since when nothing had come.
  struct Idle {
    OpId op = 0;
    std::uint32_t left = 0;
    nic::TimeNs since = 0;
  };
  Idle idle_;
  std::uint32_t spinners_ = 0;  // threads that wait and drive the device
  bool watches_ = false;        // the thread, since nobody spins
  std::atomic<bool> stop_{false};
  nic::FileDescriptor wake_;  // of the thread
  std::thread thread_;
};

}  // namespace openmrc::collectives
