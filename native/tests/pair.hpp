// Two engines on one table: in-memory links with a fixed delay and a filter that decides the fate of single packets.
// For hand-written cases; the seeded swarm is in tests/sim.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/wire/icrc.hpp"
#include "tests/check.hpp"

namespace openmrc::test {

struct PairOptions {
  std::uint8_t planes = 4;
  std::uint32_t evs_per_port = 8;
  Transport transport = Transport::kMrc;
  std::uint32_t mtu = 1024;
  std::array<std::uint32_t, 2> mtu_max{};  // of each end; 0: as `mtu`
  std::array<std::uint32_t, 2> psn{100, 200};
  std::uint8_t mpr_units = 8;
  std::uint16_t wimm_max = 32;
  std::uint8_t timeout_exponent = 7;  // 131 us
  std::uint8_t linear_retries = 3;
  std::uint8_t exponential_retries = 25;
  std::uint32_t sack_bytes = 4096;
  QpCapabilities capabilities;
  std::string controller = "none";
  std::string selector = "mrc";
  CcConfig cc;
  PathSignal path_signal = PathSignal::kMarks;
  wire::EvFormat ev_format = wire::EvFormat::kUdp;
  std::array<std::uint16_t, 2> partition_key{0xFFFF, 0xFFFF};
  std::uint32_t cq_capacity = 4096;
  std::uint32_t wr_max = 256;
  std::uint64_t memory_bytes = 1 << 20;
  std::uint32_t burst_max = 8;
  TimePs delay = 5 * kPsPerUs;
  TimePs probe_interval = kPsPerMs;
  std::uint16_t min_active = 1;
  bool nack_out_of_window = true;
  bool trimmable = true;
  std::uint16_t timestamp_resolution_ns = 128;
  std::uint8_t rc_rnr_timer = 12;  // 640 us
  std::uint8_t rc_rnr_retries = 7;
  std::uint8_t rc_reads_max = 16, rc_reads_max_dest = 16;
  std::uint32_t rc_window_packets = 64;
  bool rc_plane_move = false;
  std::uint32_t srq_receives = 0;  // above 0: each end has a shared receive queue of this size
};

// A packet between the engines, visible to the filter, which may change it.
struct Flying {
  TimePs arrival = 0;
  int to = 0;
  PortId port = 0;
  wire::EvFields fields;
  TrafficClass traffic_class{};
  Ecn ecn{};
  std::vector<std::uint8_t> bytes;
};

enum class Fate : std::uint8_t { kPass, kDrop, kTwice };

class Pair {
 public:
  using Filter = std::function<Fate(int from, const wire::Packet& packet, Flying& flying)>;
  static constexpr std::uint32_t kKey = 0x77;
  static constexpr std::uint8_t kAllAccess = kRemoteWrite | kLocalWrite | kRemoteRead | kRemoteAtomic;

  explicit Pair(const PairOptions& pair_options = {}) : options(pair_options) {
    for (int end = 0; end < 2; ++end) {
      EngineConfig config;
      config.seed = static_cast<std::uint64_t>(end) + 1;
      config.partition_key = options.partition_key[at(end)];
      config.ev_format = options.ev_format;
      for (PortId port = 0; port < options.planes; ++port) config.ports.emplace_back().local = address(end, port);
      engines_[at(end)] = std::make_unique<Engine>(config);
      memory[at(end)].resize(options.memory_bytes);
      for (std::size_t i = 0; i < memory[at(end)].size(); ++i) {
        memory[at(end)][i] = static_cast<std::uint8_t>((i * 7 + i / 251) ^ static_cast<std::size_t>(end * 0x5A));
      }
      CHECK(engine(end).register_memory({memory[at(end)].data(), 0, options.memory_bytes, kKey, kAllAccess}) ==
            Status::kOk);
      PeerConfig peer;
      for (PortId port = 0; port < options.planes; ++port) peer.ports.push_back(address(1 - end, port));
      CHECK(engine(end).add_peer(peer, peer_[at(end)]) == Status::kOk);
      CHECK(engine(end).create_cq(options.cq_capacity, send_cq[at(end)]) == Status::kOk);
      CHECK(engine(end).create_cq(options.cq_capacity, recv_cq[at(end)]) == Status::kOk);
      QpInitAttributes attributes{options.transport, send_cq[at(end)], recv_cq[at(end)], options.wr_max,
                                  options.wr_max};
      if (options.srq_receives > 0) {
        CHECK(engine(end).create_srq({.wr_max = options.srq_receives}, srq[at(end)]) == Status::kOk);
        attributes.srq = srq[at(end)];
      }
      CHECK(engine(end).create_qp(attributes, qp[at(end)]) == Status::kOk);
    }
  }

