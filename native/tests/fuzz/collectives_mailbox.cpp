// A rank whose peer breaks every rule. The input selects the operations that the rank begins and the peer's writes over
// real QPs: messages into slots, announcements, accounts, immediates, and bytes into its area of the mailbox and into
// the announced buffers. No assertion may fail, no byte outside of an operation's buffers may change, and once the peer
// is given up, every operation is over and its buffers are released.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "nic/clock.hpp"
#include "tests/collectives_fixture.hpp"
#include "tests/fuzz/script.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace openmrc::collectives::test {
namespace {

using fuzz::require;
using fuzz::Script;

constexpr std::size_t kInputBytesMax = 512;
constexpr std::size_t kBufferBytes = 24'576, kGuardBytes = 4096;
constexpr std::uint8_t kGuard = 0xA7, kSent = 0x5A;
constexpr std::uint32_t kOpsMax = 12, kStepsMax = 8;
constexpr std::array<std::uint32_t, 8> kSizes{0, 1, 8, 64, 1000, kEagerBytesMax, kEagerBytesMax + 1, 20'000};
constexpr std::uint32_t kMessage = 1U << 31, kAccount = 3U << 30;  // immediates, as interpreted by a rank

std::uint32_t size_of(Script& script) { return kSizes[script.byte() % kSizes.size()]; }

struct Operation {
  OpId id = 0;
  bool released = false;
  std::array<std::vector<std::uint8_t>, 2> memory;
};

class Game {
 public:
  Game() {
    for (std::uint8_t lane = 0; lane < kLanes; ++lane) {
      for (std::uint32_t i = lane == 0 ? 32 : 0; i < kRecvDepth; ++i) post_receive(lane);
    }
  }

  void run(Script& script) {
    while (script.more()) step(script);
    rank().fail_peer(1, "the game is over");
    liar_.world.ranks[0]->break_qps(1);
    const nic::TimeNs deadline = nic::now_ns() + kPatienceNs;
    while (!all_released()) {
      require(nic::now_ns() < deadline);
      std::this_thread::yield();
    }
    for (const Operation& operation : operations_) check_guards(operation);
    require(openmrc::test::failures() == 0);
  }

 private:
  Executor& rank() { return liar_.world[0]; }
  nic::Device& device() { return *liar_.world.ranks[1]->device; }

  void step(Script& script) {
    const std::uint8_t what = script.byte();
    const std::uint8_t lane = what >> 7;
    switch (what & 7) {
      case 0:
        begin(lane, script);
        break;
      case 1:
        message(lane, script);
        break;
      case 2:
        announce(lane, script);
        break;
      case 3:
        account(lane, script);
        break;
      case 4:
        write({.opcode = WrOpcode::kWriteImm, .immediate = script.word()}, {}, lane);
        break;
      case 5:
        scribble(lane, script);
        break;
      case 6:
        write_directly(lane, script);
        break;
      default:
        let_time_pass();
        break;
    }
    for (const Operation& operation : operations_) rank().state(operation.id);
  }

  // Steps of any kind; computations and sends depend on the preceding receive.
  void begin(std::uint8_t lane, Script& script) {
    if (operations_.size() == kOpsMax) return;
    PlanConfig config;
    config.ranks = 2;
    config.buffer_bytes = {kBufferBytes, kBufferBytes};
    const std::uint32_t count = script.byte() % kStepsMax;
    std::uint32_t received = kStepsMax;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint8_t shape = script.byte();
      Step step;
      step.kind = std::array{StepKind::kSend, StepKind::kReceive, StepKind::kReduce, StepKind::kCopy}[shape & 3U];
      step.peer = 1;
      step.from_buffer = shape >> 2 & 1U;
      step.into_buffer = shape >> 3 & 1U;
      step.bytes = kSizes[shape >> 4 & 7U];
      step.from_offset = step.into_offset = i * 16;
      if (step.kind == StepKind::kReceive) {
        received = i;
      } else if (received < i) {
        config.waits.emplace_back(i, received);
      }
      config.steps.push_back(step);
    }
    Operation& operation = operations_.emplace_back();
    std::array<Memory, 2> buffers;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      operation.memory[i].assign(kBufferBytes + 2 * kGuardBytes, kGuard);
      buffers[i] = {operation.memory[i].data() + kGuardBytes, kBufferBytes};
    }
    operation.id = rank().submit(std::make_shared<Plan>(config), operations_.size(), lane, buffers);
  }

  void message(std::uint8_t lane, Script& script) {
    const std::uint8_t how = script.byte();
    MessageHead head;
    head.key = script.byte() % (kOpsMax + 2);
    head.kind = (how & 3) != 0 ? std::uint32_t{MessageHead::kData} : script.byte();
    head.pair_index = (how & 4) != 0 ? script.word() : script.byte() % 4U;
    head.bytes = (how & 8) != 0 ? script.word() : size_of(script);
    send(head, {}, (how & 16) != 0 ? script.word() : next_slot_++ % kSlots, lane);
  }

  void announce(std::uint8_t lane, Script& script) {
    const std::uint8_t how = script.byte();
    const std::uint64_t landing = reinterpret_cast<std::uintptr_t>(liar_.landing.data());
    std::array<RemoteBuffer, kPlanBuffersMax> buffers;
    buffers.fill({landing, liar_.landing_key, 0});
    if ((how & 1) != 0) buffers[0] = {landing + script.word(), liar_.landing_key, script.word()};
    if ((how & 2) != 0) buffers[1] = {std::uint64_t{script.word()} << 32 | script.word(), script.word(), 0};
    MessageHead head{script.byte() % (kOpsMax + 2U), MessageHead::kAnnounce, 0, sizeof buffers, script.byte()};
    if ((how & 4) != 0) head.bytes = script.word();
    if ((how & 8) != 0) head.op_slot = script.word();
    std::vector<std::uint8_t> data(sizeof buffers);
    std::memcpy(data.data(), buffers.data(), data.size());
    send(head, data, next_slot_++ % kSlots, lane);
  }

