// A ring and cells in shared memory whose other end breaks every rule. The input selects the regular actions of each
// end, and the bytes that overwrite positions and records meanwhile. Nothing outside of the memory may be read or
// written, and the reader's results must lie inside of it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/shared_cells.hpp"
#include "tests/fuzz/script.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace openmrc::collectives {
namespace {

using fuzz::require;
using fuzz::Script;

constexpr std::size_t kInputBytesMax = 512;

struct alignas(kRecordAlignment) Area {
  RingControl control;
  std::uint8_t records[kRingBytes] = {};
};
static_assert(sizeof(Area) == kRingAreaBytes);

class Game {
 public:
  Game() : area_(std::make_unique<Area>()), writer_(bytes()), reader_(bytes()), data_(kPartBytesMax, 0x5A) {}

  // False: one end has given up the other one.
  bool move(Script& script) {
    switch (script.byte() % 8) {
      case 6:
        return move_cells(script);
      case 0:
        return writer_.put(head(script), data_.data()) != RingAnswer::kBroken;
      case 1:
        return read();
      case 2:
        area_->control.written += script.word();
        return true;
      case 3:
        area_->control.taken = script.word();
        return true;
      case 4: {
        RingHead any = head(script);
        any.message.kind = script.byte() % 4;
        any.message.bytes += script.byte() % 2 == 0 ? 0 : script.word();
        std::memcpy(area_->records + script.word() % (kRingBytes / kRecordAlignment) * kRecordAlignment, &any,
                    sizeof any);
        return true;
      }
      default:
        if (script.byte() % 2 == 0) reader_.sleep(script.byte());
        writer_.freed();
        writer_.sleepers();
        return true;
    }
  }

 private:
  struct alignas(kRecordAlignment) Cells {
    std::array<Cell, kCells> cells;
  };
  static_assert(sizeof(Cells) == kCellAreaBytes);

  bool move_cells(Script& script) {
    RingMessage message;
    switch (script.byte() % 4) {
      case 0: {
        MessageHead any = head(script).message;
        any.bytes %= kCellBytesMax + 1;
        cell_writer_.put(any, data_.data());
        return true;
      }
      case 1:
        cells_->cells[script.byte() % kCells].number = script.byte();
        return true;
      case 2:
        cells_->cells[script.byte() % kCells].head.bytes = static_cast<std::uint32_t>(script.word());
        return true;
      default:
        cell_reader_.filled();
        const RingAnswer answer = cell_reader_.next(message);
        if (answer != RingAnswer::kOk) return answer != RingAnswer::kBroken;
        const auto* begin = reinterpret_cast<const std::uint8_t*>(cells_.get());
        const std::uint32_t length = message.head.message.bytes;
        require(message.data >= begin && message.data + length <= begin + sizeof(Cells));
        std::memcpy(data_.data(), message.data, length);
        cell_reader_.pop();
        return true;
    }
  }

  std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(area_.get()); }
  static RingHead head(Script& script) {
    const auto bytes = static_cast<std::uint32_t>(script.word() % (kPartBytesMax + 1));
    return {{script.byte(), MessageHead::kPart, 0, bytes, 0}, script.word()};
  }

  bool read() {
    RingMessage message;
    RingAnswer answer = reader_.look();
    while (answer == RingAnswer::kOk && (answer = reader_.next(message)) == RingAnswer::kOk) {
      const std::uint32_t length = message.head.message.bytes;
      require(length <= kPartBytesMax && message.data >= area_->records);
      require(message.data + length <= area_->records + kRingBytes);
      std::memcpy(data_.data(), message.data, length);
      reader_.pop();
    }
    return answer != RingAnswer::kBroken;
  }

  std::unique_ptr<Area> area_;
  std::unique_ptr<Cells> cells_ = std::make_unique<Cells>();
  CellWriter cell_writer_{reinterpret_cast<std::uint8_t*>(cells_.get())};
  CellReader cell_reader_{reinterpret_cast<std::uint8_t*>(cells_.get())};
  RingWriter writer_;
  RingReader reader_;
  std::vector<std::uint8_t> data_;
};

}  // namespace
}  // namespace openmrc::collectives

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace openmrc::collectives;
  if (size > kInputBytesMax) return 0;
  Script script(data, size);
  Game game;
  while (script.more() && game.move(script)) {
  }
  return 0;
}