  static std::size_t at(int end) { return static_cast<std::size_t>(end); }
  Engine& engine(int end) { return *engines_[at(end)]; }
  PeerId peer(int end) const { return peer_[at(end)]; }
  static Address address(int end, PortId port) {
    Address result;
    result.family = AddressFamily::kIpv4;
    result.bytes = {10, port, 0, static_cast<std::uint8_t>(end + 1)};
    return result;
  }

  QpToInit to_init() const {
    QpToInit init;
    init.ev_selector = options.selector;
    init.controller = options.controller;
    init.cc = options.cc;
    init.signal = options.path_signal;
    init.rc_plane_move = options.rc_plane_move;
    init.ev_set.probe_interval = options.probe_interval;
    init.ev_set.min_active = options.min_active;
    for (PortId port = 0; port < options.planes; ++port) {
      for (std::uint32_t i = 0; i < options.evs_per_port; ++i) {
        const std::uint32_t flow_label = options.ev_format == wire::EvFormat::kUdp ? 0 : i + 1;
        init.ev_universe.push_back({flow_label << 16 | (0xC000 + port * 256U + i), port});
      }
    }
    return init;
  }
  QpToRtr to_rtr(int end) const {
    QpToRtr rtr;
    rtr.peer = peer_[at(end)];
    rtr.destination_qp = qp[at(1 - end)];
    rtr.rq_psn = options.psn[at(1 - end)];
    rtr.payload_mtu = options.mtu;
    rtr.payload_mtu_max = options.mtu_max[at(end)];
    rtr.mpr_units = options.mpr_units;
    rtr.wimm_max_dest = options.wimm_max;
    rtr.capabilities = options.capabilities;
    rtr.sack_bytes = options.sack_bytes;
    rtr.nack_out_of_window = options.nack_out_of_window;
    rtr.rc_rnr_timer = options.rc_rnr_timer;
    rtr.rc_reads_max_dest = options.rc_reads_max_dest;
    return rtr;
  }
  QpToRts to_rts(int end) const {
    QpToRts rts;
    rts.sq_psn = options.psn[at(end)];
    rts.mpr_units = options.mpr_units;
    rts.wimm_max = options.wimm_max;
    rts.timeout_exponent = options.timeout_exponent;
    rts.linear_retries = options.linear_retries;
    rts.exponential_retries = options.exponential_retries;
    rts.trimmable = options.trimmable;
    rts.timestamp_resolution_ns = options.timestamp_resolution_ns;
    rts.rc_rnr_retries = options.rc_rnr_retries;
    rts.rc_reads_max = options.rc_reads_max;
    rts.rc_window_packets = options.rc_window_packets;
    return rts;
  }
  // Takes both QPs to RTS, with `receives` posted at each.
  void connect(std::uint32_t receives = 64) {
    for (int end = 0; end < 2; ++end) {
      CHECK(engine(end).modify_qp(now, qp[at(end)], to_init()) == Status::kOk);
      CHECK(engine(end).modify_qp(now, qp[at(end)], to_rtr(end)) == Status::kOk);
      for (std::uint32_t i = 0; i < receives; ++i) CHECK(engine(end).post_recv(qp[at(end)], i) == Status::kOk);
      CHECK(engine(end).modify_qp(now, qp[at(end)], to_rts(end)) == Status::kOk);
    }
  }

