// All bounds that the engine relies on, with the relations between them. Configuration may lower a limit, never raise
// it.
#pragma once

#include <cstdint>

namespace openmrc {

inline constexpr std::uint32_t kPortCountMax = 16;  // planes of one NIC; a PortMask is 32 bits wide
inline constexpr std::uint32_t kPsnBits = 24;
inline constexpr std::uint32_t kPsnSpace = 1U << kPsnBits;
inline constexpr std::uint32_t kMprUnitPsns = 128;  // MPR travels in units of 128 PSNs (A.7)
inline constexpr std::uint32_t kMprUnitsMax = 255;
inline constexpr std::uint32_t kMprPsnsMax = kMprUnitPsns * kMprUnitsMax;
inline constexpr std::uint32_t kSackBitmapBits = 64;  // A.3.1, SETH
inline constexpr std::uint32_t kPayloadMtuMin = 256;
inline constexpr std::uint32_t kPayloadMtuStandardMax = 4096;
inline constexpr std::uint32_t kPayloadMtuMax = 8192;  // negotiated extension for jumbo frames (X.7.1)
inline constexpr std::uint64_t kMessageBytesMax = 1ULL << 30;
inline constexpr std::uint32_t kSgesMax = 32;  // parts of one scatter or gather list
inline constexpr std::uint32_t kAtomicBytes = 8;
inline constexpr std::uint32_t kInlineBytesMax = 1024;      // of a message that is copied when posted
inline constexpr std::uint32_t kEvCountMax = 1024;          // active plus backup EVs of one QP
inline constexpr std::uint32_t kBurstPacketsMax = 64;       // kernel's UDP_SEGMENT limit
inline constexpr std::uint32_t kPeersMax = 1U << 16;        // the lower half of a PeerId
inline constexpr std::uint32_t kEndpointQp = 0x2;           // endpoint operations (A.3.10)
inline constexpr std::uint32_t kQpNumberMin = 0x10;         // below: reserved
inline constexpr std::uint32_t kHeaderBytesMax = 64;        // BTH 12 + EETH 36 is the longest stack, rounded up
inline constexpr std::uint32_t kTrailerBytesMax = 8;        // pad 3 + ICRC 4, rounded up
inline constexpr std::uint32_t kJoinedDataBytesMax = 1024;  // packet behind which an ACK may leave (X.4.8, X.4.9)
inline constexpr std::uint32_t kProbePaddingMax = kPayloadMtuMax + kHeaderBytesMax;  // as large as any data packet

// A window must stay under half of the PSN space; above that, old and new PSNs are indistinguishable (A.8.5).
static_assert(kMprPsnsMax < kPsnSpace / 2);
// MSN and RQMSN are 16 bits; at most one message per PSN is in flight, so the window also has to fit half of theirs.
static_assert(kMprPsnsMax < (1U << 16) / 2);
// A message has to fit the PSN space, even at the smallest MTU.
static_assert(kMessageBytesMax / kPayloadMtuMin < kPsnSpace / 2 + 1);

}  // namespace openmrc
