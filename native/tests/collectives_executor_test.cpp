// Executors over devices on loopback, in one process; and protocol violations by a peer.
#include "collectives/device_executor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nic/clock.hpp"
#include "tests/check.hpp"
#include "tests/collectives_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;
using namespace openmrc::collectives::test;

// Transfers from rank 0 to rank 1; true: everything arrived.
bool transfer(World& world, std::uint32_t count, std::uint64_t bytes, bool receiver_first) {
  std::vector<std::uint8_t> from = pattern(count * bytes), into(count * bytes);
  OpId sent = 0, received = 0;
  const auto receive = [&] { received = submit(world[1], messages(2, 0, StepKind::kReceive, count, bytes), 7, into); };
  if (receiver_first) receive();
  sent = submit(world[0], messages(2, 1, StepKind::kSend, count, bytes), 7, from);
  if (!receiver_first) receive();
  const bool done =
      world[1].wait(received, kPatienceNs) == OpState::kDone && world[0].wait(sent, kPatienceNs) == OpState::kDone;
  const bool released = world[1].release(received) && world[0].release(sent);
  return done && released && from == into;
}

// Sends `bytes` to rank 1, and optionally receives 8 bytes from it.
std::shared_ptr<Plan> exchange(std::uint64_t bytes, bool receives) {
  PlanConfig config = messages(2, 1, StepKind::kSend, 1, bytes)->config();
  if (receives) config.steps.push_back({StepKind::kReceive, false, 0, 0, 1, 0, 0, 8});
  return std::make_shared<Plan>(config);
}

