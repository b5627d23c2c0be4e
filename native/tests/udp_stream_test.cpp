// The bare UDP stream: what is sent is placed, without its headers.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "nic/socket_address.hpp"
#include "nic/udp_stream.hpp"
#include "tests/check.hpp"
#include "tests/own_udp_port.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::nic;
using namespace openmrc::test;

UdpStreamPlan plan_of(const std::string& local, const std::string& remote, std::uint32_t datagram_bytes,
                      std::uint32_t datagrams) {
  UdpStreamPlan plan;
  CHECK(parse_address(local, plan.ends.local) && parse_address(remote, plan.ends.remote));
  plan.ends.local_port = plan.ends.remote_port = own_udp_port();
  plan.datagram_bytes = datagram_bytes;
  plan.datagrams = datagrams;
  plan.region_bytes = 1 << 20;
  plan.duration_ns = 20'000'000;
  return plan;
}

void stream(std::uint32_t datagram_bytes, std::uint32_t datagrams) {
  const UdpStreamPlan to = plan_of("127.0.0.97", "127.0.0.98", datagram_bytes, datagrams);
  const UdpStreamPlan from = plan_of("127.0.0.98", "127.0.0.97", datagram_bytes, datagrams);
  UdpStreamResult placed;
  std::atomic<bool> over{false};
  std::thread sink([&] {
    placed = measure_udp_sink(from, {});
    over.store(true);
  });
  while (!over.load()) measure_udp_source(to, {});  // again if the sink had no socket yet
  sink.join();
  CHECK(placed.bytes > 0);
  CHECK(placed.bytes % (datagram_bytes - kUdpStreamHeaderBytes) == 0);
}

TEST_CASE(udp_stream_places_the_payload_of_joined_datagrams) { stream(1'472, 44); }

TEST_CASE(udp_stream_places_the_payload_of_single_datagrams) { stream(9'000, 1); }

TEST_CASE(udp_stream_plan_fits_into_a_call) {
  const auto valid = [](std::uint32_t bytes, std::uint32_t datagrams) {
    return plan_of("127.0.0.97", "127.0.0.98", bytes, datagrams).valid();
  };
  CHECK(valid(1'472, 44) && valid(65'507, 1) && valid(1'000, 64) && valid(61, 1));
  CHECK(!valid(1'472, 45) && !valid(65'508, 1) && !valid(900, 65) && !valid(60, 1) && !valid(1'472, 0));
}

}  // namespace
