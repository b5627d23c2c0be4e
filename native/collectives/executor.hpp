// Executes the plans of one rank for any number of threads: a lock around a PlanRunner, and Progress while operations are
// under way. It does not know which transport carries a message; see DeviceExecutor.
//
// Small messages go at once. Larger ones go straight to the peer's buffers: a rank announces the buffers of an operation
// to those that will write into them when it begins with it.
//
// Threads. Every method may be called from any thread. In a forked child every method but close() throws
// nic::ForkedError.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "collectives/executor_settings.hpp"
#include "collectives/executor_stats.hpp"
#include "collectives/inbox.hpp"
#include "collectives/plan.hpp"
#include "collectives/plan_runner.hpp"
#include "collectives/progress.hpp"
#include "collectives/transports.hpp"
#include "nic/fork.hpp"

namespace openmrc::collectives {

class Executor {
 public:
  // `local`: for ranks on this host, once use_local() names them; nullptr: there are none.
  Executor(std::unique_ptr<Transport> remote, std::unique_ptr<Transport> local, const ExecutorSettings& settings);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The local transport carries all to and from this rank. Before anything is sent to it.
  void use_local(std::uint16_t rank);

  // Starts an operation. `key` names it at all ranks; `buffers` must stay until release() says so. An operation whose
  // memory overlaps that of an earlier one, where either writes, begins when the earlier one has ended; likewise a plan
  // with a fence, after all operations whose keys differ from its key in the sequence number alone. An operation
  // that has failed has ended.
  // Throws std::runtime_error when the device or the executor has no room for another one.
  OpId submit(std::shared_ptr<const Plan> plan, std::uint64_t key, std::uint8_t lane, std::span<const Memory> buffers);
  // Starts the receive of the next message from `source`, or with kAnySource of the first that is there from any: until
  // there is one, the receives behind it wait, as it could be theirs. `plan` receives from one rank, whichever.
  OpId receive(const std::shared_ptr<Inbox>& inbox, int source, std::shared_ptr<const Plan> plan, std::uint8_t lane,
               std::span<const Memory> buffers);
  // Of a receive, until it is released: the rank that it is from. -1: that is not known yet.
  int source(OpId op);
  OpState state(OpId op);
  // An operation that has not ended and uses this memory, where either writes; 0: there is none.
  OpId user_of(const void* base, std::uint64_t bytes, bool writes);
  // True if it waits for an earlier operation before it begins.
  bool delayed(OpId op);
  // kRunning: the time is over. Negative: for ever.
  OpState wait(OpId op, std::int64_t timeout_ns);
  // Operations that have ended since the beginning, with or without success.
  std::uint64_t ended();
  // Waits until more than `seen` have ended, and returns how many. No more than `seen`: the time is over.
  std::uint64_t await_end(std::uint64_t seen, std::int64_t timeout_ns);
  // As wait(), and release() where it is done. `released`: what that says.
  OpState finish(OpId op, std::int64_t timeout_ns, bool& released);
  // Neither closed nor left to the process that this one was forked from.
  bool usable() const { return !ownership_.lost() && !progress_.stopped(); }
  // The culprit of a failure, a rank or -1, and the reason in words.
  std::pair<int, std::string> failure(OpId op);
  // True if a rank failed by its messages, such as another call; false if its end was detected first.
  bool faulty(std::uint16_t rank);
  // True: nothing reads or writes its buffers any more, and the id is forgotten.
  bool release(OpId op);
  // Waits until all that was sent has arrived; what a rank has sent last would be lost if it went at once.
  bool flush(std::int64_t timeout_ns);
  // Operations that need this rank fail, now and later; what has arrived from it before counts. `left`: it went when it
  // had done its part, so what was sent to it has arrived. `culprit`: the rank that failures name in place of it.
  void fail_peer(std::uint16_t rank, const std::string& reason, bool left = false, int culprit = -1);
  // Fails everything and stops the thread. Idempotent.
  void close();
  ExecutorStats stats();

 protected:
  std::unique_lock<std::mutex> enter();  // throws ForkedError
  Transports& transports() { return transports_; }

 private:
  void handle_fork(nic::ForkStage stage);

  std::mutex mutex_;
  std::condition_variable ended_;  // an operation
  Transports transports_;
  PlanRunner runner_;
  Progress progress_;
  nic::Ownership ownership_;
  nic::ForkHook fork_hook_{nic::ForkOrder::kExecutor, [this](nic::ForkStage stage) { handle_fork(stage); }};
};

}  // namespace openmrc::collectives
