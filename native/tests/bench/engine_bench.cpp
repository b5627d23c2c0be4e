// Throughput of the engine without a driver: two engines in one thread, packets passed in memory, no sockets.
//
//   openmrc_engine_bench [PACKETS [CASE]]     one JSON line per case, or for the case of that name
//
// `phantom` is the simulator's mode: lengths without payload, no ICRC. `bytes` carries, seals, checks and places
// payloads, of 4 KiB on a fabric that marks and of 1,384 bytes on ordinary planes, as a NIC sends them at an MTU of
// 1,500. `exchanges` are WRITEs of 64 bytes that the other end answers with one of the same size; a packet of theirs is a
// whole exchange. Time per packet is the sum of both engines, feedback included.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/engine.hpp"

namespace {

using namespace openmrc;

constexpr std::uint32_t kMtuMax = 4096;
constexpr std::uint64_t kMessageBytes = 1 << 20;
constexpr std::uint64_t kSmallBytes = 64;
constexpr std::uint32_t kPlanes = 4;
constexpr std::uint32_t kKey = 7;

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "engine_bench: %s\n", what);
  std::exit(1);
}

void require(Status status, const char* what) {
  if (status != Status::kOk) stop(what);
}

Address address(std::uint8_t end, std::uint8_t port) {
  Address result;
  result.family = AddressFamily::kIpv4;
  result.bytes = {10, port, 0, static_cast<std::uint8_t>(end + 1)};
  return result;
}

struct Case {
  const char* name = nullptr;
  bool phantom = false;
  std::uint32_t burst = 16;
  std::uint32_t mtu = kMtuMax;
  bool ordinary = false;   // planes controlled one by one, by delay
  bool exchanges = false;  // of short messages, instead of a stream
};

class Bench {
 public:
  explicit Bench(const Case& kind) : kind_(kind) {
    for (std::uint8_t end = 0; end < 2; ++end) set_up(end);
    for (std::uint8_t end = 0; end < 2; ++end) connect(end);
  }

  // Moves at least `packets` data packets from end 0 to end 1; returns nanoseconds of wall time per packet.
  double run(std::uint64_t packets) {
    const std::uint64_t before = sent();
    const auto begin = std::chrono::steady_clock::now();
    while (sent() - before < packets) kind_.exchanges ? exchange() : turn();
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / static_cast<double>(sent() - before);
  }

 private:
  void set_up(std::uint8_t end) {
    EngineConfig config;
    config.seed = end;
    config.icrc = !kind_.phantom;
    for (std::uint8_t port = 0; port < kPlanes; ++port) config.ports.emplace_back().local = address(end, port);
    engines_[end] = std::make_unique<Engine>(config);
    if (!kind_.phantom) memory_[end].assign(kMessageBytes, end);
    const RegionConfig region{kind_.phantom ? nullptr : memory_[end].data(), 0, kMessageBytes, kKey, kRemoteWrite};
    require(engines_[end]->register_memory(region), "register_memory");
    PeerConfig peer;
    for (std::uint8_t port = 0; port < kPlanes; ++port) {
      peer.ports.push_back(address(static_cast<std::uint8_t>(1 - end), port));
    }
    require(engines_[end]->add_peer(peer, peer_[end]), "add_peer");
    require(engines_[end]->create_cq(1024, cq_[end]), "create_cq");
    QpInitAttributes attributes;
    attributes.send_cq = attributes.recv_cq = cq_[end];
    require(engines_[end]->create_qp(attributes, qp_[end]), "create_qp");
  }

  void connect(std::uint8_t end) {
    QpToInit init;
    init.cc.mtu_bytes = kind_.mtu + 100;
    if (kind_.ordinary) init.signal = PathSignal::kDelay;
    init.cc.link_rate_bps = 800'000'000'000;
    init.cc.base_rtt = 10 * kPsPerUs;
    for (std::uint8_t port = 0; port < kPlanes; ++port) {
      for (std::uint32_t i = 0; i < 32; ++i) init.ev_universe.push_back({0xC000 + port * 256U + i, port});
    }
    require(engines_[end]->modify_qp(now_, qp_[end], init), "INIT");
    QpToRtr rtr;
    rtr.peer = peer_[end];
    rtr.destination_qp = qp_[1 - end];
    rtr.payload_mtu = kind_.mtu;
    rtr.sack_bytes = kind_.ordinary ? 65'536 : 16'384;
    rtr.capabilities.plane_sacks = rtr.capabilities.sack_transit = rtr.capabilities.sack_sharers = kind_.ordinary;
    require(engines_[end]->modify_qp(now_, qp_[end], rtr), "RTR");
    require(engines_[end]->modify_qp(now_, qp_[end], QpToRts{}), "RTS");
  }