  SendWr work(std::uint64_t wr_id, std::uint64_t length, std::uint64_t remote_address) const {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.lkey = kKey;
    wr.length_bytes = length;
    wr.remote_address = remote_address;
    wr.rkey = kKey;
    return wr;
  }
  Status write(int end, std::uint64_t wr_id, std::uint64_t length, std::uint64_t remote_address) {
    return engine(end).post_send(now, qp[at(end)], work(wr_id, length, remote_address));
  }
  Status write_imm(int end, std::uint64_t wr_id, std::uint64_t length, std::uint64_t remote_address,
                   std::uint32_t immediate) {
    SendWr wr = work(wr_id, length, remote_address);
    wr.opcode = WrOpcode::kWriteImm;
    wr.immediate = immediate;
    return engine(end).post_send(now, qp[at(end)], wr);
  }
  Status post(int end, const SendWr& wr) { return engine(end).post_send(now, qp[at(end)], wr); }
  // SEND of the first `length` bytes.
  Status send(int end, std::uint64_t wr_id, std::uint64_t length) {
    SendWr wr = work(wr_id, length, 0);
    wr.opcode = WrOpcode::kSend;
    return post(end, wr);
  }
  // READ of `length` bytes at the peer's address 0 into `target` here.
  Status read(int end, std::uint64_t wr_id, std::uint64_t length, std::uint64_t target) {
    SendWr wr = work(wr_id, length, 0);
    wr.opcode = WrOpcode::kRead;
    wr.local_address = target;
    return post(end, wr);
  }
  // FETCH_ADD at the peer's `address`; the former value goes to `target` here.
  Status fetch_add(int end, std::uint64_t wr_id, std::uint64_t address, std::uint64_t add, std::uint64_t target) {
    SendWr wr = work(wr_id, kAtomicBytes, address);
    wr.opcode = WrOpcode::kFetchAdd;
    wr.local_address = target;
    wr.swap_add = add;
    return post(end, wr);
  }
  std::uint64_t value(int end, std::uint64_t address) const {
    std::uint64_t result = 0;
    std::memcpy(&result, memory[at(end)].data() + address, sizeof result);
    return result;
  }
  Status receive(int end, std::uint64_t wr_id, const std::vector<Sge>& sges) {
    return engine(end).post_recv(qp[at(end)], wr_id, sges);
  }
  // True if the data of `work` from address 0 of `end` has arrived at `remote_address`.
  bool landed(int end, std::uint64_t length, std::uint64_t remote_address) const {
    const auto& source = memory[at(end)];
    const auto& target = memory[at(1 - end)];
    return std::equal(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(length),
                      target.begin() + static_cast<std::ptrdiff_t>(remote_address));
  }

  // Runs virtual time until `done` or for `limit`; false: limit.
  bool run_until(const std::function<bool()>& done, TimePs limit = kPsPerSecond) {
    const TimePs end_time = now + limit;
    pump();
    while (!done()) {
      const TimePs next = next_time();
      if (next > end_time) {
        now = end_time;
        return false;
      }
      now = std::max(now, next);
      while (!flying_.empty() && flying_.begin()->first <= now) {
        const Flying flying = std::move(flying_.begin()->second);
        flying_.erase(flying_.begin());
        deliver(flying);
      }
      for (int end = 0; end < 2; ++end) {
        if (engine(end).next_timer() <= now) engine(end).handle_timer(now);
      }
      pump();
    }
    return true;
  }
  void run_for(TimePs time) {
    run_until([] { return false; }, time);
  }
  bool run_until_sends(int end, std::size_t count, TimePs limit = kPsPerSecond) {
    return run_until([&] { return sends[at(end)].size() >= count; }, limit);
  }

  void deliver(const Flying& flying) {
    RxDatagram rx;
    rx.port = flying.port;
    rx.source = address(1 - flying.to, flying.port);
    rx.fields = flying.fields;
    rx.traffic_class = flying.traffic_class;
    rx.ecn = flying.ecn;
    rx.bytes = flying.bytes;
    engine(flying.to).handle_datagram(now, rx);
  }

  // A packet not made by an engine, with a valid ICRC, as a rogue peer at `from` may send it.
  Flying forge(int from, wire::Packet packet, const std::vector<std::uint8_t>& payload = {}) const {
    Flying flying;
    flying.to = 1 - from;
    flying.fields.source_port = 0xC000;
    packet.bth.partition_key = options.partition_key[at(from)];
    packet.bth.destination_qp = packet.bth.destination_qp != 0 ? packet.bth.destination_qp : qp[at(1 - from)];
    packet.bth.pad_bytes = static_cast<std::uint8_t>((4 - payload.size() % 4) % 4);
    std::array<std::uint8_t, kHeaderBytesMax> headers{};
    const std::size_t header_bytes = wire::encode_headers(packet, headers);
    flying.bytes.assign(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(header_bytes));
    flying.bytes.insert(flying.bytes.end(), payload.begin(), payload.end());
    for (std::uint8_t pad = 0; pad < packet.bth.pad_bytes; ++pad) flying.bytes.push_back(0);
    const wire::Flow flow{address(from, 0), address(1 - from, 0), flying.fields.source_port, 4791};
    const std::uint32_t crc = wire::icrc(flow, {headers.data(), header_bytes}, payload, packet.bth.pad_bytes);
    for (unsigned i = 0; i < 4; ++i) flying.bytes.push_back(static_cast<std::uint8_t>(crc >> (8 * i)));
    return flying;
  }

