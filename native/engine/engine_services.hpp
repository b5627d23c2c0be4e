// Parts of the engine that its QPs use.
#pragma once

#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/byte_pool.hpp"
#include "engine/base/ids.hpp"
#include "engine/base/time.hpp"
#include "engine/config.hpp"
#include "engine/events.hpp"
#include "engine/memory.hpp"
#include "engine/paths/ev_set.hpp"
#include "engine/peer.hpp"
#include "engine/planes/plane_sharers.hpp"
#include "engine/planes/plane_traffic.hpp"

namespace openmrc {

// Probes a path to the peer's NIC; the result goes to the QP that asked.
class PathProber {
 public:
  virtual void probe_reverse_path(TimePs now, std::uint32_t qp, PeerId peer, const Ev& ev, TimePs timeout) = 0;
  // With a padding; `id`, not 0, returns with the result. False: none will follow.
  virtual bool probe_payload(TimePs now, std::uint32_t qp, std::uint16_t id, PeerId peer, const Ev& ev, TimePs timeout,
                             std::uint32_t padding_bytes) = 0;
  // Asks the peer's QP whether it is on the same kernel (X.4.12). `nonce`: of the connection in this direction.
  virtual void check_kernel(TimePs now, std::uint32_t qp, PeerId peer, std::uint32_t nonce) = 0;

 protected:
  ~PathProber() = default;
};

// Engine-wide state that QPs reach: one of each per engine.
struct EngineServices {
  const EngineConfig& config;
  MemoryTable& memory;
  EventSink& events;
  PathProber& prober;
  PortMask local_ports_up = 0;
  bool ordinary_data_waits = false;    // for urgent QPs
  std::uint64_t placed_packets = 0;    // of WRITEs and SENDs of peers, in all QPs
  bool message_open = false;           // see Engine::message_open()
  Peer* peer_ports_changed = nullptr;  // set by a QP on such a change; the engine informs the peer's other QPs
  PlaneSharers plane_sharers{};        // of planes that do not mark
  PlaneTraffic plane_traffic{};
  BytePool staging{};  // bytes of messages that were copied when posted
};

}  // namespace openmrc
