// Two engines and an attacker between them: the input says which packets arrive, are changed, dropped, repeated or made
// up, when time passes, and what is posted. No engine may fail an assertion, and no byte outside the registered part of
// the memory may change. The ICRC is off, so that changed packets reach the state machines.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "tests/fuzz/script.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace openmrc {
namespace {

using fuzz::require;
using fuzz::Script;

constexpr PortId kPorts = 2;
constexpr std::uint32_t kKey = 0x51;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kRegionBytes = 32768;
constexpr std::uint8_t kGuard = 0xA7;
constexpr std::size_t kFlyingMax = 256;
constexpr int kPollsMax = 64;

struct Flying {
  std::size_t to = 0;
  RxDatagram head;
  std::vector<std::uint8_t> bytes;
};

Address address_of(std::size_t end, PortId port) {
  Address address;
  address.family = AddressFamily::kIpv4;
  address.bytes = {10, port, 0, static_cast<std::uint8_t>(end + 1)};
  return address;
}

class Table {
 public:
  explicit Table(Transport transport) {
    for (std::size_t end = 0; end < 2; ++end) set_up(end, transport);
    for (std::size_t end = 0; end < 2; ++end) connect(end);
  }

  void run(Script& script) {
    while (script.more()) {
      step(script);
      for (std::size_t end = 0; end < 2; ++end) collect(end);
    }
    check_guards();
  }

 private:
  void set_up(std::size_t end, Transport transport) {
    EngineConfig config;
    config.seed = end + 1;
    config.icrc = false;
    PeerConfig peer;
    for (PortId port = 0; port < kPorts; ++port) {
      config.ports.push_back({address_of(end, port), true});
      peer.ports.push_back(address_of(1 - end, port));
    }
    engine_[end] = std::make_unique<Engine>(config);
    memory_[end].assign(kRegionBytes + 2 * kGuardBytes, kGuard);
    RegionConfig region;
    region.base = memory_[end].data() + kGuardBytes;
    region.virtual_address = 0x1000;
    region.length_bytes = kRegionBytes;
    region.key = kKey;
    region.access = kLocalRead | kRemoteWrite;
    require(engine_[end]->register_memory(region) == Status::kOk);
    require(engine_[end]->add_peer(peer, peer_[end]) == Status::kOk);
    require(engine_[end]->create_cq(64, cq_[end]) == Status::kOk);
    require(engine_[end]->create_qp({transport, cq_[end], cq_[end], 16, 16}, qp_[end]) == Status::kOk);
  }

  void connect(std::size_t end) {
    QpToInit init;
    for (PortId port = 0; port < kPorts; ++port) {
      for (std::uint32_t i = 0; i < 4; ++i) init.ev_universe.push_back({0xC000 + port * 16U + i, port});
    }
    require(engine_[end]->modify_qp(now_, qp_[end], init) == Status::kOk);
    QpToRtr rtr;
    rtr.peer = peer_[end];
    rtr.destination_qp = qp_[1 - end];
    rtr.rq_psn = 0xFFFFF0;  // wraps soon
    rtr.payload_mtu = 256;
    rtr.mpr_units = 1;
    require(engine_[end]->modify_qp(now_, qp_[end], rtr) == Status::kOk);
    for (std::uint64_t i = 0; i < 8; ++i) require(engine_[end]->post_recv(qp_[end], i) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = 0xFFFFF0;
    rts.mpr_units = 1;
    require(engine_[end]->modify_qp(now_, qp_[end], rts) == Status::kOk);
  }

  void step(Script& script) {
    const std::uint8_t what = script.byte();
    const std::size_t end = what >> 7;
    switch (what & 7) {
      case 0:
        post(end, script);
        break;
      case 1:
        now_ += script.byte() * kPsPerUs;
        break;
      case 2:
        now_ = std::max(now_, std::min(engine_[end]->next_timer(), now_ + kPsPerSecond));
        break;
      case 3:
        deliver(script, false);
        break;
      case 4:
        deliver(script, true);
        break;
      case 5:
        make_up(end, script);
        break;
      case 6:
        if (!flying_.empty()) flying_.pop_front();
        break;
      default:
        engine_[end]->handle_port_state(now_, script.byte() % kPorts, (what & 8) != 0);
        break;
    }
  }

  void post(std::size_t end, Script& script) {
    SendWr wr;
    wr.wr_id = ++posted_;
    wr.opcode = (script.byte() & 1) != 0 ? WrOpcode::kWriteImm : WrOpcode::kWrite;
    wr.lkey = kKey;
    wr.local_address = 0x1000;
    wr.length_bytes = script.byte() * 37U;
    wr.remote_address = 0x1000 + script.byte() * 64U;
    wr.rkey = kKey;
    (void)engine_[end]->post_send(now_, qp_[end], wr);
    (void)engine_[end]->post_recv(qp_[end], posted_);
  }

  // The oldest packet arrives, or a later one; changed in up to three bytes, marked, cut or twice.
  void deliver(Script& script, bool changed) {
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
      if ((how & 64) != 0) hand_over(flying);
      if ((how & 128) != 0) flying.head.port = script.byte() % kPorts;
    }
    hand_over(flying);
  }

