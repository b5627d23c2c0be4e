#include "collectives/executor.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "engine/base/assert.hpp"
#include "nic/clock.hpp"

namespace openmrc::collectives {
namespace {

using nic::now_ps;

constexpr std::uint32_t kSlotFlag = 1U << 31;    // the immediate names a slot; else operation and receive
constexpr std::uint32_t kCreditFlag = 1U << 30;  // with kSlotFlag: the peer's account has changed
constexpr std::uint32_t kPairBits = 16, kPairMask = (1U << kPairBits) - 1;
constexpr std::uint32_t kStepBits = 20, kStepMask = (1U << kStepBits) - 1;
constexpr std::uint32_t kOpSlotsMax = 1U << (31 - kPairBits);
constexpr std::uint64_t kGenerationMask = (1ULL << (64 - 16 - kStepBits)) - 1;
constexpr std::size_t kBatch = 64;
constexpr std::uint32_t kOwedMax = kCreditReceives / 2;  // receives that may be missing: those for data are there
constexpr int kNobody = -1;
constexpr const char* kNoRegion = "the device does not take more memory regions";
constexpr const char* kClosed = "the group was closed";
constexpr int kNapMs = 100;
constexpr TimePs kNap = 200 * kPsPerUs;
constexpr std::uint32_t kCreditCells = 16;  // an account under way is not overwritten by the next ones

constexpr std::size_t kEarlyMax = 1U << 16;  // messages of a peer for operations that have not begun here

static_assert(kPlanStepsMax <= kStepMask + 1ULL && kPlanPairsMax <= kPairMask + 1ULL && kOpSlotsMax <= 1U << 16);

}  // namespace

// A QP to a peer.
struct Executor::Lane {
  std::uint32_t qp = 0;
  std::uint8_t number = 0;
  std::uint64_t slots_sent = 0, immediates_sent = 0;    // towards the peer
  std::uint64_t slots_taken = 0, immediates_taken = 0;  // of what the peer sent
  Credit told;
  std::uint32_t credit_cell = 0;
  std::uint32_t receives_owed = 0;
  std::uint64_t posted = 0, completed = 0;
  std::deque<SendWr> backlog;  // the QP's queue was full
  std::deque<Ready> held;      // sends without a slot or a receive to send to
  std::deque<std::pair<MessageHead, std::vector<std::uint8_t>>> held_messages;  // announcements, before everything held
};

struct Executor::Peer {
  std::uint16_t rank = 0;
  std::uint64_t mailbox_address = 0;
  std::uint32_t mailbox_rkey = 0;
  std::vector<Lane> lanes;
  bool connected = false, failed = false;
  std::string reason;
  // What arrived for operations that have not begun here, by key.
  struct Early {
    MessageHead head;
    std::vector<std::uint8_t> data;
  };
  std::map<std::uint64_t, std::vector<Early>> early;
  std::size_t early_count = 0;
};

struct Executor::Op {
  OpId id = 0;
  std::uint32_t slot = 0;
  std::uint64_t key = 0;
  std::uint8_t lane = 0;
  std::shared_ptr<const Plan> plan;
  std::array<Memory, kPlanBuffersMax> buffers{};
  std::array<std::uint32_t, kPlanBuffersMax> keys{};
  std::vector<std::uint32_t> waits;
  std::vector<bool> done, posted;  // by step; posted: a direct send that the device has
  std::uint32_t left = 0;
  std::uint32_t reading = 0;  // posted sends that read from its buffers
  struct Remote {
    bool announced = false;
    std::uint32_t op_slot = 0;
    std::array<RemoteBuffer, kPlanBuffersMax> buffers{};
    std::vector<std::uint32_t> held;  // sends that wait for the announcement
  };
  std::vector<Remote> remotes;
  OpState state = OpState::kRunning;
  int failed_rank = kNobody;
  std::string reason;
};

Executor::Executor(std::shared_ptr<nic::Device> device, CqId cq, const ExecutorSettings& settings)
    : device_(std::move(device)),
      cq_(cq),
      settings_(settings),
      mailbox_(settings.ranks, settings.lanes),
      outbox_(settings.ranks, settings.lanes) {
  MRC_ASSERT(settings.rank < settings.ranks && settings.lanes > 0 && settings.recv_depth > 2 * kSlots);
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
  close();
  for (const std::uint32_t key : mailbox_keys_) device_->deregister_memory(key);
  device_->deregister_memory(outbox_key_);
}

void Executor::enlist(std::uint8_t* base, std::uint64_t bytes, std::uint8_t access, std::uint32_t& key) {
  if (device_->register_memory(base, bytes, access, key) != Status::kOk) throw std::runtime_error(kNoRegion);
}

void Executor::connect(std::uint16_t rank, std::span<const std::uint32_t> qps, std::uint64_t mailbox_address,
                       std::uint32_t mailbox_rkey) {
  const std::unique_lock guard(mutex_);
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
  const std::unique_lock guard(mutex_);
  const std::shared_ptr<Op> op = make_op(std::move(plan), key, lane, buffers);
  ++stats_.ops;
  ++running_;
  slots_by_key_[key] = op->slot;
  dead_keys_.erase(key);
  if (stop_) {
    end(*op, OpState::kFailed, kNobody, kClosed);
    return op->id;
  }
  for (const std::unique_ptr<Peer>& peer : peers_) {
    // Its part may be here already.
    if (!peer->failed || !op->plan->talks_to(peer->rank) || peer->early.contains(key)) continue;
    end(*op, OpState::kFailed, peer->rank, peer->reason);
    return op->id;
  }
  if (!enlist_buffers(*op)) {
    end(*op, OpState::kFailed, kNobody, kNoRegion);
    return op->id;
  }
  announce(*op);
  for (std::uint32_t i = 0; i < op->plan->step_count(); ++i) {
    if (op->waits[i] == 0 && op->plan->step(i).kind != StepKind::kReceive) ready_.push_back({op->slot, op->id, i});
  }
  if (op->left == 0) end(*op, OpState::kDone, kNobody, "");
  work();  // before what has come is looked at: if it does not fit, the peer shall find out, too
  take_early(*op);
  work();
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer->failed || op->state != OpState::kRunning || !needs(*op, peer->rank)) continue;
    end(*op, OpState::kFailed, peer->rank, peer->reason);
  }
  watch();
  return op->id;
}

