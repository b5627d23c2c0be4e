// Written by tools/spec.py from spec/qp.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/ids.hpp"
#include "engine/base/time.hpp"
#include "engine/cc/controller.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {

// Attributes of a queue pair for its whole life.
struct QpInitAttributes {
  // MRC, or RC for peers without MRC.
  Transport transport = Transport::kMrc;
  // Completions of sends.
  CqId send_cq = 0;
  // Completions of receives.
  CqId recv_cq = 0;
  // Sends posted and not completed.
  std::uint32_t send_wr_max = 128;
  // Receives posted and not consumed.
  std::uint32_t recv_wr_max = 128;
  // Shared receive queue in place of receives of its own; 0: none.
  SrqId srq = 0;
  // Data of the device's ordinary QPs waits while this one sends or receives data, for four fifths of the time at
  // most.
  bool urgent = false;
  // Protection domain.
  DomainId domain = 0;
  // Number of the QP; 0: drawn.
  std::uint32_t number = 0;
  // Number of the QP whose receives this one consumes, too; 0: it has its own.
  std::uint32_t receives_of = 0;
};

// RST to INIT: paths and congestion control.
struct QpToInit {
  // Policy that chooses the EV of each burst: one of the engine's, or one registered with `openmrc.policies`.
  std::string ev_selector = "mrc";
  // Rules of the EV set.
  EvSetConfig ev_set = {};
  // EVs of the EV profile; RC takes the first one on a usable port.
  std::vector<Ev> ev_universe = {};
  // Congestion controller of the CC profile.
  std::string controller = "nscc";
  // Its parameters.
  CcConfig cc = {};
  // Signal of congestion on the planes. With DELAY and DISCOVER timestamps count 1 us, whatever
  // `timestamp_resolution_ns` is, and a selector that keeps to one path (`single`) leaves the QP at MARKS.
  PathSignal signal = PathSignal::kMarks;
  // Bytes in flight on one plane at most, unless the path itself holds more; below the receive buffer of the peer's
  // port. 0: no limit.
  std::uint64_t plane_buffer_bytes = 0;
  // RC: moves to another plane when its own is dead; for a peer that has the attribute, too. Otherwise an RC QP keeps
  // to one path.
  bool rc_plane_move = false;
};

// Abilities that both ends of a QP have (F.1), and extensions.
struct QpCapabilities {
  // Trimmed packets are answered with a NACK.
  bool trim_nack = true;
  // The receive window may change while the QP lives (`set_receive_window`).
  bool dynamic_mpr = false;
  // SACKs carry the receiver's service time.
  bool service_time = true;
  // SACKs are counted and merged plane by plane, and sent after 1 ms at the latest; for a peer whose own `signal` is
  // not MARKS.
  bool plane_sacks = false;
  // Such SACKs carry the transit time of a packet in place of the out-of-order count, in both directions; for a peer
  // that has the attribute, too.
  bool sack_transit = false;
  // Such SACKs carry the number of QPs that receive over the plane in place of the penalty, in both directions; for a
  // peer that has the attribute, too.
  bool sack_sharers = false;
  // Packets have zeros in place of the ICRC, in both directions. Only where both ends have the attribute and their
  // own kernel carries all packets between them, so that only memory and UDP's checksum could change one.
  bool no_icrc = false;
  // The QP asks the peer's whether both run on one kernel, and answers the same question; packets then have zeros in
  // place of the ICRC. Off on devices with a path file or another advertised address, which something else than the
  // kernel may lie behind. For ends without a handshake that could agree on `no_icrc`.
  bool kernel_check = false;
};

