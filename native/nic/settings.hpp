// How a device is to be: fixed when it opens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/time.hpp"
#include "engine/wire/ev.hpp"
#include "nic/path_rules.hpp"

namespace openmrc::nic {

struct PortSettings {
  Address local;          // the sockets are bound to it
  Address advertise;      // what peers send to and see as source; differs from `local` behind an address translation
  std::string interface;  // empty: whatever the routing table says
  // EV format SRV6: where packets arrive, which is what is left of their uSID list, and the high halves of the EVs.
  Address receive;
  std::vector<std::uint16_t> selectors;
};

struct Settings {
  std::vector<PortSettings> ports;
  std::uint64_t seed = 0;
  std::uint16_t partition_key = 0xFFFF;
  std::uint16_t udp_port = 4791;
  wire::EvFormat ev_format = wire::EvFormat::kUdp;
  PathRules paths;  // EV format SRV6: what packets are sent to
  std::uint32_t evs_per_port = 64;
  std::uint16_t first_source_port = 49152;
  // Packets that share one EV. More: the kernel's segmentation offload makes sending cheaper, several times so at
  // 1,500 byte MTU; but a burst is lost, marked and queued together. 1: every packet takes a path of its own.
  std::uint32_t burst_packets = 8;
  std::uint32_t plane_burst_packets = 44;  // the same on planes controlled by delay
  // UDP_SEGMENT and UDP_GRO where the kernel has them: not for datagrams without UDP checksum, so not with SRV6.
  bool segmentation_offload = true;
  bool receive_offload = true;
  std::uint32_t socket_buffer_bytes = 16U << 20;
  // I/O threads at work, at most one a port; 0: as many as the load takes and the processors allow.
  std::uint32_t io_threads = 0;
  TimePs endpoint_retry = 20 * kPsPerMs;
  std::uint8_t endpoint_retries = 8;
  bool answer_strangers = false;  // see EngineConfig
  TimePs reverse_probe_interval = 50 * kPsPerMs;
};

}  // namespace openmrc::nic
