// The runner of plans, and the executor around it, over transports that the test plays: no device takes part.
#include "collectives/plan_runner.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/executor.hpp"
#include "tests/check.hpp"
#include "tests/fake_transport.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;
using namespace openmrc::collectives::test;

constexpr std::uint64_t kLarge = kEagerBytesMax + 1;
constexpr ExecutorSettings kSettings{.rank = 0, .ranks = 3};

std::shared_ptr<const Plan> one_message(StepKind kind, std::uint16_t peer, std::uint64_t bytes) {
  PlanConfig config;
  config.ranks = 3;
  config.buffer_bytes = {bytes};
  config.steps = {{.kind = kind, .peer = peer, .bytes = bytes}};
  return std::make_shared<const Plan>(std::move(config));
}

// Rank 0 of three.
struct Alone {
  Alone() { transports.use_local(); }

  OpId submit(StepKind kind, std::uint16_t peer, std::uint64_t key, std::vector<std::uint8_t>& bytes) {
    const std::array<Memory, 1> buffers{Memory{bytes.data(), bytes.size()}};
    return runner.submit(one_message(kind, peer, bytes.size()), key, 0, buffers);
  }
  OpState state(OpId op) { return runner.operations().find(op)->state; }

  FakeTransport* remote = new FakeTransport(kInPlace);
  FakeTransport* local = new FakeTransport(kInParts);
  Transports transports{std::unique_ptr<Transport>(remote), std::unique_ptr<Transport>(local)};
  std::condition_variable ended;
  PlanRunner runner{kSettings, transports, ended};
};

FakeTransport::Arrival small_message(std::uint16_t rank, std::uint64_t key, std::vector<std::uint8_t> data) {
  return [rank, key, data](TransportReceiver& receiver) {
    const MessageHead head{.key = key, .kind = MessageHead::kData, .bytes = static_cast<std::uint32_t>(data.size())};
    receiver.take_message(rank, head, data.data());
  };
}

FakeTransport::Arrival announcement(std::uint16_t rank, std::uint64_t key, const RemoteBuffer& buffer) {
  return [rank, key, buffer](TransportReceiver& receiver) {
    std::array<RemoteBuffer, kPlanBuffersMax> buffers;
    buffers.fill(buffer);
    const MessageHead head{.key = key, .kind = MessageHead::kAnnounce, .bytes = sizeof buffers, .op_slot = 5};
    std::array<std::uint8_t, sizeof buffers> bytes;
    std::memcpy(bytes.data(), buffers.data(), sizeof buffers);
    receiver.take_message(rank, head, bytes.data());
  };
}

}  // namespace

TEST_CASE(collectives_runner_sends_over_the_transport_of_each_rank) {
  Alone rank;
  rank.runner.use(2, *rank.local);
  std::vector<std::uint8_t> first{1, 2, 3}, second{4};
  const OpId remote = rank.submit(StepKind::kSend, 1, 7, first), local = rank.submit(StepKind::kSend, 2, 8, second);
  CHECK(rank.state(remote) == OpState::kDone && rank.state(local) == OpState::kDone);
  CHECK(rank.remote->messages_sent.size() == 1 && rank.local->messages_sent.size() == 1);
  CHECK(rank.remote->messages_sent[0].rank == 1 && rank.remote->messages_sent[0].data == first);
  CHECK(rank.local->messages_sent[0].rank == 2 && rank.local->messages_sent[0].head.key == 8);
}

TEST_CASE(collectives_runner_waits_for_an_announcement_and_for_the_buffer_of_a_large_send_in_place) {
  Alone rank;
  std::vector<std::uint8_t> from(kLarge, 9);
  const OpId op = rank.submit(StepKind::kSend, 1, 7, from);
  CHECK(rank.remote->keys_in_use == 1 && rank.remote->large_sent.empty());
  rank.remote->arrives(announcement(1, 7, {.address = 1000, .rkey = 77}));
  rank.runner.drive();
  CHECK(rank.remote->large_sent.size() == 1);
  const LargeMessage& sent = rank.remote->large_sent[0];
  CHECK(sent.remote_address == 1000 && sent.remote_key == 77 && sent.head.op_slot == 5 && sent.data == from.data());
  CHECK(rank.state(op) == OpState::kRunning);
  rank.remote->arrives([&](TransportReceiver& receiver) { receiver.take_sent(sent.op, sent.step, true); });
  rank.runner.drive();
  CHECK(rank.state(op) == OpState::kDone && rank.remote->keys_in_use == 0);
}