std::shared_ptr<Executor::Op> Executor::make_op(std::shared_ptr<const Plan> plan, std::uint64_t key, std::uint8_t lane,
                                                std::span<const Memory> buffers) {
  MRC_ASSERT(lane < settings_.lanes && plan->config().ranks == settings_.ranks);
  auto op = std::make_shared<Op>();
  if (free_slots_.empty()) {
    if (ops_.size() == kOpSlotsMax) throw std::runtime_error("too many operations at once");
    op->slot = static_cast<std::uint32_t>(ops_.size());
    ops_.emplace_back();
  } else {
    op->slot = free_slots_.back();
    free_slots_.pop_back();
  }
  ops_[op->slot] = op;
  op->id = (next_generation_++ & kGenerationMask) << 16 | op->slot;
  op->key = key;
  op->lane = lane;
  op->plan = std::move(plan);
  op->waits = op->plan->wait_counts();
  op->left = op->plan->step_count();
  op->done.assign(op->left, false);
  op->posted.assign(op->left, false);
  op->remotes.resize(settings_.ranks);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    MRC_ASSERT(i < op->plan->config().buffer_bytes.size() && buffers[i].bytes >= op->plan->config().buffer_bytes[i]);
    op->buffers[i] = buffers[i];
  }
  return op;
}

// What travels directly is read and written by the device.
bool Executor::enlist_buffers(Op& op) {
  const bool written = op.plan->receives_more_than(kEagerBytesMax);
  if (!written && !op.plan->sends_more_than(kEagerBytesMax)) return true;
  const std::uint8_t access = written ? kRemoteWrite : kLocalRead;
  for (std::size_t i = 0; i < op.buffers.size(); ++i) {
    const Memory& buffer = op.buffers[i];
    if (buffer.bytes == 0) continue;
    if (device_->register_memory(buffer.base, buffer.bytes, access, op.keys[i]) != Status::kOk) {
      op.keys[i] = 0;
      return false;
    }
  }
  return true;
}

void Executor::take_early(Op& op) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    const auto found = peer->early.find(op.key);
    if (found == peer->early.end()) continue;
    const std::vector<Peer::Early> messages = std::move(found->second);
    peer->early.erase(found);
    peer->early_count -= messages.size();
    for (const Peer::Early& message : messages) {
      if (op.state == OpState::kRunning) take(op, peer->rank, message.head, message.data.data());
    }
  }
}

