// Values that both ends of a connection need alike, and that programs do not exchange: as `openmrc.connection` has them,
// which connects the same QPs after a handshake. Needs no header of libibverbs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/base/time.hpp"

namespace openmrc::verbs {

inline constexpr TimePs kBaseRtt = 100 * kPsPerUs;
inline constexpr std::uint8_t kTimeoutExponent = 13;
inline constexpr std::uint8_t kLinearRetries = 7;
inline constexpr std::uint8_t kExponentialRetries = 10;
inline constexpr std::uint8_t kWindowUnitsMarks = 32;
inline constexpr std::uint8_t kWindowUnitsPlanes = 255;
inline constexpr std::uint32_t kSackBytesPlanes = 65536;
inline constexpr std::uint32_t kHeaderBytes = 72;
inline constexpr std::uint32_t kTransportBytes = 44;  // BTH, METH, TSETH, RETH, ImmDt and ICRC: the longest data packet
inline constexpr std::uint16_t kFirstUdpPort = 4791;

// OPENMRC_SIGNAL=marks: MRC as published, for fabrics that mark and for other NICs. Verbs programs exchange no
// abilities, so the extensions for ordinary networks are on at both ends, or off at both ends.
inline bool published_mrc() {
  const char* signal = std::getenv("OPENMRC_SIGNAL");
  return signal != nullptr && std::string_view(signal) == "marks";
}

}  // namespace openmrc::verbs
