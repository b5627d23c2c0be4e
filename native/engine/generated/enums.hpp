// Written by tools/spec.py from spec/enums.toml: edit that, then `make spec`.
#pragma once

#include <cstdint>

namespace openmrc {

// Protocol of a QP.
enum class Transport : std::uint8_t {
  kMrc = 0,  // Multipath, as this repository describes it.
  kRc = 1,   // RoCEv2 RC: one path, go-back-N; for SEND, and for peers without MRC.
};

// State of a QP.
enum class QpState : std::uint8_t {
  kReset = 0,  // Created, or reset.
  kInit = 1,   // Has paths and congestion control.
  kRtr = 2,    // Ready to receive.
  kRts = 3,    // Ready to send.
  kError = 4,  // Failed: everything posted is flushed.
};

// Reason why a QP went to ERR.
enum class QpErrorCause : std::uint8_t {
  kNone = 0,               // It did not.
  kRetryExceeded = 1,      // No path answered until the retries ran out.
  kLocalProtection = 2,    // A registered buffer of a posted request is gone.
  kRemoteAccess = 3,       // The peer refused: key, bounds or permission.
  kRemoteOperational = 4,  // The peer failed on its side: no receive posted, completion queue overrun.
  kRemoteInvalid = 5,      // The peer refused the request.
  kAccessViolation = 6,    // This side refused the peer's WRITE, READ or atomic.
  kNoReceivePosted = 7,    // MRC: a WRITE_IMM found no receive.
  kWimmLimit = 8,          // The peer exceeded `wimm_max_dest`.
  kUnexpectedEvent = 9,    // The peer sent a NACK for an unexpected event.
  kProtocol = 10,          // The peer broke the structure of a message.
  kCqOverrun = 11,         // A completion found its queue full.
  kFlushed = 12,           // Moved to ERR by command.
  kRnrRetryExceeded = 13,  // RC: the peer had no receive posted until the retries ran out.
  kReceiveTooSmall = 14,   // RC: a SEND of the peer was longer than its receive.
  kBadResponse = 15,       // RC: the answer to a READ had the wrong size.
};

// Kind of a work request.
enum class WrOpcode : std::uint8_t {
  kWrite = 0,     // Write into the peer's memory.
  kWriteImm = 1,  // The same, and consume a receive of the peer's, with 32 bits of immediate data.
  kSend = 2,      // RC: write into the memory of a receive of the peer's.
  kSendImm = 3,   // RC: the same, with 32 bits of immediate data.
  kRead = 4,      // RC: read from the peer's memory.
  kCompareSwap =
      5,  // RC: replace eight bytes of the peer's memory if they have a certain value; answers the former value.
  kFetchAdd = 6,  // RC: add to eight bytes of the peer's memory; answers the former value.
};

// Kind of a completion.
enum class WcOpcode : std::uint8_t {
  kWrite = 0,         // Of a WRITE or WRITE_IMM.
  kRecvWriteImm = 1,  // Of a receive, by a WRITE_IMM of the peer.
  kSend = 2,          // Of a SEND or SEND_IMM.
  kRecv = 3,          // Of a receive, by a SEND of the peer.
  kRecvImm = 4,       // Of a receive, by a SEND_IMM of the peer.
  kRead = 5,          // Of a READ.
  kCompareSwap = 6,   // Of a COMPARE_SWAP.
  kFetchAdd = 7,      // Of a FETCH_ADD.
};

// Status of a completion; numbers of `ibv_wc_status`.
enum class WcStatus : std::uint8_t {
  kSuccess = 0,               // The peer has the data.
  kLocalLength = 1,           // The SEND of the peer was longer than this receive.
  kLocalProtection = 4,       // The local region is gone.
  kFlushed = 5,               // The QP failed, or was moved to ERR, before this one was done.
  kBadResponse = 7,           // The peer's answer had the wrong size.
  kRemoteInvalidRequest = 9,  // The peer refused the request.
  kRemoteAccess =
      10,  // Wrong key, key of another protection domain, outside the region, or a right that the region lacks.
  kRemoteOperational = 11,  // No receive posted at the peer, or its CQ overran.
  kRetryExceeded = 12,      // No path answered until the retries ran out.
  kRnrRetryExceeded = 13,   // The peer had no receive posted until the retries ran out.
};

// State of an EV; numbers of the controller API where it has one (protocol F.2).
enum class EvState : std::uint8_t {
  kGood = 1,        // Carries data.
  kAssumedBad = 2,  // Out of use after a loss or timeout, and probed.
  kSkip = 3,        // Out of use for one round after a mark.
  kDenied = 4,      // Out of use by order of the controller.
};

// Reason why an EV changed its state.
enum class EvCause : std::uint8_t {
  kNone = 0,        // None.
  kEcn = 1,         // A SACK reports a mark (SKIP_ONCE).
  kTrimmed = 2,     // A switch trimmed a packet.
  kAlwaysSkip = 3,  // The peer asks to leave the path (ALWAYS_SKIP).
  kLoss = 4,        // A packet counts as lost.
  kTimeout = 5,     // The retransmission timer fired.
  kProbe = 6,       // Probes were answered.
  kCursor = 7,      // Its turn came again.
  kLapsed = 8,      // `skip_lapse_us` passed.
  kController = 9,  // `deny_ev` or `enable_ev`.
};

// Signal of congestion on the planes of a QP.
enum class PathSignal : std::uint8_t {
  kMarks = 0,     // ECN marks and trimming: one controller for the QP, as MRC is published.
  kDelay = 1,     // Queueing delay and losses, plane by plane (extension).
  kDiscover = 2,  // By delay, until a plane is seen to mark (extension).
};

// Place of the EV in a datagram.
enum class EvFormatMode : std::uint8_t {
  kUdp = 0,   // UDP source port: 16 bits.
  kStev = 1,  // Low 16 bits of the IPv6 flow label, and the UDP source port: 32 bits.
  kSrv6 = 2,  // As STEV for the echo; the destination address is the path.
};

// Feedback about an EV, as an EV set and a selector take it.
enum class EvFeedback : std::uint8_t {
  kDelivered = 0,   // Acknowledged without a mark.
  kSkipOnce = 1,    // Acknowledged, marked by ECN.
  kAlwaysSkip = 2,  // Acknowledged, and the peer asks to leave the path.
  kTrimmed = 3,     // Trimmed by a switch before the last hop.
  kLost = 4,        // Lost without being trimmed.
  kTimeout = 5,     // The retransmission timer fired.
};

// Kind of an event in a device's stream.
enum class EventType : std::uint8_t {
  kQpState = 0,       // A QP entered a state.
  kEvState = 1,       // An EV of a QP entered a state.
  kEvReplaced = 2,    // An EV left the active set for another one.
  kPortState = 3,     // A port went down or up, here or at a peer.
  kRetryTimeout = 4,  // The retransmission timer of a QP fired.
  kCqOverrun = 5,     // A completion found its queue full.
  kPortRefused = 6,   // The operating system refused to send or receive on a port.
  kPlaneState = 7,    // A plane stopped answering, or answers again, while others do.
  kSrqLimit = 8,      // A shared receive queue fell below its limit.
  kPeerActive = 9,    // The peer's first packet reached a QP in RTR.
  kCount,
};

// Mistake in a datagram. Each value is a counter of its own in the engine's statistics.
enum class ParseError : std::uint8_t {
  kNone = 0,                // None.
  kTooShort = 1,            // The headers that the opcode calls for do not fit.
  kUnknownOpcode = 2,       // No opcode of MRC or RC.
  kBadVersion = 3,          // The BTH transport version is not 0.
  kBadTimestampFormat = 4,  // Timestamp of an unknown format.
  kBadSackType = 5,         // SACK of an unknown type.
  kBadNackType = 6,         // NACK of an unknown type.
  kBadNackReason = 7,       // NACK with an unknown reason.
  kBadCcType = 8,           // Congestion control state of an unknown type.
  kBadEndpointOp = 9,       // Unknown endpoint operation.
  kBadSyndrome = 10,        // Unknown AETH syndrome.
  kBadPad = 11,             // Pad count larger than the bytes behind the headers.
  kUnexpectedPayload = 12,  // Bytes behind the headers of a packet that has no payload.
  kBadJoin = 13,            // Packet behind another one in its datagram that is no ACK.
  kCount,
};

// Rights on a memory region.
enum Access : std::uint8_t {
  kLocalRead = 0,     // Send from it: always allowed, to QPs of its protection domain.
  kRemoteWrite = 1,   // A peer may write into it through a QP of its protection domain, with the rkey.
  kLocalWrite = 2,    // Receives may place data in it, and results of READs and atomics.
  kRemoteRead = 4,    // A peer may read from it, as with REMOTE_WRITE.
  kRemoteAtomic = 8,  // A peer may execute atomics in it, as with REMOTE_WRITE.
};

// Outcome of a command. Peers never cause one: their actions are reported by counters, events and completions.
enum class Status : std::uint8_t {
  kOk = 0,               // Done.
  kInvalidArgument = 1,  // EINVAL.
  kInvalidState = 2,     // EINVAL: not in this QP state.
  kQueueFull = 3,        // ENOMEM: more work requests than the queue holds.
  kLimit = 4,            // E2BIG: over a limit of the device.
  kBusy = 5,             // EBUSY: still referenced.
  kNotFound = 6,         // ENOENT.
};

}  // namespace openmrc