// INIT to RTR: settings for receiving.
struct QpToRtr {
  // Ports of the peer.
  PeerId peer = 0;
  // Number of the peer's QP.
  std::uint32_t destination_qp = 0;
  // PSN of the first packet that the peer sends.
  std::uint32_t rq_psn = 0;
  // Payload of a full packet. Above 4,096, and between the powers of two, the peer has to be openmrc, too.
  std::uint32_t payload_mtu = 4096;
  // MRC: largest payload of WRITEs posted after padded probes of that size were answered over every plane, and at
  // least payload_mtu. Packets of the peer may then have any payload from payload_mtu to 8,192. 0: payload_mtu at
  // both ends.
  std::uint32_t payload_mtu_max = 0;
  // Receive window in units of 128 packets: limit of the peer's packets in flight.
  std::uint8_t mpr_units = 32;
  // WRITE_IMM messages that the peer may have in flight.
  std::uint16_t wimm_max_dest = 32;
  // RC: code of the time after which the peer repeats a message that found no receive; 12 is 0.64 ms.
  std::uint8_t rc_rnr_timer = 12;
  // RC: READs and atomics that the peer may have in flight.
  std::uint8_t rc_reads_max_dest = 16;
  // Abilities of both ends.
  QpCapabilities capabilities = {};
  // A SACK is sent after this many bytes at the latest; every packet counts as at least 1,024.
  std::uint32_t sack_bytes = 4096;
  // A PSN above the window is answered with a NACK; otherwise it is dropped silently.
  bool nack_out_of_window = true;
};

// RTR to RTS: settings for sending.
struct QpToRts {
  // PSN of the first packet sent.
  std::uint32_t sq_psn = 0;
  // The peer's receive window, in units of 128 packets.
  std::uint8_t mpr_units = 32;
  // WRITE_IMM messages in flight: the peer's `wimm_max_dest`.
  std::uint16_t wimm_max = 32;
  // Base of the retransmission timer, 1.024 us x 2^n.
  std::uint8_t timeout_exponent = 8;
  // Timeouts at the same interval.
  std::uint8_t linear_retries = 7;
  // Timeouts at doubling intervals of 17 s at most, after the linear ones; then the QP fails. 25: for ever.
  std::uint8_t exponential_retries = 25;
  // Unit of the timestamps in packets.
  std::uint16_t timestamp_resolution_ns = 128;
  // Switches may trim data packets.
  bool trimmable = true;
  // RC: packets in flight.
  std::uint32_t rc_window_packets = 64;
  // RC: READs and atomics in flight: the peer's `rc_reads_max_dest`. A long READ is several requests.
  std::uint8_t rc_reads_max = 16;
  // RC: repetitions of a message that found no receive, without progress; then the QP fails. 7: for ever.
  std::uint8_t rc_rnr_retries = 7;
};

// True if every number of a QpToRtr is within the limits of its description.
constexpr bool in_range(const QpToRtr& of) {
  return of.destination_qp <= 16'777'215 && of.rq_psn <= 16'777'215 && of.payload_mtu >= 256 &&
         of.payload_mtu <= 8192 && of.payload_mtu % 4 == 0 && of.payload_mtu_max <= 8192 &&
         of.payload_mtu_max % 4 == 0 && of.mpr_units >= 1 && of.wimm_max_dest >= 1 && of.rc_rnr_timer <= 31 &&
         of.rc_reads_max_dest >= 1 && of.rc_reads_max_dest <= 128 && of.sack_bytes >= 1 && of.sack_bytes <= 1'048'576;
}

// True if every number of a QpToRts is within the limits of its description.
constexpr bool in_range(const QpToRts& of) {
  return of.sq_psn <= 16'777'215 && of.mpr_units >= 1 && of.wimm_max >= 1 && of.timeout_exponent <= 24 &&
         of.linear_retries <= 7 && of.exponential_retries <= 25 &&
         (of.timestamp_resolution_ns == 128 || of.timestamp_resolution_ns == 1000) && of.rc_window_packets >= 1 &&
         of.rc_window_packets <= 32'768 && of.rc_reads_max >= 1 && of.rc_reads_max <= 128 && of.rc_rnr_retries <= 7;
}

}  // namespace openmrc