// Tells those that will write into our buffers where these are.
void Executor::announce(Op& op) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (op.plan->largest_receive(peer->rank) <= kEagerBytesMax || peer->failed) continue;
    std::array<RemoteBuffer, kPlanBuffersMax> own{};
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = {reinterpret_cast<std::uintptr_t>(op.buffers[i].base) + op.plan->shift(peer->rank, i), op.keys[i], 0};
    }
    Lane& lane = peer->lanes[op.lane];
    const MessageHead head{op.key, MessageHead::kAnnounce, 0, sizeof own, op.slot};
    if (lane.held_messages.empty() && put_message(*peer, lane, head, own.data())) continue;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(own.data());
    lane.held_messages.emplace_back(head, std::vector<std::uint8_t>(bytes, bytes + sizeof own));
  }
}

OpState Executor::state(OpId id) {
  const std::unique_lock guard(mutex_);
  Op* op = find(id);
  if (op == nullptr) return OpState::kUnknown;
  if (op->state == OpState::kRunning) drive();
  return op->state;
}

OpState Executor::wait(OpId id, std::int64_t timeout_ns) {
  const TimePs begun = now_ps();
  std::unique_lock guard(mutex_);
  const std::shared_ptr<Op> op = share(id);  // another thread may release it while we wait
  if (op == nullptr) return OpState::kUnknown;
  if (++spinners_ == 1) device_->unlisten_cq(cq_);
  device_->begin_polling();
  TimePs idle_since = begun;
  while (op->state == OpState::kRunning && !stop_) {
    guard.unlock();
    const TimePs idle = now_ps() - idle_since;
    const bool polls = idle < settings_.poll;
    const std::uint32_t datagrams = polls ? device_->progress() : device_->await_progress(kNap);
    if (datagrams > 0) idle_since = now_ps();
    guard.lock();
    drive();
    if (idle > settings_.spin || (timeout_ns >= 0 && now_ps() - begun > timeout_ns * kPsPerNs)) break;
  }
  --spinners_;
  watch();
  if (op->state != OpState::kRunning) return op->state;
  if (spinners_ == 0) device_->rest_polling();
  const auto over = [&op, this] { return op->state != OpState::kRunning || stop_; };
  if (timeout_ns < 0) {
    something_done_.wait(guard, over);
  } else {
    const std::int64_t spent_ns = (now_ps() - begun) / kPsPerNs;
    something_done_.wait_for(guard, std::chrono::nanoseconds(std::max<std::int64_t>(timeout_ns - spent_ns, 0)), over);
  }
  return op->state;
}

std::pair<int, std::string> Executor::failure(OpId id) {
  const std::unique_lock guard(mutex_);
  const Op* op = find(id);
  if (op == nullptr) return {kNobody, ""};
  return {op->failed_rank, op->reason};
}

bool Executor::release(OpId id) {
  const std::unique_lock guard(mutex_);
  Op* op = find(id);
  if (op == nullptr) return true;
  if (op->state == OpState::kRunning || !settled(*op)) return false;
  if (op->state == OpState::kFailed) {
    dead_keys_.insert(op->key);
    slots_by_key_.erase(op->key);
  }
  free_slots_.push_back(op->slot);
  ops_[op->slot].reset();
  return true;
}

void Executor::fail_peer(std::uint16_t rank, const std::string& reason, bool left) {
  const std::unique_lock guard(mutex_);
  drive();
  if (left) take_leave(rank);
  fail(*peers_[rank], reason);
}

// A rank that leaves has all that was sent to it; its last acknowledgements may be behind its goodbye, or lost.
void Executor::take_leave(std::uint16_t rank) {
  for (const std::shared_ptr<Op>& op : ops_) {
    if (op == nullptr || op->state != OpState::kRunning) continue;
    for (std::uint32_t i = 0; i < op->plan->step_count(); ++i) {
      const Step& step = op->plan->step(i);
      if (step.kind == StepKind::kSend && step.peer == rank && op->posted[i] && !op->done[i]) finish(*op, i);
    }
  }
  work();
}

