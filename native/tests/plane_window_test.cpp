// The window of one plane, fed with reports by hand.
#include "engine/planes/plane_window.hpp"

#include "tests/check.hpp"

namespace openmrc::test {
namespace {

constexpr std::uint32_t kPacket = 1500;

// A plane at its start whose packets come back after a millisecond, without a queue.
class Plane {
 public:
  Plane() { window.start(kPacket, 0); }

  void acknowledge(std::uint32_t packets) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      ++progress_.delivered_order;
      PlaneFeedback feedback;
      feedback.acked_bytes = feedback.rtt_bytes = kPacket;
      feedback.acked_packets = 1;
      feedback.rtt = kPsPerMs;
      report(feedback);
    }
  }
  void lose(std::uint32_t packets) {
    PlaneFeedback feedback;
    feedback.lost_packets = packets;
    report(feedback);
  }
  void find_arrived(std::uint32_t packets) {
    PlaneFeedback feedback;
    feedback.mistaken_packets = packets;
    report(feedback);
  }
  void send(std::uint32_t packets) { progress_.next_order += packets; }
  std::int64_t window_bytes() const { return window.window_bytes(now_); }

  PlaneWindow window;

 private:
  void report(const PlaneFeedback& feedback) {
    now_ += 50 * kPsPerUs;
    progress_.in_flight_bytes = window.window_bytes(now_);
    window.on_feedback(now_, feedback, progress_);
  }

  TimePs now_ = kPsPerSecond;
  PlaneProgress progress_{.next_order = 1, .delivered_order = 1};
};

// Ends the start of a plane with six losses.
std::int64_t lose_at_the_start(Plane& plane) {
  plane.send(100);
  plane.acknowledge(20);
  const std::int64_t before = plane.window_bytes();
  plane.lose(6);
  CHECK(!plane.window.starting());
  return before;
}

}  // namespace

// proves X.4.3
TEST_CASE(losses_that_were_none_do_not_end_the_start) {
  Plane plane;
  const std::int64_t before = lose_at_the_start(plane);
  const TimePs target = Plane().window.target();
  plane.find_arrived(2);
  CHECK(!plane.window.starting());
  plane.find_arrived(2);
  CHECK(plane.window.starting());
  CHECK(plane.window_bytes() >= before);
  CHECK(plane.window.target() >= target);
}

TEST_CASE(losses_of_later_packets_say_nothing_about_an_earlier_reaction) {
  Plane plane;
  lose_at_the_start(plane);
  plane.send(100);
  plane.acknowledge(120);
  plane.find_arrived(6);
  CHECK(!plane.window.starting());
}

}  // namespace openmrc::test
