#include "nic/fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace openmrc::nic {
namespace {

struct Hooks {
  std::mutex mutex;
  std::vector<ForkHook*> all;

  void run(ForkStage stage) {
    for (const ForkOrder order : {ForkOrder::kExecutor, ForkOrder::kDevice}) {
      for (const ForkHook* hook : all) {
        if (hook->order() == order) hook->run(stage);
      }
    }
  }
};

// Never destroyed: a process may fork while it ends.
Hooks& hooks() {
  static Hooks& found = *[] {
    auto* made = new Hooks;
    ::pthread_atfork(
        [] {
          hooks().mutex.lock();
          hooks().run(ForkStage::kBefore);
        },
        [] {
          hooks().run(ForkStage::kInParent);
          hooks().mutex.unlock();
        },
        [] {
          hooks().run(ForkStage::kInChild);
          hooks().all.clear();
          hooks().mutex.unlock();
        });
    return made;
  }();
  return found;
}

}  // namespace

ForkedError::ForkedError(int owner)
    : std::runtime_error("this object belongs to process " + std::to_string(owner) + ", from which process " +
                         std::to_string(::getpid()) + " was forked; open a Device in this process") {}

ForkHook::ForkHook(ForkOrder order, std::function<void(ForkStage)> stage) : order_(order), stage_(std::move(stage)) {
  const std::lock_guard guard(hooks().mutex);
  hooks().all.push_back(this);
}

ForkHook::~ForkHook() {
  const std::lock_guard guard(hooks().mutex);
  std::erase(hooks().all, this);
}

void install_fork_handlers() { hooks(); }

Ownership::Ownership() : owner_(::getpid()) {}

}  // namespace openmrc::nic
