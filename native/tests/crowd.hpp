// NICs that share one address and differ by UDP port, like ranks on one host, and one NIC elsewhere; plus forged
// datagrams. Packets go to the NIC with their address and UDP port, without delay.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "engine/wire/icrc.hpp"
#include "tests/check.hpp"

namespace openmrc::test {

class Crowd {
 public:
  static constexpr PortId kPorts = 2;
  static constexpr PortMask kAll = (PortMask{1} << kPorts) - 1;
  static constexpr std::uint32_t kKey = 0x77;
  static constexpr std::uint32_t kMemoryBytes = 1 << 16;

  struct Nic {
    std::unique_ptr<Engine> engine;
    std::uint8_t host = 0;
    std::uint16_t udp_port = 0;
    std::vector<std::uint8_t> memory;
    CqId cq = 0;
  };
  struct Datagram {
    std::uint8_t from_host = 0, to_host = 0;
    PortId port = 0;
    std::uint16_t udp_port = 0;
    std::uint16_t source_port = 0xC000;
    TrafficClass traffic_class = TrafficClass::kNoTrim;
    std::vector<std::uint8_t> bytes;
  };
  struct Link {
    std::size_t ends[2]{};
    std::uint32_t qps[2]{};
    std::uint32_t psns[2]{};
  };

  static Address address(std::uint8_t host, PortId port) {
    Address result;
    result.family = AddressFamily::kIpv4;
    result.bytes = {10, port, 0, host};
    return result;
  }
  static PeerConfig peer_of(std::uint8_t host, std::uint16_t udp_port) {
    PeerConfig peer;
    for (PortId port = 0; port < kPorts; ++port) peer.ports.push_back(address(host, port));
    peer.udp_port = udp_port;
    return peer;
  }

  std::size_t add(std::uint8_t host, std::uint16_t udp_port, EngineConfig config = {}) {
    Nic& nic = nics.emplace_back();
    config.seed = nics.size();
    config.udp_port = udp_port;
    for (PortId port = 0; port < kPorts; ++port) config.ports.emplace_back().local = address(host, port);
    nic.engine = std::make_unique<Engine>(config);
    nic.host = host;
    nic.udp_port = udp_port;
    nic.memory.resize(kMemoryBytes);
    CHECK(nic.engine->register_memory({nic.memory.data(), 0, kMemoryBytes, kKey, kRemoteWrite, 0}) == Status::kOk);
    CHECK(nic.engine->create_cq(256, nic.cq) == Status::kOk);
    return nics.size() - 1;
  }
  Engine& engine(std::size_t nic) { return *nics[nic].engine; }
  // Returns its number at `nic`.
  PeerId know(std::size_t nic, std::size_t other) {
    PeerId id = 0;
    CHECK(engine(nic).add_peer(peer_of(nics[other].host, nics[other].udp_port), id) == Status::kOk);
    return id;
  }

