// Operations from submit() to release(), and the executor's thread. What arrives: executor_receive.cpp; what leaves:
// executor_send.cpp; receives, which may wait for a source: executor_inbox.cpp; between ranks that share memory:
// executor_shared.cpp.
#include "collectives/executor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <stdexcept>
#include <utility>

#include "collectives/executor_state.hpp"
#include "engine/base/assert.hpp"
#include "nic/clock.hpp"

namespace openmrc::collectives {
namespace {

using nic::now_ns;
using nic::TimeNs;

constexpr std::size_t kBatch = 64;
constexpr std::uint32_t kOwedMax = kCreditReceives / 2;  // receives that may be missing: those for data are there
constexpr const char* kNoRegion = "the device does not take more memory regions";
constexpr int kNapMs = 100, kShortNapMs = 1;
// An operation that has waited so long compares its call with those of the ranks that it waits for.
constexpr std::int64_t kLongWaitNs = 50'000'000;
// With larger messages the time on the way counts, not who wakes when.
constexpr std::size_t kPolledBytesMax = 64U << 10;

}  // namespace

Executor::Executor(std::shared_ptr<nic::Device> device, CqId cq, const ExecutorSettings& settings)
    : device_(std::move(device)),
      cq_(cq),
      settings_(settings),
      mailbox_(settings.ranks, settings.lanes),
      outbox_(settings.ranks, settings.lanes),
      operations_(settings.ranks, settings.lanes) {
  MRC_ASSERT(settings.rank < settings.ranks && settings.lanes > 0 && settings.recv_depth > 2 * kSlots);
  const auto guard = enter();  // a fork waits until the executor is whole
  for (std::uint16_t rank = 0; rank < settings.ranks; ++rank) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->rank = rank;
  }
  // A key per peer: none can write where another one's messages arrive.
  const std::size_t area = settings.lanes * Mailbox::kAreaBytes;
  mailbox_keys_.resize(settings.ranks);
  for (std::uint16_t rank = 0; rank < settings.ranks; ++rank) {
    enlist(mailbox_.base() + rank * area, area, kRemoteWrite, mailbox_keys_[rank]);
  }
  enlist(outbox_.base(), outbox_.size(), kLocalRead, outbox_key_);
  stop_fd_ = nic::FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (!stop_fd_.valid()) throw nic::NicError(errno, "cannot create an eventfd");
  thread_ = std::thread([this] { run(); });
}

Executor::~Executor() {
  if (ownership_.lost()) return;
  close();
  for (const std::uint32_t key : mailbox_keys_) device_->deregister_memory(key);
  device_->deregister_memory(outbox_key_);
}

void Executor::enlist(std::uint8_t* base, std::uint64_t bytes, std::uint8_t access, std::uint32_t& key) {
  if (device_->register_memory(base, bytes, access, key, settings_.domain) != Status::kOk)
    throw std::runtime_error(kNoRegion);
}

void Executor::connect(std::uint16_t rank, std::span<const std::uint32_t> qps, std::uint64_t mailbox_address,
                       std::uint32_t mailbox_rkey) {
  const auto guard = enter();
  MRC_ASSERT(rank < peers_.size() && qps.size() == settings_.lanes);
  Peer& peer = *peers_[rank];
  peer.mailbox_address = mailbox_address;
  peer.mailbox_rkey = mailbox_rkey;
  peer.lanes.resize(qps.size());
  for (std::size_t i = 0; i < qps.size(); ++i) {
    peer.lanes[i].qp = qps[i];
    peer.lanes[i].number = static_cast<std::uint8_t>(i);
    peer.lanes[i].receives_owed = settings_.recv_depth + kCreditReceives;
    by_qp_[qps[i]] = {rank, static_cast<std::uint8_t>(i)};
  }
  peer.connected = true;
  post_receives(0);
}

// --- operations

OpId Executor::submit(std::shared_ptr<const Plan> plan, std::uint64_t key, std::uint8_t lane,
                      std::span<const Memory> buffers) {
  const auto guard = enter();
  const std::shared_ptr<Operation> op = operations_.make(lane, buffers);
  op->key = key;
  admit(*op, *plan);
  if (op->earlier > 0) {
    op->next_plan = std::move(plan);
  } else {
    begin(*op, std::move(plan), key);
  }
  watch_later();
  return op->id;
}

void Executor::admit(Operation& op, const Plan& plan) {
  forecast_.submitted(now_ns());
  precedence_.order(op, plan);
  if (op.earlier > 0) ++stats_.delayed_ops;
}

