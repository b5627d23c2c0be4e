// Three engines and an attacker between them: two share an address and differ by UDP port, and the third one is
// connected with both, with the first one twice. The input selects the packets that arrive, are changed, dropped,
// repeated or forged, the passing of time, the posted work, and the claimed addresses. The attacker seals changed
// packets with a correct ICRC, and forges packets with knowledge of QP numbers, contexts, keys and nonces. No engine
// may fail an assertion, and no byte may change outside the registered memory or in a region whose domain has no QP.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "engine/qp/context.hpp"
#include "engine/wire/icrc.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/wire_values.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace openmrc {
namespace {

using fuzz::require;
using fuzz::Script;

constexpr PortId kPorts = 2;
constexpr std::size_t kNics = 3, kLinks = 3;
constexpr std::uint32_t kKey = 0x51;       // of link 0's regions; the next links have the next ones
constexpr std::uint32_t kVaultKey = 0x61;  // of a domain without QPs
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kRegionBytes = 32768;
constexpr std::uint8_t kGuard = 0xA7;
constexpr std::size_t kFlyingMax = 256;
constexpr int kPollsMax = 64;
constexpr std::uint32_t kFirstPsn = 0xFFFFF0;  // wraps soon

struct Flying {
  std::size_t to = 0;
  RxDatagram head;
  std::vector<std::uint8_t> bytes;
};

// Memory of a NIC: the regions of its links between guards, and the vault, which is a guard, too.
struct Memory {
  std::vector<std::uint8_t> bytes =
      std::vector<std::uint8_t>(kLinks * (kRegionBytes + kGuardBytes) + kGuardBytes, kGuard);
  std::vector<std::uint8_t> vault = std::vector<std::uint8_t>(kGuardBytes, kGuard);

  std::uint8_t* region(std::size_t link) { return bytes.data() + kGuardBytes + link * (kRegionBytes + kGuardBytes); }
  bool guarded() const {
    const auto untouched = [](std::uint8_t byte) { return byte == kGuard; };
    for (std::size_t i = 0; i <= kLinks; ++i) {
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(i * (kRegionBytes + kGuardBytes));
      if (!std::all_of(from, from + kGuardBytes, untouched)) return false;
    }
    return std::all_of(vault.begin(), vault.end(), untouched);
  }
};

constexpr std::array<std::array<std::size_t, 2>, kLinks> kEnds{{{0, 1}, {0, 2}, {0, 1}}};

std::uint8_t host_of(std::size_t nic) { return nic == 0 ? 1 : 2; }
std::uint16_t udp_of(std::size_t nic) { return static_cast<std::uint16_t>(nic == 2 ? 4792 : 4791); }

Address address_of(std::uint8_t host, PortId port) {
  Address address;
  address.family = AddressFamily::kIpv4;
  address.bytes = {10, port, 0, host};
  return address;
}

PeerConfig peer_of(std::uint8_t host, std::uint16_t udp_port) {
  PeerConfig peer;
  for (PortId port = 0; port < kPorts; ++port) peer.ports.push_back(address_of(host, port));
  peer.udp_port = udp_port;
  return peer;
}

class Table {
 public:
  explicit Table(Transport transport) : transport_(transport) {
    for (std::size_t nic = 0; nic < kNics; ++nic) set_up(nic);
    for (std::size_t link = 0; link < kLinks; ++link) {
      for (std::size_t end = 0; end < 2; ++end) create(link, end);
      for (std::size_t end = 0; end < 2; ++end) connect(link, end);
    }
  }

  void run(Script& script) {
    while (script.more()) {
      step(script);
      for (std::size_t nic = 0; nic < kNics; ++nic) collect(nic);
    }
    for (const Memory& memory : memory_) require(memory.guarded());
    for (const auto& engine : engine_) require(engine->peer_count() <= kNics + 1);
  }

 private:
  Engine& engine(std::size_t link, std::size_t end) { return *engine_[kEnds[link][end]]; }

  void set_up(std::size_t nic) {
    EngineConfig config;
    config.seed = nic + 1;
    config.udp_port = udp_of(nic);
    config.answer_strangers = nic == 1;
    for (PortId port = 0; port < kPorts; ++port) {
      config.ports.emplace_back().local = address_of(host_of(nic), port);
    }
    engine_[nic] = std::make_unique<Engine>(config);
    for (std::size_t link = 0; link < kLinks; ++link) open_region(nic, link);
    Memory& memory = memory_[nic];
    const RegionConfig vault{memory.vault.data(), 0x1000, memory.vault.size(), kVaultKey, kRemoteWrite, 99};
    require(engine_[nic]->register_memory(vault) == Status::kOk);
    require(engine_[nic]->create_cq(256, cq_[nic]) == Status::kOk);
  }

