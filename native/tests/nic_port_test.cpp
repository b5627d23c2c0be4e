// The rules of nic::Port, checked for every implementation: on sockets, and within the process.
#include <poll.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nic/error.hpp"
#include "nic/socket_port.hpp"
#include "tests/check.hpp"
#include "tests/nic_fixture.hpp"
#include "tests/pipe_port.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr std::uint32_t kMtu = 9'000;  // of the pipe; loopback has 65,536

struct Kind {
  const char* name;
  bool sockets;
  bool offloads;
};

constexpr std::array<Kind, 3> kKinds{
    {{"sockets", true, true}, {"sockets, single", true, false}, {"pipe", false, false}}};

// A datagram received by a sink, with a copy of its bytes.
struct Arrived {
  nic::Train train;
  std::vector<std::uint8_t> bytes;
};

struct Collector final : nic::TrainSink {
  void take(std::span<nic::Train> trains) override {
    for (const nic::Train& train : trains) {
      const auto& bytes = train.datagram.bytes;
      for (std::size_t at = 0; at < bytes.size(); at += train.datagram_bytes) {
        const auto one = bytes.subspan(at, std::min(train.datagram_bytes, bytes.size() - at));
        all.push_back({train, {one.begin(), one.end()}});
      }
    }
  }
  std::vector<Arrived> all;
};

// Two ports that can reach each other.
struct Ends {
  explicit Ends(const Kind& kind, std::uint64_t queue_bytes = 1U << 20, bool ipv6 = false) : pipe(kMtu, queue_bytes) {
    settings[0] = settings_for({ipv6 ? "::1" : "127.0.0.91"});
    settings[1] = settings_for({ipv6 ? "::1" : "127.0.0.92"});
    if (ipv6) settings[1].udp_port = static_cast<std::uint16_t>(settings[0].udp_port + 1);
    for (std::size_t i = 0; i < 2; ++i) {
      settings[i].segmentation_offload = settings[i].receive_offload = kind.offloads;
      std::uint32_t source_port = static_cast<std::uint32_t>(49'152 + 100 * i);
      ports[i] = kind.sockets ? std::make_unique<nic::SocketPort>(0, settings[i], source_port)
                              : pipe.factory()(0, settings[i], source_port);
    }
  }

  // Receives until nothing is pending.
  std::size_t receive() {
    std::size_t datagrams = 0;
    for (int looks = 0; looks < 1'000; ++looks) {
      const nic::Received found = ports[1]->receive(buffers, sink);
      if (found.datagrams == 0) break;
      datagrams += found.datagrams;
    }
    return datagrams;
  }

  Pipe pipe;
  std::array<nic::Settings, 2> settings;
  std::array<std::unique_ptr<nic::Port>, 2> ports;
  nic::ReceiveBuffers buffers;
  Collector sink;
};

struct Payload {
  explicit Payload(std::size_t count) : bytes(count) {
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 255);
  }
  std::vector<std::uint8_t> bytes;
};

// Packets of 16 header bytes, which begin with their number, `payload`, and a trailer of 4. The second four bytes are
// no QP number of endpoint operations.
std::unique_ptr<TxBurst> burst_to(const Ends& ends, std::uint32_t count, std::span<const std::uint8_t> payload) {
  auto burst = std::make_unique<TxBurst>();
  burst->traffic_class = TrafficClass::kNoTrim;
  burst->ecn = Ecn::kEct0;
  burst->destination = ends.settings[1].ports[0].local;
  burst->destination_port = ends.settings[1].udp_port;
  burst->ev = ends.ports[0]->evs()[1].value;
  burst->fields.source_port = static_cast<std::uint16_t>(burst->ev);
  burst->count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    TxPacket& packet = burst->packets[i];
    packet.headers.fill(0xEE);
    std::memcpy(packet.headers.data(), &i, sizeof i);
    packet.header_bytes = 16;
    packet.payload = payload.data();
    packet.payload_bytes = static_cast<std::uint16_t>(payload.size());
    packet.trailer_bytes = 4;
    packet.trailer.fill(0xAA);
    packet.seam.fill(0xAA);
  }
  return burst;
}

bool readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

template <typename Test>
void for_each_port(const Test& test) {
  for (const Kind& kind : kKinds) test(kind);
}

}  // namespace