void Executor::begin(Operation& op, std::shared_ptr<const Plan> plan, std::uint64_t key) {
  MRC_ASSERT(plan->config().ranks == settings_.ranks);
  for (std::size_t i = 0; i < plan->config().buffer_bytes.size(); ++i) {
    MRC_ASSERT(op.buffers[i].bytes >= plan->config().buffer_bytes[i]);
  }
  const bool near = std::all_of(peers_.begin(), peers_.end(),
                                [&plan](const auto& peer) { return peer->shares || !plan->talks_to(peer->rank); });
  operations_.begin(op, std::move(plan), key, near);
  if (stop_) return end(op, OpState::kFailed, kNobody, kClosed);
  for (const std::unique_ptr<Peer>& peer : peers_) {
    // Its part may be here already.
    if (!peer->failed || !op.plan->talks_to(peer->rank) || peer->early.contains(key)) continue;
    return end(op, OpState::kFailed, peer->culprit, peer->reason);
  }
  if (!enlist_buffers(op)) return end(op, OpState::kFailed, kNobody, kNoRegion);
  announce(op);
  for (std::uint32_t i = 0; i < op.plan->step_count(); ++i) {
    if (op.waits[i] == 0 && op.plan->step(i).kind != StepKind::kReceive) ready_.push_back({op.slot, op.id, i});
  }
  if (op.left == 0) end(op, OpState::kDone, kNobody, "");
  work();  // before what has come is looked at: if it does not fit, the peer shall find out, too
  take_early(op);
  work();
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer->failed || op.state != OpState::kRunning || !op.needs(peer->rank)) continue;
    end(op, OpState::kFailed, peer->culprit, peer->reason);
  }
  work();
}

// Large messages are read and written in place by the device: buffers that such a message is received into are open to
// the peers, all others are only read.
bool Executor::enlist_buffers(Operation& op) {
  const auto by_device = [&](const auto& peer) { return !peer->shares && op.plan->talks_to(peer->rank); };
  if (std::none_of(peers_.begin(), peers_.end(), by_device)) return true;
  if (!op.plan->receives_more_than(kEagerBytesMax) && !op.plan->sends_more_than(kEagerBytesMax)) return true;
  for (std::size_t i = 0; i < op.buffers.size(); ++i) {
    const Memory& buffer = op.buffers[i];
    if (buffer.bytes == 0) continue;
    const std::uint8_t access = op.plan->largest_receive_into(i) > kEagerBytesMax ? kRemoteWrite : kLocalRead;
    if (device_->register_memory(buffer.base, buffer.bytes, access, op.keys[i], settings_.domain) != Status::kOk) {
      op.keys[i] = 0;
      return false;
    }
  }
  return true;
}

void Executor::take_early(Operation& op) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    const auto found = peer->early.find(op.key);
    if (found == peer->early.end()) continue;
    const std::vector<Peer::Early> messages = std::move(found->second);
    peer->early.erase(found);
    for (const Peer::Early& message : messages) forget_early(*peer, message.head);
    for (const Peer::Early& message : messages) {
      if (op.state == OpState::kRunning) take(op, peer->rank, message.head, message.data.data());
    }
  }
}

// Tells those that will write into our buffers where these are.
void Executor::announce(Operation& op) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (op.plan->largest_receive(peer->rank) <= kEagerBytesMax || peer->failed) continue;
    std::array<RemoteBuffer, kPlanBuffersMax> own{};
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = {reinterpret_cast<std::uintptr_t>(op.buffers[i].base) + op.plan->shift(peer->rank, i), op.keys[i], 0};
    }
    Lane& lane = peer->lanes[op.lane];
    const MessageHead head{op.key, MessageHead::kAnnounce, 0, sizeof own, op.slot, op.plan->config().call};
    if (lane.held_messages.empty() && put_message(*peer, lane, nullptr, head, own.data())) continue;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(own.data());
    lane.held_messages.emplace_back(head, std::vector<std::uint8_t>(bytes, bytes + sizeof own));
  }
}

OpState Executor::state(OpId id) {
  const auto guard = enter();
  Operation* op = operations_.find(id);
  if (op == nullptr) return OpState::kUnknown;
  if (op->state == OpState::kRunning) drive();
  return op->state;
}

OpState Executor::wait(OpId id, std::int64_t timeout_ns) {
  auto guard = enter();
  const std::shared_ptr<Operation> op = operations_.share(id);  // another thread may release it while we wait
  return op == nullptr ? OpState::kUnknown : await(guard, op, timeout_ns);
}

