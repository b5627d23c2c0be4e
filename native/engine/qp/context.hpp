// What the two halves of one QP share, and the services of the engine they may use.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/completion_queue.hpp"
#include "engine/engine.hpp"
#include "engine/memory.hpp"
#include "engine/peer.hpp"
#include "engine/qp/reverse_paths.hpp"

namespace openmrc {

// Asks the peer's NIC whether a path towards it works; the answer comes back to the QP that asked.
class PathProber {
 public:
  virtual void probe_reverse_path(TimePs now, std::uint32_t qp, PeerId peer, const Ev& ev, TimePs timeout) = 0;

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
  Peer* peer_ports_changed = nullptr;  // set by a QP that learned of it; the engine tells the peer's other QPs
};

struct QpContext {
  QpContext(EngineServices& engine_services, const QpInitAttributes& attributes, std::uint32_t number)
      : services(engine_services), init(attributes), qpn(number) {}

  EngineServices& services;
  QpInitAttributes init;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  Peer* peer = nullptr;
  std::unique_ptr<EvSet> ev_set;             // MRC only
  std::unique_ptr<CongestionController> cc;  // MRC only
  ReversePaths reverse;                      // MRC only: paths of SACKs, NACKs and ACKs
  std::deque<std::uint64_t> receives;        // wr_ids of posted receives
  std::uint32_t qpn = 0;
  std::uint32_t destination_qp = 0;
  std::uint32_t payload_mtu = 0;
  QpState state = QpState::kReset;
  QpErrorCause error = QpErrorCause::kNone;
  QpCapabilities capabilities;
  PathSignal path_signal = PathSignal::kMarks;  // MRC only
  std::uint64_t plane_buffer_bytes = 0;         // MRC only: of the peer's socket; 0: unknown
  bool fabric_trims = false;  // MRC only: a packet that congestion drops is trimmed, so that its loss is told
  QpStats stats;
  TimePs heard = 0;            // when the latest packet of the peer's QP arrived; at first, when the QP got its peer
  TimePs answered = kLongAgo;  // when the latest question of the application that got an answer was sent

  // Context ids in SETH, NETH and PETH: they tell a former incarnation of the peer from this one.
  std::uint16_t local_context() const { return static_cast<std::uint16_t>(qpn ^ (qpn >> 8)); }
  std::uint16_t remote_context() const { return static_cast<std::uint16_t>(destination_qp ^ (destination_qp >> 8)); }

  // Proof of origin of endpoint operations of the sender of `first_psn`: both ends of the connection know these
  // numbers from the handshake, and nobody else who has not seen packets of it. Drawn by different ends, so no key.
  static std::uint32_t connection_nonce(std::uint32_t sender_qp, std::uint32_t receiver_qp, std::uint32_t first_psn) {
    const std::uint64_t ends = std::uint64_t{sender_qp} << 32 | receiver_qp;
    const auto nonce = static_cast<std::uint32_t>(keyed_hash({}, {kConnectionNonceHash, ends, first_psn}));
    return nonce == 0 ? 1 : nonce;
  }
  std::uint32_t nonce_in = 0;   // that the peer proves itself with; 0: not connected yet
  std::uint32_t nonce_out = 0;  // and we

  // Called by either half; the QP moves to ERR when the current call returns to it. The first cause stays.
  void fail(QpErrorCause cause) {
    if (failure == QpErrorCause::kNone) failure = cause;
  }
  QpErrorCause failure = QpErrorCause::kNone;

  PortMask usable_ports() const { return services.local_ports_up & (peer == nullptr ? 0 : peer->ports_up); }
};

enum class BuildResult : std::uint8_t {
  kBuilt,     // the burst holds something to send
  kNothing,   // nothing to send until something happens to this QP
  kPortBusy,  // something to send, but not on the free ports
};

}  // namespace openmrc
