// Cells in memory shared by two processes: each holds one small message, and they are used in turn. A message takes one
// cache line from one processor to the other, where the ring takes three. Without a free cell the ring is used.
//
// As in the ring, neither side trusts the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/shared_ring.hpp"

namespace openmrc::collectives {

inline constexpr std::size_t kCells = 16;
inline constexpr std::size_t kCellBytes = 512;

struct Cell {
  alignas(64) std::uint64_t number = 0;  // of the message, from 1 on; 0: free
  MessageHead head;
  std::uint8_t data[kCellBytes - sizeof(std::uint64_t) - sizeof(MessageHead)];
};
inline constexpr std::size_t kCellBytesMax = sizeof(Cell::data);  // of a message, behind its head
inline constexpr std::size_t kCellAreaBytes = kCells * kCellBytes;
static_assert(sizeof(Cell) == kCellBytes && kCellBytesMax <= kEagerBytesMax);

// The head of a message that another process may change. Each word is read once, so that checked and used values are the
// same.
MessageHead read_head(MessageHead& head);

class CellWriter {
 public:
  // `area`: kCellAreaBytes, initially zero, aligned to a cache line.
  explicit CellWriter(std::uint8_t* area) : cells_(reinterpret_cast<Cell*>(area)) {}

  // False: the reader has not emptied the next cell.
  bool put(const MessageHead& head, const void* data);

 private:
  Cell* cells_;
  std::uint64_t put_ = 0;
};

class CellReader {
 public:
  explicit CellReader(std::uint8_t* area) : cells_(reinterpret_cast<Cell*>(area)) {}

  // The next message, until pop().
  RingAnswer next(RingMessage& message);
  // Frees the cell of the message.
  void pop();
  // True if a message is pending, for a reader that has asked to be woken.
  bool filled();

 private:
  Cell& cell() { return cells_[taken_ % kCells]; }

  Cell* cells_;
  std::uint64_t taken_ = 0;
};

}  // namespace openmrc::collectives