OpState Executor::finish(OpId id, std::int64_t timeout_ns, bool& released) {
  auto guard = enter();
  std::shared_ptr<Operation> op = operations_.share(id);
  if (op == nullptr) return OpState::kUnknown;
  const OpState state = await(guard, op, timeout_ns);
  if (state != OpState::kDone) return state;
  op.reset();
  // Another thread may have released it, and others have its slot by now.
  Operation* left = operations_.find(id);
  released = left == nullptr || forget(*left);
  return state;
}

OpState Executor::await(std::unique_lock<std::mutex>& guard, const std::shared_ptr<Operation>& op,
                        std::int64_t timeout_ns) {
  if (op->state != OpState::kRunning) return op->state;
  const TimeNs begun = now_ns();
  if (forecast_.waited(begun)) doorbell(Sleeper::kThread).ring();  // its naps are short from now on
  ++spinners_;
  stop_watching();
  spin(guard, *op, begun, timeout_ns);
  --spinners_;
  watch();
  if (op->state != OpState::kRunning) return op->state;
  if (spinners_ == 0) device_->rest_polling();
  const auto over = [&op, this] { return op->state != OpState::kRunning || stop_; };
  const std::int64_t spent_ns = now_ns() - begun;
  const std::int64_t left_ns = timeout_ns < 0 ? kLongWaitNs + 1 : std::max<std::int64_t>(timeout_ns - spent_ns, 0);
  const std::chrono::nanoseconds first(std::min(left_ns, kLongWaitNs));
  if (something_done_.wait_for(guard, first, over) || left_ns <= kLongWaitNs) return op->state;
  compare_calls(*op);
  if (timeout_ns < 0) {
    something_done_.wait(guard, over);
  } else {
    something_done_.wait_for(guard, std::chrono::nanoseconds(left_ns - kLongWaitNs), over);
  }
  return op->state;
}

// Until the operation has ended, nothing has come for the time to spin, or the timeout is over.
void Executor::spin(std::unique_lock<std::mutex>& guard, const Operation& op, TimeNs begun, std::int64_t timeout_ns) {
  TimeNs idle_since = begun, now = begun;
  const Plan& plan = op.next_plan == nullptr ? *op.plan : *op.next_plan;
  const bool small = !plan.receives_more_than(kPolledBytesMax) && !plan.sends_more_than(kPolledBytesMax);
  while (op.state == OpState::kRunning && !stop_) {
    const TimeNs idle = now - idle_since;
    if (idle > settings_.spin || (timeout_ns >= 0 && now - begun > timeout_ns)) return;
    const bool polls = (small || op.near) && idle < settings_.poll;
    const bool something = polls && operations_.all_near() ? poll_shared(guard) : poll_all(guard, polls);
    if (op.state != OpState::kRunning) return;
    now = now_ns();
    if (something) idle_since = now;
  }
}

// One look at the device and at shared memory, or asleep until something comes. True: something came.
bool Executor::poll_all(std::unique_lock<std::mutex>& guard, bool polls) {
  const bool near = operations_.all_near();
  const bool sleeps = !polls && !sleep_shared(Sleeper::kWaiter);
  const std::uint64_t taken = stats_.shared_messages;
  guard.unlock();
  std::uint32_t datagrams = 0;
  if (sleeps) {
    datagrams = near ? await_shared() : await_anything();
  } else {
    datagrams = device_->progress();
  }
  if (polls && datagrams == 0) std::this_thread::yield();  // whom we wait for may need this processor
  guard.lock();
  if (sleeps && shares_) stay_awake(Sleeper::kWaiter);
  drive();
  return datagrams > 0 || stats_.shared_messages != taken;
}

// From peers, or from those on this host through memory. The datagrams.
std::uint32_t Executor::await_anything() {
  if (!shares_) return device_->await_progress(kNap);
  Doorbell& bell = doorbell(Sleeper::kWaiter);
  const std::uint32_t datagrams = device_->await_progress(kNap, bell.fd());
  bell.clear();
  return datagrams;
}

std::pair<int, std::string> Executor::failure(OpId id) {
  const auto guard = enter();
  const Operation* op = operations_.find(id);
  if (op == nullptr) return {kNobody, ""};
  return {op->failed_rank, op->reason};
}

bool Executor::faulty(std::uint16_t rank) {
  const auto guard = enter();
  return rank < peers_.size() && peers_[rank]->faulty;
}