TEST_CASE(collectives_runner_needs_no_keys_where_large_messages_go_in_parts) {
  Alone rank;
  rank.runner.use(1, *rank.local);
  std::vector<std::uint8_t> into(kLarge);
  const OpId op = rank.submit(StepKind::kReceive, 1, 7, into);
  CHECK(rank.remote->keys_in_use == 0 && rank.local->messages_sent.size() == 1);
  CHECK(rank.local->messages_sent[0].head.kind == MessageHead::kAnnounce);
  const std::vector<std::uint8_t> data(kLarge, 6);
  for (std::uint64_t gone = 0; gone < kLarge; gone += kLarge - 1) {
    const std::uint64_t bytes = gone == 0 ? kLarge - 1 : 1;
    rank.local->arrives([&data, gone, bytes](TransportReceiver& receiver) {
      const MessageHead part{.key = 7, .kind = MessageHead::kPart, .bytes = static_cast<std::uint32_t>(bytes)};
      receiver.take_part(1, 0, part, kLarge - gone - bytes, data.data() + gone);
    });
    CHECK(rank.state(op) == OpState::kRunning);
    rank.runner.drive();
  }
  CHECK(rank.state(op) == OpState::kDone && into == data);
}

TEST_CASE(collectives_runner_holds_what_finds_no_room_and_lets_the_oldest_operation_pass) {
  Alone rank;
  PlanConfig answer;  // sends back what it has received
  answer.ranks = 3;
  answer.buffer_bytes = {1};
  answer.steps = {{.kind = StepKind::kReceive, .peer = 1, .bytes = 1},
                  {.kind = StepKind::kSend, .peer = 1, .bytes = 1}};
  answer.waits = {{1, 0}};
  std::vector<std::uint8_t> echo{0}, first{1}, second{2};
  const std::array<Memory, 1> buffers{Memory{echo.data(), echo.size()}};
  const OpId oldest = rank.runner.submit(std::make_shared<const Plan>(std::move(answer)), 1, 0, buffers);
  rank.remote->room = 0;
  rank.submit(StepKind::kSend, 1, 2, first);
  rank.submit(StepKind::kSend, 1, 3, second);
  rank.remote->kept = 1;
  rank.remote->arrives(small_message(1, 1, {9}));
  rank.runner.drive();
  CHECK(rank.remote->messages_sent.size() == 1 && rank.state(oldest) == OpState::kDone);
  CHECK(rank.remote->messages_sent[0].urgent && rank.remote->messages_sent[0].data[0] == 9);
  rank.remote->room = 2;
  rank.runner.drive();
  CHECK(rank.remote->messages_sent.size() == 3);
  CHECK(rank.remote->messages_sent[1].head.key == 2 && rank.remote->messages_sent[2].head.key == 3);
}

TEST_CASE(collectives_runner_holds_early_messages_and_makes_room_when_their_operation_begins) {
  Alone rank;
  rank.remote->arrives(small_message(1, 7, {3, 4}));
  rank.runner.drive();
  CHECK(rank.runner.stats().early_messages == 1 && rank.remote->rooms_made == 0);
  std::vector<std::uint8_t> into(2);
  const OpId op = rank.submit(StepKind::kReceive, 1, 7, into);
  CHECK(rank.state(op) == OpState::kDone && into[0] == 3 && into[1] == 4 && rank.remote->rooms_made == 1);
}