// Whether something with this rank is still to happen; a rank that has done its part may go.
bool Executor::needs(const Op& op, std::uint16_t rank) const {
  if (!op.plan->talks_to(rank)) return false;
  for (std::uint32_t i = 0; i < op.plan->step_count(); ++i) {
    const Step& step = op.plan->step(i);
    const bool talks = step.kind == StepKind::kSend || step.kind == StepKind::kReceive;
    if (talks && step.peer == rank && !op.done[i]) return true;
  }
  return false;
}

void Executor::fail(Peer& peer, const std::string& reason) {
  if (peer.failed) return;
  peer.failed = true;
  peer.reason = reason;
  for (const std::shared_ptr<Op>& op : ops_) {
    if (op != nullptr && op->state == OpState::kRunning && needs(*op, peer.rank)) {
      end(*op, OpState::kFailed, peer.rank, reason);
    }
  }
}

bool Executor::flush(std::int64_t timeout_ns) {
  const TimePs until = now_ps() + timeout_ns * kPsPerNs;
  device_->rest_polling();  // nobody polls any more, and peers want their acknowledgements
  for (;;) {
    {
      const std::unique_lock guard(mutex_);
      drive();
      if (flushed() || stop_ || device_->closed()) return flushed();
    }
    if (now_ps() > until) return false;
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
  {
    const std::unique_lock guard(mutex_);
    if (stop_) return;
    stop_ = true;
    for (const std::shared_ptr<Op>& op : ops_) {
      if (op != nullptr && op->state == OpState::kRunning) end(*op, OpState::kFailed, kNobody, kClosed);
    }
    something_done_.notify_all();
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_fd_.get(), &one, sizeof one);
  thread_.join();
}

ExecutorStats Executor::stats() {
  const std::unique_lock guard(mutex_);
  return stats_;
}

Executor::Op* Executor::find(OpId id) { return share(id).get(); }

std::shared_ptr<Executor::Op> Executor::share(OpId id) {
  const auto slot = static_cast<std::uint32_t>(id & 0xFFFFU);
  if (slot >= ops_.size() || ops_[slot] == nullptr || ops_[slot]->id != id) return nullptr;
  return ops_[slot];
}

Executor::Op* Executor::by_key(std::uint64_t key) {
  const auto found = slots_by_key_.find(key);
  return found == slots_by_key_.end() ? nullptr : ops_[found->second].get();
}

void Executor::end(Op& op, OpState state, int rank, const std::string& reason) {
  if (op.state != OpState::kRunning) return;
  op.state = state;
  op.failed_rank = rank;
  op.reason = reason;
  // What peers still send for one that failed is known and dropped.
  if (state == OpState::kDone) slots_by_key_.erase(op.key);
  --running_;
  settled(op);
  something_done_.notify_all();
}

// Gives the buffers back as soon as no posted send reads from them, and nobody writes into them: peers do not know yet
// that an operation failed here, and a write that is refused would break the connection to one that is well.
bool Executor::settled(Op& op) {
  if (!stop_ && !device_->closed()) {
    if (op.reading > 0) return false;
    const auto writes = [&](const std::unique_ptr<Peer>& peer) {
      const auto receives = op.plan->receives(peer->rank);
      return !peer->failed && op.plan->largest_receive(peer->rank) > kEagerBytesMax &&
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

// --- the thread

void Executor::run() {
  std::array<pollfd, 2> fds{{{device_->cq_fd(cq_), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}}};
  for (;;) {
    ::poll(fds.data(), fds.size(), kNapMs);
    std::uint64_t rings = 0;
    if (fds[0].revents != 0) {
      [[maybe_unused]] const ssize_t bytes = ::read(fds[0].fd, &rings, sizeof rings);
    }
    const std::unique_lock guard(mutex_);
    if (stop_) return;
    if (spinners_ == 0 && running_ > 0) drive();
    watch();
  }
}

// The thread shall wake at the next completion, unless somebody polls.
void Executor::watch() {
  while (spinners_ == 0 && running_ > 0 && !device_->closed() && device_->listen_cq(cq_)) drive();
}

void Executor::drive() {
  std::array<Completion, kBatch> done;
  for (;;) {
    const std::size_t count = device_->poll_cq(cq_, done);
    for (std::size_t i = 0; i < count; ++i) handle(done[i]);
    for (const std::unique_ptr<Peer>& peer : peers_) {
      for (Lane& lane : peer->lanes) resume(*peer, lane);
    }
    work();
    post_receives(kOwedMax);
    if (count < done.size()) return;
  }
}

void Executor::handle(const Completion& done) {
  const auto found = by_qp_.find(done.qp);
  if (found == by_qp_.end()) return;
  Peer& peer = *peers_[found->second.first];
  Lane& lane = peer.lanes[found->second.second];
  if (done.opcode == WcOpcode::kWrite) {
    ++lane.completed;
    Op* op = done.wr_id == 0 ? nullptr : find(done.wr_id >> kStepBits);
    if (op != nullptr) {
      --op->reading;
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

// --- what arrives

// A peer that claims to have taken what was never sent would have us wait for ever, or write over what is under way.
void Executor::check_credit(Peer& peer, const Lane& lane) {
  const Credit credit = mailbox_.read_credit(peer.rank, lane.number);
  if (credit.slots > lane.slots_sent || credit.immediates > lane.immediates_sent) {
    protocol_error(peer, "its account says more than was sent to it");
  }
}

void Executor::handle_message(Peer& peer, Lane& lane, std::uint32_t slot) {
  if (slot >= kSlots) return protocol_error(peer, "it named a slot that does not exist");
  const std::uint8_t* at = mailbox_.base() + mailbox_.slot(peer.rank, lane.number, slot);
  MessageHead head;
  std::memcpy(&head, at, kHeadBytes);
  ++lane.slots_taken;
  if (head.bytes > kEagerBytesMax || (head.kind != MessageHead::kData && head.kind != MessageHead::kAnnounce)) {
    return protocol_error(peer, "it sent a message that cannot be read");
  }
  const std::uint8_t* data = at + kHeadBytes;
  Op* op = by_key(head.key);
  if (op != nullptr) {
    if (op->state == OpState::kRunning) take(*op, peer.rank, head, data);
    return;
  }
  if (dead_keys_.contains(head.key)) return;
  if (peer.early_count == kEarlyMax) return protocol_error(peer, "it is too many operations ahead");
  ++peer.early_count;
  ++stats_.early_messages;
  peer.early[head.key].push_back({head, std::vector<std::uint8_t>(data, data + head.bytes)});
}

void Executor::take(Op& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) {
  if (head.kind == MessageHead::kData) {
    take_data(op, rank, head, data);
  } else {
    take_announcement(op, rank, head, data);
  }
}

void Executor::take_data(Op& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) {
  const auto receives = op.plan->receives(rank);
  Peer& peer = *peers_[rank];
  if (head.pair_index >= receives.size()) return protocol_error(peer, "it sent more than the operation has");
  const std::uint32_t index = receives[head.pair_index];
  const Step& step = op.plan->step(index);
  if (step.bytes != head.bytes || op.done[index]) {
    return protocol_error(peer, "its part of the operation is another one than ours: sizes or types differ");
  }
  if (step.bytes > 0) std::memcpy(op.buffers[step.into_buffer].base + step.into_offset, data, step.bytes);
  finish(op, index);
}

void Executor::take_announcement(Op& op, std::uint16_t rank, const MessageHead& head, const std::uint8_t* data) {
  Op::Remote& remote = op.remotes[rank];
  Peer& peer = *peers_[rank];
  if (head.bytes != sizeof remote.buffers || head.op_slot >= kOpSlotsMax || remote.announced) {
    return protocol_error(peer, "it announced buffers that cannot be");
  }
  std::memcpy(remote.buffers.data(), data, sizeof remote.buffers);
  remote.op_slot = head.op_slot;
  remote.announced = true;
  for (const std::uint32_t step : remote.held) ready_.push_back({op.slot, op.id, step});
  remote.held.clear();
}

void Executor::handle_direct(Peer& peer, std::uint32_t immediate) {
  const std::uint32_t slot = immediate >> kPairBits, pair = immediate & kPairMask;
  ++stats_.direct_messages;
  Op* op = slot < ops_.size() ? ops_[slot].get() : nullptr;
  if (op != nullptr && op->state == OpState::kFailed) return;
  const auto receives = op == nullptr ? std::span<const std::uint32_t>{} : op->plan->receives(peer.rank);
  if (pair >= receives.size() || op->done[receives[pair]]) {
    return protocol_error(peer, "it wrote what nobody waits for");
  }
  finish(*op, receives[pair]);
}

void Executor::protocol_error(Peer& peer, const char* what) {
  ++stats_.protocol_errors;
  peer.early.clear();
  peer.early_count = 0;
  fail(peer, what);
}

// Tells the peer what we have taken, before it runs out.
void Executor::give_back(Peer& peer, Lane& lane) {
  const bool due = lane.slots_taken - lane.told.slots >= kSlots / 4 ||
                   lane.immediates_taken - lane.told.immediates >= settings_.recv_depth / 4;
  if (!due || peer.failed) return;
  lane.told = {lane.slots_taken, lane.immediates_taken};
  // Receives first: the peer may use what it is told at once.
  post_receives(0);
  static_assert(kCreditCells * sizeof(Credit) <= kCreditBytes);
  const std::size_t cell = outbox_.credit(peer.rank, lane.number) + lane.credit_cell++ % kCreditCells * sizeof(Credit);
  std::memcpy(outbox_.base() + cell, &lane.told, sizeof lane.told);
  SendWr wr;
  wr.opcode = WrOpcode::kWriteImm;
  wr.immediate = kSlotFlag | kCreditFlag;
  wr.lkey = outbox_key_;
  wr.local_address = reinterpret_cast<std::uintptr_t>(outbox_.base()) + cell;
  wr.length_bytes = sizeof(Credit);
  wr.remote_address = peer.mailbox_address + outbox_.credit(settings_.rank, lane.number);
  wr.rkey = peer.mailbox_rkey;
  post(lane, wr);
}

// Of those lanes that lack more than `owed`.
void Executor::post_receives(std::uint32_t owed) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    for (Lane& lane : peer->lanes) {
      if (lane.receives_owed <= owed) continue;
      device_->command([&lane](Engine& engine, TimePs) {
        while (lane.receives_owed > 0 && engine.post_recv(lane.qp, 0) == Status::kOk) --lane.receives_owed;
        return 0;
      });
    }
  }
}

// --- what leaves

void Executor::work() {
  while (!ready_.empty()) {
    const Ready next = ready_.front();
    ready_.pop_front();
    Op* op = ops_[next.op_slot].get();
    if (op != nullptr && op->id == next.op && op->state == OpState::kRunning) start(*op, next.step);
  }
  for (const auto& [rank, status] : std::exchange(broken_, {})) {
    fail(*peers_[rank],
         status == WcStatus::kRetryExceeded ? "it did not answer on any path" : "the connection to it broke");
  }
}

void Executor::start(Op& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  if (step.kind == StepKind::kSend) {
    Lane& lane = peers_[step.peer]->lanes[op.lane];
    const bool sent =
        lane.held.empty() && (step.bytes <= kEagerBytesMax ? send_small(op, index) : send_direct(op, index));
    if (!sent) lane.held.push_back({op.slot, op.id, index});
    return;
  }
  compute(op, step);
  finish(op, index);
}

void Executor::compute(Op& op, const Step& step) {
  const PlanConfig& config = op.plan->config();
  std::uint8_t* into = op.buffers[step.into_buffer].base + step.into_offset;
  const std::uint8_t* from = op.buffers[step.from_buffer].base + step.from_offset;
  const std::size_t count = static_cast<std::size_t>(step.bytes / element_bytes(config.type));
  switch (step.kind) {
    case StepKind::kReduce:
      stats_.reduced_bytes += step.bytes;
      reduce(config.type, config.op, into, from, count, step.reversed);
      return;
    case StepKind::kCopy:
      stats_.copied_bytes += step.bytes;
      if (step.bytes > 0) std::memmove(into, from, step.bytes);
      return;
    case StepKind::kScale:
      return scale(config.type, into, count, config.factor);
    case StepKind::kDivide:
      return divide(config.type, into, count, config.divisor);
    case StepKind::kSend:
    case StepKind::kReceive:
      MRC_ASSERT(false);
  }
}

// False: no slot is free.
bool Executor::send_small(Op& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  Peer& peer = *peers_[step.peer];
  const MessageHead head{op.key, MessageHead::kData, op.plan->pair_index(index), static_cast<std::uint32_t>(step.bytes),
                         0};
  if (!put_message(peer, peer.lanes[op.lane], head, op.buffers[step.from_buffer].base + step.from_offset)) return false;
  finish(op, index);  // it lies in the outbox: the buffer is free
  return true;
}

// False: the peer has no receive left for it. Without an announcement it waits for that alone.
bool Executor::send_direct(Op& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  Peer& peer = *peers_[step.peer];
  Lane& lane = peer.lanes[op.lane];
  Op::Remote& remote = op.remotes[step.peer];
  if (!remote.announced) {
    remote.held.push_back(index);
    return true;
  }
  if (!may_send(peer, lane, /*slot=*/false)) return false;
  const RemoteBuffer& into = remote.buffers[step.into_buffer];
  SendWr wr;
  wr.wr_id = op.id << kStepBits | index;
  wr.opcode = WrOpcode::kWriteImm;
  wr.lkey = op.keys[step.from_buffer];
  wr.local_address = reinterpret_cast<std::uintptr_t>(op.buffers[step.from_buffer].base) + step.from_offset;
  wr.length_bytes = step.bytes;
  wr.remote_address = into.address + step.into_offset;
  wr.rkey = into.rkey;
  wr.immediate = remote.op_slot << kPairBits | op.plan->pair_index(index);
  ++lane.immediates_sent;
  ++op.reading;
  op.posted[index] = true;
  post(lane, wr);
  return true;
}

bool Executor::put_message(Peer& peer, Lane& lane, const MessageHead& head, const void* data) {
  if (!may_send(peer, lane, /*slot=*/true)) return false;
  const auto slot = static_cast<std::uint32_t>(lane.slots_sent % kSlots);
  std::uint8_t* at = outbox_.base() + outbox_.slot(peer.rank, lane.number, slot);
  std::memcpy(at, &head, kHeadBytes);
  if (head.bytes > 0) std::memcpy(at + kHeadBytes, data, head.bytes);
  SendWr wr;
  wr.opcode = WrOpcode::kWriteImm;
  wr.lkey = outbox_key_;
  wr.local_address = reinterpret_cast<std::uintptr_t>(at);
  wr.length_bytes = kHeadBytes + head.bytes;
  wr.remote_address = peer.mailbox_address + mailbox_.slot(settings_.rank, lane.number, slot);
  wr.rkey = peer.mailbox_rkey;
  wr.immediate = kSlotFlag | slot;
  ++lane.slots_sent;
  ++lane.immediates_sent;
  ++stats_.slot_messages;
  post(lane, wr);
  return true;
}

bool Executor::may_send(Peer& peer, Lane& lane, bool slot) {
  if (peer.failed || !peer.connected) return false;
  const Credit credit = mailbox_.read_credit(peer.rank, lane.number);
  const bool receive = lane.immediates_sent - credit.immediates < settings_.recv_depth;
  return receive && (!slot || lane.slots_sent - credit.slots < kSlots);
}

void Executor::post(Lane& lane, const SendWr& wr) {
  ++lane.posted;
  if (!lane.backlog.empty() || device_->post_send(lane.qp, wr) == Status::kQueueFull) lane.backlog.push_back(wr);
}

// Goes on with what could not be sent: credits and completions have come.
void Executor::resume(Peer& peer, Lane& lane) {
  while (!lane.backlog.empty() && device_->post_send(lane.qp, lane.backlog.front()) != Status::kQueueFull) {
    lane.backlog.pop_front();
  }
  while (!lane.held_messages.empty()) {
    const auto& [head, data] = lane.held_messages.front();
    if (!put_message(peer, lane, head, data.data())) return;
    lane.held_messages.pop_front();
  }
  while (!lane.held.empty()) {
    const Ready next = lane.held.front();
    Op* op = ops_[next.op_slot].get();
    if (op != nullptr && op->id == next.op && op->state == OpState::kRunning) {
      const bool small = op->plan->step(next.step).bytes <= kEagerBytesMax;
      if (!(small ? send_small(*op, next.step) : send_direct(*op, next.step))) return;
    }
    lane.held.pop_front();
  }
}

void Executor::finish(Op& op, std::uint32_t index) {
  op.done[index] = true;
  for (const std::uint32_t next : op.plan->after(index)) {
    if (--op.waits[next] == 0) ready_.push_back({op.slot, op.id, next});
  }
  if (--op.left == 0) end(op, OpState::kDone, kNobody, "");
}

}  // namespace openmrc::collectives
