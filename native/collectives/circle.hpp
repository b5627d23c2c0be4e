// Ranks each of which may send one small message to all others at once, made by a transport for a group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/message.hpp"

namespace openmrc::collectives {

inline constexpr std::size_t kCircleRanksMax = 8;

class Circle {
 public:
  virtual ~Circle() = default;
  // False: not now, or never. Transport::put() reaches each of them.
  virtual bool put(std::uint8_t lane, const MessageHead& head, const void* data) = 0;
  // Takes the messages with this key of the ranks in `missing`, a bit for each of the others in ascending order, and
  // clears their bits. True: there were any.
  virtual bool take(std::uint64_t key, std::uint32_t& missing) = 0;
};

}  // namespace openmrc::collectives
