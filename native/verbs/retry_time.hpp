// Retries of the engine for the ACK timeout and the retry count of a verbs QP. Needs no header of libibverbs.
#pragma once

#include <cstdint>

#include "verbs/connection_values.hpp"

namespace openmrc::verbs {

inline constexpr std::uint8_t kTimeoutMax = 31, kRetriesMax = 7;
inline constexpr std::uint8_t kExponentialMax = 24, kWithoutEnd = 25;

struct RetryCounts {
  std::uint8_t linear = 0, exponential = 0;

  friend bool operator==(const RetryCounts&, const RetryCounts&) = default;
};

// Time from the first packet to the failure of a QP that hears nothing, for the base timer kTimeoutExponent.
constexpr TimePs time_to_failure(RetryCounts counts) {
  const TimePs base = (1'024 * kPsPerNs) << kTimeoutExponent;
  const TimePs longest = (1'024 * kPsPerNs) << 24;
  TimePs sum = counts.linear * base;
  for (std::uint32_t doublings = 0; doublings <= counts.exponential; ++doublings) {
    const TimePs wait = base << doublings;
    sum += wait < longest ? wait : longest;
  }
  return sum;
}

// Verbs: a packet is sent again after 4.096 us x 2^timeout, `retry_cnt` times, and the QP fails one timeout later; a
// timeout of 0 has no end. The standard lets a timeout take up to four times as long. The engine resends at its own,
// shorter intervals, and fails after twice the time that the attributes give, or a little later: here a process has to
// be scheduled to answer, where a network card answers by itself.
constexpr RetryCounts retries_of(std::uint8_t timeout, std::uint8_t retry_cnt) {
  if (timeout == 0) return {kLinearRetries, kWithoutEnd};
  const TimePs given = (retry_cnt + TimePs{1}) * ((4'096 * kPsPerNs) << timeout);
  RetryCounts counts;
  while (counts.linear < kLinearRetries && time_to_failure(counts) < 2 * given) ++counts.linear;
  while (counts.exponential < kExponentialMax && time_to_failure(counts) < 2 * given) ++counts.exponential;
  if (time_to_failure(counts) < given) counts.exponential = kWithoutEnd;
  return counts;
}

}  // namespace openmrc::verbs
