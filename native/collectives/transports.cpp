#include "collectives/transports.hpp"

namespace openmrc::collectives {

void Transports::attach(TransportReceiver& receiver) {
  remote_->attach(receiver);
  if (local_ != nullptr) local_->attach(receiver);
}

void Transports::disarm(Sleeper sleeper) {
  remote_->disarm(sleeper);
  if (uses_local_) local_->disarm(sleeper);
}

std::uint32_t Transports::await(nic::TimeNs longest, bool local) {
  if (!uses_local_) return remote_->await(longest, -1);
  if (local) return local_->await(longest, -1);
  const std::uint32_t datagrams = remote_->await(longest, local_->descriptor(Sleeper::kWaiter));
  local_->clear(Sleeper::kWaiter);
  return datagrams;
}

void Transports::leave_to_parent() {
  remote_->leave_to_parent();
  if (local_ != nullptr) local_->leave_to_parent();
}

void Transports::add_to(ExecutorStats& stats) const {
  remote_->add_to(stats);
  if (local_ != nullptr) local_->add_to(stats);
}

}  // namespace openmrc::collectives
