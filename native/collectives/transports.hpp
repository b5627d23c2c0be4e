// The transports of a rank as one: a remote one, which reaches every rank, and beside it perhaps a local one for ranks on
// the same host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "collectives/transport.hpp"

namespace openmrc::collectives {

class Transports {
 public:
  // `local`: nullptr, there is none.
  Transports(std::unique_ptr<Transport> remote, std::unique_ptr<Transport> local)
      : remote_(std::move(remote)), local_(std::move(local)) {}

  void attach(TransportReceiver& receiver);
  Transport& remote() { return *remote_; }
  bool has_local() const { return local_ != nullptr; }
  Transport& local() { return *local_; }
  void use_local() { uses_local_ = true; }  // for some rank

  Transport::Arrivals poll() { return uses_local_ ? std::max(remote_->poll(), local_->poll()) : remote_->poll(); }
  // True if messages came.
  bool look_local() { return uses_local_ && local_->look(); }
  Circle* circle(std::uint64_t group, std::span<const std::uint16_t> others) {
    return uses_local_ ? local_->circle(group, others) : nullptr;
  }
  std::uint64_t local_messages() const { return uses_local_ ? local_->messages() : 0; }
  void retry() { remote_->retry(); }
  void replenish() { remote_->replenish(); }
  bool enlist(const Memory& memory, bool peers_write, std::uint32_t& key, const std::shared_ptr<Placer>& placer) {
    return remote_->enlist(memory, peers_write, key, placer);
  }
  bool delist(std::uint32_t key) { return remote_->delist(key); }

  bool arm(Sleeper sleeper) { return remote_->arm(sleeper) || (uses_local_ && local_->arm(sleeper)); }
  void disarm(Sleeper sleeper);
  std::uint32_t progress() { return remote_->progress(); }
  // Asleep until something comes, at most `longest`. `local`: over the local transport; nothing else is waited for.
  std::uint32_t await(nic::TimeNs longest, bool local);
  void attend(nic::TimeNs span) { remote_->attend(span); }
  bool attended() const { return remote_->attended(); }
  void rest() { remote_->rest(); }

  bool flushed() const { return remote_->flushed() && (!uses_local_ || local_->flushed()); }
  bool closed() const { return remote_->closed(); }
  void leave_to_parent();
  void add_to(ExecutorStats& stats) const;

 private:
  std::unique_ptr<Transport> remote_, local_;
  bool uses_local_ = false;
};

}  // namespace openmrc::collectives
