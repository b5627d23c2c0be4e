// Executors over devices on loopback, in one process; and a rank played by the test, which may break every rule.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/device_executor.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"
#include "tests/own_udp_port.hpp"

namespace openmrc::collectives::test {

inline constexpr std::int64_t kPatienceNs = 20'000'000'000;
inline constexpr std::uint32_t kRecvDepth = 160;  // few, so that flow control matters
inline constexpr std::uint8_t kLanes = 2;

inline nic::Settings settings_of(std::uint32_t number) {
  nic::Settings settings;
  nic::PortSettings port;
  CHECK(nic::parse_address("127.0.0." + std::to_string(101 + number), port.local));
  port.advertise = port.local;
  settings.ports.push_back(port);
  settings.evs_per_port = 4;
  settings.udp_port = openmrc::test::own_udp_port();
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
    executor = std::make_unique<DeviceExecutor>(device, cq,
                                                ExecutorSettings{.rank = number,
                                                                 .ranks = ranks,
                                                                 .lanes = kLanes,
                                                                 .recv_depth = kRecvDepth,
                                                                 .spin = 2 * kPsPerMs,
                                                                 .poll = 0});
  }

  // Puts the QPs into the state of links to a vanished peer.
  void break_qps(std::uint16_t peer) {
    for (const std::uint32_t qp : qps[peer]) {
      const auto break_qp = [qp](Engine& engine, TimePs now) { return engine.move_to_error(now, qp); };
      CHECK(device->command(break_qp) == Status::kOk);
    }
  }

  std::uint16_t number;
  std::shared_ptr<nic::Device> device;
  std::vector<std::vector<std::uint32_t>> qps;  // by rank, by lane
  CqId cq = 0;
  std::unique_ptr<DeviceExecutor> executor;
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

  void join(std::uint16_t number, DeviceExecutor& peer_executor, std::uint16_t peer) {
    ranks[number]->executor->connect(peer, ranks[number]->qps[peer], peer_executor.mailbox_address(),
                                     peer_executor.mailbox_rkeys()[number]);
  }
  DeviceExecutor& operator[](std::size_t number) { return *ranks[number]->executor; }

  std::vector<std::unique_ptr<Rank>> ranks;
};

// `count` messages of `bytes` each, from rank 0's buffer to the same offsets of rank 1's; the other side's steps alike.
inline std::shared_ptr<Plan> messages(std::uint16_t ranks, std::uint16_t peer, StepKind kind, std::uint32_t count,
                                      std::uint64_t bytes) {
  PlanConfig config;
  config.ranks = ranks;
  config.buffer_bytes = {count * bytes};
  for (std::uint32_t i = 0; i < count; ++i)
    config.steps.push_back({kind, false, 0, 0, peer, i * bytes, i * bytes, bytes});
  return std::make_shared<Plan>(config);
}

inline std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
  return data;
}

inline Memory memory_of(std::vector<std::uint8_t>& bytes) { return {bytes.data(), bytes.size()}; }

inline OpId submit(Executor& executor, std::shared_ptr<Plan> plan, std::uint64_t key, std::vector<std::uint8_t>& bytes,
                   std::uint8_t lane = 0) {
  const std::array<Memory, 1> buffers{memory_of(bytes)};
  return executor.submit(std::move(plan), key, lane, buffers);
}

// Rank 1 has no executor: the test plays it, and may break every rule.
struct Liar {
  Liar() : bytes(1U << 15), landing(Mailbox::kAreaBytes * kLanes * 2), world(2, 1) {
    Rank& rank = *world.ranks[1];
    CHECK(rank.device->register_memory(bytes.data(), bytes.size(), kLocalRead, key) == Status::kOk);
    CHECK(rank.device->register_memory(landing.data(), landing.size(), kRemoteWrite, landing_key) == Status::kOk);
    for (int i = 0; i < 32; ++i) {
      const auto post = [&](Engine& engine, TimePs) { return engine.post_recv(rank.qps[0][0], 0); };
      CHECK(rank.device->command(post) == Status::kOk);
    }
    world[0].connect(1, world.ranks[0]->qps[1], reinterpret_cast<std::uintptr_t>(landing.data()), landing_key);
  }

  // Writes `length` bytes of `bytes` into our area of the mailbox, with any immediate.
  void write(std::size_t offset, std::uint32_t length, std::uint32_t immediate, std::uint8_t lane = 0) {
    SendWr wr;
    wr.opcode = WrOpcode::kWriteImm;
    wr.immediate = immediate;
    wr.length_bytes = length;
    wr.rkey = world[0].mailbox_rkeys()[1];
    wr.remote_address = mailbox_address(lane) + offset;
    CHECK(post(wr, lane) == Status::kOk);
  }
  Status post(SendWr wr, std::uint8_t lane) {
    wr.lkey = key;
    wr.local_address = reinterpret_cast<std::uintptr_t>(bytes.data());
    return world.ranks[1]->device->post_send(world.ranks[1]->qps[0][lane], wr);
  }
  std::uint64_t mailbox_address(std::uint8_t lane) {
    return world[0].mailbox_address() + Mailbox::area(kLanes, 1, lane);
  }
  void send(const MessageHead& head, std::uint32_t slot = 0, std::uint8_t lane = 0) {
    std::memcpy(bytes.data(), &head, sizeof head);
    write(slot % kSlots * kSlotBytes, kHeadBytes + std::min<std::uint32_t>(head.bytes, kEagerBytesMax), 1U << 31 | slot,
          lane);
    std::array<Completion, 1> done;
    CHECK(world.ranks[1]->device->wait_cq(world.ranks[1]->cq, done, kPatienceNs) == 1);
  }
  // Announces `landing` as the memory that rank 0 may write to for an operation.
  void announce(std::uint64_t operation) {
    std::array<RemoteBuffer, kPlanBuffersMax> buffers;
    buffers.fill({reinterpret_cast<std::uintptr_t>(landing.data()), landing_key, 0});
    std::memcpy(bytes.data() + kHeadBytes, buffers.data(), sizeof buffers);
    send({operation, MessageHead::kAnnounce, 0, sizeof buffers, 0});
  }
  // Result of an operation of rank 0 that waits for `count` messages of `length`, and its reason.
  std::string end_of_receive(std::uint32_t count, std::uint64_t length) {
    std::vector<std::uint8_t> into(count * length);
    const OpId op = submit(world[0], messages(2, 1, StepKind::kReceive, count, length), 7, into);
    if (world[0].wait(op, kPatienceNs) != OpState::kFailed) return "no failure";
    const auto [rank, reason] = world[0].failure(op);
    CHECK(rank == 1 && world[0].release(op));
    return reason;
  }

  std::vector<std::uint8_t> bytes, landing;  // declared before the devices that access them, so that they outlive these
  World world;
  std::uint32_t key = 0, landing_key = 0;
};

}  // namespace openmrc::collectives::test
