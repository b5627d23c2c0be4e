#include "verbs/drainer.hpp"

#include <chrono>

#include "nic/start_thread.hpp"
#include "verbs/errors.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr auto kInterval = std::chrono::microseconds(100);

}  // namespace

void Drainer::add(Cq& cq) {
  const std::lock_guard guard(mutex_);
  if (!started_) {
    nic::start_thread([this] { run(); }).detach();  // a NIC lives until the process ends
    started_ = true;
  }
  waiting_.insert(&cq);
  added_.notify_one();
}

void Drainer::remove(Cq& cq) {
  const std::lock_guard pass(draining_);
  const std::lock_guard guard(mutex_);
  waiting_.erase(&cq);
}

void Drainer::run() {
  while (true) {
    {
      std::unique_lock guard(mutex_);
      added_.wait(guard, [this] { return !waiting_.empty(); });
    }
    std::this_thread::sleep_for(kInterval);
    const std::lock_guard pass(draining_);
    std::unordered_set<Cq*> now;
    {
      const std::lock_guard guard(mutex_);
      now.swap(waiting_);
    }
    for (Cq* cq : now) {
      bool still = false;
      guarded([&] {
        still = drain(*cq);
        return 0;
      });
      if (!still) continue;
      const std::lock_guard guard(mutex_);
      waiting_.insert(cq);
    }
  }
}

}  // namespace openmrc::verbs
