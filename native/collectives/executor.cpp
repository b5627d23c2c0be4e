#include "collectives/executor.hpp"

#include <chrono>
#include <thread>

#include "engine/base/assert.hpp"
#include "nic/clock.hpp"

namespace openmrc::collectives {

Executor::Executor(std::unique_ptr<Transport> remote, std::unique_ptr<Transport> local,
                   const ExecutorSettings& settings)
    : transports_(std::move(remote), std::move(local)),
      runner_(settings, transports_, ended_),
      progress_(settings, mutex_, ended_, transports_, runner_) {
  const auto guard = enter();  // a fork waits until the executor is whole
  progress_.start();
}

Executor::~Executor() { close(); }

void Executor::use_local(std::uint16_t rank) {
  const auto guard = enter();
  runner_.use(rank, transports_.local());
  transports_.use_local();
}

OpId Executor::submit(std::shared_ptr<const Plan> plan, std::uint64_t key, std::uint8_t lane,
                      std::span<const Memory> buffers) {
  const auto guard = enter();
  progress_.submitting();
  const OpId op = runner_.submit(std::move(plan), key, lane, buffers);
  progress_.submitted();
  return op;
}

OpId Executor::receive(const std::shared_ptr<Inbox>& inbox, int source, std::shared_ptr<const Plan> plan,
                       std::uint8_t lane, std::span<const Memory> buffers) {
  const auto guard = enter();
  progress_.submitting();
  const OpId op = runner_.receive(inbox, source, std::move(plan), lane, buffers);
  progress_.submitted();
  return op;
}

int Executor::source(OpId id) {
  const auto guard = enter();
  const Operation* op = runner_.operations().find(id);
  return op == nullptr ? kNobody : op->source;
}

OpState Executor::state(OpId id) {
  const auto guard = enter();
  const Operation* op = runner_.operations().find(id);
  if (op == nullptr) return OpState::kUnknown;
  if (op->state == OpState::kRunning) runner_.drive();
  return op->state;
}

OpId Executor::user_of(const void* base, std::uint64_t bytes, bool writes) {
  const std::unique_lock guard(mutex_);
  return runner_.user_of(base, bytes, writes);
}

bool Executor::delayed(OpId id) {
  const auto guard = enter();
  const Operation* op = runner_.operations().find(id);
  return op != nullptr && op->state == OpState::kRunning && op->earlier > 0;
}

OpState Executor::wait(OpId id, std::int64_t timeout_ns) {
  auto guard = enter();
  const std::shared_ptr<Operation> op = runner_.operations().share(id);  // another thread may release it meanwhile
  return op == nullptr ? OpState::kUnknown : progress_.await(guard, op, timeout_ns);
}

std::uint64_t Executor::ended() {
  const auto guard = enter();
  return runner_.operations().ended();
}

std::uint64_t Executor::await_end(std::uint64_t seen, std::int64_t timeout_ns) {
  auto guard = enter();
  progress_.await_end(guard, seen, timeout_ns);
  return runner_.operations().ended();
}

OpState Executor::finish(OpId id, std::int64_t timeout_ns, bool& released) {
  auto guard = enter();
  std::shared_ptr<Operation> op = runner_.operations().share(id);
  if (op == nullptr) return OpState::kUnknown;
  const OpState state = progress_.await(guard, op, timeout_ns);
  if (state != OpState::kDone) return state;
  op.reset();
  // Another thread may have released it, and others have its slot by now.
  Operation* left = runner_.operations().find(id);
  released = left == nullptr || runner_.release(*left);
  return state;
}

std::pair<int, std::string> Executor::failure(OpId id) {
  const auto guard = enter();
  const Operation* op = runner_.operations().find(id);
  if (op == nullptr) return {kNobody, ""};
  return {op->failed_rank, op->reason};
}

bool Executor::faulty(std::uint16_t rank) {
  const auto guard = enter();
  return runner_.faulty(rank);
}

bool Executor::release(OpId id) {
  const auto guard = enter();
  Operation* op = runner_.operations().find(id);
  return op == nullptr || runner_.release(*op);
}

bool Executor::flush(std::int64_t timeout_ns) {
  const nic::TimeNs begun = nic::now_ns();
  transports_.rest();  // nobody polls any more, and peers want their acknowledgements
  for (;;) {
    {
      const auto guard = enter();
      runner_.drive();
      const bool flushed = transports_.flushed();
      if (flushed || progress_.stopped() || transports_.closed()) return flushed;
    }
    if (nic::now_ns() - begun > timeout_ns) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Executor::fail_peer(std::uint16_t rank, const std::string& reason, bool left, int culprit) {
  const auto guard = enter();
  runner_.fail_peer(rank, reason, left, culprit);
}

void Executor::close() {
  if (ownership_.lost()) return;
  {
    const auto guard = enter();
    if (progress_.stopped()) return;
    runner_.close();
    progress_.stop();
  }
  progress_.join();
}

ExecutorStats Executor::stats() {
  const auto guard = enter();
  return runner_.stats();
}

std::unique_lock<std::mutex> Executor::enter() {
  ownership_.check();
  return std::unique_lock(mutex_);
}

void Executor::handle_fork(nic::ForkStage stage) {
  if (stage == nic::ForkStage::kBefore) return mutex_.lock();
  if (stage == nic::ForkStage::kInChild) {
    ownership_.lose();
    transports_.leave_to_parent();
    progress_.leave_to_parent();
  }
  mutex_.unlock();
}

}  // namespace openmrc::collectives
