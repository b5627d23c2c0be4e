// Behaviour under fork(), which copies memory, locks and descriptors, but no other thread. An object with a thread or
// sockets belongs to the process that created it; in a forked child it closes its copies of descriptors, and refuses
// every use.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>

namespace openmrc::nic {

// Use of an object in a child that was forked from its owner. Raised in Python as openmrc.ForkedError.
class ForkedError : public std::runtime_error {
 public:
  explicit ForkedError(int owner);
};

enum class ForkStage : std::uint8_t {
  kBefore,    // in the parent: acquire the locks, so that the child gets a consistent copy
  kInParent,  // give them back
  kInChild,   // release them, close descriptors, drop threads
};

// Objects acquire their locks in this order, as their methods do.
enum class ForkOrder : std::uint8_t { kExecutor, kDevice };

// Calls its owner around every fork(), from construction to destruction; must be the last member of its owner.
class ForkHook {
 public:
  ForkHook(ForkOrder order, std::function<void(ForkStage)> stage);
  ~ForkHook();
  ForkHook(const ForkHook&) = delete;
  ForkHook& operator=(const ForkHook&) = delete;

  ForkOrder order() const { return order_; }
  void run(ForkStage stage) const { stage_(stage); }

 private:
  ForkOrder order_;
  std::function<void(ForkStage)> stage_;
};

// Installs the handlers of hooks. Handlers that are installed later run earlier before a fork: their locks may be held
// while an object with a hook is created.
void install_fork_handlers();

// Tracks whether an object belongs to the current process.
class Ownership {
 public:
  Ownership();
  bool lost() const { return lost_; }
  void lose() { lost_ = true; }
  // Throws ForkedError if it does not.
  void check() const {
    if (lost_) [[unlikely]]
      throw ForkedError(owner_);
  }

 private:
  int owner_;
  bool lost_ = false;  // written once, by the only thread of a forked child
};

}  // namespace openmrc::nic
