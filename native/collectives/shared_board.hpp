// Messages from one process to several others, in memory that its owner writes and the others only read. Each group of
// ranks has an area of cells, used in turn. A message to all ranks of a group takes one write, where cells between pairs
// take one for each of them and two accounts.
//
// As in the ring, no side trusts another: an owner may write anything at any time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/circle.hpp"
#include "collectives/shared_cells.hpp"
#include "collectives/shared_memory.hpp"
#include "collectives/shared_ring.hpp"

namespace openmrc::collectives {

inline constexpr std::size_t kBoardAreas = 32;
inline constexpr std::size_t kBoardCells = 8;

struct BoardArea {
  alignas(64) std::uint64_t group = 0;  // 0: unused
  // By member of the group: the number of messages that the owner has taken from that member's area, from the first on.
  alignas(64) std::array<std::uint64_t, kCircleRanksMax> taken{};
  std::array<Cell, kBoardCells> cells{};
};
// In front of the areas.
struct BoardHead {
  alignas(64) std::uint64_t processor = 0;  // of the owner at its last message, from 1 on; 0: not known
};
inline constexpr std::size_t kBoardBytes = sizeof(BoardHead) + kBoardAreas * sizeof(BoardArea);

// For the others.
void report_processor(std::uint8_t* board, int processor);
// As its owner reports it; -1: not known.
int processor_of(std::uint8_t* board);

// The area of a group in the own board, made if there is none; nullptr: all are in use.
BoardArea* own_area(std::uint8_t* board, std::uint64_t group);
// The area of a group in another rank's board; nullptr: it has none yet.
BoardArea* area_of(std::uint8_t* board, std::uint64_t group);

// Own messages to the other members of a group.
class BoardWriter {
 public:
  explicit BoardWriter(BoardArea* own) : own_(own) {}

  bool has_room() const { return put_ - taken_ < kBoardCells; }
  // The number of messages that all readers have taken. False: they report an impossible one.
  bool note_taken(std::uint64_t taken);
  // Needs room; at most kCellBytesMax behind the head.
  void put(const MessageHead& head, const void* data);

 private:
  BoardArea* own_;
  std::uint64_t put_ = 0, taken_ = 0;
};

// Messages of another member.
class BoardReader {
 public:
  // The message with this key, until pop(). Messages for operations that begin later stay in their cells.
  RingAnswer find(BoardArea& area, std::uint64_t key, RingMessage& message);
  // Frees the cell of the message that find() returned last.
  void pop();
  std::uint64_t taken() const { return taken_; }

 private:
  std::uint64_t taken_ = 0;
  std::uint32_t ahead_ = 0;  // bit i: the message i places behind the next one has been taken
  std::uint32_t found_ = 0;
};

}  // namespace openmrc::collectives
