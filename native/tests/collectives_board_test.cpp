// Messages to all ranks of a group: boards and their readers, executors that use them, and a peer that lies.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/device_executor.hpp"
#include "collectives/rank_placement.hpp"
#include "collectives/shared_board.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"
#include "tests/own_udp_port.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;

constexpr std::int64_t kPatienceNs = 20'000'000'000;
constexpr std::uint64_t kGroup = 77;
constexpr std::array<std::uint32_t, 1> kNoQps{1U << 20};  // unused: no message may go there

MessageHead head_of(std::uint64_t key, std::uint32_t bytes) {
  return {.key = key, .kind = MessageHead::kData, .bytes = bytes};
}

struct Board {
  Board() : memory(kBoardBytes), area(own_area(memory.base(), kGroup)), writer(area) {}

  bool put(std::uint64_t key) {
    if (!writer.has_room()) return false;
    writer.put(head_of(key, sizeof key), &key);
    return true;
  }
  bool takes(std::uint64_t key) {
    RingMessage message;
    if (reader.find(*area, key, message) != RingAnswer::kOk) return false;
    CHECK(message.head.message.key == key && std::memcmp(message.data, &key, sizeof key) == 0);
    reader.pop();
    return true;
  }
  RingAnswer find(std::uint64_t key) {
    RingMessage message;
    return reader.find(*area, key, message);
  }

  SharedMemory memory;
  BoardArea* area;
  BoardWriter writer;
  BoardReader reader;
};

// Ranks in this process that share memory with each other, except for those that the test plays.
struct Host {
  explicit Host(std::uint16_t ranks) {
    for (std::uint16_t number = 0; number < ranks; ++number) {
      nic::Settings settings;
      nic::PortSettings port;
      CHECK(nic::parse_address("127.0.0." + std::to_string(181 + number), port.local));
      port.advertise = port.local;
      settings.ports.push_back(port);
      settings.udp_port = openmrc::test::own_udp_port();
      auto device = std::make_shared<nic::Device>(settings);
      CqId cq = 0;
      CHECK(device->create_cq(64, cq) == Status::kOk);
      executors.push_back(std::make_unique<DeviceExecutor>(
          device, cq, ExecutorSettings{.rank = number, .ranks = ranks, .spin = 2 * nic::kNsPerMs, .poll = 0}));
    }
    std::vector<std::vector<SharedOffer>> offers(ranks, std::vector<SharedOffer>(ranks));
    each_pair([&](auto one, auto other) { offers[one][other] = executors[one]->offer_memory(other).value(); });
    each_pair([&](auto one, auto other) { CHECK(executors[one]->open_memory(other, offers[other][one])); });
    each_pair([&](auto one, auto other) {
      executors[one]->use_memory(other, true);
      executors[one]->connect(other, kNoQps, 0, 0);
    });
  }
  template <typename Each>
  void each_pair(Each&& each) {
    for (std::uint16_t one = 0; one < executors.size(); ++one) {
      for (std::uint16_t other = 0; other < executors.size(); ++other) {
        if (one != other) each(one, other);
      }
    }
  }
  Executor& operator[](std::size_t rank) { return *executors[rank]; }

  std::vector<std::unique_ptr<DeviceExecutor>> executors;
};

// The sum of one number from every rank, in one round.
std::shared_ptr<Plan> sum(std::uint16_t rank, std::uint16_t ranks, std::uint64_t call_bytes = 8) {
  PlanConfig config;
  config.ranks = ranks;
  config.circle = true;
  config.type = ElementType::kInt64;
  config.buffer_bytes = {8, 8ULL * ranks};
  config.scratch_buffer = 1;
  config.call.kind = 1;
  config.call.bytes = call_bytes;
  std::vector<std::uint32_t> sends;
  for (std::uint16_t peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    sends.push_back(static_cast<std::uint32_t>(config.steps.size()));
    config.steps.push_back({StepKind::kSend, false, 0, 1, peer, 0, 8ULL * rank, 8});
  }
  std::uint32_t before = kNoStep;
  for (std::uint16_t peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const auto receive = static_cast<std::uint32_t>(config.steps.size());
    config.steps.push_back({StepKind::kReceive, false, 0, 1, peer, 0, 8ULL * peer, 8});
    config.steps.push_back({StepKind::kReduce, false, 1, 0, 0, 8ULL * peer, 0, 8});
    config.waits.emplace_back(receive + 1, receive);
    for (const std::uint32_t send : sends) config.waits.emplace_back(receive + 1, send);
    if (before != kNoStep) config.waits.emplace_back(receive + 1, before);
    before = receive + 1;
  }
  return std::make_shared<Plan>(std::move(config));
}

