// Between ranks that share memory: the same messages as over QPs, through rings. What the peer writes is not trusted.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "collectives/executor_state.hpp"
#include "engine/base/assert.hpp"
#include "nic/error.hpp"

namespace openmrc::collectives {
namespace {

constexpr const char* kUnreadable = "it wrote into shared memory what cannot be read";

}  // namespace

std::optional<SharedOffer> Executor::offer_memory(std::uint16_t rank) {
  const auto guard = enter();
  MRC_ASSERT(rank < peers_.size() && rank != settings_.rank && peers_[rank]->link == nullptr);
  std::unique_ptr<SharedLink>& link = peers_[rank]->link;
  try {
    link = std::make_unique<SharedLink>(settings_.lanes);
    return SharedOffer{link->memory(), {doorbells_[0].file(), doorbells_[1].file()}};
  } catch (const nic::NicError&) {  // a sandbox, or a limit on descriptors, files or memory
    link.reset();
    return std::nullopt;
  }
}

bool Executor::open_memory(std::uint16_t rank, const SharedOffer& offer) {
  const auto guard = enter();
  MRC_ASSERT(rank < peers_.size() && !peers_[rank]->shares);
  return peers_[rank]->link != nullptr && peers_[rank]->link->open(offer);
}

void Executor::use_memory(std::uint16_t rank, bool agreed) {
  const auto guard = enter();
  MRC_ASSERT(rank < peers_.size() && (!agreed || peers_[rank]->link != nullptr));
  Peer& peer = *peers_[rank];
  if (!agreed) {
    peer.link.reset();
    return;
  }
  peer.link->hide();
  peer.shares = shares_ = true;
}

bool Executor::sleep_shared(Sleeper sleeper) {
  bool something = false;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer->shares && !peer->failed) something = peer->link->sleep(sleeper) || something;
  }
  return something;
}

void Executor::stay_awake(Sleeper sleeper) {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer->shares) peer->link->stay_awake(sleeper);
  }
}

// One look. The I/O thread looks after the device meanwhile. True: something came.
bool Executor::poll_shared(std::unique_lock<std::mutex>& guard) {
  const bool something = take_shared();
  for (const std::unique_ptr<Peer>& peer : peers_) {
    for (Lane& lane : peer->lanes) resume(*peer, lane);
  }
  work();
  if (something) return true;
  guard.unlock();
  std::this_thread::yield();  // whom we wait for may need this processor
  guard.lock();
  return false;
}

// Asleep until a peer on this host rings.
std::uint32_t Executor::await_shared() {
  Doorbell& bell = doorbell(Sleeper::kWaiter);
  const timespec longest{0, kNap};
  pollfd wait{bell.fd(), POLLIN, 0};
  if (::ppoll(&wait, 1, &longest, nullptr) > 0) bell.clear();
  return 0;
}

bool Executor::take_shared() {
  const std::uint64_t before = stats_.shared_messages;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer->shares) continue;
    for (Lane& lane : peer->lanes) take_ring(*peer, lane);
  }
  return stats_.shared_messages != before;
}

// What is there now; what comes meanwhile has its turn after the work that follows from this.
void Executor::take_ring(Peer& peer, Lane& lane) {
  take_cells(peer, lane);
  if (peer.failed) return;
  RingReader& reader = peer.link->reader(lane.number);
  RingMessage message;
  RingAnswer answer = reader.look();
  while (answer == RingAnswer::kOk && (answer = reader.next(message)) == RingAnswer::kOk) {
    ++stats_.shared_messages;
    stats_.shared_bytes += message.head.message.bytes;
    if (message.head.message.kind == MessageHead::kPart) {
      take_part(peer, lane, message.head, message.data);
    } else {
      take_message(peer, message.head.message, message.data);
    }
    peer.link->pop(lane.number);
    if (peer.failed) return;
  }
  if (answer == RingAnswer::kBroken) protocol_error(peer, kUnreadable);
}

void Executor::take_cells(Peer& peer, Lane& lane) {
  CellReader& reader = peer.link->cells(lane.number);
  RingMessage message;
  for (std::size_t i = 0; i < kCells && !peer.failed; ++i) {
    const RingAnswer answer = reader.next(message);
    if (answer == RingAnswer::kNothing) return;
    if (answer == RingAnswer::kBroken) return protocol_error(peer, kUnreadable);
    ++stats_.shared_messages;
    stats_.shared_bytes += message.head.message.bytes;
    take_message(peer, message.head.message, message.data);
    reader.pop();
  }
}

void Executor::take_part(Peer& peer, Lane& lane, const RingHead& head, const std::uint8_t* data) {
  const MessageHead& part = head.message;
  Operation* op = operations_.by_key(part.key);
  if (op == nullptr ? operations_.dead(part.key) : op->state != OpState::kRunning) return;
  if (op != nullptr && !agrees(*op, peer, part)) return;
  const auto receives = op == nullptr ? std::span<const std::uint32_t>{} : op->plan->receives(peer.rank);
  if (part.pair_index >= receives.size() || op->done[receives[part.pair_index]]) {
    return protocol_error(peer, "it wrote what nobody waits for");
  }
  const std::uint32_t index = receives[part.pair_index];
  const Step& step = op->plan->step(index);
  Lane::Arriving& arriving = lane.arriving;
  // A message that its sender gave up is followed by another one.
  if (arriving.key != part.key || arriving.pair_index != part.pair_index) {
    arriving = {part.key, part.pair_index, 0, reduces_now(*op, index)};
  }
  const bool fits = head.left <= step.bytes && part.bytes <= step.bytes - head.left;
  if (!fits || step.bytes - head.left - part.bytes != arriving.bytes) {
    return protocol_error(peer, "its call differs in operation, size or element type; make the same call at all ranks");
  }
  if (!arriving.reducing) {
    std::memcpy(op->buffers[step.into_buffer].base + step.into_offset + arriving.bytes, data, part.bytes);
  } else if (part.bytes % element_bytes(op->plan->config().type) == 0) {
    reduce_from(*op, index, arriving.bytes, data, part.bytes);
  } else {
    return protocol_error(peer, "it cut an element in two");
  }
  arriving.bytes += part.bytes;
  if (head.left > 0) return;
  const bool reduced = std::exchange(arriving, {}).reducing;
  finish_receive(*op, index, reduced);
}

bool Executor::put_shared(Peer& peer, const Lane& lane, const RingHead& head, const void* data) {
  if (peer.failed || !peer.connected) return false;
  const RingAnswer answer = peer.link->put(lane.number, head, data);
  if (answer == RingAnswer::kBroken) protocol_error(peer, "its account says more than was sent to it");
  return answer == RingAnswer::kOk;
}

// False: the ring is full; the rest goes when there is room.
bool Executor::send_parts(Operation& op, std::uint32_t index) {
  const Step& step = op.plan->step(index);
  Peer& peer = *peers_[step.peer];
  Lane& lane = peer.lanes[op.lane];
  const std::uint8_t* from = op.buffers[step.from_buffer].base + step.from_offset;
  while (lane.left_bytes < step.bytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(step.bytes - lane.left_bytes, kPartBytesMax);
    RingHead head;
    head.message = {op.key, MessageHead::kPart,    op.plan->pair_index(index), static_cast<std::uint32_t>(bytes),
                    0,      op.plan->config().call};
    head.left = step.bytes - lane.left_bytes - bytes;
    if (!put_shared(peer, lane, head, from + lane.left_bytes)) return false;
    lane.left_bytes += bytes;
  }
  lane.left_bytes = 0;
  finish(op, index);
  return true;
}

}  // namespace openmrc::collectives
