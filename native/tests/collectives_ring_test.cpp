// The ring in shared memory: order, wrapping, a full ring, sleeping, and arbitrary writes of the other side.
#include "collectives/shared_ring.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/shared_link.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;

// A ring with both ends in this process.
struct Ring {
  Ring() : area(std::make_unique<Area>()), writer(area->bytes), reader(area->bytes) {}

  RingControl& control() { return *reinterpret_cast<RingControl*>(area->bytes); }
  std::uint8_t* records() { return area->bytes + sizeof(RingControl); }
  RingAnswer put(std::uint32_t number, std::uint32_t bytes) {
    const std::vector<std::uint8_t> data(bytes, static_cast<std::uint8_t>(number));
    return writer.put({{number, MessageHead::kData, 0, bytes, 0}, 0}, data.data());
  }
  // Takes the next message; true if it is this one.
  bool takes(std::uint32_t number, std::uint32_t bytes) {
    RingMessage message;
    if (reader.look() != RingAnswer::kOk || reader.next(message) != RingAnswer::kOk) return false;
    bool right = message.head.message.key == number && message.head.message.bytes == bytes;
    for (std::uint32_t i = 0; right && i < bytes; ++i) right = message.data[i] == static_cast<std::uint8_t>(number);
    reader.pop();
    return right;
  }
  // The reader's result for a record that the writer claims to have written.
  RingAnswer read(const RingHead& head, std::uint64_t written) {
    std::memcpy(records(), &head, sizeof head);
    control().written = written;
    RingMessage message;
    const RingAnswer answer = reader.look();
    return answer == RingAnswer::kOk ? reader.next(message) : answer;
  }

  struct alignas(kRecordAlignment) Area {
    std::uint8_t bytes[kRingAreaBytes] = {};
  };
  std::unique_ptr<Area> area;
  RingWriter writer;
  RingReader reader;
};

// Sizes that are never divisors of the ring's size.
std::uint32_t size_of(std::uint32_t number) { return number * 7919 % (kPartBytesMax + 1); }

RingHead head_of(std::uint32_t kind, std::uint32_t bytes) { return {{1, kind, 0, bytes, 0}, 0}; }

}  // namespace

TEST_CASE(collectives_ring_keeps_order_and_bytes_around_its_end) {
  Ring ring;
  CHECK(ring.reader.look() == RingAnswer::kNothing);
  std::uint32_t taken = 0;
  for (std::uint32_t number = 0; number < 1000; ++number) {
    while (ring.put(number, size_of(number)) == RingAnswer::kNothing) {
      CHECK(ring.takes(taken, size_of(taken)));
      ++taken;
    }
  }
  for (; taken < 1000; ++taken) CHECK(ring.takes(taken, size_of(taken)));
  CHECK(ring.reader.look() == RingAnswer::kNothing);
}

TEST_CASE(collectives_ring_wakes_a_writer_when_half_of_it_is_free) {
  Ring ring;
  std::uint32_t count = 0;
  while (ring.put(count, kPartBytesMax) == RingAnswer::kOk) ++count;
  CHECK(count == kRingBytes / (kPartBytesMax + kRecordAlignment) && !ring.writer.freed());
  RingMessage message;
  CHECK(ring.reader.look() == RingAnswer::kOk);
  std::uint32_t wakes = 0, free_then = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    CHECK(ring.reader.next(message) == RingAnswer::kOk);
    if (ring.reader.pop()) ++wakes, free_then = i + 1;
  }
  CHECK(wakes == 1 && free_then == (count + 1) / 2);
  CHECK(ring.writer.freed() && !ring.writer.freed());
  CHECK(ring.put(count, kPartBytesMax) == RingAnswer::kOk);
}

TEST_CASE(collectives_ring_wakes_a_reader_that_sleeps_and_only_once) {
  Ring ring;
  CHECK(!ring.reader.sleep(1) && !ring.reader.sleep(2) && !ring.reader.sleep(4));
  ring.reader.stay_awake(2);
  CHECK(ring.put(1, 8) == RingAnswer::kOk && ring.writer.sleepers() == 5);
  CHECK(ring.put(2, 8) == RingAnswer::kOk && ring.writer.sleepers() == 0);
  CHECK(ring.reader.sleep(1));  // data is pending: no sleep
  CHECK(ring.takes(1, 8) && ring.takes(2, 8));
}