// A large receive into scratch memory is combined as it arrives, in any order; a small one that way is not.
TEST_CASE(collectives_runner_reduces_large_messages_where_peers_write_them) {
  constexpr std::uint64_t kCount = kLarge / 4 + 1, kBytes = 4 * kCount;
  Alone rank;
  PlanConfig config;
  config.ranks = 3;
  config.buffer_bytes = {kBytes, 64 + kBytes};
  config.scratch_buffer = 1;
  config.type = ElementType::kFloat32;
  config.steps = {{.kind = StepKind::kReceive, .into_buffer = 1, .peer = 1, .into_offset = 64, .bytes = kBytes},
                  {.kind = StepKind::kReduce, .from_buffer = 1, .from_offset = 64, .bytes = kBytes}};
  config.waits = {{1, 0}};
  std::vector<float> own(kCount, 1.0F), theirs(kCount), scratch(16 + kCount, -7.0F);
  for (std::size_t i = 0; i < kCount; ++i) theirs[i] = static_cast<float>(i);
  const std::array<Memory, 2> buffers{Memory{reinterpret_cast<std::uint8_t*>(own.data()), kBytes},
                                      Memory{reinterpret_cast<std::uint8_t*>(scratch.data()), 64 + kBytes}};
  const OpId op = rank.runner.submit(std::make_shared<const Plan>(std::move(config)), 7, 0, buffers);
  CHECK(rank.remote->placers.size() == 1);
  Placer& placer = *rank.remote->placers.front();
  const std::span<const std::uint8_t> written(reinterpret_cast<const std::uint8_t*>(theirs.data()), kBytes);
  CHECK(placer.place(64 + 4000, written.subspan(4000)));
  CHECK(!placer.place(64 + 4002, written.first(4)) && !placer.place(64, written.first(6)));  // part of an element
  CHECK(!placer.place(64 + kBytes - 4, written.first(8)) && !placer.place(60, written.first(8)));
  CHECK(placer.place(0, written.first(64)) && scratch[3] == 3.0F);  // in front of the message
  CHECK(placer.place(64, written.first(4000)));
  CHECK(rank.state(op) == OpState::kRunning);
  rank.remote->arrives([&](TransportReceiver& receiver) { receiver.take_written(1, op & 0xFFFF, 0, kBytes); });
  rank.runner.drive();
  CHECK(rank.state(op) == OpState::kDone && rank.runner.stats().reduced_bytes == kBytes);
  for (std::size_t i = 0; i < kCount; ++i) CHECK(own[i] == 1.0F + static_cast<float>(i));
  CHECK(scratch[16] == -7.0F);
}

TEST_CASE(collectives_runner_copies_large_messages_that_it_cannot_reduce_on_arrival) {
  Alone rank;
  PlanConfig config;
  config.ranks = 3;
  config.buffer_bytes = {2 * kLarge, 2 * kLarge};
  config.scratch_buffer = 1;
  config.type = ElementType::kUint8;
  // The reduction waits for a second message.
  config.steps = {{.kind = StepKind::kReceive, .into_buffer = 1, .peer = 1, .bytes = kLarge},
                  {.kind = StepKind::kReceive, .into_buffer = 0, .peer = 2, .bytes = kLarge},
                  {.kind = StepKind::kReduce, .from_buffer = 1, .bytes = kLarge}};
  config.waits = {{2, 0}, {2, 1}};
  std::vector<std::uint8_t> own(2 * kLarge), scratch(2 * kLarge);
  const std::array<Memory, 2> buffers{Memory{own.data(), own.size()}, Memory{scratch.data(), scratch.size()}};
  PlanConfig wide = config;
  wide.type = ElementType::kFloat64;  // a payload may end within an element
  wide.steps.erase(wide.steps.begin() + 1);
  wide.waits = {{1, 0}};
  wide.steps[0].bytes = wide.steps[1].bytes = kLarge + 8 - kLarge % 8;
  rank.runner.submit(std::make_shared<const Plan>(std::move(config)), 7, 0, buffers);
  rank.runner.submit(std::make_shared<const Plan>(std::move(wide)), 8, 0, buffers);
  CHECK(rank.remote->keys_in_use > 0 && rank.remote->placers.empty());
}

TEST_CASE(collectives_runner_tells_the_transport_when_too_much_is_held) {
  Alone rank;
  bool withheld = false;
  const std::vector<std::uint8_t> data(kEagerBytesMax);
  std::uint64_t messages = 0;
  rank.remote->arrives([&](TransportReceiver& receiver) {
    for (std::uint64_t key = 1; !withheld && key < EarlyMessages::kCountMax; ++key, ++messages) {
      const MessageHead head{.key = key, .kind = MessageHead::kData, .bytes = static_cast<std::uint32_t>(data.size())};
      withheld = receiver.take_message(1, head, data.data());
    }
  });
  rank.runner.drive();
  CHECK(withheld && messages * kEagerBytesMax <= EarlyMessages::kBytesMax + kSlotBytes);
  CHECK(rank.runner.stats().early_bytes_max > EarlyMessages::kBytesMax && !rank.runner.faulty(1));
}

