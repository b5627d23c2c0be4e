#include "collectives/shared_circle.hpp"

#include <algorithm>
#include <atomic>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {

SharedTransport::BoardCircle::BoardCircle(SharedTransport& transport, std::uint64_t group,
                                          std::span<const std::uint16_t> others)
    : transport_(transport), group_(group), writer_(nullptr) {
  MRC_ASSERT(others.size() < kCircleRanksMax && std::is_sorted(others.begin(), others.end()));
  const auto is_read = [&](std::uint16_t rank) { return transport.peers_[rank].used && transport.peers_[rank].reads; };
  if (transport.board_.valid() && std::all_of(others.begin(), others.end(), is_read)) {
    own_ = own_area(transport.board_.base(), group);
    writer_ = BoardWriter(own_);
  }
  for (const std::uint16_t rank : others) {
    members_.push_back({.peer = &transport.peers_[rank], .area = nullptr, .reader = {}});
    own_number_ += rank < transport.rank_ ? 1 : 0;
  }
}

bool SharedTransport::BoardCircle::is_of(std::span<const std::uint16_t> others) const {
  return std::equal(members_.begin(), members_.end(), others.begin(), others.end(),
                    [](const Member& member, std::uint16_t rank) { return member.peer->rank == rank; });
}

bool SharedTransport::BoardCircle::put(std::uint8_t lane, const MessageHead& head, const void* data) {
  if (own_ == nullptr || head.bytes > kCellBytesMax || !find_room()) return false;
  transport_.place(/*large=*/false);  // before it: the others find this rank where it will be
  writer_.put(head, data);
  for (const Member& member : members_) member.peer->link->wake(lane);
  return true;
}

// A member that has not reached its first operation in this group has no area.
bool SharedTransport::BoardCircle::find_room() {
  if (writer_.has_room()) return true;
  std::uint64_t taken = ~std::uint64_t{0};
  for (Member& member : members_) {
    if (member.area == nullptr) return false;
    std::uint64_t& word = member.area->taken[own_number_];
    taken = std::min(taken, std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire));
  }
  return writer_.note_taken(taken) && writer_.has_room();
}

bool SharedTransport::BoardCircle::take(std::uint64_t key, std::uint32_t& missing) {
  bool something = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if ((missing >> i & 1U) != 0) something = take(i, key, missing) || something;
  }
  return something;
}

bool SharedTransport::BoardCircle::take(std::size_t number, std::uint64_t key, std::uint32_t& missing) {
  Member& member = members_[number];
  if (member.peer->failed || !member.peer->board.valid()) return false;
  if (member.area == nullptr && (member.area = area_of(member.peer->board.base(), group_)) == nullptr) return false;
  RingMessage message;
  const RingAnswer answer = member.reader.find(*member.area, key, message);
  if (answer == RingAnswer::kNothing) return false;
  missing &= ~(1U << number);
  if (answer == RingAnswer::kBroken) {
    transport_.receiver().take_breach(member.peer->rank, kUnreadable);
    return true;
  }
  transport_.count(message.head.message);
  transport_.receiver().take_message(member.peer->rank, message.head.message, message.data);
  member.reader.pop();
  if (own_ != nullptr) {
    const std::size_t place = number + (number >= own_number_ ? 1 : 0);
    std::atomic_ref<std::uint64_t>(own_->taken[place]).store(member.reader.taken(), std::memory_order_release);
  }
  return true;
}

}  // namespace openmrc::collectives