// One operation of a rank with its memory.
struct Sum {
  Sum(Host& host, std::uint16_t rank, std::uint64_t key, std::int64_t value, std::uint64_t call_bytes = 8)
      : executor(host[rank]), number(value), scratch(host.executors.size()) {
    const auto ranks = static_cast<std::uint16_t>(host.executors.size());
    const std::array<Memory, 2> buffers{Memory{reinterpret_cast<std::uint8_t*>(&number), 8},
                                        Memory{reinterpret_cast<std::uint8_t*>(scratch.data()), scratch.size() * 8}};
    op = executor.submit(sum(rank, ranks, call_bytes), key, 0, buffers);
  }
  Sum(const Sum&) = delete;
  bool becomes(std::int64_t wanted) {
    return executor.wait(op, kPatienceNs) == OpState::kDone && number == wanted && executor.release(op);
  }

  Executor& executor;
  std::int64_t number;
  std::vector<std::int64_t> scratch;
  OpId op = 0;
};

}  // namespace

TEST_CASE(collectives_board_gives_messages_by_key_and_keeps_others) {
  Board board;
  CHECK(!board.takes(1) && board.put(1) && board.put(2) && board.put(3));
  CHECK(board.takes(2) && !board.takes(2) && board.reader.taken() == 0);
  CHECK(board.takes(1) && board.reader.taken() == 2 && board.takes(3) && board.reader.taken() == 3);
  for (std::uint64_t key = 4; key < 4 + kBoardCells; ++key) CHECK(board.writer.note_taken(3) && board.put(key));
  CHECK(!board.put(99) && !board.takes(99));
  CHECK(board.takes(11) && board.writer.note_taken(board.reader.taken()) && !board.put(99));
  CHECK(board.takes(4) && board.writer.note_taken(board.reader.taken()) && board.put(99) && board.takes(99));
}

TEST_CASE(collectives_board_keeps_the_messages_of_random_readers) {
  std::mt19937 draw(12);
  for (int run = 0; run < 50; ++run) {
    Board board;
    std::vector<std::uint64_t> waiting;
    std::uint64_t next = 1;
    for (int i = 0; i < 2000; ++i) {
      if (draw() % 2 == 0 && board.put(next)) waiting.push_back(next++);
      if (!waiting.empty() && draw() % 2 == 0) {
        const auto at = waiting.begin() + static_cast<std::ptrdiff_t>(draw() % waiting.size());
        CHECK(board.takes(*at));
        waiting.erase(at);
      }
      CHECK(!board.takes(next) && board.writer.note_taken(board.reader.taken()));
    }
    for (const std::uint64_t key : waiting) CHECK(board.takes(key));
    CHECK(board.reader.taken() == next - 1);
  }
}

TEST_CASE(collectives_board_believes_neither_side) {
  Board skips;
  skips.area->cells[0].number = 2;
  CHECK(skips.find(1) == RingAnswer::kBroken);
  Board large;
  CHECK(large.put(1));
  large.area->cells[0].head.bytes = kCellBytesMax + 1;
  CHECK(large.find(1) == RingAnswer::kBroken);
  Board account;
  CHECK(account.put(1) && !account.writer.note_taken(2) && account.writer.note_taken(1) &&
        !account.writer.note_taken(0));
}

TEST_CASE(collectives_board_has_areas_for_some_groups) {
  const SharedMemory memory(kBoardBytes);
  SharedMemory own(kBoardBytes);
  CHECK(area_of(own.base(), 1) == nullptr);
  for (std::uint64_t group = 1; group <= kBoardAreas; ++group) CHECK(own_area(own.base(), group) != nullptr);
  CHECK(own_area(own.base(), 99) == nullptr && own_area(own.base(), 3) == area_of(own.base(), 3));
  CHECK(area_of(own.base(), 99) == nullptr);
}

TEST_CASE(collectives_board_is_written_by_its_owner_alone) {
  SharedMemory own(kBoardBytes, SharedMemory::Access::kRead);
  const ProcessFile file = own.file();
  CHECK(SharedMemory::open(file, kBoardBytes, SharedMemory::Access::kRead).valid());
  CHECK(!SharedMemory::open(file, kBoardBytes).valid());  // for writing
  const SharedMemory both(kBoardBytes);
  CHECK(!SharedMemory::open(both.file(), kBoardBytes, SharedMemory::Access::kRead).valid());
}

