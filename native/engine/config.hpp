// Configuration that a driver passes to the engine: the engine itself, its ports, peers, regions of memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/ids.hpp"
#include "engine/base/keyed_hash.hpp"
#include "engine/base/time.hpp"
#include "engine/placer.hpp"
#include "engine/wire/ev.hpp"

namespace openmrc {

struct PortConfig {
  Address local;  // as the peers see it: enters the ICRC
  bool up = true;
  std::vector<std::uint32_t> evs;  // that the driver can send from; endpoint operations need them. Empty: any
};

struct EngineConfig {
  std::uint64_t seed = 0;
  // Of numbers that strangers must not guess: QP numbers and nonces. Zero: they follow from the seed.
  HashKey secret;
  // The same for all NICs on one kernel, and for no others. Zero: unknown, or something else may lie on the way to peers.
  HashKey kernel;
  std::vector<PortConfig> ports;  // 1 .. kPortCountMax
  std::uint16_t partition_key = 0xFFFF;
  std::uint16_t udp_port = 4791;
  wire::EvFormat ev_format = wire::EvFormat::kUdp;
  bool icrc = true;                       // seal and check; false only where the driver carries packets by value
  bool driver_seals = false;              // bursts come without their ICRCs, which the driver adds: see engine/seal.hpp
  TimePs endpoint_retry = 20 * kPsPerMs;  // port status updates are repeated this often until answered
  std::uint8_t endpoint_retries = 8;
  // Limits on answers to EV probes: one per interval for each peer and in total (0: no limit), with bursts of this
  // size. They leave after data and acknowledgements unless one has waited for `answer_patience`.
  TimePs answer_interval_peer = 200 * kPsPerUs;
  TimePs answer_interval = 20 * kPsPerUs;
  TimePs answer_patience = 100 * kPsPerUs;
  // EV probes of unknown senders: false leaves them unanswered, true answers a limited number (a diagnostic service).
  bool answer_strangers = false;
  // A peer's ports that are believed down are probed this often, while QPs use the peer; kNever: never.
  TimePs port_check_interval = kPsPerSecond;
  // Packets per burst on a plane that is controlled by delay, which limits bursts separately; 0: the driver's limit.
  std::uint32_t plane_burst_packets = 0;
  std::uint32_t reverse_probe_packets = 1;        // that must have come in since the last one
  TimePs reverse_probe_interval = 50 * kPsPerMs;  // refresh of the reverse EV set while traffic is inbound only
  std::uint32_t qps_max = 1U << 16;
  std::uint32_t events_max = 1U << 14;  // queued events; more are dropped and counted
};

// Addresses of a peer NIC: one per port, in port order. Two NICs meet plane by plane.
struct PeerConfig {
  std::vector<Address> ports;
  std::uint16_t udp_port = 4791;
  PortMask ports_up = ~PortMask{0};
};

struct RegionConfig {
  std::uint8_t* base = nullptr;       // nullptr: phantom region, lengths only (simulator)
  std::uint64_t virtual_address = 0;  // address in the terms of lkey/rkey users; usually the address itself
  std::uint64_t length_bytes = 0;
  std::uint32_t key = 0;                     // lkey and rkey; unguessable, drawn by the driver; unique, not 0
  std::uint8_t access = 0;                   // Access bits
  DomainId domain = 0;                       // of the QPs that may use the key, at either end
  std::shared_ptr<Placer> placer = nullptr;  // of what peers write; nullptr: it is copied
};

}  // namespace openmrc
