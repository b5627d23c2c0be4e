// Traffic classes (A.4) and ECN. Drivers write the DSCP of a class and read the class of a DSCP.
#pragma once

#include <cstdint>

namespace openmrc {

enum class TrafficClass : std::uint8_t {
  kNoTrim = 0,          // data that switches must not trim
  kTrimmable = 1,       // data
  kTrimmableRetx = 2,   // retransmitted data
  kTrimmed = 3,         // trimmed by a switch before the last hop
  kTrimmedLastHop = 4,  // trimmed on the destination's port
  kControl = 5,         // SACK, NACK, ACK, endpoint responses
};

enum class Ecn : std::uint8_t { kNotEct = 0, kEct1 = 1, kEct0 = 2, kCe = 3 };

// DSCP values in use by public MRC emulators (A.4: the standard fixes none).
constexpr std::uint8_t dscp_of(TrafficClass traffic_class) {
  constexpr std::uint8_t kDscp[] = {0, 4, 8, 12, 16, 46};
  return kDscp[static_cast<std::uint8_t>(traffic_class)];
}

// Traffic class of a received DSCP; unknown values are ordinary data (A.4.4).
constexpr TrafficClass traffic_class_of(std::uint8_t dscp) {
  switch (dscp) {
    case 4:
      return TrafficClass::kTrimmable;
    case 8:
      return TrafficClass::kTrimmableRetx;
    case 12:
      return TrafficClass::kTrimmed;
    case 16:
      return TrafficClass::kTrimmedLastHop;
    case 46:
      return TrafficClass::kControl;
    default:
      return TrafficClass::kNoTrim;
  }
}

constexpr bool is_trimmed(TrafficClass traffic_class) {
  return traffic_class == TrafficClass::kTrimmed || traffic_class == TrafficClass::kTrimmedLastHop;
}

}  // namespace openmrc
