#include "collectives/shared_link.hpp"

namespace openmrc::collectives {
namespace {

constexpr std::size_t kLaneBytes = kRingAreaBytes + kCellAreaBytes;
static_assert(kRingAreaBytes % alignof(Cell) == 0 && kLaneBytes % alignof(RingControl) == 0);

std::uint32_t bit(Sleeper sleeper) { return 1U << static_cast<std::uint8_t>(sleeper); }

}  // namespace

SharedLink::SharedLink(std::uint32_t lanes) : lanes_(lanes), incoming_(lanes * kLaneBytes) {
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::uint8_t* area = incoming_.base() + lane * kLaneBytes;
    readers_.emplace_back(area);
    cell_readers_.emplace_back(area + kRingAreaBytes);
  }
}

bool SharedLink::open(const SharedOffer& offer) {
  outgoing_ = SharedMemory::open(offer.memory, lanes_ * kLaneBytes);
  if (!outgoing_.valid()) return false;
  for (std::size_t i = 0; i < kSleepers; ++i) {
    if (!doorbells_[i].open(offer.doorbells[i])) return false;
  }
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
    std::uint8_t* area = outgoing_.base() + lane * kLaneBytes;
    writers_.emplace_back(area);
    cell_writers_.emplace_back(area + kRingAreaBytes);
  }
  return true;
}

RingAnswer SharedLink::put(std::uint32_t lane, const RingHead& head, const void* data) {
  const MessageHead& message = head.message;
  const bool small = message.kind != MessageHead::kPart && message.bytes <= kCellBytesMax;
  const bool in_cell = small && cell_writers_[lane].put(message, data);
  const RingAnswer answer = in_cell ? RingAnswer::kOk : writers_[lane].put(head, data);
  if (answer == RingAnswer::kOk) wake(lane);
  return answer;
}

void SharedLink::pop(std::uint32_t lane) {
  if (readers_[lane].pop()) ring(writers_[lane].sleepers());
}

bool SharedLink::sleep(Sleeper sleeper) {
  bool something = false;
  for (RingReader& reader : readers_) something = reader.sleep(bit(sleeper)) || something;
  for (CellReader& reader : cell_readers_) something = reader.filled() || something;
  for (RingWriter& writer : writers_) something = writer.freed() || something;
  return something;
}

void SharedLink::stay_awake(Sleeper sleeper) {
  for (RingReader& reader : readers_) reader.stay_awake(bit(sleeper));
}

void SharedLink::ring(std::uint32_t sleepers) {
  for (std::size_t i = 0; i < kSleepers; ++i) {
    if ((sleepers >> i & 1U) != 0) doorbells_[i].ring();
  }
}

}  // namespace openmrc::collectives