  void send(const MessageHead& head, std::vector<std::uint8_t> data, std::uint32_t slot, std::uint8_t lane) {
    data.resize(std::min<std::size_t>(head.bytes, kEagerBytesMax), kSent);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&head);
    data.insert(data.begin(), bytes, bytes + kHeadBytes);
    into_area(slot % kSlots * kSlotBytes, data, {.opcode = WrOpcode::kWriteImm, .immediate = kMessage | slot}, lane);
  }

  // An account near the number of messages sent to it, or an arbitrary one.
  void account(std::uint8_t lane, Script& script) {
    const std::uint8_t how = script.byte();
    Credit credit{script.byte(), script.byte()};
    if ((how & 1) != 0) credit.slots = 0 - credit.slots;
    if ((how & 2) != 0) credit.immediates = std::uint64_t{script.word()} << 32 | script.word();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&credit);
    const WrOpcode opcode = (how & 4) != 0 ? WrOpcode::kWrite : WrOpcode::kWriteImm;
    into_area(kSlots * kSlotBytes, {bytes, bytes + sizeof credit}, {.opcode = opcode, .immediate = kAccount}, lane);
  }

  // Writes any bytes anywhere in the area, or beyond it.
  void scribble(std::uint8_t lane, Script& script) {
    const std::size_t offset = script.word() % (kLanes * Mailbox::kAreaBytes + kSlotBytes);
    std::vector<std::uint8_t> data(script.byte());
    for (std::uint8_t& byte : data) byte = script.byte();
    const WrOpcode opcode = (offset & 1) != 0 ? WrOpcode::kWrite : WrOpcode::kWriteImm;
    into_area(offset, data, {.opcode = opcode, .immediate = script.word()}, lane);
  }

  // Writes to a buffer that the rank announced, or slightly outside of it.
  void write_directly(std::uint8_t lane, Script& script) {
    const std::uint8_t how = script.byte();
    const std::uint8_t* slot = liar_.landing.data() + Mailbox::area(kLanes, 0, lane) + (how >> 4) * kSlotBytes;
    MessageHead head;
    std::array<RemoteBuffer, kPlanBuffersMax> buffers;
    std::memcpy(&head, slot, kHeadBytes);
    std::memcpy(buffers.data(), slot + kHeadBytes, sizeof buffers);
    if (head.kind != MessageHead::kAnnounce) return;
    const RemoteBuffer& into = buffers[how & 1];
    const std::vector<std::uint8_t> data(size_of(script), kSent);
    SendWr wr{.opcode = WrOpcode::kWriteImm, .rkey = into.rkey};
    wr.remote_address = into.address + ((how & 2) != 0 ? script.word() : script.byte() * 16U);
    wr.immediate = (how & 4) != 0 ? script.word() : head.op_slot << 16 | script.byte() % 4U;
    write(wr, data, lane);
  }

  void let_time_pass() {
    if (!operations_.empty()) rank().wait(operations_.back().id, 100'000);
    all_released();
  }

  void into_area(std::size_t offset, const std::vector<std::uint8_t>& data, SendWr wr, std::uint8_t lane) {
    wr.rkey = liar_.world[0].mailbox_rkeys()[1];
    wr.remote_address = liar_.mailbox_address(lane) + offset;
    write(wr, data, lane);
  }

  // Waits until the write has arrived or was refused. After an error of the QP the other lane remains.
  void write(SendWr wr, const std::vector<std::uint8_t>& data, std::uint8_t lane) {
    std::copy(data.begin(), data.end(), liar_.bytes.begin());
    wr.length_bytes = data.size();
    if (liar_.post(wr, lane) != Status::kOk) return;
    const CqId cq = liar_.world.ranks[1]->cq;
    const nic::TimeNs deadline = nic::now_ns() + kPatienceNs;
    for (bool arrived = false; !arrived;) {
      require(nic::now_ns() < deadline);
      std::array<Completion, 16> done;
      const std::size_t count = device().wait_cq(cq, done, kPatienceNs);
      for (std::size_t i = 0; i < count; ++i) {
        if (done[i].opcode == WcOpcode::kWrite) {
          arrived = true;
        } else if (done[i].status == WcStatus::kSuccess) {
          post_receive(done[i].qp == liar_.world.ranks[1]->qps[0][0] ? 0 : 1);
        }
      }
    }
  }

  void post_receive(std::uint8_t lane) {
    device().command([&](Engine& engine, TimePs) { return engine.post_recv(liar_.world.ranks[1]->qps[0][lane], 0); });
  }

  bool all_released() {
    for (Operation& operation : operations_) operation.released = operation.released || rank().release(operation.id);
    return std::all_of(operations_.begin(), operations_.end(),
                       [](const Operation& operation) { return operation.released; });
  }

  static void check_guards(const Operation& operation) {
    for (const auto& memory : operation.memory) {
      const auto guarded = [](std::uint8_t byte) { return byte == kGuard; };
      require(std::all_of(memory.begin(), memory.begin() + kGuardBytes, guarded));
      require(std::all_of(memory.end() - kGuardBytes, memory.end(), guarded));
    }
  }

  std::list<Operation> operations_;  // declared before the rank that accesses them
  Liar liar_;
  std::uint32_t next_slot_ = 0;
};

}  // namespace
}  // namespace openmrc::collectives::test

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > openmrc::collectives::test::kInputBytesMax) return 0;
  openmrc::collectives::test::Script script(data, size);
  openmrc::collectives::test::Game game;
  game.run(script);
  return 0;
}
