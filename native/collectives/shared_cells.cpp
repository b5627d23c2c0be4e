#include "collectives/shared_cells.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

std::atomic_ref<std::uint64_t> shared(std::uint64_t& word) { return std::atomic_ref<std::uint64_t>(word); }

}  // namespace

MessageHead read_head(MessageHead& head) {
  std::array<std::uint64_t, sizeof(MessageHead) / sizeof(std::uint64_t)> words;
  auto* source = reinterpret_cast<std::uint64_t*>(&head);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = shared(source[i]).load(std::memory_order_relaxed);
  return std::bit_cast<MessageHead>(words);
}

bool CellWriter::put(const MessageHead& head, const void* data) {
  MRC_ASSERT(head.bytes <= kCellBytesMax);
  Cell& cell = cells_[put_ % kCells];
  if (shared(cell.number).load(std::memory_order_acquire) != 0) return false;
  cell.head = head;
  if (head.bytes > 0) std::memcpy(cell.data, data, head.bytes);
  // Sequentially consistent, as the reader's words are: of a writer that has written and a reader about to sleep, one
  // sees the other.
  shared(cell.number).store(++put_, std::memory_order_seq_cst);
  return true;
}

RingAnswer CellReader::next(RingMessage& message) {
  const std::uint64_t number = shared(cell().number).load(std::memory_order_acquire);
  if (number == 0) return RingAnswer::kNothing;
  message.head = {read_head(cell().head), 0};
  message.data = cell().data;
  const bool possible = number == taken_ + 1 && message.head.message.bytes <= kCellBytesMax;
  return possible ? RingAnswer::kOk : RingAnswer::kBroken;
}

void CellReader::pop() {
  shared(cell().number).store(0, std::memory_order_release);
  ++taken_;
}

bool CellReader::filled() { return shared(cell().number).load(std::memory_order_seq_cst) != 0; }

}  // namespace openmrc::collectives
