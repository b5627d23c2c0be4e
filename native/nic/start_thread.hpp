// Threads of the library do not take the signals of its program.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace openmrc::nic {

// Blocks all signals but those of faults in the new thread: a program that takes signals by sigwait() or a signalfd
// blocks them in its own threads only.
template <typename Run>
std::thread start_thread(Run&& run) {
  class Blocked {
   public:
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
      ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;

   private:
    sigset_t before_;
  };
  const Blocked blocked;  // a thread inherits the mask of its creator
  return std::thread(std::forward<Run>(run));
}

}  // namespace openmrc::nic
