// A stream of bare UDP datagrams, with what every transport over UDP sockets has to do: the kernel's segmentation and
// joining of datagrams, headers, a copy of payloads to their place, and a window. One thread at each end.
#pragma once

#include <cstdint>

#include "nic/asker.hpp"
#include "nic/udp_ends.hpp"

namespace openmrc::nic {

inline constexpr std::uint32_t kUdpStreamHeaderBytes = 60;  // of every datagram
inline constexpr std::uint32_t kUdpStreamDatagramsMax = 64;
inline constexpr std::uint64_t kUdpStreamCallBytesMax = 65'507;

struct UdpStreamPlan {
  UdpEnds ends;
  std::uint32_t datagram_bytes = 0;  // with a header
  std::uint32_t datagrams = 0;       // in one call
  std::uint64_t region_bytes = 0;    // of payload that is sent, and placed, again and again
  std::int64_t duration_ns = 0;

  // A call sends at most 64 datagrams, and 64 KiB with the kernel's headers.
  bool valid() const {
    return datagram_bytes > kUdpStreamHeaderBytes && datagrams > 0 && datagrams <= kUdpStreamDatagramsMax &&
           std::uint64_t{datagram_bytes} * datagrams <= kUdpStreamCallBytesMax && region_bytes >= datagram_bytes;
  }
};

struct UdpStreamResult {
  std::uint64_t bytes = 0;      // of payload
  std::int64_t elapsed_ns = 0;  // at the sink from the first datagram to the last one
};

// The sink ends at the source's word, or when nothing comes for a while. Both throw NicError if the socket cannot be
// opened or refuses to send.
UdpStreamResult measure_udp_source(const UdpStreamPlan& plan, const Interrupted& interrupted);
UdpStreamResult measure_udp_sink(const UdpStreamPlan& plan, const Interrupted& interrupted);

}  // namespace openmrc::nic