TEST_CASE(nic_port_carries_a_burst_whole_and_in_order) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(1'400);
    CHECK(!readable(ends.ports[1]->receive_fd()));
    const auto burst = burst_to(ends, 40, payload.bytes);
    CHECK(ends.ports[0]->send(*burst, 0) == 40);
    CHECK(readable(ends.ports[1]->receive_fd()));
    CHECK(ends.receive() == 40 && ends.sink.all.size() == 40);
    CHECK(!readable(ends.ports[1]->receive_fd()));
    for (std::uint32_t i = 0; i < 40; ++i) {
      const std::vector<std::uint8_t>& bytes = ends.sink.all[i].bytes;
      CHECK(bytes.size() == 16 + 1'400 + 4);
      CHECK(std::memcmp(bytes.data(), &i, sizeof i) == 0);
      CHECK(std::equal(payload.bytes.begin(), payload.bytes.end(), bytes.begin() + 16));
      CHECK(bytes.back() == 0xAA);
    }
    const nic::SocketStats sent = ends.ports[0]->stats(), received = ends.ports[1]->stats();
    CHECK(sent.sent_datagrams == 40 && sent.sent_bytes == 40 * 1'420);
    CHECK(received.received_datagrams == 40 && received.received_bytes == 40 * 1'420);
  });
}

TEST_CASE(nic_port_reports_source_path_class_and_mark) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(64);
    for (const TrafficClass traffic_class : {TrafficClass::kNoTrim, TrafficClass::kControl}) {
      for (const Ecn ecn : {Ecn::kNotEct, Ecn::kEct0, Ecn::kCe}) {
        const auto burst = burst_to(ends, 1, payload.bytes);
        burst->traffic_class = traffic_class;
        burst->ecn = ecn;
        CHECK(ends.ports[0]->send(*burst, 0) == 1 && ends.receive() == 1);
        const RxDatagram& datagram = ends.sink.all.back().train.datagram;
        CHECK(datagram.port == 0);
        CHECK(datagram.source == ends.settings[0].ports[0].local);
        CHECK(datagram.fields.source_port == burst->fields.source_port);
        CHECK(datagram.traffic_class == traffic_class && datagram.ecn == ecn);
      }
    }
  });
}

// The class of a repeated datagram may become that of its socket, which bursts and other datagrams share.
TEST_CASE(nic_port_gives_each_datagram_its_own_class) {
  struct Step {
    TrafficClass traffic_class;
    Ecn ecn;
    std::uint32_t count;
  };
  constexpr Step kData{TrafficClass::kNoTrim, Ecn::kEct0, 1}, kAnswer{TrafficClass::kControl, Ecn::kNotEct, 1};
  constexpr Step kMarked{TrafficClass::kNoTrim, Ecn::kCe, 1}, kBurst{TrafficClass::kNoTrim, Ecn::kEct0, 3};
  constexpr Step kAnswers{TrafficClass::kControl, Ecn::kNotEct, 2}, kLong{TrafficClass::kNoTrim, Ecn::kEct0, 8};
  constexpr std::array kSteps{kData,    kData,    kData,   kAnswer,  kData,   kAnswer, kAnswer, kAnswer, kData,
                              kBurst,   kData,    kAnswer, kBurst,   kAnswer, kMarked, kMarked, kData,   kMarked,
                              kAnswers, kAnswers, kData,   kAnswers, kLong,   kBurst,  kBurst,  kAnswer, kLong};
  for (const bool ipv6 : {false, true}) {
    for_each_port([&](const Kind& kind) {
      Ends ends(kind, 1U << 20, ipv6);
      const Payload payload(64);
      for (const Step& step : kSteps) {
        const auto burst = burst_to(ends, step.count, payload.bytes);
        burst->traffic_class = step.traffic_class;
        burst->ecn = step.ecn;
        ends.sink.all.clear();
        CHECK(ends.ports[0]->send(*burst, 0) == step.count && ends.receive() == step.count);
        for (const Arrived& arrived : ends.sink.all) {
          const RxDatagram& datagram = arrived.train.datagram;
          CHECK(datagram.traffic_class == step.traffic_class && datagram.ecn == step.ecn);
          CHECK(datagram.fields.source_port == burst->fields.source_port);
        }
      }
    });
  }
}

TEST_CASE(nic_port_begins_in_the_middle_of_a_burst) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(1'000);
    const auto burst = burst_to(ends, 8, payload.bytes);
    CHECK(ends.ports[0]->send(*burst, 5) == 8);
    CHECK(ends.receive() == 3);
    std::uint32_t first = 0;
    std::memcpy(&first, ends.sink.all.front().bytes.data(), sizeof first);
    CHECK(first == 5);
  });
}

TEST_CASE(nic_port_carries_a_shorter_last_packet_and_packets_without_payload) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(2'000);
    const auto burst = burst_to(ends, 3, payload.bytes);
    burst->packets[2].payload_bytes = 1;
    CHECK(ends.ports[0]->send(*burst, 0) == 3 && ends.receive() == 3);
    CHECK(ends.sink.all[1].bytes.size() == 2'020 && ends.sink.all[2].bytes.size() == 21);
    const auto empty = burst_to(ends, 1, {});
    CHECK(ends.ports[0]->send(*empty, 0) == 1 && ends.receive() == 1);
    CHECK(ends.sink.all[3].bytes.size() == 20);
  });
}

TEST_CASE(nic_port_carries_bursts_of_few_bytes) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(60);
    for (std::uint32_t count = 2; count <= 8; ++count) {  // 80 bytes each: more than six are not joined
      const auto burst = burst_to(ends, count, payload.bytes);
      burst->packets[count - 1].payload_bytes = 8;
      ends.sink.all.clear();
      CHECK(ends.ports[0]->send(*burst, 0) == count && ends.receive() == count);
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::vector<std::uint8_t>& bytes = ends.sink.all[i].bytes;
        const std::size_t carried = i + 1 < count ? 60 : 8;
        CHECK(bytes.size() == 16 + carried + 4);
        CHECK(std::memcmp(bytes.data(), &i, sizeof i) == 0);
        CHECK(std::equal(bytes.begin() + 16, bytes.end() - 4, payload.bytes.begin()));
        CHECK(bytes[bytes.size() - 4] == 0xAA && bytes.back() == 0xAA);
      }
    }
  });
}

