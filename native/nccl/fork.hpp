// Behaviour under fork(): a fork waits until no other thread is in a call of the plugin, so that the child gets
// consistent objects and free locks. Those objects belong to the parent. In the child their sockets are closed, their
// calls return ncclInvalidUsage, and closing them frees their memory.
#pragma once

namespace openmrc::nccl {

// Exists during each call of NCCL. Calls never wait for a peer, so a fork waits briefly. Not recursive.
class OngoingCall {
 public:
  OngoingCall();
  ~OngoingCall();
  OngoingCall(const OngoingCall&) = delete;
  OngoingCall& operator=(const OngoingCall&) = delete;
};

// `abandon` runs in the child of each fork, before any call there.
void install_fork_handlers(void (*abandon)());

}  // namespace openmrc::nccl