bool Executor::release(OpId id) {
  const auto guard = enter();
  Operation* op = operations_.find(id);
  return op == nullptr || forget(*op);
}

bool Executor::forget(Operation& op) {
  if (op.reading > 0) drive();  // the thread does so for operations that run, not for one that is over
  if (op.state == OpState::kRunning || !settled(op)) return false;
  operations_.forget(op);
  return true;
}

bool Executor::usable() const { return !ownership_.lost() && !stop_; }

void Executor::fail_peer(std::uint16_t rank, const std::string& reason, bool left, int culprit) {
  const auto guard = enter();
  drive();
  if (left) take_leave(rank);
  fail(*peers_[rank], reason, culprit);
  work();
}

// A rank that leaves has all that was sent to it; its last acknowledgements may be behind its goodbye, or lost.
void Executor::take_leave(std::uint16_t rank) {
  operations_.for_running([&](Operation& op) {
    for (std::uint32_t i = 0; i < op.plan->step_count(); ++i) {
      const Step& step = op.plan->step(i);
      if (step.kind == StepKind::kSend && step.peer == rank && op.posted[i] && !op.done[i]) finish(op, i);
    }
  });
  work();
}

void Executor::fail(Peer& peer, const std::string& reason, int culprit) {
  if (peer.failed) return;
  peer.failed = true;
  peer.culprit = culprit == kNobody ? peer.rank : culprit;
  peer.reason = reason;
  operations_.for_running([&](Operation& op) {
    if (op.needs(peer.rank)) end(op, OpState::kFailed, peer.culprit, reason);
  });
  match_all();
}

bool Executor::flush(std::int64_t timeout_ns) {
  const TimeNs begun = now_ns();
  device_->rest_polling();  // nobody polls any more, and peers want their acknowledgements
  for (;;) {
    {
      const auto guard = enter();
      drive();
      if (flushed() || stop_ || device_->closed()) return flushed();
    }
    if (now_ns() - begun > timeout_ns) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool Executor::flushed() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const std::unique_ptr<Peer>& peer) {
    return peer->failed || std::all_of(peer->lanes.begin(), peer->lanes.end(),
                                       [](const Lane& lane) { return lane.posted == lane.completed; });
  });
}

void Executor::close() {
  if (ownership_.lost()) return;
  {
    const auto guard = enter();
    if (stop_) return;
    stop_ = true;
    operations_.for_running([this](Operation& op) { end(op, OpState::kFailed, kNobody, kClosed); });
    something_done_.notify_all();
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_fd_.get(), &one, sizeof one);
  thread_.join();
}

ExecutorStats Executor::stats() {
  const auto guard = enter();
  ExecutorStats stats = stats_;
  stats.ops = operations_.made();
  return stats;
}

OpId Executor::user_of(const void* base, std::uint64_t bytes, bool writes) {
  const std::unique_lock guard(mutex_);
  return precedence_.user_of(base, bytes, writes);
}

bool Executor::delayed(OpId id) {
  const auto guard = enter();
  const Operation* op = operations_.find(id);
  return op != nullptr && op->state == OpState::kRunning && op->earlier > 0;
}

void Executor::end(Operation& op, OpState state, int rank, const std::string& reason) {
  if (op.state != OpState::kRunning) return;
  operations_.end(op, state, rank, reason);
  precedence_.ended(op);
  settled(op);
  something_done_.notify_all();
}

// Gives the buffers back as soon as no posted send reads from them, and nobody writes into them: peers do not know yet
// that an operation failed here, and a write that is refused would break the connection to one that is well.
bool Executor::settled(Operation& op) {
  if (!stop_ && !device_->closed()) {
    if (op.reading > 0) return false;
    const auto writes = [&](const std::unique_ptr<Peer>& peer) {
      const auto receives = op.plan->receives(peer->rank);
      return !peer->failed && !peer->shares && op.plan->largest_receive(peer->rank) > kEagerBytesMax &&
             std::any_of(receives.begin(), receives.end(), [&](std::uint32_t step) { return !op.done[step]; });
    };
    const bool announced = std::any_of(op.keys.begin(), op.keys.end(), [](std::uint32_t key) { return key != 0; });
    if (op.state == OpState::kFailed && announced && std::any_of(peers_.begin(), peers_.end(), writes)) return false;
  }
  for (std::uint32_t& key : op.keys) {
    // Busy: the group was closed, and the QPs, which still send, are yet to be.
    if (key != 0 && device_->deregister_memory(key) == Status::kBusy) return false;
    key = 0;
  }
  return true;
}