TEST_CASE(collectives_runner_fails_the_operations_of_a_rank_that_is_lost_or_breaks_the_rules) {
  Alone rank;
  std::vector<std::uint8_t> first(4), second(4), third(4);
  const OpId lost = rank.submit(StepKind::kReceive, 1, 7, first),
             broken = rank.submit(StepKind::kReceive, 2, 8, second);
  rank.remote->arrives([](TransportReceiver& receiver) { receiver.take_loss(1, "it is gone"); });
  rank.remote->arrives(small_message(2, 8, {1, 2}));  // four bytes are due
  rank.runner.drive();
  CHECK(rank.state(lost) == OpState::kFailed && rank.runner.operations().find(lost)->reason == "it is gone");
  CHECK(rank.state(broken) == OpState::kFailed && rank.runner.operations().find(broken)->failed_rank == 2);
  CHECK(!rank.runner.faulty(1) && rank.runner.faulty(2) && rank.remote->stopped.size() == 2);
  CHECK(rank.state(rank.submit(StepKind::kReceive, 1, 9, third)) == OpState::kFailed);
}

TEST_CASE(collectives_runner_tells_its_call_once_to_each_rank_it_waits_for) {
  Alone rank;
  rank.runner.use(2, *rank.local);
  PlanConfig config;
  config.ranks = 3;
  config.buffer_bytes = {2};
  config.steps = {{.kind = StepKind::kReceive, .peer = 1, .bytes = 1},
                  {.kind = StepKind::kReceive, .peer = 2, .into_offset = 1, .bytes = 1}};
  config.call.kind = 1;
  std::vector<std::uint8_t> into(2);
  const std::array<Memory, 1> buffers{Memory{into.data(), into.size()}};
  const OpId id = rank.runner.submit(std::make_shared<const Plan>(std::move(config)), 7, 0, buffers);
  Operation& op = *rank.runner.operations().find(id);
  rank.remote->room = 0;
  for (int look = 0; look < 3; ++look) rank.runner.compare_calls(op);
  CHECK(rank.remote->messages_sent.empty() && rank.local->messages_sent.size() == 1);
  CHECK(rank.local->messages_sent[0].head.kind == MessageHead::kCall &&
        rank.local->messages_sent[0].head.call.kind == 1);
  rank.remote->room = 9;
  for (int look = 0; look < 3; ++look) rank.runner.compare_calls(op);
  CHECK(rank.remote->messages_sent.size() == 1 && rank.local->messages_sent.size() == 1);
}

TEST_CASE(collectives_runner_fails_an_operation_whose_memory_the_device_does_not_take) {
  Alone rank;
  rank.remote->keys_left = 0;
  std::vector<std::uint8_t> into(kLarge);
  CHECK(rank.state(rank.submit(StepKind::kReceive, 1, 7, into)) == OpState::kFailed);
}

TEST_CASE(collectives_executor_waits_over_any_transport) {
  auto owned = std::make_unique<FakeTransport>(kInPlace);
  FakeTransport& transport = *owned;
  transport.arrives(small_message(1, 7, {5}));
  Executor executor(std::move(owned), nullptr, kSettings);
  std::vector<std::uint8_t> into(1);
  const std::array<Memory, 1> buffers{Memory{into.data(), into.size()}};
  const OpId op = executor.submit(one_message(StepKind::kReceive, 1, 1), 7, 0, buffers);
  CHECK(executor.wait(op, 20'000'000'000) == OpState::kDone && into[0] == 5 && executor.release(op));
  const OpId never = executor.submit(one_message(StepKind::kReceive, 1, 1), 8, 0, buffers);
  CHECK(executor.wait(never, 1'000'000) == OpState::kRunning);
  executor.close();
  CHECK(executor.state(never) == OpState::kFailed && !executor.usable() && executor.flush(0));
}
