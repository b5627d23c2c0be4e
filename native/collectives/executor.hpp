// Runs the plans of one rank over the QPs to the other ranks: sends when what a send waits for has happened, places what
// arrives, reduces, and tells who waits. Several operations at once.
//
// Small messages travel in slots of the peer's mailbox, at once. Larger ones go straight into the peer's buffers: a rank
// announces the buffers of an operation to those that will write into them when it begins with it. Between ranks that
// share memory both go through a ring there, the larger ones part by part, after the announcement all the same.
//
// Threads. Every method may be called from any thread. Whoever waits drives the device for a while (spin), then sleeps;
// a thread of the executor goes on with the work while nobody spins. In a forked child every method but close() throws
// nic::ForkedError.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/inbox.hpp"
#include "collectives/mailbox.hpp"
#include "collectives/operations.hpp"
#include "collectives/plan.hpp"
#include "collectives/precedence.hpp"
#include "collectives/shared_link.hpp"
#include "collectives/wait_forecast.hpp"
#include "nic/device.hpp"
#include "nic/fork.hpp"

namespace openmrc::collectives {

// Receives that a QP needs beyond `recv_depth`, for accounts.
inline constexpr std::uint32_t kCreditReceives = 32;

struct ExecutorSettings {
  std::uint16_t rank = 0, ranks = 1;
  std::uint8_t lanes = 1;  // QPs per peer, one per traffic class: what waits in one does not hold up another
  std::uint32_t recv_depth = 512;
  // A waiting thread drives the device until nothing has come for so long. For an operation without large messages
  // it looks again and again at first, and lets others run in between; else it sleeps until something comes.
  nic::TimeNs spin = 2 * nic::kNsPerMs, poll = 0;
  DomainId domain = 0;  // of the QPs, and of all memory that peers write to
};

struct ExecutorStats {
  std::uint64_t ops = 0, slot_messages = 0, direct_messages = 0, early_messages = 0, reduced_bytes = 0,
                copied_bytes = 0;
  std::uint64_t shared_messages = 0, shared_bytes = 0;  // taken out of rings
  std::uint64_t early_bytes_max = 0;                    // held at a time for a peer that is ahead
  std::uint64_t protocol_errors = 0;
  std::uint64_t delayed_ops = 0;  // waited for an earlier operation before they began
};

class Executor {
 public:
  // `cq` takes the completions of all QPs that connect() names.
  Executor(std::shared_ptr<nic::Device> device, CqId cq, const ExecutorSettings& settings);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  std::uint64_t mailbox_address() { return reinterpret_cast<std::uintptr_t>(mailbox_.base()); }
  // By rank: none may write where another one's messages arrive.
  const std::vector<std::uint32_t>& mailbox_rkeys() const { return mailbox_keys_; }
  // One QP per lane, in RTS; posts their receives.
  void connect(std::uint16_t rank, std::span<const std::uint32_t> qps, std::uint64_t mailbox_address,
               std::uint32_t mailbox_rkey);

  // For a peer on this host, before anything is sent to it: makes memory, tells where; opens the peer's; and when both
  // know that both have opened it, uses it, or lets it go. No offer: the system refuses the memory, and QPs remain.
  std::optional<SharedOffer> offer_memory(std::uint16_t rank);
  bool open_memory(std::uint16_t rank, const SharedOffer& offer);
  void use_memory(std::uint16_t rank, bool agreed);

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
  // Whether it waits for an earlier operation before it begins.
  bool delayed(OpId op);
  // kRunning: the time is over. Negative: for ever.
  OpState wait(OpId op, std::int64_t timeout_ns);
  // The same, and release() where it is done. `released`: what that says.
  OpState finish(OpId op, std::int64_t timeout_ns, bool& released);
  // Neither closed nor left to the process that this one was forked from.
  bool usable() const;
  // Why it failed: a rank, or -1, and words.
  std::pair<int, std::string> failure(OpId op);
  // Whether a rank failed by what it sent, such as another call; false if its end was noticed first.
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

 private:
  struct Lane;
  struct Peer;
  struct Ready {
    std::uint32_t op_slot;
    OpId op;
    std::uint32_t step;
  };

