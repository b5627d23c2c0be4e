#include "engine/planes/few_senders.hpp"

#include "tests/check.hpp"

namespace {

using openmrc::FewSenders;
using openmrc::kNever;
using openmrc::kPsPerMs;
using openmrc::kPsPerUs;
using openmrc::TimePs;

bool few_after(FewSenders& senders, TimePs queue, TimePs left) {
  senders.begin(queue);
  senders.end_epoch(queue, /*draining=*/true);
  senders.end_epoch(queue, /*draining=*/false);
  senders.end_epoch(left, /*draining=*/false);  // the last samples of a drain come in the next epoch
  return senders.few();
}

}  // namespace

TEST_CASE(few_senders_leave_at_most_half_of_a_queue) {
  FewSenders senders;
  CHECK(!senders.few());
  CHECK(few_after(senders, 4 * kPsPerMs, 2 * kPsPerMs));
  senders.end_epoch(4 * kPsPerMs, /*draining=*/false);  // not part of a drain
  CHECK(senders.few());
  CHECK(!few_after(senders, 4 * kPsPerMs, 3 * kPsPerMs));
  CHECK(few_after(senders, 350 * kPsPerUs, 250 * kPsPerUs));  // too short to be the queue of many
}

TEST_CASE(few_senders_are_not_judged_without_samples) {
  FewSenders senders;
  CHECK(few_after(senders, 4 * kPsPerMs, 0));
  senders.begin(4 * kPsPerMs);
  senders.end_epoch(kNever, /*draining=*/false);
  senders.end_epoch(kNever, /*draining=*/false);
  CHECK(senders.few());
}