  std::uint64_t sent() const {
    QpStats stats;
    engines_[0]->qp_stats(qp_[0], stats);
    return stats.sent_packets;
  }

  void post(std::uint8_t end, std::uint64_t bytes) {
    SendWr wr;
    wr.lkey = wr.rkey = kKey;
    wr.length_bytes = bytes;
    require(engines_[end]->post_send(now_, qp_[end], wr), "post_send");
  }

  // As drivers call the engines: a timer is armed when nothing is left to send.
  void exchange() {
    for (std::uint8_t end = 0; end < 2; ++end) {
      post(end, kSmallBytes);
      const std::uint8_t other = 1 - end;
      while (transfer(end)) {
      }
      fire(end);
      while (transfer(other)) {
      }
      fire(other);
    }
    std::array<Completion, 16> done;
    for (std::uint8_t end = 0; end < 2; ++end) engines_[end]->poll_completions(cq_[end], done);
  }

  void fire(std::uint8_t end) {
    if (engines_[end]->next_timer() <= now_) engines_[end]->handle_timer(now_);
  }

  void turn() {
    while (engines_[0]->sends_outstanding(qp_[0]) < 8) post(0, kMessageBytes);
    bool moved = false;
    for (int i = 0; i < 16; ++i) moved = transfer(0) || moved;
    while (transfer(1)) moved = true;
    std::array<Completion, 16> done;
    while (engines_[0]->poll_completions(cq_[0], done) > 0) {
    }
    for (auto& engine : engines_) {
      if (!moved) now_ = std::max(now_, std::min(engines_[0]->next_timer(), engines_[1]->next_timer()));
      if (engine->next_timer() <= now_) engine->handle_timer(now_);
    }
  }

  bool transfer(std::uint8_t from) {
    if (!engines_[from]->poll_transmit(now_, (1U << kPlanes) - 1, kind_.burst, burst_)) return false;
    RxDatagram rx;
    rx.port = burst_.port;
    rx.source = address(from, burst_.port);
    rx.fields = burst_.fields;
    rx.traffic_class = burst_.traffic_class;
    rx.ecn = burst_.ecn;
    std::size_t size = 0;
    for (std::uint32_t i = 0; i < burst_.count; ++i) {
      now_ += kind_.mtu * 20;  // 400 Gb/s
      size = append(burst_.packets[i], size);
      if (kind_.ordinary) continue;
      rx.phantom_bytes = kind_.phantom ? burst_.packets[i].payload_bytes : 0;
      rx.bytes = {wire_.data(), size};
      engines_[1 - from]->handle_datagram(now_, rx);
      size = 0;
    }
    rx.bytes = {wire_.data(), size};
    if (kind_.ordinary) engines_[1 - from]->handle_train(now_, rx, burst_.packets[0].datagram_bytes());
    return true;
  }

  std::size_t append(const TxPacket& packet, std::size_t at) {
    std::copy_n(packet.headers.data(), packet.header_bytes, wire_.data() + at);
    at += packet.header_bytes;
    if (packet.payload != nullptr) {
      std::copy_n(packet.payload, packet.payload_bytes, wire_.data() + at);
      at += packet.payload_bytes;
    }
    std::copy_n(packet.trailer.data(), packet.trailer_bytes, wire_.data() + at);
    return at + packet.trailer_bytes;
  }

  Case kind_;
  TimePs now_ = kPsPerMs;
  std::array<std::unique_ptr<Engine>, 2> engines_;
  std::array<std::vector<std::uint8_t>, 2> memory_;
  std::array<PeerId, 2> peer_{};
  std::array<CqId, 2> cq_{};
  std::array<std::uint32_t, 2> qp_{};
  std::array<std::uint8_t, kBurstPacketsMax*(kMtuMax + 256)> wire_{};
  TxBurst burst_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t packets = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  if (packets == 0) stop("PACKETS must be a positive number");
  for (const Case& kind : {Case{"phantom, 1 packet a burst", true, 1}, Case{"phantom, 16 packets a burst", true, 16},
                           Case{"bytes, 16 packets a burst", false, 16},
                           Case{"bytes, ordinary planes, 44 packets a burst", false, 44, 1384, true},
                           Case{"exchanges", false, 16, kMtuMax, false, true},
                           Case{"exchanges, ordinary planes", false, 16, 1384, true, true}}) {
    if (argc > 2 && std::strcmp(argv[2], kind.name) != 0) continue;
    Bench bench(kind);
    bench.run(packets / 10);
    const double ns = bench.run(packets);
    std::printf("{\"case\": \"%s\", \"ns_per_packet\": %.1f, \"packets_per_second\": %.0f}\n", kind.name, ns, 1e9 / ns);
  }
  return 0;
}