  void open_region(std::size_t nic, std::size_t link) {
    const RegionConfig region{memory_[nic].region(link),
                              0x1000,
                              kRegionBytes,
                              kKey + static_cast<std::uint32_t>(link),
                              kRemoteWrite | kLocalWrite | kRemoteRead | kRemoteAtomic,
                              static_cast<DomainId>(link + 1)};
    (void)engine_[nic]->register_memory(region);
  }

  void create(std::size_t link, std::size_t end) {
    const std::size_t nic = kEnds[link][end];
    const QpInitAttributes attributes{.transport = transport_,
                                      .send_cq = cq_[nic],
                                      .recv_cq = cq_[nic],
                                      .send_wr_max = 16,
                                      .recv_wr_max = 16,
                                      .domain = static_cast<DomainId>(link + 1)};
    require(engine_[nic]->create_qp(attributes, qp_[link][end]) == Status::kOk);
  }

  void connect(std::size_t link, std::size_t end) {
    Engine& own = engine(link, end);
    const std::uint32_t qp = qp_[link][end];
    QpToInit init;
    for (PortId port = 0; port < kPorts; ++port) {
      for (std::uint32_t i = 0; i < 4; ++i) init.ev_universe.push_back({0xC000 + port * 16U + i, port});
    }
    if (link == 1) init.signal = PathSignal::kDiscover;
    require(own.modify_qp(now_, qp, init) == Status::kOk);
    QpToRtr rtr;
    rtr.capabilities.plane_sacks = rtr.capabilities.sack_transit = rtr.capabilities.sack_sharers = link == 1;
    const std::size_t other = kEnds[link][1 - end];
    require(own.add_peer(peer_of(host_of(other), udp_of(other)), rtr.peer) == Status::kOk);
    rtr.destination_qp = qp_[link][1 - end];
    rtr.rq_psn = kFirstPsn;
    rtr.payload_mtu = 256;
    rtr.mpr_units = 1;
    require(own.modify_qp(now_, qp, rtr) == Status::kOk);
    require(own.remove_peer(rtr.peer) == Status::kOk);
    for (std::uint64_t i = 0; i < 8; ++i) require(own.post_recv(qp, i) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = kFirstPsn;
    rts.mpr_units = 1;
    require(own.modify_qp(now_, qp, rts) == Status::kOk);
  }

  // Bits of a move: 0 to 2 the kind, 3 a variant, 4 and 5 the link, 7 its end.
  void step(Script& script) {
    const std::uint8_t what = script.byte();
    const std::size_t end = what >> 7;
    const std::size_t link = (what >> 4 & 3) % kLinks;
    const bool variant = (what & 8) != 0;
    switch (what & 7) {
      case 0:
        post(link, end, script);
        break;
      case 1:
        now_ += script.byte() * kPsPerUs;
        break;
      case 2:
        now_ = std::max(now_, std::min(engine(link, end).next_timer(), now_ + kPsPerSecond));
        break;
      case 3:
        if (variant) {
          deliver_train(script);
        } else {
          deliver(script, false, false);
        }
        break;
      case 4:
        deliver(script, true, !variant);
        break;
      case 5:
        if (variant) {
          make_up_fitting(link, end, script);
        } else {
          make_up(link, end, script);
        }
        break;
      case 6:
        if (variant) {
          command(link, end, script);
        } else if (!flying_.empty()) {
          flying_.pop_front();
        }
        break;
      default:
        engine(link, end).handle_port_state(now_, script.byte() % kPorts, variant);
        break;
    }
  }

  void post(std::size_t link, std::size_t end, Script& script) {
    SendWr wr;
    wr.wr_id = ++posted_;
    const std::uint8_t what = script.byte();
    wr.opcode = static_cast<WrOpcode>(what % 8);  // 7 does not exist
    wr.lkey = wr.rkey = kKey + static_cast<std::uint32_t>(link);
    wr.local_address = 0x1000;
    wr.length_bytes = script.byte() * 37U;
    wr.remote_address = 0x1000 + script.byte() * 64U;
    const std::array<Sge, 2> parts{Sge{0x1000, what * 3U, wr.lkey}, Sge{0x1200, wr.length_bytes / 2, wr.lkey}};
    if ((what & 0x80) != 0) wr.sges = parts;
    wr.swap_add = what;
    wr.fence = (what & 0x20) != 0;
    if (wr.opcode > WrOpcode::kRead) wr.length_bytes = kAtomicBytes;
    (void)engine(link, end).post_send(now_, qp_[link][end], wr);
    if ((what & 0x40) != 0) {
      (void)engine(link, end).post_recv(qp_[link][end], posted_, parts);
    } else {
      (void)engine(link, end).post_recv(qp_[link][end], posted_);
    }
  }

  void command(std::size_t link, std::size_t end, Script& script) {
    Engine& own = engine(link, end);
    const std::size_t nic = kEnds[link][end];
    const std::uint8_t which = script.byte();
    PeerId peer = 0;
    switch (which & 3) {
      case 0: {  // an abandoned handshake
        PeerConfig claim = peer_of(which >> 2 & 3, udp_of(which >> 4 & 1));
        claim.ports_up = script.byte();
        if (own.add_peer(claim, peer) == Status::kOk) (void)own.remove_peer(peer);
        break;
      }
      case 1:
        if (own.deregister_memory(kKey + static_cast<std::uint32_t>(link)) != Status::kOk) open_region(nic, link);
        break;
      case 2:
        require(own.reset_qp(now_, qp_[link][end]) == Status::kOk);
        connect(link, end);
        break;
      default:
        if (own.add_peer(peer_of(host_of(kEnds[link][1 - end]), udp_of(kEnds[link][1 - end])), peer) == Status::kOk) {
          (void)own.send_ev_probe(now_, peer, which >> 2 & 1, 0xC000, which, kPsPerMs);
          (void)own.remove_peer(peer);
        }
    }
  }

  // Delivers the oldest packet, or a later one; changed in up to three bytes, marked, cut or duplicated.
  void deliver(Script& script, bool changed, bool sealed) {
    if (flying_.empty()) return;
    const std::size_t index = script.byte() % std::min<std::size_t>(flying_.size(), 8);
    Flying flying = flying_[index];
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(index));
    if (changed && !flying.bytes.empty()) {
      const std::uint8_t how = script.byte();
      for (int i = 0; i < (how & 3); ++i) {
        const std::size_t at = (how & 4) != 0 ? script.byte() : script.byte() % 48U;
        flying.bytes[at % flying.bytes.size()] = script.byte();
      }
      if ((how & 8) != 0) flying.head.ecn = Ecn::kCe;
      if ((how & 16) != 0) flying.bytes.resize(script.byte() % (flying.bytes.size() + 1));
      if ((how & 32) != 0) flying.head.traffic_class = TrafficClass::kTrimmed;
      if ((how & 128) != 0) flying.head.port = script.byte() % kPorts;
      if (sealed) seal(flying);
      if ((how & 64) != 0) hand_over(flying);
    }
    hand_over(flying);
  }

