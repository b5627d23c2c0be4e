// Executors that share memory, in one process; and arbitrary writes of a peer, played by a bare link.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/device_executor.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"
#include "tests/own_udp_port.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;

constexpr std::int64_t kPatienceNs = 20'000'000'000;
constexpr std::uint8_t kLanes = 2;
constexpr std::array<std::uint32_t, kLanes> kNoQps{1U << 20, 1U << 21};  // unused: no message may go there

// A rank whose QPs do not exist.
struct Rank {
  explicit Rank(std::uint16_t number) {
    nic::Settings settings;
    nic::PortSettings port;
    CHECK(nic::parse_address("127.0.0." + std::to_string(121 + number), port.local));
    port.advertise = port.local;
    settings.ports.push_back(port);
    settings.udp_port = openmrc::test::own_udp_port();
    device = std::make_shared<nic::Device>(settings);
    CHECK(device->create_cq(64, cq) == Status::kOk);
    executor = std::make_unique<DeviceExecutor>(
        device, cq,
        ExecutorSettings{
            .rank = number, .ranks = 2, .lanes = kLanes, .recv_depth = 160, .spin = 2 * kPsPerMs, .poll = 0});
  }

  std::shared_ptr<nic::Device> device;
  CqId cq = 0;
  std::unique_ptr<DeviceExecutor> executor;
};

struct Pair {
  Pair() : ranks{Rank(0), Rank(1)} {
    const SharedOffer first = ranks[0].executor->offer_memory(1).value(),
                      second = ranks[1].executor->offer_memory(0).value();
    CHECK(ranks[0].executor->open_memory(1, second) && ranks[1].executor->open_memory(0, first));
    for (std::uint16_t i = 0; i < 2; ++i) {
      const auto peer = static_cast<std::uint16_t>(1 - i);
      ranks[i].executor->use_memory(peer, true);
      ranks[i].executor->connect(peer, kNoQps, 0, 0);
    }
  }
  DeviceExecutor& operator[](std::size_t number) { return *ranks[number].executor; }

  std::array<Rank, 2> ranks;
};

// Rank 1 has no executor: the test plays it.
struct Liar {
  Liar() : link(kLanes), rank(0) {
    CHECK(link.open(rank.executor->offer_memory(1).value()));
    CHECK(rank.executor->open_memory(1, {link.memory(), {bells[0].file(), bells[1].file()}}));
    rank.executor->use_memory(1, true);
    rank.executor->connect(1, kNoQps, 0, 0);
  }

  // Result of an operation that waits for one message of `bytes`, after this record.
  std::string answer(const RingHead& head, std::uint64_t bytes);

  SharedLink link;
  std::array<Doorbell, kSleepers> bells;
  Rank rank;
};

std::shared_ptr<Plan> messages(std::uint16_t peer, StepKind kind, std::uint32_t count, std::uint64_t bytes) {
  PlanConfig config;
  config.ranks = 2;
  config.buffer_bytes = {count * bytes};
  for (std::uint32_t i = 0; i < count; ++i)
    config.steps.push_back({kind, false, 0, 0, peer, i * bytes, i * bytes, bytes});
  return std::make_shared<Plan>(config);
}

std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
  return data;
}

OpId submit(Executor& executor, std::shared_ptr<Plan> plan, std::uint64_t key, std::vector<std::uint8_t>& bytes,
            std::uint8_t lane = 0) {
  const std::array<Memory, 1> buffers{Memory{bytes.data(), bytes.size()}};
  return executor.submit(std::move(plan), key, lane, buffers);
}

std::string Liar::answer(const RingHead& head, std::uint64_t bytes) {
  std::vector<std::uint8_t> into(bytes), data(kPartBytesMax);
  Executor& executor = *rank.executor;
  const OpId op = submit(executor, messages(1, StepKind::kReceive, 1, bytes), 7, into);
  CHECK(link.put(0, head, data.data()) == RingAnswer::kOk);
  if (executor.wait(op, kPatienceNs) != OpState::kFailed) return "no failure";
  const auto [failed, reason] = executor.failure(op);
  CHECK(executor.stats().protocol_errors == 1 && failed == 1 && executor.release(op));
  return reason;
}

