// Retries of the engine for the ACK timeout and the retry count of a verbs QP.
#include <algorithm>

#include "tests/check.hpp"
#include "verbs/retry_time.hpp"

namespace {

using namespace openmrc;
using verbs::RetryCounts;

constexpr TimePs kShortest = (1'024 * kPsPerNs) << verbs::kTimeoutExponent;

constexpr TimePs kLongest = verbs::time_to_failure({verbs::kLinearRetries, verbs::kExponentialMax});

TimePs asked_for(std::uint8_t timeout, std::uint8_t retry_cnt) {
  return (retry_cnt + TimePs{1}) * ((4'096 * kPsPerNs) << timeout);
}

TEST_CASE(verbs_retries_fail_within_the_standards_tolerance) {
  for (std::uint8_t timeout = 12; timeout <= 22; ++timeout) {
    for (std::uint8_t retry_cnt = 0; retry_cnt <= verbs::kRetriesMax; ++retry_cnt) {
      const RetryCounts counts = verbs::retries_of(timeout, retry_cnt);
      CHECK(counts.exponential < verbs::kWithoutEnd);
      const TimePs twice = 2 * asked_for(timeout, retry_cnt);
      CHECK(verbs::time_to_failure(counts) >= std::min(twice, kLongest) && kLongest >= twice / 2);
      CHECK(verbs::time_to_failure(counts) <= 4 * asked_for(timeout, retry_cnt) + kShortest);
    }
  }
}

TEST_CASE(verbs_retries_of_short_timeouts_are_one_base_timer) {
  CHECK((verbs::retries_of(1, 0) == RetryCounts{}));
  CHECK((verbs::retries_of(1, 7) == RetryCounts{}));
}

TEST_CASE(verbs_retries_have_no_end_without_a_timeout_and_beyond_the_timers_of_the_engine) {
  CHECK(verbs::retries_of(0, 7).exponential == verbs::kWithoutEnd);
  CHECK(verbs::retries_of(31, 0).exponential == verbs::kWithoutEnd);
}

}  // namespace