  // Delivers the oldest packet and those of its size and path behind it in one piece, as kernels do; changed in up to
  // three bytes.
  void deliver_train(Script& script) {
    if (flying_.empty()) return;
    Flying train = std::move(flying_.front());
    flying_.pop_front();
    const std::size_t datagram_bytes = train.bytes.size();
    if (datagram_bytes == 0) return;
    const auto continues = [&](const Flying& next) {
      return next.to == train.to && next.head.source == train.head.source &&
             next.head.fields.source_port == train.head.fields.source_port && next.bytes.size() == datagram_bytes;
    };
    while (!flying_.empty() && continues(flying_.front())) {
      train.bytes.insert(train.bytes.end(), flying_.front().bytes.begin(), flying_.front().bytes.end());
      flying_.pop_front();
    }
    const std::uint8_t how = script.byte();
    for (int i = 0; i < (how & 3); ++i) {
      const std::size_t at = script.byte() * datagram_bytes + script.byte() % 48U;
      train.bytes[at % train.bytes.size()] = script.byte();
    }
    train.head.checked = (how & 4) != 0;
    train.head.bytes = train.bytes;
    engine_[train.to]->handle_train(now_, train.head, datagram_bytes);
  }

  void make_up(std::size_t link, std::size_t end, Script& script) {
    Flying flying = empty_packet(link, end, script.byte() % kPorts);
    flying.bytes.resize(script.byte());
    for (auto& byte : flying.bytes) byte = script.byte();
    seal(flying);
    hand_over(flying);
  }

