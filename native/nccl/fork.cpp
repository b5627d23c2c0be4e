#include "nccl/fork.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "nic/fork.hpp"

namespace openmrc::nccl {
namespace {

struct Gate {
  std::mutex forking;  // held from before a fork until after it
  std::atomic<bool> closed{false};
  std::atomic<int> calls{0};
  void (*abandon)() = nullptr;

  void reopen() {
    closed.store(false);
    closed.notify_all();
    forking.unlock();
  }
};

// Never destroyed: NCCL may call during the exit of the program.
Gate& gate() {
  static Gate& made = *new Gate;
  return made;
}

thread_local int own_calls = 0;  // a logger of NCCL's may fork inside a call

void close_gate() {
  Gate& all = gate();
  all.forking.lock();
  all.closed.store(true);
  for (int calls = all.calls.load(); calls != own_calls; calls = all.calls.load()) all.calls.wait(calls);
}

void reopen_in_child() {
  if (gate().abandon != nullptr) gate().abandon();
  gate().reopen();
}

}  // namespace

OngoingCall::OngoingCall() {
  Gate& all = gate();
  while (true) {
    all.calls.fetch_add(1);
    if (!all.closed.load()) break;
    all.calls.fetch_sub(1);
    all.calls.notify_all();
    all.closed.wait(true);
  }
  ++own_calls;
}

OngoingCall::~OngoingCall() {
  Gate& all = gate();
  --own_calls;
  all.calls.fetch_sub(1);
  if (all.closed.load()) all.calls.notify_all();
}

void install_fork_handlers(void (*abandon)()) {
  nic::install_fork_handlers();  // handlers that are installed later run earlier before a fork, and later after it
  gate().abandon = abandon;
  ::pthread_atfork(close_gate, [] { gate().reopen(); }, reopen_in_child);
}

}  // namespace openmrc::nccl
