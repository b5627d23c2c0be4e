// Runs the plans of one rank: sends when what a send waits for has happened, places what arrives, reduces. Several
// operations at once. It neither waits nor locks: the executor does, and calls it under its lock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/executor_settings.hpp"
#include "collectives/executor_stats.hpp"
#include "collectives/inbox.hpp"
#include "collectives/matching.hpp"
#include "collectives/operations.hpp"
#include "collectives/plan.hpp"
#include "collectives/precedence.hpp"
#include "collectives/remote_rank.hpp"
#include "collectives/steps.hpp"
#include "collectives/transports.hpp"

namespace openmrc::collectives {

class PlanRunner final : private TransportReceiver {
 public:
  // `ended` is notified of each operation that ends.
  PlanRunner(const ExecutorSettings& settings, Transports& transports, std::condition_variable& ended);

  // The rank can be reached from now on, over this transport.
  void use(std::uint16_t rank, Transport& transport);

  OpId submit(std::shared_ptr<const Plan> plan, std::uint64_t key, std::uint8_t lane, std::span<const Memory> buffers);
  OpId receive(const std::shared_ptr<Inbox>& inbox, int source, std::shared_ptr<const Plan> plan, std::uint8_t lane,
               std::span<const Memory> buffers);
  // Takes what has arrived, and goes on with what that allows, until nothing is left.
  void drive();
  // Asks to be woken. True: something has come already.
  bool arm(Sleeper sleeper);
  // One look at the local transport. True: messages came.
  bool drive_local();
  // An operation that has waited for long shows its call to the ranks that it waits for: those whose calls differ may all
  // wait for each other.
  void compare_calls(Operation& op);
  // True: its memory is free, and its id is forgotten.
  bool release(Operation& op);
  // See Executor::fail_peer().
  void fail_peer(std::uint16_t rank, const std::string& reason, bool left, int culprit);
  // Fails everything, now and later.
  void close();

  const Operations& operations() const { return operations_; }
  OpId user_of(const void* base, std::uint64_t bytes, bool writes) const {
    return precedence_.user_of(base, bytes, writes);
  }
  bool faulty(std::uint16_t rank) const { return rank < ranks_.size() && ranks_[rank]->faulty; }
  ExecutorStats stats() const;

 private:
  bool take_message(std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) override;
  void take_part(std::uint16_t rank, std::uint8_t lane, const MessageHead& part, std::uint64_t left,
                 const std::uint8_t* data) override;
  void take_written(std::uint16_t rank, std::uint32_t op_slot, std::uint32_t pair_index, std::uint64_t bytes) override;
  void take_sent(OpId op, std::uint32_t step, bool arrived) override;
  void take_breach(std::uint16_t rank, const char* breach) override;
  void take_loss(std::uint16_t rank, const char* reason) override;

  // Operations: plan_runner.cpp.
  void admit(Operation& op, const Plan& plan);
  void begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key);
  void begin_due();
  void enter_circle(Operation& op);
  void take_early(Operation& op);
  bool enlist_buffers(Operation& op);
  bool take_circles();
  void match(Inbox& inbox);
  void match_all();
  void end(Operation& op, OpState state, int rank, const std::string& reason);
  bool settled(Operation& op);
  void take_leave(std::uint16_t rank);
  void fail(RemoteRank& rank, const std::string& reason, int culprit = kNobody);
  void protocol_error(RemoteRank& rank, const std::string& what);

  // Steps, and messages that leave: plan_runner_send.cpp.
  void work();  // starts steps until none is ready
  void go_on();
  void start_ready();
  void start(Operation& op, std::uint32_t step);
  void finish(Operation& op, std::uint32_t step);
  bool send_to_all(Operation& op, std::uint32_t step);
  bool send(Operation& op, std::uint32_t step);
  bool send_small(Operation& op, std::uint32_t step);
  bool send_large(Operation& op, std::uint32_t step);
  bool offer(Operation& op, std::uint32_t step);
  void announce(Operation& op);
  bool put(RemoteRank& rank, std::uint8_t lane, const Operation* op, const MessageHead& head, const void* data);
  void resume(RemoteRank& rank, RemoteRank::Lane& lane);
  bool send_held(const ReadyStep& held);

  // Messages that arrive: plan_runner_receive.cpp.
  bool agrees(const Operation& op, RemoteRank& rank, const MessageHead& head);
  void take(Operation& op, RemoteRank& rank, const MessageHead& head, const std::uint8_t* data);
  void take_data(Operation& op, RemoteRank& rank, const MessageHead& head, const std::uint8_t* data);
  void take_announcement(Operation& op, RemoteRank& rank, const MessageHead& head, const std::uint8_t* data);
  void finish_receive(Operation& op, std::uint32_t receive, bool reduced);

  std::uint16_t rank_count_;
  Transports& transports_;
  std::condition_variable& ended_;
  RemoteRanks ranks_;
  Operations operations_;
  Precedence precedence_{operations_};
  Matching matching_{operations_, ranks_};
  Steps steps_;
  std::vector<Operation*> circling_;  // running operations with a circle
  bool beginning_ = false, closed_ = false;
  std::size_t held_ = 0;                                     // sends and announcements without room, of all ranks
  std::vector<std::pair<std::uint16_t, const char*>> lost_;  // ranks and why, since work() was last called
  std::uint64_t early_messages_ = 0, early_bytes_max_ = 0, protocol_errors_ = 0, delayed_ops_ = 0;
};

}  // namespace openmrc::collectives