  // A packet that the peer could send: correct numbers in all headers, except where the input changes them.
  void make_up_fitting(std::size_t link, std::size_t end, Script& script) {
    static constexpr wire::Opcode kOpcodes[] = {wire::Opcode::kEndpointRequest,
                                                wire::Opcode::kEndpointResponse,
                                                wire::Opcode::kSack,
                                                wire::Opcode::kNack,
                                                wire::Opcode::kAck,
                                                wire::Opcode::kProbe,
                                                wire::Opcode::kWriteOnly,
                                                wire::Opcode::kWriteFirst,
                                                wire::Opcode::kWriteLastImm,
                                                wire::Opcode::kRcWriteOnly,
                                                wire::Opcode::kRcWriteFirst,
                                                wire::Opcode::kRcAck,
                                                wire::Opcode::kRcSendFirst,
                                                wire::Opcode::kRcSendMiddle,
                                                wire::Opcode::kRcSendLastImm,
                                                wire::Opcode::kRcSendOnly,
                                                wire::Opcode::kRcReadRequest,
                                                wire::Opcode::kRcReadResponseFirst,
                                                wire::Opcode::kRcReadResponseMiddle,
                                                wire::Opcode::kRcReadResponseOnly,
                                                wire::Opcode::kRcAtomicAck,
                                                wire::Opcode::kRcCompareSwap,
                                                wire::Opcode::kRcFetchAdd};
    Flying flying = empty_packet(link, end, script.byte() % kPorts);
    const std::uint32_t own = qp_[link][end], other = qp_[link][1 - end];
    wire::Packet packet;
    packet.bth.opcode = kOpcodes[script.byte() % std::size(kOpcodes)];
    const bool endpoint =
        packet.bth.opcode == wire::Opcode::kEndpointRequest || packet.bth.opcode == wire::Opcode::kEndpointResponse;
    packet.bth.partition_key = 0xFFFF;
    packet.bth.destination_qp = endpoint ? kEndpointQp : own;
    const std::uint8_t flags = script.byte();
    const std::uint32_t psn = (kFirstPsn - 4U + script.byte()) & (kPsnSpace - 1);
    packet.bth.psn = packet.seth.cack_psn = packet.neth.nack_psn = psn;
    packet.bth.ack_request = (flags & 1) != 0;
    packet.bth.ts = (flags & 2) != 0;
    packet.bth.joined = (flags & 3) == 3;
    packet.bth.accepts_joined = (flags & 2) != 0;
    packet.bth.no_icrc = flags % 7 == 6;
    packet.seth.source_context = packet.neth.source_context = packet.peth.source_context = context_of(other);
    packet.seth.destination_context = packet.neth.destination_context = packet.peth.destination_context =
        context_of(own);
    packet.seth.port_status = script.byte();
    packet.seth.bitmap = script.word();
    packet.seth.sack_offset = static_cast<std::int16_t>(script.byte() - 128);
    packet.neth.reason = (flags & 4) != 0 ? wire::NackReason::kUnexpectedEvent : wire::NackReason::kTrimmed;
    packet.aeth = {(flags & 8) != 0 ? wire::AethSyndrome::kNakRemoteAccess : wire::AethSyndrome::kAck, flags & 7U};
    packet.erth.op = packet.eeth.op = static_cast<wire::EndpointOp>(flags / 16 % 3);
    packet.erth.udp_port = udp_of(kEnds[link][(flags & 32) != 0 ? end : 1 - end]);
    packet.erth.port_status_mask = packet.seth.port_status;
    packet.erth.nonce = packet.eeth.nonce =
        (flags & 64) != 0 ? script.byte() : QpContext::connection_nonce(other, own, kFirstPsn);
    const std::uint32_t keys[] = {kKey, kKey + 1, kKey + 2, kVaultKey};
    packet.reth = {0x1000 + script.byte() * 256U, keys[(flags & 128) != 0 ? 3 : link], script.byte() * 4U};
    packet.atomic = {packet.reth.virtual_address, packet.reth.rkey, flags, script.word()};
    const bool data = test::carries_payload(packet.bth.opcode);
    flying.bytes.resize(kHeaderBytesMax);
    flying.bytes.resize(wire::encode_headers(packet, flying.bytes));
    flying.bytes.resize(flying.bytes.size() + (data ? std::min<std::uint32_t>(packet.reth.dma_length, 256) : 0) +
                        wire::kIcrcBytes);
    if (packet.bth.joined && wire::is_data(packet.bth.opcode)) append_ack(packet, flying.bytes);
    seal(flying);
    hand_over(flying);
  }

  static void append_ack(wire::Packet packet, std::vector<std::uint8_t>& bytes) {
    packet.bth.opcode = wire::Opcode::kAck;
    std::array<std::uint8_t, kHeaderBytesMax> headers{};
    bytes.insert(bytes.end(), headers.begin(), headers.begin() + wire::encode_headers(packet, headers));
    bytes.resize(bytes.size() + wire::kIcrcBytes);
  }