// --- fork

std::unique_lock<std::mutex> Executor::enter() {
  ownership_.check();
  return std::unique_lock(mutex_);
}

void Executor::handle_fork(nic::ForkStage stage) {
  if (stage == nic::ForkStage::kBefore) return mutex_.lock();
  if (stage == nic::ForkStage::kInChild) leave_to_parent();
  mutex_.unlock();
}

void Executor::leave_to_parent() {
  ownership_.lose();
  for (const std::unique_ptr<Peer>& peer : peers_) peer->link.reset();
  for (Doorbell& bell : doorbells_) bell.close();
  stop_fd_.reset();
  // The child has neither the thread nor those that wait: joining the one or destroying the other would wait for ever.
  new (&thread_) std::thread;
  new (&something_done_) std::condition_variable;
}

// --- the thread

void Executor::run() {
  std::array<pollfd, 3> fds{
      {{device_->cq_fd(cq_), POLLIN, 0}, {doorbell(Sleeper::kThread).fd(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}}};
  int nap_ms = kNapMs;
  for (;;) {
    ::poll(fds.data(), fds.size(), nap_ms);
    std::uint64_t rings = 0;
    if (fds[0].revents != 0) {
      [[maybe_unused]] const ssize_t bytes = ::read(fds[0].fd, &rings, sizeof rings);
    }
    if (fds[1].revents != 0) doorbell(Sleeper::kThread).clear();
    const std::unique_lock guard(mutex_);
    if (stop_) return;
    forecast_.doubt(now_ns(), operations_.made(), spinners_ == 0 && operations_.running() > 0);
    if (spinners_ == 0 && operations_.running() > 0 && !forecast_.waits_expected()) drive();
    watch_later();
    nap_ms = forecast_.waits_expected() ? kShortNapMs : kNapMs;
  }
}

// The thread shall wake at the next completion or message in shared memory, unless somebody polls.
void Executor::watch() {
  while (spinners_ == 0 && operations_.running() > 0 && !device_->closed()) {
    watches_ = true;
    if (!device_->listen_cq(cq_) && !sleep_shared(Sleeper::kThread)) return;
    drive();
  }
}

void Executor::stop_watching() {
  if (!std::exchange(watches_, false)) return;
  device_->unlisten_cq(cq_);
  stay_awake(Sleeper::kThread);
}

// After a new operation. For those that nobody waits for after all the thread looks by time.
void Executor::watch_later() {
  if (!forecast_.waits_expected()) watch();
}

void Executor::drive() {
  std::array<Completion, kBatch> done;
  for (;;) {
    const std::size_t count = device_->poll_cq(cq_, done);
    for (std::size_t i = 0; i < count; ++i) handle(done[i]);
    const bool shared = take_shared();
    if (count == 0 && !shared && !shares_) return;  // room in a ring comes without a message
    for (const std::unique_ptr<Peer>& peer : peers_) {
      for (Lane& lane : peer->lanes) resume(*peer, lane);
    }
    work();
    post_receives(kOwedMax);
    if (count < done.size() && !shared) return;
  }
}

void Executor::handle(const Completion& done) {
  const auto found = by_qp_.find(done.qp);
  if (found == by_qp_.end()) return;
  Peer& peer = *peers_[found->second.first];
  Lane& lane = peer.lanes[found->second.second];
  if (done.opcode == WcOpcode::kWrite) {
    Operation* op = take_back(lane, done.wr_id);
    if (op != nullptr) {
      const auto step = static_cast<std::uint32_t>(done.wr_id & kStepMask);
      if (done.status == WcStatus::kSuccess && op->state == OpState::kRunning && !op->done[step]) finish(*op, step);
    }
  } else if (done.status == WcStatus::kSuccess) {
    ++lane.receives_owed;
    if (peer.failed) return;
    if (done.immediate == (kSlotFlag | kCreditFlag)) return check_credit(peer, lane);
    if ((done.immediate & kSlotFlag) != 0) {
      handle_message(peer, lane, done.immediate & ~kSlotFlag);
    } else {
      handle_direct(peer, done.immediate);
    }
    ++lane.immediates_taken;
    give_back(peer, lane);
  }
  if (done.status != WcStatus::kSuccess) broken_.emplace_back(peer.rank, done.status);
}

}  // namespace openmrc::collectives