bool wait_for_release(Executor& executor, OpId op) {
  const nic::TimeNs deadline = nic::now_ns() + kPatienceNs;
  while (!executor.release(op)) {
    if (nic::now_ns() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Three ranks, the inbox of rank 0, and messages to it. `first_key` is the key of a sender's first message.
struct ToZero {
  static std::uint64_t first_key(std::uint16_t sender) { return (std::uint64_t{sender} + 70) << kSequenceBits; }

  ToZero() {
    const std::array<std::pair<std::uint16_t, std::uint64_t>, 2> sources{{{1, first_key(1)}, {2, first_key(2)}}};
    inbox = std::make_shared<Inbox>(sources);
  }

  void send(std::uint16_t sender, std::uint8_t content, std::size_t bytes) {
    PlanConfig config = messages(3, 0, StepKind::kSend, 1, bytes)->config();
    config.offered = true;
    memory.push_back(std::make_unique<std::vector<std::uint8_t>>(bytes, content));
    submit(world[sender], std::make_shared<Plan>(config), first_key(sender) + sent[sender]++, *memory.back());
  }
  OpId receive(int source, std::vector<std::uint8_t>& into, std::uint8_t lane = 0) {
    const auto plan = messages(3, 2, StepKind::kReceive, 1, into.size());
    const std::array<Memory, 1> buffers{memory_of(into)};
    return world[0].receive(inbox, source, plan, lane, buffers);
  }
  // Receives from any source; returns the content and the sender.
  std::pair<int, int> take(int source, std::size_t bytes) {
    std::vector<std::uint8_t> into(bytes);
    const OpId op = receive(source, into);
    if (world[0].wait(op, kPatienceNs) != OpState::kDone) return {-1, -1};
    const int from = world[0].source(op);
    CHECK(world[0].release(op) && std::count(into.begin(), into.end(), into[0]) == std::ptrdiff_t(bytes));
    return {from, into[0]};
  }
  void wait_for_early(std::uint64_t count) {
    const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
    std::vector<std::uint8_t> into(3), from(3);
    const OpId waiting = submit(world[0], messages(3, 1, StepKind::kReceive, 1, 3), next_dummy, into);
    while (nic::now_ns() < deadline && world[0].stats().early_messages < count) {
      world[0].wait(waiting, 1'000'000);
    }
    const OpId last = submit(world[1], messages(3, 0, StepKind::kSend, 1, 3), next_dummy++, from);
    CHECK(world[0].wait(waiting, kPatienceNs) == OpState::kDone);
    CHECK(world[1].wait(last, kPatienceNs) == OpState::kDone);
  }

  std::vector<std::unique_ptr<std::vector<std::uint8_t>>> memory;  // declared before the devices that read it
  World world{3};
  std::shared_ptr<Inbox> inbox;
  std::array<std::uint64_t, 3> sent{};
  std::uint64_t next_dummy = 1;
};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(collectives_executor_moves_small_and_large_messages) {
  World world(2);
  CHECK(transfer(world, 1, 0, true));
  CHECK(transfer(world, 3, 100, true));
  CHECK(transfer(world, 1, kEagerBytesMax, true));
  CHECK(transfer(world, 1, kEagerBytesMax + 1, true));
  CHECK(transfer(world, 5, 300'001, true));
}

TEST_CASE(collectives_executor_waits_for_slots_and_receives) {
  World world(2);
  CHECK(transfer(world, 10 * kSlots, 64, true));       // more than the mailbox's capacity
  CHECK(transfer(world, 4 * kRecvDepth, 5000, true));  // more than the number of receives
  CHECK(world[0].stats().slot_messages >= 10 * kSlots);
  CHECK(world[1].stats().direct_messages == 4 * kRecvDepth);
}

// Rank 1 is far ahead of rank 0: its early data is held up to a limit, then it waits, and nothing is lost.
TEST_CASE(collectives_executor_holds_a_bounded_number_of_bytes_for_a_peer_that_is_ahead) {
  constexpr std::uint32_t kCount = 8000;  // twice the limit
  World world(2);
  std::vector<std::uint8_t> from = pattern(kCount * kEagerBytesMax), into(from.size()), call(8), answer(8), none(8);
  // An older operation of rank 1, which answers a later message of rank 0, is not stuck behind the rest.
  PlanConfig answers;
  answers.ranks = 2;
  answers.buffer_bytes = {8};
  answers.steps.push_back({StepKind::kReceive, false, 0, 0, 0, 0, 0, 8});
  answers.steps.push_back({StepKind::kSend, false, 0, 0, 0, 0, 0, 8});
  answers.waits = {{1, 0}};
  const OpId older = submit(world[1], std::make_shared<Plan>(answers), 5, none);
  const OpId ahead = submit(world[1], messages(2, 0, StepKind::kSend, kCount, kEagerBytesMax), 7, from);

  const OpId waiting = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 8), 9, answer);
  const auto full = [&] { return world[0].stats().early_bytes_max > (16U << 20); };
  for (const nic::TimeNs until = nic::now_ns() + kPatienceNs; !full() && nic::now_ns() < until;) {
    world[0].wait(waiting, 1'000'000);
  }
  CHECK(full() && world[1].state(ahead) == OpState::kRunning);

  PlanConfig calls = answers;
  std::swap(calls.steps[0].kind, calls.steps[1].kind);
  calls.waits.clear();
  for (Step& step : calls.steps) step.peer = 1;
  const OpId asked = submit(world[0], std::make_shared<Plan>(calls), 5, call);
  CHECK(world[0].wait(asked, kPatienceNs) == OpState::kDone && world[1].wait(older, kPatienceNs) == OpState::kDone);
  CHECK(world[1].state(ahead) == OpState::kRunning);

  const OpId late = submit(world[0], messages(2, 1, StepKind::kReceive, kCount, kEagerBytesMax), 7, into);
  CHECK(world[0].wait(late, kPatienceNs) == OpState::kDone && world[1].wait(ahead, kPatienceNs) == OpState::kDone);
  CHECK(from == into);
  CHECK(world[0].stats().early_bytes_max < (16U << 20) + 2 * kLanes * kSlots * kSlotBytes);
  const OpId last = submit(world[1], messages(2, 0, StepKind::kSend, 1, 8), 9, none);
  CHECK(world[0].wait(waiting, kPatienceNs) == OpState::kDone && world[1].wait(last, kPatienceNs) == OpState::kDone);
}

TEST_CASE(collectives_executor_keeps_what_comes_early) {
  World world(2);
  std::vector<std::uint8_t> other(3), from = pattern(10 * 64), into(10 * 64);
  const OpId waiting = submit(world[1], messages(2, 0, StepKind::kReceive, 1, 3), 99, other);
  const OpId sent = submit(world[0], messages(2, 1, StepKind::kSend, 10, 64), 7, from);
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  while (nic::now_ns() < deadline && world[1].stats().early_messages < 10) world[1].wait(waiting, 1'000'000);
  const OpId received = submit(world[1], messages(2, 0, StepKind::kReceive, 10, 64), 7, into);
  CHECK(world[1].state(received) == OpState::kDone && into == from);
  CHECK(world[0].wait(sent, kPatienceNs) == OpState::kDone);
  const OpId last = submit(world[0], messages(2, 1, StepKind::kSend, 1, 3), 99, from);
  CHECK(world[1].wait(waiting, kPatienceNs) == OpState::kDone && world[0].wait(last, kPatienceNs) == OpState::kDone);
  CHECK(transfer(world, 3 * kSlots, 64, false));
  CHECK(transfer(world, 3, 100'000, false));
}

TEST_CASE(collectives_executor_runs_operations_of_both_lanes_at_once) {
  World world(2);
  std::vector<std::vector<std::uint8_t>> from(20), into(20);
  std::vector<OpId> sent, received;
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::uint64_t bytes = i % 2 == 0 ? 40'000 : 40;
    from[i] = pattern(bytes + i), into[i].resize(bytes + i);
    const auto lane = static_cast<std::uint8_t>(i % 3 == 0);
    received.push_back(submit(world[1], messages(2, 0, StepKind::kReceive, 1, bytes + i), i, into[i], lane));
    sent.push_back(submit(world[0], messages(2, 1, StepKind::kSend, 1, bytes + i), i, from[i], lane));
  }
  for (std::size_t i = 20; i-- > 0;) {
    CHECK(world[1].wait(received[i], kPatienceNs) == OpState::kDone);
    CHECK(world[0].wait(sent[i], kPatienceNs) == OpState::kDone);
    CHECK(from[i] == into[i]);
  }
}

TEST_CASE(collectives_executor_goes_on_while_nobody_waits) {
  World world(2);
  std::vector<std::uint8_t> from = pattern(1 << 20), into(1 << 20);
  const OpId received = submit(world[1], messages(2, 0, StepKind::kReceive, 4, 1 << 18), 1, into);
  const OpId sent = submit(world[0], messages(2, 1, StepKind::kSend, 4, 1 << 18), 1, from);
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  while (nic::now_ns() < deadline && !(world[1].release(received) && world[0].release(sent))) {
  }
  CHECK(world[1].state(received) == OpState::kUnknown && world[0].state(sent) == OpState::kUnknown);
  CHECK(from == into);
}

TEST_CASE(collectives_executor_waits_for_the_end_of_any_operation) {
  World world(2);
  std::vector<std::uint8_t> first(40'000), second(40'000), from = pattern(40'000);
  const OpId waits = submit(world[1], messages(2, 0, StepKind::kReceive, 1, 40'000), 1, first);
  CHECK(world[1].ended() == 0 && world[1].await_end(0, 1'000'000) == 0);
  const OpId comes = submit(world[1], messages(2, 0, StepKind::kReceive, 1, 40'000), 2, second);
  const OpId sent = submit(world[0], messages(2, 1, StepKind::kSend, 1, 40'000), 2, from);
  CHECK(world[1].await_end(0, kPatienceNs) == 1);
  CHECK(world[1].state(comes) == OpState::kDone && second == from);
  CHECK(world[1].state(waits) == OpState::kRunning);
  CHECK(world[0].await_end(0, kPatienceNs) == 1 && world[0].state(sent) == OpState::kDone);
  CHECK(world[0].await_end(1, 1'000'000) == 1);  // nothing runs
  CHECK(world[1].release(comes));                // an end still counts when the operation is forgotten
  CHECK(world[1].await_end(0, kPatienceNs) == 1);
  std::thread of_any([&] { CHECK(world[1].await_end(1, kPatienceNs) == 2); });
  std::thread of_one([&] { CHECK(world[1].wait(waits, kPatienceNs) == OpState::kFailed); });
  world[1].fail_peer(0, "it is gone");
  of_any.join(), of_one.join();
  CHECK(world[1].state(waits) == OpState::kFailed);
}

TEST_CASE(collectives_executor_names_the_peer_that_failed) {
  World world(3);
  std::vector<std::uint8_t> first(100'000), second(100'000), third(10);
  const OpId gone = submit(world[0], messages(3, 1, StepKind::kReceive, 1, 100'000), 1, first);
  const OpId well = submit(world[0], messages(3, 2, StepKind::kReceive, 1, 100'000), 2, second);
  world[0].fail_peer(1, "it is gone");
  CHECK(world[0].state(gone) == OpState::kFailed);
  CHECK(world[0].failure(gone) == std::pair(1, std::string("it is gone")));
  CHECK(!world[0].faulty(1) && !world[0].faulty(3));
  CHECK(world[0].release(gone));  // no writer is left
  CHECK(world[0].state(well) == OpState::kRunning);
  const OpId later = submit(world[0], messages(3, 1, StepKind::kSend, 1, 10), 3, third);
  CHECK(world[0].state(later) == OpState::kFailed && world[0].release(later));
  std::vector<std::uint8_t> from = pattern(100'000);
  const OpId sent = submit(world[2], messages(3, 0, StepKind::kSend, 1, 100'000), 2, from);
  CHECK(world[0].wait(well, kPatienceNs) == OpState::kDone && second == from);
  CHECK(world[2].wait(sent, kPatienceNs) == OpState::kDone);
}

TEST_CASE(collectives_executor_takes_what_a_peer_sent_before_it_left) {
  World world(2);
  std::vector<std::uint8_t> from = pattern(50), into(50), more(50);
  const OpId sent = submit(world[1], messages(2, 0, StepKind::kSend, 1, 50), 1, from);
  CHECK(world[1].wait(sent, kPatienceNs) == OpState::kDone && world[1].flush(kPatienceNs));
  world[0].fail_peer(1, "it left");
  const OpId received = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 50), 1, into);
  CHECK(world[0].state(received) == OpState::kDone && into == from);
  const OpId never = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 50), 2, more);
  CHECK(world[0].state(never) == OpState::kFailed);
}

// Its acknowledgements follow its goodbye, and here they never arrive.
TEST_CASE(collectives_executor_takes_as_arrived_what_it_sent_to_a_peer_that_left) {
  std::vector<std::uint8_t> first = pattern(100'000), second = pattern(100'000);
  const auto ends = [](std::vector<std::uint8_t>& bytes, bool receives, bool left) {
    Liar liar;
    liar.announce(7);
    liar.world.ranks[1]->device->close();
    const OpId op = submit(liar.world[0], exchange(100'000, receives), 7, bytes);
    CHECK(liar.world[0].state(op) == OpState::kRunning);
    liar.world[0].fail_peer(1, "it left", left);
    const OpState state = liar.world[0].state(op);
    CHECK(!liar.world[0].release(op));  // the device still sends
    liar.world.ranks[0]->break_qps(1);
    CHECK(wait_for_release(liar.world[0], op));
    return state;
  };
  CHECK(ends(first, false, true) == OpState::kDone);
  CHECK(ends(first, false, false) == OpState::kFailed);
  CHECK(ends(second, true, true) == OpState::kFailed);  // its data is missing
}

// The connection breaks, and the rank learns of it at its next send.
TEST_CASE(collectives_executor_gives_buffers_back_that_a_broken_connection_did_not_take) {
  std::vector<std::uint8_t> bytes = pattern(100'000);
  Liar liar;
  liar.announce(7);
  liar.send({7, MessageHead::kData, 0, 8, 0}, 1);
  liar.write(kLanes * Mailbox::kAreaBytes, 8, 1U << 31);  // beyond its area
  std::array<Completion, 1> done;
  CHECK(liar.world.ranks[1]->device->wait_cq(liar.world.ranks[1]->cq, done, kPatienceNs) == 1);
  PlanConfig config = exchange(100'000, true)->config();
  std::swap(config.steps[0], config.steps[1]);
  config.waits = {{1, 0}};
  const OpId op = submit(liar.world[0], std::make_shared<Plan>(config), 7, bytes);
  CHECK(liar.world[0].wait(op, kPatienceNs) == OpState::kFailed);
  CHECK(contains(liar.world[0].failure(op).second, "broke"));
  CHECK(wait_for_release(liar.world[0], op));
}

// Rank 1 gives up because of rank 2; rank 0 does not know yet and continues to write. That must not break their
// connection.
TEST_CASE(collectives_executor_lets_others_write_into_an_operation_that_failed) {
  World world(3);
  std::vector<std::uint8_t> from = pattern(200'000), into(200'000), small(8);
  PlanConfig config;
  config.ranks = 3;
  config.buffer_bytes = {200'000, 8};
  config.steps.push_back({StepKind::kReceive, false, 0, 0, 0, 0, 0, 200'000});
  config.steps.push_back({StepKind::kReceive, false, 1, 1, 2, 0, 0, 8});
  const std::array<Memory, 2> buffers{memory_of(into), memory_of(small)};
  const OpId failing = world[1].submit(std::make_shared<Plan>(config), 1, 0, buffers);
  world[1].fail_peer(2, "it is gone");
  CHECK(world[1].state(failing) == OpState::kFailed && !world[1].release(failing));
  const OpId sent = submit(world[0], messages(3, 1, StepKind::kSend, 1, 200'000), 1, from);
  CHECK(world[0].wait(sent, kPatienceNs) == OpState::kDone);
}

TEST_CASE(collectives_executor_receives_from_any_by_turns_and_each_in_order) {
  using Taken = std::pair<int, int>;
  for (const std::size_t bytes : {std::size_t{20}, kEagerBytesMax, kEagerBytesMax + 1, std::size_t{100'000}}) {
    ToZero mail;
    for (std::uint8_t i = 0; i < 3; ++i) mail.send(1, 10 + i, bytes);
    for (std::uint8_t i = 0; i < 5; ++i) mail.send(2, 20 + i, bytes);
    mail.wait_for_early(8);
    CHECK(mail.take(2, bytes) == Taken(2, 20));
    const std::array<Taken, 5> expected{{{1, 10}, {2, 21}, {1, 11}, {2, 22}, {1, 12}}};
    for (const Taken& next : expected) CHECK(mail.take(kAnySource, bytes) == next);
    CHECK(mail.take(kAnySource, bytes) == Taken(2, 23));
    CHECK(mail.take(2, bytes) == Taken(2, 24));
  }
}

TEST_CASE(collectives_executor_begins_receives_in_the_order_in_which_they_were_posted) {
  ToZero mail;
  World& world = mail.world;
  std::vector<std::uint8_t> own(50'000), any(50'000), behind(50'000), last(50'000);
  const OpId from_two = mail.receive(2, own);
  const OpId from_any = mail.receive(kAnySource, any, 1);
  const OpId from_one = mail.receive(1, behind);  // not the first of rank 1: that belongs to the previous operation
  const OpId from_rest = mail.receive(kAnySource, last);
  mail.send(1, 10, 50'000);
  CHECK(world[0].wait(from_any, kPatienceNs) == OpState::kDone && any[0] == 10 && world[0].source(from_any) == 1);
  CHECK(world[0].source(from_one) == 1 && world[0].source(from_rest) == -1);
  mail.send(2, 20, 50'000);
  CHECK(world[0].wait(from_two, kPatienceNs) == OpState::kDone && own[0] == 20);
  CHECK(world[0].state(from_one) == OpState::kRunning && world[0].state(from_rest) == OpState::kRunning);
  mail.send(1, 11, 50'000);
  CHECK(world[0].wait(from_one, kPatienceNs) == OpState::kDone && behind[0] == 11);
  mail.send(1, 12, 50'000);
  CHECK(world[0].wait(from_rest, kPatienceNs) == OpState::kDone && last[0] == 12);
  for (const OpId op : {from_two, from_any, from_one, from_rest}) CHECK(world[0].release(op));
}

TEST_CASE(collectives_executor_receives_from_any_until_nobody_is_left) {
  ToZero mail;
  World& world = mail.world;
  std::vector<std::uint8_t> first(100'000), second(100'000), third(100'000), late(8);
  mail.send(1, 10, 100'000);  // offered, and then rank 1 disappears
  mail.wait_for_early(1);
  world[0].fail_peer(1, "it is gone");
  const OpId waiting = mail.receive(kAnySource, first);
  CHECK(world[0].state(waiting) == OpState::kRunning);
  mail.send(2, 20, 100'000);
  CHECK(world[0].wait(waiting, kPatienceNs) == OpState::kDone && first[0] == 20 && world[0].release(waiting));
  const OpId lonely = mail.receive(kAnySource, second), behind = mail.receive(2, third);
  mail.send(1, 11, 8);
  world[0].fail_peer(2, "it is gone, too");
  CHECK(world[0].state(lonely) == OpState::kFailed && world[0].state(behind) == OpState::kFailed);
  CHECK(contains(world[0].failure(lonely).second, "every rank that could send is gone"));
  CHECK(world[0].failure(behind) == std::pair(2, std::string("it is gone, too")));
  CHECK(world[0].release(lonely) && world[0].release(behind));
  const OpId later = mail.receive(kAnySource, late);
  CHECK(world[0].state(later) == OpState::kFailed && world[0].release(later));
}

TEST_CASE(collectives_executor_takes_from_any_what_came_before_its_sender_left) {
  ToZero mail;
  World& world = mail.world;
  mail.send(1, 10, 50);
  mail.wait_for_early(1);
  world[0].fail_peer(1, "it left", /*left=*/true);
  world[0].fail_peer(2, "it left", /*left=*/true);
  CHECK(mail.take(kAnySource, 50) == std::pair(1, 10));
  CHECK(mail.take(kAnySource, 50) == std::pair(-1, -1));
}

TEST_CASE(collectives_executor_closes_with_receives_from_any_waiting) {
  ToZero mail;
  World& world = mail.world;
  std::vector<std::uint8_t> into(100'000), behind(8);
  const OpId any = mail.receive(kAnySource, into), next = mail.receive(1, behind);
  CHECK(world[0].wait(any, 1'000'000) == OpState::kRunning);
  world[0].close();
  CHECK(world[0].state(any) == OpState::kFailed && world[0].release(any) && world[0].release(next));
  const OpId late = mail.receive(kAnySource, into);
  CHECK(world[0].state(late) == OpState::kFailed && world[0].release(late));
}

TEST_CASE(collectives_executor_closes_with_operations_running) {
  World world(2);
  std::vector<std::uint8_t> into(100'000);
  const OpId op = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 100'000), 1, into);
  CHECK(world[0].wait(op, 1'000'000) == OpState::kRunning);
  world[0].close();
  CHECK(world[0].wait(op, kPatienceNs) == OpState::kFailed && world[0].release(op));
  const OpId late = submit(world[0], messages(2, 1, StepKind::kReceive, 1, 100'000), 2, into);
  CHECK(world[0].state(late) == OpState::kFailed && world[0].release(late));
}

TEST_CASE(collectives_executor_refuses_what_a_peer_may_not_send) {
  const std::uint32_t data = MessageHead::kData, announce = MessageHead::kAnnounce;
  {
    Liar liar;
    liar.write(0, 8, 1U << 31 | kSlots);
    CHECK(contains(liar.end_of_receive(1, 8), "slot that does not exist"));
  }
  const auto answer = [](const MessageHead& head, std::uint64_t length) {
    Liar liar;
    liar.send(head);
    const std::string reason = liar.end_of_receive(1, length);
    CHECK(liar.world[0].stats().protocol_errors == 1);
    return reason;
  };
  CHECK(contains(answer({7, 9, 0, 8, 0}, 8), "cannot be read"));
  CHECK(contains(answer({7, data, 0, kEagerBytesMax + 1, 0}, 8), "cannot be read"));
  CHECK(contains(answer({7, data, 1, 8, 0}, 8), "more than the operation has"));
  CHECK(contains(answer({7, data, 0, 4, 0}, 8), "size or element type"));
  CHECK(contains(answer({7, MessageHead::kOffer, 0, 0, 0}, 8), "size or element type"));
  CHECK(contains(answer({7, announce, 0, 8, 0}, 8), "cannot be"));
  CHECK(contains(answer({7, announce, 0, 4 * sizeof(RemoteBuffer), 1U << 20}, 8), "cannot be"));
}

TEST_CASE(collectives_executor_refuses_immediates_that_name_nothing) {
  for (const std::uint32_t immediate : {5U << 16, 1U}) {  // no such operation; no such receive
    Liar liar;
    std::vector<std::uint8_t> into(100'000);
    const OpId op = submit(liar.world[0], messages(2, 1, StepKind::kReceive, 1, 100'000), 7, into);
    liar.write(0, 8, immediate);
    CHECK(liar.world[0].wait(op, kPatienceNs) == OpState::kFailed);
    CHECK(contains(liar.world[0].failure(op).second, "nobody waits for"));
  }
}

TEST_CASE(collectives_executor_refuses_an_account_of_what_was_never_sent) {
  Liar liar;
  std::vector<std::uint8_t> into(8);
  const OpId op = submit(liar.world[0], messages(2, 1, StepKind::kReceive, 1, 8), 7, into);
  const Credit credit{1000, 1000};
  std::memcpy(liar.bytes.data(), &credit, sizeof credit);
  liar.write(kSlots * kSlotBytes, sizeof credit, 3U << 30);
  CHECK(liar.world[0].wait(op, kPatienceNs) == OpState::kFailed);
  CHECK(contains(liar.world[0].failure(op).second, "account"));
}

// The key of a peer covers its own area: another peer's area is out of reach, and an attempt costs the connection.
TEST_CASE(collectives_executor_keeps_peers_out_of_each_others_areas) {
  Liar liar;
  std::vector<std::uint8_t> into(8);
  const OpId op = submit(liar.world[0], messages(2, 1, StepKind::kReceive, 1, 8), 7, into);
  liar.write(kLanes * Mailbox::kAreaBytes, 8, 1U << 31);
  std::array<Completion, 1> done;
  CHECK(liar.world.ranks[1]->device->wait_cq(liar.world.ranks[1]->cq, done, kPatienceNs) == 1);
  CHECK(done[0].status != WcStatus::kSuccess);
  CHECK(liar.world[0].state(op) != OpState::kDone);
}
