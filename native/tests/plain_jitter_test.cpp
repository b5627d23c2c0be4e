// Paths whose packets take different times.
#include "tests/plain_stream.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

// Share of the plane from one second on.
double share_of(const PlainLink& link, std::uint32_t payload_mtu) {
  Stream stream(planes({link}, payload_mtu));
  stream.flow().outstanding_max = 64;
  stream.network.post(stream.flow());
  return stream.judge(kPsPerSecond, 4 * kPsPerSecond).share;
}

}  // namespace

TEST_CASE(plain_jitter_hides_a_short_buffer) {
  PlainLink link = plane(300, 64);
  link.jitter = kPsPerMs;
  CHECK(share_of(link, 1408) > 0.9);
}

TEST_CASE(plain_jitter_is_no_overflow_that_causes_random_losses) {
  PlainLink link = plane(300, 256);
  link.jitter = kPsPerMs;
  link.loss_ppm = 3'000;
  CHECK(share_of(link, 1408) > 0.9);
  link = plane(200, 400);
  link.jitter = 2 * kPsPerMs;
  link.loss_ppm = 5'000;
  CHECK(share_of(link, 8192) > 0.9);
}