  std::unique_lock<std::mutex> enter();  // throws ForkedError
  void handle_fork(nic::ForkStage stage);
  void leave_to_parent();  // in a forked child
  void run();
  void watch();
  void stop_watching();
  void watch_later();
  OpState await(std::unique_lock<std::mutex>& guard, const std::shared_ptr<Operation>& op, std::int64_t timeout_ns);
  bool forget(Operation& op);
  void spin(std::unique_lock<std::mutex>& guard, const Operation& op, nic::TimeNs begun, std::int64_t timeout_ns);
  bool poll_all(std::unique_lock<std::mutex>& guard, bool polls);
  bool poll_shared(std::unique_lock<std::mutex>& guard);
  std::uint32_t await_anything();
  std::uint32_t await_shared();
  // The rest is called under the lock.
  void drive();  // handles completions until there are none
  void handle(const Completion& done);
  void check_credit(Peer& peer, const Lane& lane);
  void handle_message(Peer& peer, Lane& lane, std::uint32_t slot);
  void take_message(Peer& peer, const MessageHead& head, const std::uint8_t* data);
  void compare_calls(Operation& op);
  bool agrees(const Operation& op, Peer& peer, const MessageHead& head);
  void take(Operation& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data);
  void take_data(Operation& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data);
  void take_announcement(Operation& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data);
  void handle_direct(Peer& peer, std::uint32_t immediate);
  void protocol_error(Peer& peer, const std::string& what);
  void take_leave(std::uint16_t rank);
  void fail(Peer& peer, const std::string& reason, int culprit = -1);
  void give_back(Peer& peer, Lane& lane);
  void post_receives(std::uint32_t owed);
  void work();  // starts steps until none is ready
  void start(Operation& op, std::uint32_t step);
  void compute(Operation& op, const Step& step);
  bool reduces_now(const Operation& op, std::uint32_t receive) const;
  void reduce_from(Operation& op, std::uint32_t receive, std::uint64_t offset, const std::uint8_t* data,
                   std::uint64_t bytes);
  void finish_receive(Operation& op, std::uint32_t receive, bool reduced);
  bool offer(Operation& op, std::uint32_t step);
  bool send_small(Operation& op, std::uint32_t step);
  bool send_direct(Operation& op, std::uint32_t step);
  // `op`: whose message it is; none if it must go whatever else waits.
  bool put_message(Peer& peer, Lane& lane, const Operation* op, const MessageHead& head, const void* data);
  void forget_early(Peer& peer, const MessageHead& head);
  bool may_send(Peer& peer, const Lane& lane);
  bool has_slot(Peer& peer, const Lane& lane, const Operation* op);
  bool send_held(Peer& peer, Lane& lane, const Ready& next);
  void post(Lane& lane, const SendWr& wr);
  bool offer(Lane& lane, const SendWr& wr);
  Operation* take_back(Lane& lane, std::uint64_t wr_id);
  void resume(Peer& peer, Lane& lane);
  void finish(Operation& op, std::uint32_t step);
  void end(Operation& op, OpState state, int rank, const std::string& reason);
  bool settled(Operation& op);
  bool flushed() const;
  bool take_shared();  // true: there was something
  void take_ring(Peer& peer, Lane& lane);
  void take_cells(Peer& peer, Lane& lane);
  void take_part(Peer& peer, Lane& lane, const RingHead& head, const std::uint8_t* data);
  bool put_shared(Peer& peer, const Lane& lane, const RingHead& head, const void* data);
  bool send_parts(Operation& op, std::uint32_t step);
  bool sleep_shared(Sleeper sleeper);  // peers shall ring; true: something is there already
  void stay_awake(Sleeper sleeper);
  Doorbell& doorbell(Sleeper sleeper) { return doorbells_[static_cast<std::size_t>(sleeper)]; }
  void announce(Operation& op);
  void enlist(std::uint8_t* base, std::uint64_t bytes, std::uint8_t access, std::uint32_t& key);
  bool enlist_buffers(Operation& op);
  void take_early(Operation& op);
  void admit(Operation& op, const Plan& plan);
  void begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key);
  void begin_due();
  void start_ready();
  void match(Inbox& inbox);
  void match_all();
  Inbox::Source* choose(Inbox& inbox);
  bool nobody_left(const Inbox& inbox) const;

  std::shared_ptr<nic::Device> device_;
  CqId cq_;
  ExecutorSettings settings_;
  Mailbox mailbox_, outbox_;
  std::vector<std::uint32_t> mailbox_keys_;  // by rank
  std::uint32_t outbox_key_ = 0;
  std::mutex mutex_;
  std::condition_variable something_done_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::map<std::uint32_t, std::pair<std::uint16_t, std::uint8_t>> by_qp_;  // rank, lane
  Operations operations_;
  Precedence precedence_{operations_};
  WaitForecast forecast_;
  std::vector<std::shared_ptr<Inbox>> inboxes_;  // those in which receives wait
  std::deque<Ready> ready_;
  bool beginning_ = false;
  std::vector<std::pair<std::uint16_t, WcStatus>> broken_;  // QPs that failed since work() was last called
  std::uint32_t spinners_ = 0;                              // threads that wait and drive the device
  bool watches_ = false;                                    // the thread, since nobody spins
  std::atomic<bool> stop_{false};
  ExecutorStats stats_;
  std::array<Doorbell, kSleepers> doorbells_;
  bool shares_ = false;  // memory, with any peer
  nic::FileDescriptor stop_fd_;
  std::thread thread_;
  nic::Ownership ownership_;
  nic::ForkHook fork_hook_{nic::ForkOrder::kExecutor, [this](nic::ForkStage stage) { handle_fork(stage); }};
};

}  // namespace openmrc::collectives