// Transfers from rank 0 to rank 1; true: everything arrived.
bool transfer(Pair& pair, std::uint32_t count, std::uint64_t bytes, bool receiver_first) {
  std::vector<std::uint8_t> from = pattern(count * bytes), into(count * bytes);
  OpId received = 0;
  const auto receive = [&] { received = submit(pair[1], messages(0, StepKind::kReceive, count, bytes), 7, into); };
  if (receiver_first) receive();
  const OpId sent = submit(pair[0], messages(1, StepKind::kSend, count, bytes), 7, from);
  if (!receiver_first) receive();
  const bool done =
      pair[1].wait(received, kPatienceNs) == OpState::kDone && pair[0].wait(sent, kPatienceNs) == OpState::kDone;
  return pair[1].release(received) && pair[0].release(sent) && done && from == into;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(collectives_shared_memory_moves_small_and_large_messages) {
  Pair pair;
  for (const bool receiver_first : {true, false}) {
    CHECK(transfer(pair, 1, 0, receiver_first));
    CHECK(transfer(pair, 3, 100, receiver_first));
    CHECK(transfer(pair, 1, kEagerBytesMax, receiver_first));
    CHECK(transfer(pair, 1, kEagerBytesMax + 1, receiver_first));
    CHECK(transfer(pair, 5, 300'001, receiver_first));
    CHECK(transfer(pair, 2, 3 * kRingBytes + 1, receiver_first));
    CHECK(transfer(pair, 3000, 1000, receiver_first));
  }
  const ExecutorStats stats = pair[1].stats();
  CHECK(stats.slot_messages == 0 && stats.direct_messages == 0 && stats.shared_messages > 6000);
  CHECK(stats.protocol_errors == 0 && pair[0].flush(kPatienceNs));
}

TEST_CASE(collectives_shared_memory_goes_on_while_nobody_waits) {
  Pair pair;
  std::vector<std::vector<std::uint8_t>> from(8), into(8);
  std::vector<OpId> sent, received;
  for (std::uint32_t i = 0; i < 8; ++i) {
    const std::uint64_t bytes = i % 2 == 0 ? 2 * kRingBytes : 40;
    const auto lane = static_cast<std::uint8_t>(i % 3 == 0);
    from[i] = pattern(bytes), into[i].resize(bytes);
    received.push_back(submit(pair[1], messages(0, StepKind::kReceive, 1, bytes), i, into[i], lane));
    sent.push_back(submit(pair[0], messages(1, StepKind::kSend, 1, bytes), i, from[i], lane));
  }
  for (std::size_t i = 8; i-- > 0;) {
    while (!(pair[1].release(received[i]) && pair[0].release(sent[i]))) {
    }
    CHECK(from[i] == into[i]);
  }
}

// The thread leaves such operations to their waiters, and takes over if there are none.
TEST_CASE(collectives_shared_memory_goes_on_after_many_waits_at_once) {
  Pair pair;
  std::vector<std::uint8_t> from = pattern(40), into(40);
  std::uint64_t key = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 40; ++i, ++key) {
      const OpId received = submit(pair[1], messages(0, StepKind::kReceive, 1, 40), key, into);
      const OpId sent = submit(pair[0], messages(1, StepKind::kSend, 1, 40), key, from);
      bool gone = false;
      CHECK(pair[1].finish(received, kPatienceNs, gone) == OpState::kDone && gone && pair[1].release(received));
      CHECK(pair[0].finish(sent, kPatienceNs, gone) == OpState::kDone && gone);
      CHECK(pair[1].finish(received, kPatienceNs, gone) == OpState::kUnknown);
    }
    const OpId received = submit(pair[1], messages(0, StepKind::kReceive, 1, 40), key, into);
    const OpId sent = submit(pair[0], messages(1, StepKind::kSend, 1, 40), key++, from);
    while (!(pair[1].release(received) && pair[0].release(sent))) {
    }
  }
  CHECK(from == into);
}

TEST_CASE(collectives_shared_memory_gives_buffers_back_when_a_peer_fails) {
  Pair pair;
  constexpr std::uint64_t kBytes = 4 * kRingBytes;
  std::vector<std::uint8_t> into(2 * kBytes), from(kBytes), never(kBytes);
  const OpId received = submit(pair[1], messages(0, StepKind::kReceive, 2, kBytes), 1, into);
  const OpId sent = submit(pair[0], messages(1, StepKind::kSend, 1, kBytes), 1, from);
  const OpId held = submit(pair[0], messages(1, StepKind::kSend, 1, kBytes), 2, never);
  CHECK(pair[0].wait(sent, kPatienceNs) == OpState::kDone);
  CHECK(pair[1].wait(received, 1'000'000) == OpState::kRunning);
  pair[1].fail_peer(0, "it gave up");
  CHECK(pair[1].wait(received, kPatienceNs) == OpState::kFailed && pair[1].release(received));
  pair[0].fail_peer(1, "it is gone");
  CHECK(pair[0].wait(held, kPatienceNs) == OpState::kFailed && pair[0].release(held));
}

TEST_CASE(collectives_shared_memory_is_let_go_where_the_peer_has_none) {
  Rank rank(0);
  const SharedOffer own = rank.executor->offer_memory(1).value();
  CHECK(!rank.executor->open_memory(1, {{own.memory.process, own.memory.descriptor, 0, 0}, own.doorbells}));
  rank.executor->use_memory(1, false);
  SharedLink late(kLanes);
  CHECK(!late.open(own));
}

// If a sandbox or a limit refuses the memory, ranks continue over QPs.
TEST_CASE(collectives_shared_memory_is_not_offered_where_the_system_refuses_it) {
  Rank rank(0);
  rlimit before{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool offered = rank.executor->offer_memory(1).has_value();
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(!offered);
  SharedLink peer(kLanes);
  const std::array<Doorbell, kSleepers> bells;
  CHECK(!rank.executor->open_memory(1, {peer.memory(), {bells[0].file(), bells[1].file()}}));
  rank.executor->use_memory(1, false);
}

TEST_CASE(collectives_shared_memory_refuses_what_a_peer_may_not_send) {
  const auto answer = [](const RingHead& head, std::uint64_t bytes) { return Liar().answer(head, bytes); };
  const std::uint32_t data = MessageHead::kData, part = MessageHead::kPart;
  CHECK(contains(answer({{7, 9, 0, 8, 0}, 0}, 8), "cannot be read"));
  CHECK(contains(answer({{7, data, 0, kEagerBytesMax + 1, 0}, 0}, 8), "cannot be read"));
  CHECK(contains(answer({{7, data, 0, 4, 0}, 0}, 8), "size or element type"));
  CHECK(contains(answer({{7, part, 1, 8, 0}, 0}, 10'000), "nobody waits for"));
  CHECK(contains(answer({{8, part, 0, 8, 0}, 0}, 10'000), "nobody waits for"));
  CHECK(contains(answer({{7, part, 0, 8, 0}, 0}, 10'000), "size or element type"));       // an end without a beginning
  CHECK(contains(answer({{7, part, 0, 8, 0}, 10'000}, 10'000), "size or element type"));  // one byte too many
  CHECK(contains(answer({{7, part, 0, 8, 0}, ~std::uint64_t{0}}, 10'000), "size or element type"));
  CHECK(contains(answer({{7, part, 0, 8, 0}, ~std::uint64_t{7}}, 10'000), "size or element type"));
}

TEST_CASE(collectives_shared_memory_takes_a_message_that_its_sender_gave_up) {
  Liar liar;
  Executor& executor = *liar.rank.executor;
  std::vector<std::uint8_t> given_up(10'000), into(10'000), data = pattern(10'000);
  const OpId op = submit(executor, messages(1, StepKind::kReceive, 1, 10'000), 7, given_up);
  const OpId other = submit(executor, messages(1, StepKind::kReceive, 1, 10'000), 8, into);
  const std::uint32_t part = MessageHead::kPart;
  CHECK(liar.link.put(0, {{7, part, 0, 4000, 0}, 6000}, data.data()) == RingAnswer::kOk);
  CHECK(liar.link.put(0, {{8, part, 0, 10'000, 0}, 0}, data.data()) == RingAnswer::kOk);
  CHECK(executor.wait(other, kPatienceNs) == OpState::kDone && into == data);
  CHECK(executor.state(op) == OpState::kRunning && executor.stats().protocol_errors == 0);
}

// The operand is combined directly from its arrival buffer, unless the buffer has another reader or the reduction has
// to wait.
TEST_CASE(collectives_shared_memory_reduces_straight_from_where_messages_arrive) {
  struct Round {
    std::uint64_t bytes;
    bool scratch, also_copied, late;
    bool in_place;
  };
  const std::uint64_t large = 2 * kRingBytes + 8;
  for (const Round& round : {Round{40, true, false, false, true}, Round{4000, true, false, false, true},
                             Round{large, true, false, false, true}, Round{40, false, false, false, false},
                             Round{large, false, false, false, false}, Round{large, true, true, false, false},
                             Round{40, true, false, true, false}, Round{large, true, false, true, false}}) {
    Pair pair;
    PlanConfig config;
    config.ranks = 2;
    config.type = ElementType::kInt64;
    config.buffer_bytes = {round.bytes, 2 * round.bytes};
    if (round.scratch) config.scratch_buffer = 1;
    config.steps = {{StepKind::kReceive, false, 0, 1, 0, 0, 0, round.bytes},
                    {StepKind::kReceive, false, 0, 1, 0, 0, round.bytes, round.bytes},
                    {StepKind::kReduce, false, 1, 0, 0, 0, 0, round.bytes},
                    {StepKind::kReduce, false, 1, 0, 0, round.bytes, 0, round.bytes}};
    // Late: the first message is the operand of the last reduction.
    const std::uint32_t first = round.late ? 1 : 0;
    config.waits = {{2, first}, {3, 1 - first}, {3, 2}};
    if (round.late) std::swap(config.steps[2].from_offset, config.steps[3].from_offset);
    if (round.also_copied) {
      config.buffer_bytes.push_back(round.bytes);
      for (const std::uint64_t offset : {std::uint64_t{0}, round.bytes}) {
        config.steps.push_back({StepKind::kCopy, false, 1, 2, 0, offset, 0, round.bytes});
        config.waits.emplace_back(static_cast<std::uint32_t>(config.steps.size() - 1), 3);
      }
    }
    const std::size_t count = round.bytes / 8;
    std::vector<std::int64_t> into(count, 3), scratch(2 * count, -1), copied(count), from(2 * count, 5);
    std::fill(from.begin() + static_cast<std::ptrdiff_t>(count), from.end(), 7);
    const auto memory = [](std::vector<std::int64_t>& words) {
      return Memory{reinterpret_cast<std::uint8_t*>(words.data()), words.size() * 8};
    };
    const std::array<Memory, 3> buffers{memory(into), memory(scratch), memory(copied)};
    const std::array<Memory, 1> sent{memory(from)};
    const OpId received =
        pair[1].submit(std::make_shared<Plan>(config), 7, 0, std::span(buffers).first(config.buffer_bytes.size()));
    const OpId sending = pair[0].submit(messages(1, StepKind::kSend, 2, round.bytes), 7, 0, sent);
    CHECK(pair[1].wait(received, kPatienceNs) == OpState::kDone &&
          pair[0].wait(sending, kPatienceNs) == OpState::kDone);
    CHECK(into == std::vector<std::int64_t>(count, 15) && pair[1].stats().reduced_bytes == 2 * round.bytes);
    const bool untouched = scratch == std::vector<std::int64_t>(2 * count, -1);
    CHECK(untouched == round.in_place);
  }
}

TEST_CASE(collectives_shared_memory_refuses_half_an_element_of_what_is_reduced_at_once) {
  Liar liar;
  PlanConfig config;
  config.ranks = 2;
  config.type = ElementType::kInt64;
  config.buffer_bytes = {10'000, 10'000};
  config.scratch_buffer = 1;
  config.steps = {{StepKind::kReceive, false, 0, 1, 1, 0, 0, 10'000},
                  {StepKind::kReduce, false, 1, 0, 0, 0, 0, 10'000}};
  config.waits = {{1, 0}};
  std::vector<std::uint8_t> into(10'000), scratch(10'000), data(10'000);
  const std::array<Memory, 2> buffers{Memory{into.data(), into.size()}, Memory{scratch.data(), scratch.size()}};
  Executor& executor = *liar.rank.executor;
  const OpId op = executor.submit(std::make_shared<Plan>(config), 7, 0, buffers);
  CHECK(liar.link.put(0, {{7, MessageHead::kPart, 0, 4001, 0}, 5999}, data.data()) == RingAnswer::kOk);
  CHECK(executor.wait(op, kPatienceNs) == OpState::kFailed && executor.stats().protocol_errors == 1);
  CHECK(contains(executor.failure(op).second, "cut an element"));
}
