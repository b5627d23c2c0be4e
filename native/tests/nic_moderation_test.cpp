// Pauses of the I/O thread: applied to streams, but not to data that an application may wait for.
#include "nic/moderation.hpp"

#include <algorithm>

#include "tests/check.hpp"

namespace {

using namespace openmrc;
using nic::kNeverNs;
using nic::kNsPerMs;
using nic::kNsPerSecond;
using nic::kNsPerUs;
using nic::Moderation;
using nic::TimeNs;

struct Outcome {
  int looks = 0, pauses = 0;
  TimeNs longest = 0;
  TimeNs late = 0;  // sum over all messages of the time from the last byte's arrival to the next read
};

constexpr TimeNs kPacket = 1500;

// Messages of `packets`, one packet each `interval`; the next message begins `gap` after the previous one was read.
Outcome receive(Moderation& moderation, int messages, TimeNs packets, TimeNs interval, TimeNs gap) {
  Outcome outcome;
  TimeNs now = kNsPerMs;
  for (int i = 0; i < messages; ++i) {
    const TimeNs began = now + gap;
    for (TimeNs read = 0; read < packets;) {
      now = std::max(now, began + (read + 1) * interval);
      const TimeNs there = std::min(packets, (now - began) / interval);
      const auto count = static_cast<std::uint32_t>(there - read);
      const TimeNs waited = now - (began + there * interval);
      const TimeNs pause =
          moderation.pause({now, count, std::uint64_t{count} * kPacket, waited, there < packets, false}, kNeverNs);
      read = there;
      ++outcome.looks;
      outcome.pauses += pause > 0 ? 1 : 0;
      outcome.longest = std::max(outcome.longest, pause);
      if (read < packets) now += pause;
    }
    outcome.late += now - (began + packets * interval);
  }
  return outcome;
}

}  // namespace

TEST_CASE(nic_moderation_gathers_a_stream) {
  Moderation moderation;
  const Outcome slow = receive(moderation, 1, 8000, 30 * kNsPerUs, 0);  // 400 Mb/s
  CHECK(slow.looks < 8000 / 8);
  CHECK(slow.longest <= 400 * kNsPerUs);
}

TEST_CASE(nic_moderation_keeps_up_with_what_is_fast) {
  Moderation moderation;
  const Outcome fast = receive(moderation, 1, 80'000, 600, 0);  // 20 Gb/s
  CHECK(fast.pauses > 0 && fast.longest <= 110 * kNsPerUs);
  CHECK(receive(moderation, 1, 80'000, 200, 0).pauses == 0);  // 60 Gb/s
}

// As after a pause that lasted for longer than planned: what was read arrived long ago, but more waits behind it.
TEST_CASE(nic_moderation_does_not_take_the_limit_of_a_read_for_the_end) {
  for (const bool more : {false, true}) {
    Moderation moderation;
    int pauses = 0;
    for (TimeNs now = kNsPerMs; now < kNsPerSecond; now += kNsPerMs) {
      pauses += moderation.pause({now, 300, 300 * kPacket, 0, false, false}, kNeverNs) > 0 ? 1 : 0;
      moderation.pause({now + 500 * kNsPerUs, 300, 300 * kPacket, 400 * kNsPerUs, false, more}, kNeverNs);
    }
    CHECK(more ? pauses > 900 : pauses < 100);
  }
}

TEST_CASE(nic_moderation_learns_that_messages_end) {
  for (const TimeNs packets : {8, 64, 200}) {
    Moderation moderation;
    const TimeNs interval = 30 * kNsPerUs;
    const Outcome outcome = receive(moderation, 1000, packets, interval, 100 * kNsPerUs);
    CHECK(outcome.late / 1000 <= packets * interval / 20);
  }
}

// A sender that pauses in the middle of a message is no end of it.
TEST_CASE(nic_moderation_goes_on_while_a_message_does) {
  for (const bool open : {false, true}) {
    Moderation moderation;
    int pauses = 0;
    for (TimeNs i = 1; i <= 1000; ++i) {  // bursts of 40 packets, each read 300 us after its last packet
      const Moderation::Look look{i * kNsPerMs, 40, 40 * kPacket, 300 * kNsPerUs, open, false};
      pauses += moderation.pause(look, kNeverNs) > 0 ? 1 : 0;
    }
    CHECK(open ? pauses > 900 : pauses < 100);
  }
}

TEST_CASE(nic_moderation_empties_a_socket_before_it_pauses) {
  Moderation moderation;
  for (TimeNs i = 1; i <= 1000; ++i) {
    const bool more = i % 2 == 0;
    const Moderation::Look look{i * 300 * kNsPerUs, 32, 32 * kPacket, 0, true, more};
    const TimeNs pause = moderation.pause(look, kNeverNs);
    CHECK(more ? pause == 0 : i < 100 || pause > 0);
  }
}

TEST_CASE(nic_moderation_takes_a_lone_short_message_at_once) {
  Moderation moderation;
  CHECK(receive(moderation, 100, 8, 30 * kNsPerUs, 2 * kNsPerMs).late == 0);
  CHECK(moderation.pause({kNsPerMs, 1, 64, 0, false, false}, kNeverNs) == 0);
}

TEST_CASE(nic_moderation_leaves_acknowledgements_as_long_as_the_sender_allows) {
  Moderation moderation;
  const Moderation::Look look{kNsPerMs, 1, 60, kNeverNs, false, false};
  CHECK(moderation.pause(look, 150 * kNsPerUs) == 150 * kNsPerUs);
  CHECK(moderation.pause(look, 0) == 0);
  CHECK(moderation.pause(look, 10 * kNsPerUs) == 0);  // too short to be useful
  CHECK(moderation.pause(look, kNsPerMs) == 400 * kNsPerUs);
}
