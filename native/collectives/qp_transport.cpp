#include "collectives/qp_transport.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

constexpr std::uint32_t kSlotFlag = 1U << 31;            // the immediate names a slot; else operation and receive
constexpr std::uint32_t kCreditFlag = 1U << 30;          // with kSlotFlag: the peer's account has changed
constexpr std::uint32_t kOwedMax = kCreditReceives / 2;  // receives that may be missing: those for data are there
constexpr std::uint32_t kCreditCells = 16;               // an account under way is not overwritten by the next ones
// The last free slots towards a peer are reserved for the oldest operation: its messages allow the peer's to begin,
// which frees the other slots.
constexpr std::uint64_t kReservedSlots = 8;
static_assert(kCreditCells * sizeof(Credit) <= kCreditBytes);

}  // namespace

QpTransport::QpTransport(std::shared_ptr<nic::Device> device, CqId cq, const ExecutorSettings& settings)
    : Transport({.in_place = true, .local = false, .overtaking = true, .accounts = true}),
      device_(std::move(device)),
      cq_(cq),
      cq_fd_(device_->cq_fd(cq)),
      takeover_(device_->cq_takeover(cq)),
      settings_(settings),
      mailbox_(settings.ranks, settings.lanes),
      outbox_(settings.ranks, settings.lanes),
      mailbox_keys_(settings.ranks),
      peers_(settings.ranks) {
  MRC_ASSERT(settings.recv_depth > 2 * kSlots);
  const auto require = [](bool enlisted) {
    if (!enlisted) throw std::runtime_error("the device does not take more memory regions");
  };
  // A key per peer: none can write where another one's messages arrive.
  const std::size_t area = settings.lanes * Mailbox::kAreaBytes;
  for (std::uint16_t rank = 0; rank < settings.ranks; ++rank) {
    peers_[rank].rank = rank;
    require(enlist({mailbox_.base() + rank * area, area}, /*peers_write=*/true, mailbox_keys_[rank], nullptr));
  }
  require(enlist({outbox_.base(), outbox_.size()}, /*peers_write=*/false, outbox_key_, nullptr));
}

QpTransport::~QpTransport() {
  if (lost_) return;
  for (const std::uint32_t key : mailbox_keys_) device_->deregister_memory(key);
  device_->deregister_memory(outbox_key_);
}

