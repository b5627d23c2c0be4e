// Keeps a thread from being cancelled in the middle of a call.
#pragma once

#include <pthread.h>

namespace openmrc::nic {

// While it lives a request to cancel the thread stays pending: unwinding by it would meet functions that throw nothing,
// and end the process.
class NoCancellation {
 public:
  NoCancellation() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace openmrc::nic