TEST_CASE(nic_port_carries_joined_packets_in_one_datagram) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    for (const std::size_t bytes : {8U, 900U}) {
      const Payload payload(bytes);
      const auto burst = burst_to(ends, 2, payload.bytes);
      burst->joined = true;
      burst->packets[1].payload_bytes = 0;
      ends.sink.all.clear();
      CHECK(ends.ports[0]->send(*burst, 0) == 2);
      CHECK(ends.receive() == 1 && ends.sink.all.size() == 1);
      const std::vector<std::uint8_t>& found = ends.sink.all[0].bytes;
      CHECK(found.size() == 16 + bytes + 4 + 16 + 4);
      CHECK(std::memcmp(found.data() + 16, payload.bytes.data(), bytes) == 0);
      CHECK(found[16 + bytes + 4] == 1);
    }
    CHECK(ends.ports[0]->stats().sent_datagrams == 2);
  });
}

TEST_CASE(nic_port_loses_what_nobody_receives_and_goes_on) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(100);
    auto burst = burst_to(ends, 4, payload.bytes);
    burst->destination_port = static_cast<std::uint16_t>(burst->destination_port ^ 0x4000U);
    CHECK(ends.ports[0]->send(*burst, 0) == 4);
    CHECK(ends.receive() == 0);
    burst = burst_to(ends, 4, payload.bytes);
    CHECK(ends.ports[0]->send(*burst, 0) == 4);
    CHECK(ends.receive() == 4);
    CHECK(ends.ports[0]->stats().would_block == 0);
  });
}

TEST_CASE(nic_port_drops_and_counts_packets_beyond_the_mtu) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    // Loopback carries 65,535 bytes including the headers of IP and UDP.
    const Payload payload(kind.sockets ? 65'500 : kMtu);
    const auto burst = burst_to(ends, 2, payload.bytes);
    CHECK(ends.ports[0]->take_fault() == 0);
    CHECK(ends.ports[0]->send(*burst, 0) == 2);
    CHECK(ends.receive() == 0);
    const nic::SocketStats stats = ends.ports[0]->stats();
    CHECK(stats.too_long == 2 && stats.dropped_datagrams == 2 && stats.last_send_error == EMSGSIZE);
    CHECK(ends.ports[0]->has_fault() && ends.ports[0]->take_fault() == EMSGSIZE && ends.ports[0]->take_fault() == 0);
  });
}

TEST_CASE(nic_port_counts_datagrams_longer_than_any_packet) {
  Ends ends(kKinds[1]);
  const Payload payload(20'000);
  const auto burst = burst_to(ends, 1, payload.bytes);
  CHECK(ends.ports[0]->send(*burst, 0) == 1);
  CHECK(ends.ports[1]->receive(ends.buffers, ends.sink).datagrams == 1);  // a reason to read again
  CHECK(ends.sink.all.empty() && ends.ports[1]->stats().truncated == 1);
}

TEST_CASE(nic_port_blocked_goes_on_where_it_stopped) {
  Ends ends(kKinds[2], /*queue_bytes=*/10'000);
  const Payload payload(1'000);
  const auto burst = burst_to(ends, 8, payload.bytes);
  CHECK(ends.ports[0]->send(*burst, 0) == 8);
  CHECK(ends.ports[0]->send(*burst, 2) == 2);
  CHECK(ends.ports[0]->stats().would_block == 1);
  pollfd room{ends.ports[0]->blocked_fd(), POLLOUT, 0};
  CHECK(::poll(&room, 1, 0) == 0);
  CHECK(ends.receive() == 8);
  CHECK(::poll(&room, 1, 0) == 1);
  CHECK(ends.ports[0]->send(*burst, 2) == 8);
  CHECK(ends.receive() == 6);
}

TEST_CASE(nic_port_tells_the_mtu_of_the_ways_to_a_peer) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Address& peer = ends.settings[1].ports[0].local;
    CHECK(ends.ports[0]->path_mtu(peer, ends.settings[1].udp_port) >= (kind.sockets ? 65'535 : kMtu));
    CHECK(ends.ports[0]->evs().size() == ends.settings[0].evs_per_port);
    CHECK(!ends.ports[0]->interface_gone());
  });
}

TEST_CASE(nic_port_keeps_its_counters_when_it_is_closed) {
  for_each_port([](const Kind& kind) {
    Ends ends(kind);
    const Payload payload(100);
    const auto burst = burst_to(ends, 2, payload.bytes);
    CHECK(ends.ports[0]->send(*burst, 0) == 2);
    ends.ports[0]->close();
    CHECK(ends.ports[0]->stats().sent_datagrams == 2 && !ends.ports[0]->evs().empty());
    CHECK(ends.receive() == 2);
  });
}