TEST_CASE(collectives_ring_carries_messages_from_thread_to_thread) {
  Ring ring;
  constexpr std::uint32_t kCount = 5000;
  std::thread writing([&ring] {
    for (std::uint32_t number = 0; number < kCount;) {
      if (ring.put(number, number * 131 % 9000) == RingAnswer::kOk) {
        ++number;
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::uint32_t right = 0;
  for (std::uint32_t number = 0; number < kCount; ++number) {
    while (ring.reader.look() == RingAnswer::kNothing) std::this_thread::yield();
    right += ring.takes(number, number * 131 % 9000) ? 1U : 0U;
  }
  writing.join();
  CHECK(right == kCount);
}

TEST_CASE(collectives_ring_believes_no_writer) {
  const std::uint32_t data = MessageHead::kData;
  CHECK(Ring().read(head_of(data, 8), 64) == RingAnswer::kOk);
  CHECK(Ring().read(head_of(data, 8), 60) == RingAnswer::kBroken);               // no valid end of a record
  CHECK(Ring().read(head_of(data, 8), kRingBytes + 64) == RingAnswer::kBroken);  // beyond the capacity
  CHECK(Ring().read(head_of(data, 64), 64) == RingAnswer::kBroken);              // beyond the written part
  CHECK(Ring().read(head_of(data, kPartBytesMax + 1), kRingBytes) == RingAnswer::kBroken);
  CHECK(Ring().read(head_of(data, 0xFFFFFFFF), kRingBytes) == RingAnswer::kBroken);
  CHECK(Ring().read(head_of(0, 0), 64) == RingAnswer::kBroken);           // skips over unwritten bytes
  CHECK(Ring().read(head_of(0, 0), kRingBytes) == RingAnswer::kNothing);  // nothing, at length
  Ring back;
  CHECK(back.put(1, 8) == RingAnswer::kOk && back.put(2, 8) == RingAnswer::kOk && back.takes(1, 8));
  back.control().written = 64;
  CHECK(back.reader.look() == RingAnswer::kBroken);
  Ring end;  // a record that would reach beyond the end of the ring
  std::uint32_t number = 0;
  while (end.put(number, kPartBytesMax) == RingAnswer::kOk) ++number;
  for (std::uint32_t i = 0; i < number; ++i) CHECK(end.takes(i, kPartBytesMax));
  const std::size_t at = number * (kPartBytesMax + kRecordAlignment);
  const RingHead head = head_of(data, kPartBytesMax);
  std::memcpy(end.records() + at, &head, sizeof head);
  end.control().written = at + kPartBytesMax + kRecordAlignment;
  RingMessage message;
  CHECK(end.reader.look() == RingAnswer::kOk && end.reader.next(message) == RingAnswer::kBroken);
}

TEST_CASE(collectives_ring_believes_no_reader) {
  Ring ring;
  CHECK(ring.put(1, 8) == RingAnswer::kOk);
  ring.control().taken = 128;  // more than written
  CHECK(ring.put(2, 8) == RingAnswer::kBroken);
  Ring back;
  for (std::uint32_t number = 0; number < 20; ++number) {
    CHECK(back.put(number, kPartBytesMax) == RingAnswer::kOk && back.takes(number, kPartBytesMax));
  }
  back.control().taken = 0;  // less than before
  CHECK(back.put(20, 8) == RingAnswer::kBroken);
}

TEST_CASE(collectives_links_open_what_was_offered_and_nothing_else) {
  SharedLink one(2), other(2);
  std::array<Doorbell, kSleepers> bells, other_bells;
  const SharedOffer offer{one.memory(), {bells[0].file(), bells[1].file()}};
  for (int field = 0; field < 4; ++field) {
    SharedOffer wrong = offer;
    ++(field == 0 ? wrong.memory.inode : field == 1 ? wrong.memory.descriptor : wrong.doorbells[1].inode);
    if (field == 3) wrong = {offer.doorbells[0], {offer.memory, offer.memory}};
    CHECK(!SharedLink(2).open(wrong));
  }
  CHECK(!SharedLink(1).open(offer));  // of another size
  CHECK(other.open(offer) && one.open({other.memory(), {other_bells[0].file(), other_bells[1].file()}}));
  one.hide();
  CHECK(!SharedLink(2).open(offer));
  CHECK(!one.sleep(Sleeper::kThread));
  const std::uint64_t word = 77;
  CHECK(other.put(1, head_of(MessageHead::kData, sizeof word), &word) == RingAnswer::kOk);
  char rung = 0;
  CHECK(::read(bells[1].fd(), &rung, 1) == 1 && ::read(bells[0].fd(), &rung, 1) < 0);
  CHECK(one.sleep(Sleeper::kWaiter));
  RingMessage message;
  CHECK(one.reader(1).look() == RingAnswer::kNothing && one.cells(1).next(message) == RingAnswer::kOk);
  CHECK(std::memcmp(message.data, &word, sizeof word) == 0);
  one.cells(1).pop();
  CHECK(!one.sleep(Sleeper::kWaiter));
  CHECK(other.put(1, head_of(MessageHead::kPart, sizeof word), &word) == RingAnswer::kOk);
  CHECK(one.sleep(Sleeper::kWaiter));
  CHECK(one.reader(1).look() == RingAnswer::kOk && one.reader(1).next(message) == RingAnswer::kOk);
  CHECK(std::memcmp(message.data, &word, sizeof word) == 0);
  one.pop(1);
}

TEST_CASE(collectives_links_use_the_ring_while_no_cell_is_free) {
  SharedLink one(1), other(1);
  std::array<Doorbell, kSleepers> bells, other_bells;
  CHECK(other.open({one.memory(), {bells[0].file(), bells[1].file()}}));
  CHECK(one.open({other.memory(), {other_bells[0].file(), other_bells[1].file()}}));
  std::array<std::uint8_t, kCellBytesMax + 1> data{};
  const auto put = [&](std::uint64_t key, std::uint32_t bytes) {
    CHECK(other.put(0, {{key, MessageHead::kData, 0, bytes, 0}, 0}, data.data()) == RingAnswer::kOk);
  };
  RingMessage message;
  for (std::uint64_t key = 0; key < 3 * kCells; ++key) {
    put(key, static_cast<std::uint32_t>(kCellBytesMax));
    put(key, static_cast<std::uint32_t>(kCellBytesMax) + 1);  // too large for a cell
    CHECK(one.cells(0).next(message) == RingAnswer::kOk && message.head.message.key == key);
    one.cells(0).pop();
    CHECK(one.cells(0).next(message) == RingAnswer::kNothing);
    CHECK(one.reader(0).look() == RingAnswer::kOk && one.reader(0).next(message) == RingAnswer::kOk);
    CHECK(message.head.message.key == key && message.head.message.bytes == kCellBytesMax + 1);
    one.pop(0);
  }
  for (std::uint64_t key = 0; key < kCells + 3; ++key) put(key, 8);
  for (std::uint64_t key = 0; key < kCells; ++key) {
    CHECK(one.cells(0).next(message) == RingAnswer::kOk && message.head.message.key == key);
    one.cells(0).pop();
  }
  CHECK(one.cells(0).next(message) == RingAnswer::kNothing && one.reader(0).look() == RingAnswer::kOk);
  for (std::uint64_t key = kCells; key < kCells + 3; ++key) {
    CHECK(one.reader(0).next(message) == RingAnswer::kOk && message.head.message.key == key);
    one.pop(0);
  }
}

TEST_CASE(collectives_cells_of_a_writer_that_breaks_the_rules_are_refused) {
  struct alignas(64) Area {
    std::array<Cell, kCells> cells;
  };
  static_assert(sizeof(Area) == kCellAreaBytes);
  const auto answer = [](std::uint64_t number, std::uint32_t bytes) {
    const auto area = std::make_unique<Area>();
    CellReader reader(reinterpret_cast<std::uint8_t*>(area.get()));
    area->cells[0].head.bytes = bytes;
    area->cells[0].number = number;
    RingMessage message;
    return reader.next(message);
  };
  const auto longest = static_cast<std::uint32_t>(kCellBytesMax);
  CHECK(answer(1, longest) == RingAnswer::kOk && answer(0, longest + 1) == RingAnswer::kNothing);
  CHECK(answer(1, longest + 1) == RingAnswer::kBroken && answer(1, ~0U) == RingAnswer::kBroken);
  CHECK(answer(2, 8) == RingAnswer::kBroken && answer(~0ULL, 8) == RingAnswer::kBroken);
}
