// Sockets that the NIC connects to a steady peer: nothing else must change.
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "nic/device.hpp"
#include "tests/check.hpp"
#include "tests/nic_fixture.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

constexpr int kManyWrites = 400;  // some dozens of bursts from each of the sockets

// UDP sockets of 127.0.0.81 that are connected to the peers' port.
int connected_sockets() {
  std::array<char, 8> port{};
  std::snprintf(port.data(), port.size(), ":%04X", static_cast<unsigned>(own_udp_port()));
  std::ifstream table("/proc/net/udp");
  int found = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string slot, local, remote;
    words >> slot >> local >> remote;
    const bool ours = local.starts_with("5100007F:");
    if (ours && remote.ends_with(port.data())) ++found;
  }
  return found;
}

void write_many(End& from, const End& to, int count) {
  std::array<Completion, 4> done;
  for (int i = 0; i < count; ++i) {
    CHECK(from.write(to, 64) == Status::kOk);
    CHECK(from.device.wait_cq(from.cq, done, 20'000'000'000) == 1 && done[0].status == WcStatus::kSuccess);
  }
}

void pair_up(End& a, End& b, bool icrc) {
  a.connect(b, 5, 9, icrc);
  b.connect(a, 9, 5, icrc);
}

}  // namespace

// The ICRC covers the identification in IPv4 headers, and the kernel numbers those of a connected socket.
TEST_CASE(nic_no_packet_with_an_icrc_leaves_from_a_connected_socket) {
  End a(settings_for({"127.0.0.81"})), b(settings_for({"127.0.0.82"}));
  pair_up(a, b, /*icrc=*/true);
  write_many(a, b, kManyWrites);
  CHECK(connected_sockets() == 0);
}

TEST_CASE(nic_a_socket_connected_to_one_peer_reaches_others) {
  End a(settings_for({"127.0.0.81"})), b(settings_for({"127.0.0.82"})), c(settings_for({"127.0.0.83"}));
  pair_up(a, b, /*icrc=*/false);
  for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
  CHECK(connected_sockets() == 0);
  write_many(a, b, kManyWrites);
  CHECK(connected_sockets() == 4);
  a.add_qp();
  pair_up(a, c, /*icrc=*/false);
  std::array<Completion, 4> done;
  CHECK(a.write(c, a.memory.size()) == Status::kOk);
  CHECK(a.device.wait_cq(a.cq, done, 20'000'000'000) == 1 && done[0].status == WcStatus::kSuccess);
  CHECK(a.memory == c.memory);
  write_many(a, c, kManyWrites);
  CHECK(connected_sockets() == 4);
}

// The kernel reports to a connected socket that nobody receives its datagrams, as the error of a later call. The report
// must neither cost the datagram of that call nor count as a fault of the port.
TEST_CASE(nic_a_peer_that_is_gone_is_no_fault_of_a_connected_socket) {
  End a(settings_for({"127.0.0.81"}));
  {
    End b(settings_for({"127.0.0.82"}));
    pair_up(a, b, /*icrc=*/false);
    write_many(a, b, kManyWrites);
  }
  CHECK(connected_sockets() == 4);
  const nic::SocketStats before = a.device.socket_stats()[0];
  SendWr wr;
  wr.lkey = a.key;
  wr.local_address = reinterpret_cast<std::uintptr_t>(a.memory.data());
  wr.length_bytes = 1U << 16;
  for (int i = 0; i < 20; ++i) CHECK(a.device.post_send(a.qp, wr) == Status::kOk);
  const nic::TimeNs deadline = nic::now_ns() + 20 * nic::kNsPerSecond;
  const auto sent = [&] { return a.device.socket_stats()[0].sent_datagrams - before.sent_datagrams; };
  while (sent() < 30 && nic::now_ns() < deadline) a.device.progress();
  CHECK(sent() >= 30);
  const nic::SocketStats after = a.device.socket_stats()[0];
  CHECK(after.send_errors == before.send_errors && after.dropped_datagrams == before.dropped_datagrams);
  CHECK(after.refusal == 0);
}