  static std::uint16_t context_of(std::uint32_t qp) { return static_cast<std::uint16_t>(qp ^ (qp >> 8)); }

  // A packet to this end of the link under the name of the other one.
  Flying empty_packet(std::size_t link, std::size_t end, PortId port) {
    Flying flying;
    flying.to = kEnds[link][end];
    flying.head.port = port;
    flying.head.source = address_of(host_of(kEnds[link][1 - end]), port);
    flying.head.fields.source_port = 0xC000;
    return flying;
  }

  // Both packets of a joined datagram.
  static void seal(Flying& flying) {
    const std::span<std::uint8_t> bytes(flying.bytes);
    const std::size_t first = wire::first_packet_bytes(bytes);
    seal(flying, bytes.first(first));
    seal(flying, bytes.subspan(first));
  }

  static void seal(const Flying& flying, std::span<std::uint8_t> bytes) {
    if (bytes.size() < wire::kBthBytes + wire::kIcrcBytes) return;
    const wire::Flow flow{flying.head.source, address_of(host_of(flying.to), flying.head.port),
                          flying.head.fields.source_port, udp_of(flying.to)};
    const std::size_t length = bytes.size() - wire::kIcrcBytes;
    const std::size_t head = std::min<std::size_t>(length, kHeaderBytesMax);
    const std::uint32_t crc = wire::icrc(flow, {bytes.data(), head}, {bytes.data() + head, length - head}, 0);
    for (std::size_t i = 0; i < wire::kIcrcBytes; ++i) bytes[length + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  }

  void hand_over(Flying& flying) {
    flying.head.bytes = flying.bytes;
    engine_[flying.to]->handle_datagram(now_, flying.head);
  }

  // The driver's part after every call.
  void collect(std::size_t nic) {
    Engine& engine = *engine_[nic];
    if (engine.next_timer() <= now_) engine.handle_timer(now_);
    for (int i = 0; i < kPollsMax && flying_.size() < kFlyingMax; ++i) {
      constexpr PortMask kAll = (PortMask{1} << kPorts) - 1;
      if (!engine.poll_transmit(now_, kAll, 4, burst_, Outgoing::kDataWithAcks) &&
          !engine.poll_transmit(now_, kAll, 4, burst_))
        break;
      const std::span<const TxPacket> packets(burst_.packets.data(), burst_.count);
      if (burst_.joined) fly(nic, packets);
      for (std::uint32_t p = 0; !burst_.joined && p < burst_.count; ++p) fly(nic, packets.subspan(p, 1));
    }
    Completion completions[16];
    while (engine.poll_completions(cq_[nic], completions) > 0) {
    }
    Event events[16];
    while (engine.poll_events(events) > 0) {
    }
    EndpointResult result;
    while (engine.poll_endpoint_result(result)) {
    }
  }

  // Packets of one datagram.
  void fly(std::size_t nic, std::span<const TxPacket> packets) {
    Flying flying;
    const auto target = [&](std::size_t other) {
      return burst_.destination == address_of(host_of(other), burst_.port) && burst_.destination_port == udp_of(other);
    };
    while (flying.to < kNics && !target(flying.to)) ++flying.to;
    if (flying.to == kNics) return;  // a response to a stranger
    flying.head.port = burst_.port;
    flying.head.source = address_of(host_of(nic), burst_.port);
    flying.head.fields = burst_.fields;
    flying.head.traffic_class = burst_.traffic_class;
    flying.head.ecn = burst_.ecn;
    for (const TxPacket& packet : packets) {
      flying.bytes.insert(flying.bytes.end(), packet.headers.begin(), packet.headers.begin() + packet.header_bytes);
      if (packet.payload != nullptr) {
        flying.bytes.insert(flying.bytes.end(), packet.payload, packet.payload + packet.payload_bytes);
      }
      flying.bytes.insert(flying.bytes.end(), packet.trailer.begin(), packet.trailer.begin() + packet.trailer_bytes);
    }
    flying_.push_back(std::move(flying));
  }

  Transport transport_;
  std::array<std::unique_ptr<Engine>, kNics> engine_;
  std::array<Memory, kNics> memory_;
  std::array<CqId, kNics> cq_{};
  std::uint32_t qp_[kLinks][2]{};
  std::deque<Flying> flying_;
  TxBurst burst_;
  TimePs now_ = 0;
  std::uint64_t posted_ = 0;
};

}  // namespace
}  // namespace openmrc

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  openmrc::fuzz::Script script(data + 1, size - 1);
  openmrc::Table table((data[0] & 1) != 0 ? openmrc::Transport::kRc : openmrc::Transport::kMrc);
  table.run(script);
  return 0;
}
