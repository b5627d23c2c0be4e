// State shared by the two halves of one QP, and the engine services that they may use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/completion_queue.hpp"
#include "engine/datagram.hpp"
#include "engine/engine_services.hpp"
#include "engine/generated/event_records.hpp"
#include "engine/memory.hpp"
#include "engine/peer.hpp"
#include "engine/qp/payload_search.hpp"
#include "engine/qp/receive_queue.hpp"
#include "engine/qp/reverse_paths.hpp"

namespace openmrc {

struct QpContext {
  QpContext(EngineServices& engine_services, const QpInitAttributes& attributes, std::uint32_t number)
      : services(engine_services),
        init(attributes),
        receives(std::make_shared<ReceiveQueue>(attributes.domain, attributes.recv_wr_max)),
        qpn(number) {}

  EngineServices& services;
  QpInitAttributes init;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  Peer* peer = nullptr;
  std::unique_ptr<EvSet> ev_set;                  // MRC only
  std::unique_ptr<CongestionController> cc;       // MRC only
  ReversePaths reverse;                           // MRC only: paths of SACKs, NACKs and ACKs
  std::shared_ptr<ReceiveQueue> receives;         // of its own, or of the QP that `receives_of` names
  SharedReceives* shared_receives = nullptr;      // whose queue `receives` is
  std::optional<TakenReceive> receive_under_way;  // RC only: of the message that is arriving
  WcStatus receive_status = WcStatus::kFlushed;   // of that receive if the QP fails
  std::uint8_t rc_rnr_timer = 0;                  // code in RNR NAKs to the peer
  std::uint8_t remote_access = kRemoteWrite | kRemoteRead | kRemoteAtomic;  // operations accepted from the peer
  std::uint32_t qpn = 0;
  std::uint32_t destination_qp = 0;
  std::uint32_t payload_mtu = 0;       // agreed at RTR
  std::uint32_t payload_accepted = 0;  // largest of the peer's packets
  PayloadSearch payload;               // of our packets
  QpState state = QpState::kReset;
  QpErrorCause error = QpErrorCause::kNone;
  QpCapabilities capabilities;
  bool omits_icrc = false, accepts_no_icrc = false;  // of our packets, and of the peer's
  bool checks_kernel = false;                        // at the peer's next packet
  bool peer_accepts_joined = false;                  // MRC only: the peer's latest ACK says so
  PathSignal path_signal = PathSignal::kMarks;       // MRC only
  std::uint64_t plane_buffer_bytes = 0;              // MRC only: size of the peer's socket buffer; 0: unknown
  bool fabric_trims = false;  // MRC only: congestion trims packets, so that NACKs report these losses
  QpStats stats;
  TimePs heard = 0;  // arrival of the latest packet of the peer's QP; initially the time at which the QP got its peer
  TimePs answered = kLongAgo;  // sending time of the latest answered question of the application

  // Context ids in SETH, NETH and PETH distinguish this incarnation of the peer from a former one.
  std::uint16_t local_context() const { return static_cast<std::uint16_t>(qpn ^ (qpn >> 8)); }
  std::uint16_t remote_context() const { return static_cast<std::uint16_t>(destination_qp ^ (destination_qp >> 8)); }

  // Proof of origin for endpoint operations of the sender of `first_psn`: both ends know these numbers from the
  // handshake, and a third party only from the connection's packets. Both ends draw some of them, so this is no key.
  static std::uint32_t connection_nonce(std::uint32_t sender_qp, std::uint32_t receiver_qp, std::uint32_t first_psn) {
    const std::uint64_t ends = std::uint64_t{sender_qp} << 32 | receiver_qp;
    const auto nonce = static_cast<std::uint32_t>(keyed_hash({}, {kConnectionNonceHash, ends, first_psn}));
    return nonce == 0 ? 1 : nonce;
  }
  std::uint32_t nonce_in = 0;   // expected from the peer; 0: not connected yet
  std::uint32_t nonce_out = 0;  // and we

  // Called by either half; the QP moves to ERR when the current call returns to it. The first cause is kept.
  void fail(QpErrorCause cause) {
    if (failure == QpErrorCause::kNone) failure = cause;
  }
  QpErrorCause failure = QpErrorCause::kNone;

  // Call after a receive was taken.
  void receive_taken() {
    if (shared_receives == nullptr || !shared_receives->queue.take_limit()) return;
    services.events.emit(srq_limit_event(heard, shared_receives->id, shared_receives->queue.size()));
  }

  // X.4.12
  bool may_check_kernel() const { return capabilities.kernel_check && services.config.kernel != HashKey{}; }

  PortMask usable_ports() const { return services.local_ports_up & (peer == nullptr ? 0 : peer->ports_up); }
};

enum class BuildResult : std::uint8_t {
  kBuilt,     // the burst holds something to send
  kNothing,   // nothing to send until another input changes this QP
  kPortBusy,  // packets are waiting, but not for the free ports
};

}  // namespace openmrc