  Link connect(std::size_t a, std::size_t b) {
    Link link{{a, b}, {}, {100, 200}};
    for (std::size_t end = 0; end < 2; ++end) link.qps[end] = create(link.ends[end]);
    for (std::size_t end = 0; end < 2; ++end) {
      const PeerId peer = know(link.ends[end], link.ends[1 - end]);
      to_rts(link.ends[end], link.qps[end], peer, link.qps[1 - end], link.psns[end], link.psns[1 - end]);
      CHECK(engine(link.ends[end]).remove_peer(peer) == Status::kOk);
    }
    return link;
  }
  std::uint32_t create(std::size_t nic) {
    std::uint32_t qp = 0;
    QpInitAttributes attributes;
    attributes.send_cq = attributes.recv_cq = nics[nic].cq;
    CHECK(engine(nic).create_qp(attributes, qp) == Status::kOk);
    return qp;
  }
  void to_rts(std::size_t nic, std::uint32_t qp, PeerId peer, std::uint32_t other, std::uint32_t psn,
              std::uint32_t peer_psn) {
    QpToInit init;
    init.controller = "none";
    for (PortId port = 0; port < kPorts; ++port) {
      for (std::uint32_t i = 0; i < 4; ++i) init.ev_universe.push_back({0xC000 + port * 16U + i, port});
    }
    CHECK(engine(nic).modify_qp(now, qp, init) == Status::kOk);
    QpToRtr rtr;
    rtr.peer = peer;
    rtr.destination_qp = other;
    rtr.rq_psn = peer_psn;
    rtr.capabilities = capabilities;
    CHECK(engine(nic).modify_qp(now, qp, rtr) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = psn;
    CHECK(engine(nic).modify_qp(now, qp, rts) == Status::kOk);
  }
  Status write(const Link& link, std::size_t end, std::uint64_t length, std::uint64_t target) {
    SendWr wr;
    wr.lkey = wr.rkey = kKey;
    wr.length_bytes = length;
    wr.remote_address = target;
    return engine(link.ends[end]).post_send(now, link.qps[end], wr);
  }

  // Delivers all packets in flight and runs timers until `time` has passed.
  void run_for(TimePs time) {
    const TimePs end = now + time;
    for (;;) {
      exchange();
      TimePs next = kNever;
      for (const Nic& nic : nics) next = std::min(next, nic.engine->next_timer());
      if (next > end) break;
      now = std::max(now, next);
      for (const Nic& nic : nics) {
        if (nic.engine->next_timer() <= now) nic.engine->handle_timer(now);
      }
    }
    now = end;
  }
  void exchange() {
    for (bool busy = true; busy;) {
      busy = false;
      for (std::size_t nic = 0; nic < nics.size(); ++nic) busy |= transmit(nic);
      while (!flying.empty()) {
        const Datagram datagram = std::move(flying.front());
        flying.pop_front();
        busy |= deliver(datagram);
      }
    }
  }
  // Moves the pending datagrams of `nic` into `flying` and adds their number to `sent`.
  bool transmit(std::size_t nic) {
    bool any = false;
    while (engine(nic).poll_transmit(now, kAll, 8, burst)) {
      any = true;
      for (std::uint32_t i = 0; i < burst.count; ++i) launch(nic, burst.packets[i]);
    }
    return any;
  }
  // False: no such NIC.
  bool deliver(const Datagram& datagram) {
    for (const Nic& nic : nics) {
      if (nic.host != datagram.to_host || nic.udp_port != datagram.udp_port) continue;
      RxDatagram rx;
      rx.port = datagram.port;
      rx.source = address(datagram.from_host, datagram.port);
      rx.fields.source_port = datagram.source_port;
      rx.traffic_class = datagram.traffic_class;
      rx.bytes = datagram.bytes;
      nic.engine->handle_datagram(now, rx);
      return true;
    }
    ++undelivered;
    return false;
  }

  // A packet with a valid ICRC, as anyone can send it under the name of `from_host`.
  Datagram forge(std::uint8_t from_host, std::size_t to, PortId port, wire::Packet packet) const {
    Datagram datagram;
    datagram.from_host = from_host;
    datagram.to_host = nics[to].host;
    datagram.udp_port = nics[to].udp_port;
    datagram.port = port;
    packet.bth.partition_key = 0xFFFF;
    std::array<std::uint8_t, kHeaderBytesMax> headers{};
    const std::size_t bytes = wire::encode_headers(packet, headers);
    datagram.bytes.assign(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(bytes));
    const wire::Flow flow{address(from_host, port), address(datagram.to_host, port), datagram.source_port,
                          datagram.udp_port};
    const std::uint32_t crc = wire::icrc(flow, {headers.data(), bytes}, {}, 0);
    for (unsigned i = 0; i < 4; ++i) datagram.bytes.push_back(static_cast<std::uint8_t>(crc >> (8 * i)));
    return datagram;
  }
  static wire::Packet request(wire::EndpointOp op, std::uint16_t udp_port, PortMask mask, std::uint16_t id,
                              std::uint32_t nonce = 0) {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::kEndpointRequest;
    packet.bth.destination_qp = kEndpointQp;
    packet.bth.psn = id;
    packet.erth.op = op;
    packet.erth.udp_port = udp_port;
    packet.erth.port_status_mask = mask;
    packet.erth.nonce = nonce;
    return packet;
  }

  QpCapabilities capabilities;  // of QPs that are connected next
  std::vector<Nic> nics;
  std::deque<Datagram> flying;
  TimePs now = kPsPerMs;
  std::uint64_t sent = 0, undelivered = 0;
  TxBurst burst;

 private:
  void launch(std::size_t nic, const TxPacket& tx) {
    Datagram datagram;
    datagram.from_host = nics[nic].host;
    datagram.to_host = burst.destination.bytes[3];
    datagram.port = burst.port;
    datagram.udp_port = burst.destination_port;
    datagram.source_port = burst.fields.source_port;
    datagram.traffic_class = burst.traffic_class;
    datagram.bytes.assign(tx.headers.begin(), tx.headers.begin() + tx.header_bytes);
    if (tx.payload_bytes > 0) datagram.bytes.insert(datagram.bytes.end(), tx.payload, tx.payload + tx.payload_bytes);
    datagram.bytes.insert(datagram.bytes.end(), tx.trailer.begin(), tx.trailer.begin() + tx.trailer_bytes);
    flying.push_back(std::move(datagram));
    ++sent;
  }
};

}  // namespace openmrc::test
