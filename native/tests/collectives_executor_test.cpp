// Executors over devices on loopback, in one process; and what a peer can do wrong, played by a bare device.
#include "collectives/executor.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nic/clock.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::collectives;

constexpr std::int64_t kPatienceNs = 20'000'000'000;
constexpr std::uint32_t kRecvDepth = 160;  // little, so that accounts matter
constexpr std::uint8_t kLanes = 2;

nic::Settings settings_of(std::uint32_t number) {
  nic::Settings settings;
  nic::PortSettings port;
  CHECK(nic::parse_address("127.0.0." + std::to_string(101 + number), port.local));
  port.advertise = port.local;
  settings.ports.push_back(port);
  settings.evs_per_port = 4;
  settings.udp_port = 14801;
  settings.seed = number + 1;
  return settings;
}

// A device with a QP per lane to every other rank.
struct Rank {
  Rank(std::uint16_t own, std::uint16_t ranks)
      : number(own), device(std::make_shared<nic::Device>(settings_of(own))), qps(ranks) {
    CHECK(device->create_cq(16384, cq) == Status::kOk);
    QpInitAttributes attributes;
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.send_wr_max = 1024;
    attributes.recv_wr_max = kRecvDepth + kCreditReceives;
    for (std::uint16_t peer = 0; peer < ranks; ++peer) {
      for (std::uint8_t lane = 0; lane < kLanes && peer != number; ++lane) {
        std::uint32_t qp = 0;
        CHECK(device->command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, qp); }) == Status::kOk);
        qps[peer].push_back(qp);
      }
    }
  }

  void connect_qp(const Rank& peer, std::uint8_t lane) {
    const std::uint32_t qp = qps[peer.number][lane];
    const auto move = [&](const auto& attributes) {
      return device->command([&](Engine& engine, TimePs now) { return engine.modify_qp(now, qp, attributes); });
    };
    PeerConfig config;
    config.ports.push_back(peer.device->settings().ports[0].advertise);
    config.udp_port = peer.device->settings().udp_port;
    QpToInit init;
    init.ev_universe = device->evs();
    init.ev_set.active_per_port = 4;
    init.controller = "none";
    QpToRtr rtr;
    rtr.destination_qp = peer.qps[number][lane];
    rtr.rq_psn = 100U + peer.number;
    rtr.wimm_max_dest = 256;
    CHECK(device->command([&](Engine& engine, TimePs) { return engine.add_peer(config, rtr.peer); }) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = 100U + number;
    rts.timeout_exponent = 14;
    CHECK(move(init) == Status::kOk && move(rtr) == Status::kOk && move(rts) == Status::kOk);
  }

  void start(std::uint16_t ranks) {
    executor =
        std::make_unique<Executor>(device, cq, ExecutorSettings{number, ranks, kLanes, kRecvDepth, 2 * kPsPerMs, 0});
  }

  std::uint16_t number;
  std::shared_ptr<nic::Device> device;
  std::vector<std::vector<std::uint32_t>> qps;  // by rank, by lane
  CqId cq = 0;
  std::unique_ptr<Executor> executor;
};

struct World {
  explicit World(std::uint16_t count, std::uint16_t with_executor) {
    for (std::uint16_t number = 0; number < count; ++number) ranks.push_back(std::make_unique<Rank>(number, count));
    for (const auto& rank : ranks) {
      for (const auto& peer : ranks) {
        for (std::uint8_t lane = 0; lane < kLanes && peer != rank; ++lane) rank->connect_qp(*peer, lane);
      }
    }
    for (std::uint16_t number = 0; number < with_executor; ++number) ranks[number]->start(count);
    for (std::uint16_t number = 0; number < with_executor; ++number) {
      for (std::uint16_t peer = 0; peer < with_executor; ++peer) {
        if (peer != number) join(number, *ranks[peer]->executor, peer);
      }
    }
  }
  explicit World(std::uint16_t count) : World(count, count) {}
  ~World() {
    for (const auto& rank : ranks) {
      if (rank->executor != nullptr) rank->executor->flush(kPatienceNs);
    }
    for (const auto& rank : ranks) rank->executor.reset();
  }

  void join(std::uint16_t number, Executor& peer_executor, std::uint16_t peer) {
    ranks[number]->executor->connect(peer, ranks[number]->qps[peer], peer_executor.mailbox_address(),
                                     peer_executor.mailbox_rkeys()[number]);
  }
  Executor& operator[](std::size_t number) { return *ranks[number]->executor; }

  std::vector<std::unique_ptr<Rank>> ranks;
};

