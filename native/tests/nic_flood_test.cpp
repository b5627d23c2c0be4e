// Endpoint operations have a socket of their own, read up to a share only: data does not wait for them.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "engine/wire/packet.hpp"
#include "nic/file_descriptor.hpp"
#include "tests/nic_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr int kFloodMax = 20'000'000;
constexpr std::uint64_t kDropsWanted = 1000;

// Sends packets that belong to no known peer and have no ICRC.
class Stranger {
 public:
  explicit Stranger(const nic::Settings& to)
      : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
        to_(nic::to_socket_address(to.ports[0].local, to.udp_port)) {
    CHECK(fd_.valid());
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::kEndpointRequest;
    packet.bth.destination_qp = kEndpointQp;
    packet.erth.op = wire::EndpointOp::kEvProbe;
    bytes_ = wire::encode_headers(packet, probe_) + wire::kIcrcBytes;
  }
  void send() { send(bytes_); }
  void send(std::size_t bytes) { CHECK(::sendto(fd_.get(), probe_.data(), bytes, 0, to_.get(), to_.length) > 0); }

 private:
  nic::FileDescriptor fd_;
  nic::SocketAddress to_;
  std::array<std::uint8_t, kHeaderBytesMax + wire::kIcrcBytes> probe_{};
  std::size_t bytes_ = 0;
};

bool probe_is_answered(DevicePair& pair, bool polled) {
  PeerId peer = 0;
  PeerConfig config;
  config.ports.push_back(pair.b.device.settings().ports[0].local);
  config.udp_port = pair.b.device.settings().udp_port;
  const auto know = [&](Engine& engine, TimePs) { return engine.add_peer(config, peer); };
  CHECK(pair.a.device.command(know) == Status::kOk);
  const Ev ev = pair.a.device.evs()[0];
  bool answered = false;
  for (int attempt = 0; attempt < 100 && !answered; ++attempt) {
    const auto ask = [&](Engine& engine, TimePs now) {
      return engine.send_ev_probe(now, peer, ev.port, ev.value, 5, 100 * kPsPerMs);
    };
    CHECK(pair.a.device.command(ask) == Status::kOk);
    EndpointResult result;
    while (!pair.a.device.poll_endpoint_result(result)) {
      if (polled) pair.b.device.progress();
      std::this_thread::yield();
    }
    answered = result.answered;
  }
  return answered;
}

}  // namespace

TEST_CASE(nic_probes_beyond_their_share_are_dropped_and_data_is_not) {
  DevicePair pair;
  Stranger stranger(pair.b.device.settings());
  std::array<Completion, 4> done;
  for (int sent = 0; sent < kFloodMax && pair.b.device.socket_stats()[0].endpoint_drops < kDropsWanted; sent += 1024) {
    for (int i = 0; i < 1024; ++i) stranger.send();
  }
  CHECK(pair.b.device.socket_stats()[0].endpoint_drops >= kDropsWanted);
  CHECK(pair.a.write(pair.b, pair.a.memory.size()) == Status::kOk);
  CHECK(pair.a.device.wait_cq(pair.a.cq, done, 20'000'000'000) == 1);
  CHECK(done[0].status == WcStatus::kSuccess && pair.a.memory == pair.b.memory);
  CHECK(pair.b.device.socket_stats()[0].kernel_drops == 0);
  // The socket is read again after the flood, regardless of the thread that drives the device.
  CHECK(probe_is_answered(pair, false));
  CHECK(probe_is_answered(pair, true));
}

TEST_CASE(nic_datagrams_without_a_header_do_not_wait_in_front_of_data) {
  DevicePair pair;
  Stranger stranger(pair.b.device.settings());
  for (int sent = 0; sent < kFloodMax && pair.b.device.socket_stats()[0].endpoint_drops < kDropsWanted; sent += 1024) {
    for (int i = 0; i < 1024; ++i) stranger.send(5);
  }
  CHECK(pair.b.device.socket_stats()[0].endpoint_drops >= kDropsWanted);
  CHECK(pair.b.device.socket_stats()[0].kernel_drops == 0);
}
