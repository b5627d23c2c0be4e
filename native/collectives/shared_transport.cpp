#include "collectives/shared_transport.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "collectives/shared_circle.hpp"
#include "engine/base/assert.hpp"
#include "nic/clock.hpp"
#include "nic/error.hpp"

namespace openmrc::collectives {
SharedTransport::SharedTransport(const ExecutorSettings& settings)
    : Transport({.in_place = false, .local = true, .overtaking = false, .accounts = false}),
      rank_(settings.rank),
      lanes_(settings.lanes),
      peers_(settings.ranks) {
  for (std::uint16_t rank = 0; rank < settings.ranks; ++rank) peers_[rank].rank = rank;
}

SharedTransport::~SharedTransport() = default;

std::optional<SharedOffer> SharedTransport::offer(std::uint16_t rank) {
  MRC_ASSERT(rank < peers_.size() && peers_[rank].link == nullptr);
  std::unique_ptr<SharedLink>& link = peers_[rank].link;
  try {
    link = std::make_unique<SharedLink>(lanes_);
    make_board();
    peers_[rank].reads = board_file_ != ProcessFile{};
    return SharedOffer{link->memory(), {doorbells_[0].file(), doorbells_[1].file()}, board_file_};
  } catch (const nic::NicError&) {  // a sandbox, or a limit on descriptors, files or memory
    link.reset();
    return std::nullopt;
  }
}

// Without a board every message goes to one rank.
void SharedTransport::make_board() {
  if (board_.valid()) return;
  try {
    board_ = SharedMemory(kBoardBytes, SharedMemory::Access::kRead);
    board_file_ = board_.file();
  } catch (const nic::NicError&) {  // likewise, or a kernel without the seal
    board_ = {};
  }
}

bool SharedTransport::open(std::uint16_t rank, const SharedOffer& offer) {
  MRC_ASSERT(rank < peers_.size() && !peers_[rank].used);
  Peer& peer = peers_[rank];
  if (peer.link == nullptr || !peer.link->open(offer)) return false;
  if (offer.board == ProcessFile{}) return true;
  peer.board = SharedMemory::open(offer.board, kBoardBytes, SharedMemory::Access::kRead);
  return peer.board.valid();
}

void SharedTransport::use(std::uint16_t rank, bool agreed) {
  MRC_ASSERT(rank < peers_.size() && (!agreed || peers_[rank].link != nullptr));
  board_.hide();
  board_file_ = {};
  Peer& peer = peers_[rank];
  if (!agreed) {
    peer.link.reset();
    peer.board = {};
    return;
  }
  peer.link->hide();
  peer.leaving.resize(lanes_);
  peer.used = true;
  used_.push_back(&peer);
}

// --- sending

bool SharedTransport::put(std::uint16_t rank, std::uint8_t lane, const MessageHead& head, const void* data,
                          bool /*urgent*/) {
  return put(peers_[rank], lane, {head, 0}, data);
}

bool SharedTransport::put(Peer& peer, std::uint8_t lane, const RingHead& head, const void* data) {
  if (peer.failed || !peer.used) return false;
  const RingAnswer answer = peer.link->put(lane, head, data);
  if (answer == RingAnswer::kBroken) receiver().take_breach(peer.rank, "its account says more than was sent to it");
  return answer == RingAnswer::kOk;
}

Circle* SharedTransport::circle(std::uint64_t group, std::span<const std::uint16_t> others) {
  std::unique_ptr<BoardCircle>& circle = circles_[group];
  if (circle == nullptr) circle = std::make_unique<BoardCircle>(*this, group + 1, others);
  MRC_ASSERT(circle->is_of(others));
  return circle.get();
}

void SharedTransport::place(bool large) {
  if (!board_.valid()) return;
  const auto report = [this] {
    const int now = RankPlacement::current();
    if (now >= 0 && std::exchange(processor_, now) != now) report_processor(board_.base(), now);
  };
  report();
  if (!(large ? placement_.due(nic::now_ns()) : placement_.due())) return;
  std::vector<int> processors;
  for (Peer& peer : peers_) {
    if (peer.rank == rank_) {
      processors.push_back(processor_);
    } else {
      processors.push_back(peer.used && !peer.failed && peer.board.valid() ? processor_of(peer.board.base()) : -1);
    }
  }
  if (placement_.improve(processors, rank_) && !large) placement_.look_less_often();
  report();
}

// As much as the ring has room for; the rest goes when there is more.
Transport::Sending SharedTransport::send(std::uint16_t rank, std::uint8_t lane, const LargeMessage& message) {
  Peer& peer = peers_[rank];
  if (!peer.used) return Sending::kNoRoom;
  Leaving& leaving = peer.leaving[lane];
  // One that was given up leaves nothing to go on with.
  if (leaving.op != message.op || leaving.step != message.step) leaving = {.op = message.op, .step = message.step};
  if (leaving.bytes == 0) place(/*large=*/true);
  RingHead part{message.head, 0};
  part.message.kind = MessageHead::kPart;
  part.message.op_slot = 0;
  while (leaving.bytes < message.bytes) {
    const std::uint64_t bytes = std::min<std::uint64_t>(message.bytes - leaving.bytes, kPartBytesMax);
    part.message.bytes = static_cast<std::uint32_t>(bytes);
    part.left = message.bytes - leaving.bytes - bytes;
    if (!put(peer, lane, part, message.data + leaving.bytes)) return Sending::kNoRoom;
    leaving.bytes += bytes;
  }
  leaving = {};
  return Sending::kSent;
}

// --- receiving

Transport::Arrivals SharedTransport::poll() {
  const std::uint64_t before = messages();
  take(kCells);
  return messages() == before ? Arrivals::kSome : Arrivals::kMore;  // room in a ring comes without a message
}

bool SharedTransport::look() {
  const std::uint64_t before = messages();
  take(1);
  return messages() != before;
}

void SharedTransport::take(std::size_t cells) {
  for (Peer* peer : used_) {
    for (std::uint8_t lane = 0; lane < lanes_; ++lane) take_lane(*peer, lane, cells);
  }
}

// Takes the pending messages, those of at most `cells` cells; later ones wait until the resulting work is done.
void SharedTransport::take_lane(Peer& peer, std::uint8_t lane, std::size_t cells) {
  take_cells(peer, lane, cells);
  if (peer.failed) return;
  RingReader& reader = peer.link->reader(lane);
  RingMessage message;
  RingAnswer answer = reader.look();
  while (answer == RingAnswer::kOk && (answer = reader.next(message)) == RingAnswer::kOk) {
    const MessageHead& head = message.head.message;
    count(head);
    if (head.kind == MessageHead::kPart) {
      receiver().take_part(peer.rank, lane, head, message.head.left, message.data);
    } else {
      receiver().take_message(peer.rank, head, message.data);
    }
    peer.link->pop(lane);
    if (peer.failed) return;
  }
  if (answer == RingAnswer::kBroken) receiver().take_breach(peer.rank, kUnreadable);
}

void SharedTransport::take_cells(Peer& peer, std::uint8_t lane, std::size_t cells) {
  CellReader& reader = peer.link->cells(lane);
  RingMessage message;
  for (std::size_t i = 0; i < cells && !peer.failed; ++i) {
    const RingAnswer answer = reader.next(message);
    if (answer == RingAnswer::kNothing) return;
    if (answer == RingAnswer::kBroken) return receiver().take_breach(peer.rank, kUnreadable);
    count(message.head.message);
    receiver().take_message(peer.rank, message.head.message, message.data);
    reader.pop();
  }
}

void SharedTransport::count(const MessageHead& head) {
  count_message();
  bytes_ += head.bytes;
}

// --- sleeping

bool SharedTransport::arm(Sleeper sleeper) {
  bool something = false;
  for (Peer* peer : used_) {
    if (!peer->failed) something = peer->link->sleep(sleeper) || something;
  }
  return something;
}

void SharedTransport::disarm(Sleeper sleeper) {
  for (Peer* peer : used_) peer->link->stay_awake(sleeper);
}

int SharedTransport::descriptor(Sleeper sleeper) const { return doorbells_[static_cast<std::size_t>(sleeper)].fd(); }

void SharedTransport::clear(Sleeper sleeper) { doorbells_[static_cast<std::size_t>(sleeper)].clear(); }

// Until a peer rings. No hardware, no datagrams.
std::uint32_t SharedTransport::await(nic::TimeNs longest, int also) {
  const timespec limit{longest / nic::kNsPerSecond, longest % nic::kNsPerSecond};
  std::array<pollfd, 2> fds{{{descriptor(Sleeper::kWaiter), POLLIN, 0}, {also, POLLIN, 0}}};
  if (::ppoll(fds.data(), fds.size(), &limit, nullptr) > 0 && fds[0].revents != 0) clear(Sleeper::kWaiter);
  return 0;
}

// --- the end

void SharedTransport::stop(std::uint16_t rank) { peers_[rank].failed = true; }

void SharedTransport::leave_to_parent() {
  used_.clear();
  circles_.clear();
  for (Peer& peer : peers_) peer.link.reset(), peer.board = {};
  board_ = {};
  for (Doorbell& bell : doorbells_) bell.close();
}

void SharedTransport::add_to(ExecutorStats& stats) const {
  stats.shared_messages += messages();
  stats.shared_bytes += bytes_;
}

}  // namespace openmrc::collectives