// `count` messages of `bytes` each, from rank 0's buffer to the same places of rank 1's; the other side's steps alike.
std::shared_ptr<Plan> messages(std::uint16_t ranks, std::uint16_t peer, StepKind kind, std::uint32_t count,
                               std::uint64_t bytes) {
  PlanConfig config;
  config.ranks = ranks;
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

Memory memory_of(std::vector<std::uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

OpId submit(Executor& executor, std::shared_ptr<Plan> plan, std::uint64_t key, std::vector<std::uint8_t>& bytes,
            std::uint8_t lane = 0) {
  const std::array<Memory, 1> buffers{memory_of(bytes)};
  return executor.submit(std::move(plan), key, lane, buffers);
}

// From rank 0 to rank 1; true: everything arrived.
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

// Rank 1 has no executor: the test plays it, and may break every rule.
struct Liar {
  Liar() : bytes(kSlotBytes), landing(Mailbox::kAreaBytes * kLanes * 2), world(2, 1) {
    Rank& rank = *world.ranks[1];
    CHECK(rank.device->register_memory(bytes.data(), bytes.size(), kLocalRead, key) == Status::kOk);
    CHECK(rank.device->register_memory(landing.data(), landing.size(), kRemoteWrite, landing_key) == Status::kOk);
    for (int i = 0; i < 32; ++i) {
      const auto post = [&](Engine& engine, TimePs) { return engine.post_recv(rank.qps[0][0], 0); };
      CHECK(rank.device->command(post) == Status::kOk);
    }
    world[0].connect(1, world.ranks[0]->qps[1], reinterpret_cast<std::uintptr_t>(landing.data()), landing_key);
  }

  // `length` bytes of `bytes` into our area of the mailbox, with any immediate.
  void write(std::size_t offset, std::uint32_t length, std::uint32_t immediate, std::uint8_t lane = 0) {
    SendWr wr;
    wr.opcode = WrOpcode::kWriteImm;
    wr.immediate = immediate;
    wr.lkey = key;
    wr.local_address = reinterpret_cast<std::uintptr_t>(bytes.data());
    wr.length_bytes = length;
    wr.rkey = world[0].mailbox_rkeys()[1];
    wr.remote_address = world[0].mailbox_address() + Mailbox::area(kLanes, 1, lane) + offset;
    CHECK(world.ranks[1]->device->post_send(world.ranks[1]->qps[0][lane], wr) == Status::kOk);
  }
  void send(const MessageHead& head, std::uint32_t slot = 0, std::uint8_t lane = 0) {
    std::memcpy(bytes.data(), &head, sizeof head);
    write(slot % kSlots * kSlotBytes, kHeadBytes + std::min<std::uint32_t>(head.bytes, kEagerBytesMax), 1U << 31 | slot,
          lane);
    std::array<Completion, 1> done;
    CHECK(world.ranks[1]->device->wait_cq(world.ranks[1]->cq, done, kPatienceNs) == 1);
  }
  // How an operation of rank 0 that waits for `count` messages of `length` ends, and why.
  std::string end_of_receive(std::uint32_t count, std::uint64_t length) {
    std::vector<std::uint8_t> into(count * length);
    const OpId op = submit(world[0], messages(2, 1, StepKind::kReceive, count, length), 7, into);
    if (world[0].wait(op, kPatienceNs) != OpState::kFailed) return "no failure";
    const auto [rank, reason] = world[0].failure(op);
    CHECK(rank == 1 && world[0].release(op));
    return reason;
  }

  std::vector<std::uint8_t> bytes, landing;  // before the devices that read and write them, so that they outlive these
  World world;
  std::uint32_t key = 0, landing_key = 0;
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
  CHECK(transfer(world, 10 * kSlots, 64, true));       // more than the mailbox holds
  CHECK(transfer(world, 4 * kRecvDepth, 5000, true));  // more than there are receives
  CHECK(world[0].stats().slot_messages >= 10 * kSlots);
  CHECK(world[1].stats().direct_messages == 4 * kRecvDepth);
}

TEST_CASE(collectives_executor_keeps_what_comes_early) {
  World world(2);
  std::vector<std::uint8_t> other(3), from = pattern(10 * 64), into(10 * 64);
  const OpId waiting = submit(world[1], messages(2, 0, StepKind::kReceive, 1, 3), 99, other);
  const OpId sent = submit(world[0], messages(2, 1, StepKind::kSend, 10, 64), 7, from);
  const TimePs deadline = nic::now_ps() + 20 * kPsPerSecond;
  while (nic::now_ps() < deadline && world[1].stats().early_messages < 10) world[1].wait(waiting, 1'000'000);
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
  const TimePs deadline = nic::now_ps() + 20 * kPsPerSecond;
  while (nic::now_ps() < deadline && !(world[1].release(received) && world[0].release(sent))) {
  }
  CHECK(world[1].state(received) == OpState::kUnknown && world[0].state(sent) == OpState::kUnknown);
  CHECK(from == into);
}

TEST_CASE(collectives_executor_names_the_peer_that_failed) {
  World world(3);
  std::vector<std::uint8_t> first(100'000), second(100'000), third(10);
  const OpId gone = submit(world[0], messages(3, 1, StepKind::kReceive, 1, 100'000), 1, first);
  const OpId well = submit(world[0], messages(3, 2, StepKind::kReceive, 1, 100'000), 2, second);
  world[0].fail_peer(1, "it is gone");
  CHECK(world[0].state(gone) == OpState::kFailed);
  CHECK(world[0].failure(gone) == std::pair(1, std::string("it is gone")));
  CHECK(world[0].release(gone));  // nobody is left who could write
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

// Rank 1 gives up because of rank 2; rank 0 does not know yet and writes on. That must not break their connection.
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
  CHECK(contains(answer({7, data, 0, 4, 0}, 8), "sizes or types differ"));
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

// The key of a peer covers its own area: what is another's is out of its reach, and trying costs the connection.
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