  void make_up(std::size_t end, Script& script) {
    Flying flying;
    flying.to = end;
    flying.head.port = script.byte() % kPorts;
    flying.head.source = address_of(1 - end, flying.head.port);
    flying.head.fields.source_port = 0xC000;
    flying.bytes.resize(script.byte());
    for (auto& byte : flying.bytes) byte = script.byte();
    hand_over(flying);
  }

  void hand_over(Flying& flying) {
    flying.head.bytes = flying.bytes;
    engine_[flying.to]->handle_datagram(now_, flying.head);
  }

  // What the driver does after every call.
  void collect(std::size_t end) {
    Engine& engine = *engine_[end];
    if (engine.next_timer() <= now_) engine.handle_timer(now_);
    for (int i = 0; i < kPollsMax && flying_.size() < kFlyingMax; ++i) {
      if (!engine.poll_transmit(now_, (PortMask{1} << kPorts) - 1, 4, burst_)) break;
      for (std::uint32_t p = 0; p < burst_.count; ++p) fly(end, burst_.packets[p]);
    }
    Completion completions[16];
    while (engine.poll_completions(cq_[end], completions) > 0) {
    }
    Event events[16];
    while (engine.poll_events(events) > 0) {
    }
  }

  void fly(std::size_t end, const TxPacket& packet) {
    Flying flying;
    flying.to = 1 - end;
    flying.head.port = burst_.port;
    flying.head.source = address_of(end, burst_.port);
    flying.head.fields = burst_.fields;
    flying.head.traffic_class = burst_.traffic_class;
    flying.head.ecn = burst_.ecn;
    flying.bytes.assign(packet.headers.begin(), packet.headers.begin() + packet.header_bytes);
    if (packet.payload != nullptr) {
      flying.bytes.insert(flying.bytes.end(), packet.payload, packet.payload + packet.payload_bytes);
    }
    flying.bytes.insert(flying.bytes.end(), packet.trailer.begin(), packet.trailer.begin() + packet.trailer_bytes);
    flying_.push_back(std::move(flying));
  }

  void check_guards() const {
    for (const auto& memory : memory_) {
      const auto guarded = [](std::uint8_t byte) { return byte == kGuard; };
      require(std::all_of(memory.begin(), memory.begin() + kGuardBytes, guarded));
      require(std::all_of(memory.end() - kGuardBytes, memory.end(), guarded));
    }
  }

  std::unique_ptr<Engine> engine_[2];
  std::vector<std::uint8_t> memory_[2];
  PeerId peer_[2]{};
  CqId cq_[2]{};
  std::uint32_t qp_[2]{};
  std::deque<Flying> flying_;
  TxBurst burst_;
  TimePs now_ = 0;
  std::uint64_t posted_ = 0;
};

}  // namespace
}  // namespace openmrc

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  openmrc::Script script(data + 1, size - 1);
  openmrc::Table table((data[0] & 1) != 0 ? openmrc::Transport::kRc : openmrc::Transport::kMrc);
  table.run(script);
  return 0;
}
