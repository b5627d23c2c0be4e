#include "collectives/shared_board.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc::collectives {
namespace {

std::atomic_ref<std::uint64_t> shared(std::uint64_t& word) { return std::atomic_ref<std::uint64_t>(word); }

constexpr std::uint64_t kProcessorsMax = 1U << 16;

std::uint64_t& processor_in(std::uint8_t* board) { return reinterpret_cast<BoardHead*>(board)->processor; }
std::span<BoardArea> areas_of(std::uint8_t* board) {
  return {reinterpret_cast<BoardArea*>(board + sizeof(BoardHead)), kBoardAreas};
}

}  // namespace

void report_processor(std::uint8_t* board, int processor) {
  shared(processor_in(board)).store(static_cast<std::uint64_t>(processor) + 1, std::memory_order_relaxed);
}

int processor_of(std::uint8_t* board) {
  const std::uint64_t found = shared(processor_in(board)).load(std::memory_order_relaxed);
  return found < kProcessorsMax ? static_cast<int>(found) - 1 : -1;
}

BoardArea* own_area(std::uint8_t* board, std::uint64_t group) {
  MRC_ASSERT(group != 0);
  for (BoardArea& area : areas_of(board)) {
    if (area.group == 0) shared(area.group).store(group, std::memory_order_release);
    if (area.group == group) return &area;
  }
  return nullptr;
}

BoardArea* area_of(std::uint8_t* board, std::uint64_t group) {
  for (BoardArea& area : areas_of(board)) {
    const std::uint64_t found = shared(area.group).load(std::memory_order_acquire);
    if (found == group) return &area;
    if (found == 0) return nullptr;
  }
  return nullptr;
}

bool BoardWriter::note_taken(std::uint64_t taken) {
  if (taken < taken_ || taken > put_) return false;
  taken_ = taken;
  return true;
}

void BoardWriter::put(const MessageHead& head, const void* data) {
  MRC_ASSERT(has_room() && head.bytes <= kCellBytesMax);
  Cell& cell = own_->cells[put_ % kBoardCells];
  cell.head = head;
  if (head.bytes > 0) std::memcpy(cell.data, data, head.bytes);
  // Sequentially consistent, as the readers' words are: of a writer that has written and a reader about to sleep, one
  // sees the other.
  shared(cell.number).store(++put_, std::memory_order_seq_cst);
}

RingAnswer BoardReader::find(BoardArea& area, std::uint64_t key, RingMessage& message) {
  for (std::uint32_t i = 0; i < kBoardCells; ++i) {
    Cell& cell = area.cells[(taken_ + i) % kBoardCells];
    const std::uint64_t number = shared(cell.number).load(std::memory_order_seq_cst), next = taken_ + i + 1;
    if (number != next) return number < next ? RingAnswer::kNothing : RingAnswer::kBroken;
    if ((ahead_ >> i & 1U) != 0 || shared(cell.head.key).load(std::memory_order_relaxed) != key) continue;
    message.head = {read_head(cell.head), 0};
    message.data = cell.data;
    found_ = i;
    const MessageHead& head = message.head.message;
    return head.key == key && head.bytes <= kCellBytesMax ? RingAnswer::kOk : RingAnswer::kBroken;
  }
  return RingAnswer::kNothing;
}

void BoardReader::pop() {
  ahead_ |= 1U << found_;
  const int taken = std::countr_one(ahead_);
  taken_ += static_cast<std::uint64_t>(taken);
  ahead_ >>= taken;
}

}  // namespace openmrc::collectives