  // Context id of the QP at `end`, as in its packets and in the responses to it.
  std::uint16_t context(int end) const { return static_cast<std::uint16_t>(qp[at(end)] ^ (qp[at(end)] >> 8)); }
  QpStats stats(int end) {
    QpStats result;
    CHECK(engine(end).qp_stats(qp[at(end)], result));
    return result;
  }
  QpState state(int end) { return engine(end).qp_state(qp[at(end)]); }
  QpErrorCause error(int end) { return engine(end).qp_error(qp[at(end)]); }
  std::uint64_t sent(int from, wire::Opcode opcode) { return sent_[{from, opcode}]; }

  void pump() {
    for (int end = 0; end < 2; ++end) {
      const PortMask free = ((PortMask{1} << options.planes) - 1) & ~busy_ports;
      while (engine(end).poll_transmit(now, free, options.burst_max, burst_, outgoing[at(end)])) {
        if (burst_.joined) {
          launch(end, {burst_.packets.data(), burst_.count});
        } else {
          for (std::uint32_t i = 0; i < burst_.count; ++i) launch(end, {&burst_.packets[i], 1});
        }
      }
      std::array<Completion, 16> completions;
      while (const std::size_t count = engine(end).poll_completions(send_cq[at(end)], completions)) {
        sends[at(end)].insert(sends[at(end)].end(), completions.begin(),
                              completions.begin() + static_cast<std::ptrdiff_t>(count));
      }
      while (take_receives && engine(end).poll_completions(recv_cq[at(end)], {completions.data(), 1}) == 1) {
        recvs[at(end)].push_back(completions[0]);
      }
      std::array<Event, 16> batch;
      while (const std::size_t count = engine(end).poll_events(batch)) {
        events[at(end)].insert(events[at(end)].end(), batch.begin(),
                               batch.begin() + static_cast<std::ptrdiff_t>(count));
      }
    }
  }

  PairOptions options;
  TimePs now = kPsPerMs;
  std::array<std::uint32_t, 2> qp{};
  std::array<CqId, 2> send_cq{}, recv_cq{};
  std::array<SrqId, 2> srq{};
  std::array<std::vector<std::uint8_t>, 2> memory;
  std::array<std::vector<Completion>, 2> sends, recvs;
  std::array<std::vector<Event>, 2> events;
  Filter filter;
  PortMask busy_ports = 0;             // of both ends
  std::array<Outgoing, 2> outgoing{};  // packets that each driver requests
  bool take_receives = true;           // false: the receive CQs are not polled

 private:
  // Packets of one datagram. The filter is asked once, with the first of them.
  void launch(int from, std::span<const TxPacket> packets) {
    Flying flying;
    flying.arrival = now + options.delay;
    flying.to = 1 - from;
    flying.port = burst_.port;
    flying.fields = burst_.fields;
    flying.traffic_class = burst_.traffic_class;
    flying.ecn = burst_.ecn;
    wire::Packet packet;
    for (std::size_t i = packets.size(); i-- > 0;) {  // the first one last, for the filter
      const TxPacket& tx = packets[i];
      std::vector<std::uint8_t> bytes(tx.headers.begin(), tx.headers.begin() + tx.header_bytes);
      if (tx.payload_bytes > 0) bytes.insert(bytes.end(), tx.payload, tx.payload + tx.payload_bytes);
      bytes.insert(bytes.end(), tx.trailer.begin(), tx.trailer.begin() + tx.trailer_bytes);
      CHECK(wire::parse(bytes, wire::Extent::kWhole, packet) == wire::ParseError::kNone);
      ++sent_[{from, packet.bth.opcode}];
      flying.bytes.insert(flying.bytes.begin(), bytes.begin(), bytes.end());
    }
    const Fate fate = filter ? filter(from, packet, flying) : Fate::kPass;
    if (fate == Fate::kDrop) return;
    const TimePs arrival = flying.arrival;
    if (fate == Fate::kTwice) flying_.emplace(arrival, flying);
    flying_.emplace(arrival, std::move(flying));
  }
  TimePs next_time() {
    TimePs next = std::min(engine(0).next_timer(), engine(1).next_timer());
    if (!flying_.empty()) next = std::min(next, flying_.begin()->first);
    return next;
  }

  std::array<std::unique_ptr<Engine>, 2> engines_;
  std::array<PeerId, 2> peer_{};
  std::multimap<TimePs, Flying> flying_;
  std::map<std::pair<int, wire::Opcode>, std::uint64_t> sent_;
  TxBurst burst_;
};

}  // namespace openmrc::test