void QpTransport::connect(std::uint16_t rank, std::span<const std::uint32_t> qps, std::uint64_t mailbox_address,
                          std::uint32_t mailbox_rkey) {
  MRC_ASSERT(rank < peers_.size() && qps.size() == settings_.lanes);
  Peer& peer = peers_[rank];
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

// --- sending

bool QpTransport::put(std::uint16_t rank, std::uint8_t lane_number, const MessageHead& head, const void* data,
                      bool urgent) {
  Peer& peer = peers_[rank];
  if (peer.failed || !peer.connected) return false;
  Lane& lane = peer.lanes[lane_number];
  const Credit credit = mailbox_.read_credit(rank, lane_number);
  if (!may_send(peer, lane, credit)) return false;
  const std::uint64_t used = lane.slots_sent - credit.slots;
  if (used + kReservedSlots >= kSlots && (used >= kSlots || !urgent)) return false;
  const auto slot = static_cast<std::uint32_t>(lane.slots_sent % kSlots);
  std::uint8_t* at = outbox_.base() + outbox_.slot(rank, lane_number, slot);
  std::memcpy(at, &head, kHeadBytes);
  if (head.bytes > 0) std::memcpy(at + kHeadBytes, data, head.bytes);
  SendWr wr;
  wr.opcode = WrOpcode::kWriteImm;
  wr.lkey = outbox_key_;
  wr.local_address = reinterpret_cast<std::uintptr_t>(at);
  wr.length_bytes = kHeadBytes + head.bytes;
  wr.remote_address = peer.mailbox_address + mailbox_.slot(settings_.rank, lane_number, slot);
  wr.rkey = peer.mailbox_rkey;
  wr.immediate = kSlotFlag | slot;
  ++lane.slots_sent;
  ++lane.immediates_sent;
  ++slot_messages_;
  post(lane, wr);
  return true;
}

Transport::Sending QpTransport::send(std::uint16_t rank, std::uint8_t lane_number, const LargeMessage& message) {
  Peer& peer = peers_[rank];
  if (peer.failed || !peer.connected) return Sending::kNoRoom;
  Lane& lane = peer.lanes[lane_number];
  if (!may_send(peer, lane, mailbox_.read_credit(rank, lane_number))) return Sending::kNoRoom;
  SendWr wr;
  wr.wr_id = message.op << kStepBits | message.step;
  wr.opcode = WrOpcode::kWriteImm;
  wr.lkey = message.local_key;
  wr.local_address = reinterpret_cast<std::uintptr_t>(message.data);
  wr.length_bytes = message.bytes;
  wr.remote_address = message.remote_address;
  wr.rkey = message.remote_key;
  wr.immediate = message.head.op_slot << kPairBits | message.head.pair_index;
  ++lane.immediates_sent;
  post(lane, wr);
  return Sending::kPosted;
}

// True if the peer has a receive left.
bool QpTransport::may_send(const Peer& peer, const Lane& lane, const Credit& credit) const {
  return !peer.failed && lane.immediates_sent - credit.immediates < settings_.recv_depth;
}

void QpTransport::post(Lane& lane, const SendWr& wr) {
  ++lane.posted;
  if (lane.backlog.empty() && offer(lane, wr)) return;
  if (lane.backlog.empty()) ++backlogs_;
  lane.backlog.push_back(wr);
}

// False: the QP's queue is full. One that is broken takes nothing, and no completion will come.
bool QpTransport::offer(Lane& lane, const SendWr& wr) {
  const Status status = device_->post_send(lane.qp, wr);
  if (status == Status::kQueueFull) return false;
  if (status != Status::kOk) take_back(lane, wr.wr_id, /*arrived=*/false);
  return true;
}

void QpTransport::retry() {
  if (backlogs_ == 0) return;
  for (Peer& peer : peers_) {
    for (Lane& lane : peer.lanes) {
      if (lane.backlog.empty()) continue;
      while (!lane.backlog.empty() && offer(lane, lane.backlog.front())) lane.backlog.pop_front();
      if (lane.backlog.empty()) --backlogs_;
    }
  }
}

// The device has done with it: its memory is not read any more.
void QpTransport::take_back(Lane& lane, std::uint64_t wr_id, bool arrived) {
  ++lane.completed;
  if (wr_id != 0) receiver().take_sent(wr_id >> kStepBits, static_cast<std::uint32_t>(wr_id & kStepMask), arrived);
}

// --- receiving

Transport::Arrivals QpTransport::poll() {
  const std::size_t count = device_->poll_cq(cq_, done_);
  for (std::size_t i = 0; i < count; ++i) handle(done_[i]);
  return count == 0 ? Arrivals::kNothing : count < done_.size() ? Arrivals::kSome : Arrivals::kMore;
}

void QpTransport::handle(const Completion& done) {
  const auto found = by_qp_.find(done.qp);
  if (found == by_qp_.end()) return;
  Peer& peer = peers_[found->second.first];
  Lane& lane = peer.lanes[found->second.second];
  const bool success = done.status == WcStatus::kSuccess;
  if (done.opcode == WcOpcode::kWrite) {
    take_back(lane, done.wr_id, success);
  } else if (success) {
    ++lane.receives_owed;
    if (!peer.failed) handle_immediate(peer, lane, done.immediate, done.bytes);
  }
  if (success) return;
  receiver().take_loss(peer.rank, done.status == WcStatus::kRetryExceeded ? "it did not answer on any path"
                                                                          : "the connection to it broke");
}

void QpTransport::handle_immediate(Peer& peer, Lane& lane, std::uint32_t immediate, std::uint64_t bytes) {
  if (immediate == (kSlotFlag | kCreditFlag)) return check_credit(peer, lane);
  if ((immediate & kSlotFlag) != 0) {
    handle_message(peer, lane, immediate & ~kSlotFlag);
  } else {
    ++direct_messages_;
    receiver().take_written(peer.rank, immediate >> kPairBits, immediate & kPairMask, bytes);
  }
  ++lane.immediates_taken;
  give_back(peer, lane);
}

// A peer that claims to have taken messages never sent would make us wait for ever, or overwrite messages in flight.
void QpTransport::check_credit(const Peer& peer, const Lane& lane) {
  const Credit credit = mailbox_.read_credit(peer.rank, lane.number);
  if (credit.slots > lane.slots_sent || credit.immediates > lane.immediates_sent) {
    receiver().take_breach(peer.rank, "its account says more than was sent to it");
  }
}

void QpTransport::handle_message(Peer& peer, Lane& lane, std::uint32_t slot) {
  if (slot >= kSlots) return receiver().take_breach(peer.rank, "it named a slot that does not exist");
  const std::uint8_t* at = mailbox_.base() + mailbox_.slot(peer.rank, lane.number, slot);
  MessageHead head;
  std::memcpy(&head, at, kHeadBytes);
  const bool withholds = receiver().take_message(peer.rank, head, at + kHeadBytes);
  ++(withholds ? lane.withheld : lane.slots_taken);
}

void QpTransport::make_room(std::uint16_t rank) {
  Peer& peer = peers_[rank];
  for (Lane& lane : peer.lanes) {
    if (lane.withheld == 0) continue;
    lane.slots_taken += std::exchange(lane.withheld, 0);
    give_back(peer, lane);
  }
}

// Tells the peer what we have taken, before it runs out.
void QpTransport::give_back(Peer& peer, Lane& lane) {
  // With slots withheld the peer has few, and waits for each.
  const std::uint64_t slots_due = lane.withheld > 0 ? 1 : kSlots / 4;
  const bool due = lane.slots_taken - lane.told.slots >= slots_due ||
                   lane.immediates_taken - lane.told.immediates >= settings_.recv_depth / 4;
  if (!due || peer.failed) return;
  lane.told = {lane.slots_taken, lane.immediates_taken};
  // Receives are posted before the peer learns of them, as it may use them at once.
  post_receives(0);
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

void QpTransport::replenish() { post_receives(kOwedMax); }

// Of those lanes that lack more than `owed`.
void QpTransport::post_receives(std::uint32_t owed) {
  for (Peer& peer : peers_) {
    for (Lane& lane : peer.lanes) {
      if (lane.receives_owed <= owed) continue;
      std::uint32_t posted = 0;
      device_->post_recvs(lane.qp, 0, lane.receives_owed, posted);
      lane.receives_owed -= posted;
    }
  }
}

// --- the device

bool QpTransport::enlist(const Memory& memory, bool peers_write, std::uint32_t& key,
                         const std::shared_ptr<Placer>& placer) {
  const std::uint8_t access = peers_write ? kRemoteWrite : kLocalRead;
  const Status status =
      device_->register_memory(memory.base, memory.bytes, access, key, settings_.domain, std::nullopt, placer);
  if (status == Status::kOk) return true;
  key = 0;
  return false;
}

// Busy: the group was closed, and the QPs, which still send, are yet to be.
bool QpTransport::delist(std::uint32_t key) { return device_->deregister_memory(key) != Status::kBusy; }

bool QpTransport::arm(Sleeper sleeper) { return sleeper == Sleeper::kThread && device_->listen_cq(cq_); }

void QpTransport::disarm(Sleeper sleeper) {
  if (sleeper == Sleeper::kThread) device_->unlisten_cq(cq_);
}

int QpTransport::descriptor(Sleeper sleeper) const { return sleeper == Sleeper::kThread ? cq_fd_ : -1; }

void QpTransport::clear(Sleeper sleeper) {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(descriptor(sleeper), &rings, sizeof rings);
}

std::uint32_t QpTransport::progress() { return device_->progress(); }

std::uint32_t QpTransport::await(nic::TimeNs longest, int also) { return device_->await_progress(longest, also); }

void QpTransport::attend(nic::TimeNs span) {
  takeover_->store(true, std::memory_order_relaxed);
  device_->begin_polling(span);
}

bool QpTransport::attended() const { return device_->polled(); }

void QpTransport::rest() { device_->rest_polling(); }

void QpTransport::stop(std::uint16_t rank) { peers_[rank].failed = true; }

bool QpTransport::flushed() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.failed || std::all_of(peer.lanes.begin(), peer.lanes.end(),
                                      [](const Lane& lane) { return lane.posted == lane.completed; });
  });
}

bool QpTransport::closed() const { return device_->closed(); }

void QpTransport::leave_to_parent() { lost_ = true; }

void QpTransport::add_to(ExecutorStats& stats) const {
  stats.slot_messages += slot_messages_;
  stats.direct_messages += direct_messages_;
}

}  // namespace openmrc::collectives