TEST_CASE(collectives_board_carries_operations_in_any_order_and_beyond_its_room) {
  Host host(3);
  for (const bool reversed : {false, true}) {
    std::vector<std::unique_ptr<Sum>> sums;
    constexpr std::uint64_t kOps = 3 * kBoardCells;
    for (std::uint16_t rank = 0; rank < 3; ++rank) {
      for (std::uint64_t i = 0; i < kOps; ++i) {
        const std::uint64_t op = reversed && rank == 2 ? kOps - 1 - i : i;
        sums.push_back(std::make_unique<Sum>(host, rank, (5ULL << kSequenceBits) + op, 100 * rank + 1));
      }
    }
    for (const std::unique_ptr<Sum>& one : sums) CHECK(one->becomes(303));
  }
  for (std::uint16_t rank = 0; rank < 3; ++rank) CHECK(host[rank].stats().protocol_errors == 0);
}

TEST_CASE(collectives_board_takes_more_groups_than_it_has_areas) {
  Host host(2);
  for (std::uint64_t group = 1; group <= kBoardAreas + 5; ++group) {
    for (std::uint64_t i = 0; i < 2 * kBoardCells; ++i) {
      const std::uint64_t key = (group << kSequenceBits) + i;
      Sum one(host, 0, key, 3), other(host, 1, key, 4);
      CHECK(one.becomes(7) && other.becomes(7));
    }
  }
}

TEST_CASE(collectives_board_shows_another_call) {
  Host host(3);
  const std::uint64_t key = 5ULL << kSequenceBits;
  Sum one(host, 0, key, 1), other(host, 1, key, 1, 16);
  CHECK(host[0].wait(one.op, kPatienceNs) == OpState::kFailed &&
        host[1].wait(other.op, kPatienceNs) == OpState::kFailed);
  const auto [rank, reason] = host[1].failure(other.op);
  CHECK(rank == 0 && reason.find("size (8 bytes, here 16 bytes)") != std::string::npos);
  CHECK(host[0].failure(one.op).first == 1 && host[0].release(one.op) && host[1].release(other.op));
}

TEST_CASE(collectives_board_does_not_wait_for_a_failed_rank) {
  Host host(3);
  const std::uint64_t key = 5ULL << kSequenceBits;
  Sum one(host, 0, key, 1), other(host, 1, key, 2);
  CHECK(host[0].wait(one.op, 1'000'000) == OpState::kRunning);
  host[0].fail_peer(2, "it is gone");
  CHECK(host[0].wait(one.op, kPatienceNs) == OpState::kFailed && host[0].failure(one.op).first == 2);
  CHECK(host[0].release(one.op));
  host[1].fail_peer(2, "it is gone");
  CHECK(host[1].wait(other.op, kPatienceNs) == OpState::kFailed && host[1].release(other.op));
}

TEST_CASE(boards_tell_the_processor_of_their_owner) {
  alignas(64) static std::array<std::uint8_t, kBoardBytes> board{};
  CHECK(processor_of(board.data()) == -1);
  report_processor(board.data(), 0);
  CHECK(processor_of(board.data()) == 0);
  report_processor(board.data(), 255);
  CHECK(processor_of(board.data()) == 255);
  std::fill(board.begin(), board.end(), std::uint8_t{0xFF});  // the owner may write anything
  CHECK(processor_of(board.data()) == -1);
}

// Large operations look every few milliseconds, small ones every so many calls, and less often after a move.
TEST_CASE(ranks_look_for_processors_by_time_in_large_operations) {
  RankPlacement large;
  CHECK(large.due(1'000'000'000) && !large.due(1'003'999'999) && large.due(1'004'000'000));
  RankPlacement small;
  const auto calls_until_due = [&] {
    int calls = 1;
    while (!small.due()) ++calls;
    return calls;
  };
  CHECK(calls_until_due() == 32 && calls_until_due() == 32);
  small.look_less_often();
  CHECK(calls_until_due() == 64);
}

TEST_CASE(ranks_move_to_processors_with_two_ranks_fewer) {
  constexpr std::array<int, 2> kTwo{0, 1};
  constexpr std::array<int, 3> kThree{0, 1, 2};
  const auto better = [](std::vector<int> processors, std::size_t own, auto allowed) {
    return better_processor(processors, own, allowed);
  };
  CHECK(better({0, 0, 0, 0}, 3, kTwo) == 1 && better({0, 0, 0, 0}, 2, kTwo) == -1);  // the last one moves
  CHECK(better({0, 0, 0, 1}, 2, kTwo) == 1 && better({0, 0, 1, 1}, 3, kTwo) == -1);
  CHECK(better({0, 0, 1}, 1, kTwo) == -1 && better({0, 0, 1}, 1, kThree) == 2);
  CHECK(better({0, 0}, 1, kTwo) == 1 && better({0, 0}, 1, std::array<int, 1>{0}) == -1);
  CHECK(better({-1, 0}, 1, kTwo) == -1 && better({0, -1}, 1, kTwo) == -1);
}
