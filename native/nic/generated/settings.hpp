// Written by tools/spec.py from spec/device.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/time.hpp"
#include "engine/wire/ev.hpp"
#include "nic/path_rules.hpp"

namespace openmrc::nic {

// Addresses of one port.
struct PortSettings {
  // The sockets are bound to it.
  Address local = {};
  // Peers send to it and see it as source; differs from `local` behind an address translation.
  Address advertise = {};
  // Interface to bind to; empty: as the routing table says.
  std::string interface;
  // EV format SRV6: where packets arrive, which is the rest of their uSID list.
  Address receive = {};
  // EV format SRV6: the high halves of the EVs.
  std::vector<std::uint16_t> selectors = {};
};

// Settings of a device.
struct Settings {
  // One for each plane.
  std::vector<PortSettings> ports = {};
  // Seed of the engine's random choices. None: drawn.
  std::uint64_t seed = 0;
  // Datagrams with another key are dropped and counted; both ends must have the same.
  std::uint16_t partition_key = 65'535;
  // UDP port that every port receives on. Peers must agree; two devices may share it only on different addresses.
  std::uint16_t udp_port = 4791;
  // Place of the EV in a packet. None: SRV6 with `paths`, else UDP.
  wire::EvFormat ev_format = wire::EvFormat::kUdp;
  // EV format SRV6: destinations of packets.
  PathRules paths = {};
  // EVs of each port, 1,024 of all ports together at most. A larger number spreads better over wide fabrics, and
  // costs sockets. Mode UDP: number of bound UDP source ports; none: 64. Mode STEV: number of random flow labels;
  // none: 64. Mode SRV6: every path in turn; none: all paths equally often, which makes 32 or more. With fewer EVs
  // than paths the device chooses at random.
  std::uint32_t evs_per_port = 64;
  // Free UDP source ports are searched from here.
  std::uint16_t first_source_port = 49'152;
  // Packets that share one EV. More makes sending cheaper through the kernel's segmentation offload, several times so
  // at a 1,500 byte MTU, but a burst is lost, marked and queued together; 1 sprays every packet by itself, which
  // balances best. None: 8, which suits transfers of megabytes over links of gigabits, and up to 44 on planes
  // controlled by delay, which have bursts of up to 1,200 us; 1 in mode SRV6, which has no offload.
  std::uint32_t burst_packets = 8;
  // The same on planes controlled by delay.
  std::uint32_t plane_burst_packets = 44;
  // UDP_SEGMENT where the kernel has it; the device falls back by itself when the kernel refuses. Not in mode SRV6:
  // no UDP checksum, no offload.
  bool segmentation_offload = true;
  // UDP_GRO where the kernel has it, while larger messages come; not in mode SRV6.
  bool receive_offload = true;
  // Wanted for each socket; without privileges the kernel grants less:
  // `statistics().ports[i].socket.receive_buffer_bytes`.
  std::uint32_t socket_buffer_bytes = 16'777'216;
  // Threads that receive and send, at most one for each port. None: one, and more while it is busy all the time and
  // processors are free. A number keeps that many active: no delay until they help, but more wake-ups at low rates.
  // `statistics().io_threads` reports the active number.
  std::uint32_t io_threads = 0;
  // Time between two repeats of a port status update that is not answered.
  TimePs endpoint_retry = 20'000 * kPsPerUs;
  // Repeats of a port status update that is not answered.
  std::uint8_t endpoint_retries = 8;
  // EV probes of senders that no connection knows are answered, at most 1,000 a second; for services that `openmrc
  // doctor --peer` asks. Connected peers are answered anyway.
  bool answer_strangers = false;
  // Time between two probes of the paths for answers.
  TimePs reverse_probe_interval = 50'000 * kPsPerUs;
};

}  // namespace openmrc::nic
