// The planes of one QP where switches do not mark: each with a window and pacing of its own (X.4.1), and an order of
// sending.
//
// Says on which plane the next packets go, which packets are lost, and which planes are silent (X.4.4). Loss is judged
// per plane (X.4.3): a plane keeps its packets in order, or nearly, so a packet is lost when later ones of the same
// plane have arrived.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/ring.hpp"
#include "engine/planes/plane_window.hpp"
#include "engine/qp/send_window.hpp"
#include "engine/types.hpp"

namespace openmrc {

class PlaneSet {
 public:
  // `discover`: planes that turn out to mark are left to the QP's congestion controller (X.4.2).
  PlaneSet(TimePs now, std::uint32_t plane_count, bool discover, std::uint32_t packet_bytes, std::int64_t buffer_bytes);

  // --- sending

  struct Request {
    PortMask usable = 0, free = 0;
    std::uint32_t first_bytes = 0;        // of the next packet
    std::int64_t backlog_bytes = 0;       // that wait to be sent, with those
    std::int64_t posted_bytes = 0;        // under way or waiting, within the peer's window
    std::uint64_t controller_window = 0;  // for all planes that mark
    bool repair = false;
  };
  struct Choice {
    bool found = false;
    bool busy = false;  // none, but one could carry it whose port is not free
    PortId plane = 0;
    std::int64_t bytes = 0;  // that may be sent on it
  };
  Choice choose(TimePs now, const Request& request);
  // One packet, `quarter` 0..3 of its burst; and the whole burst, for pacing.
  // The window of PSNs begins at `first`.
  void sent(TimePs now, PortId plane, Psn first, Psn psn, std::uint32_t bytes, std::uint8_t quarter, bool repeated);
  void burst_sent(TimePs now, PortId plane, std::int64_t bytes);
  // Whether a burst of so many bytes should ask for an acknowledgement: a few of a window do.
  bool wants_ack(PortId plane, std::int64_t bytes);

  // --- feedback, in this order for each acknowledgement

  // A packet has arrived; `record` as it was before. `certain`: that it was the latest copy.
  void acknowledged(TimePs now, Psn psn, const SendRecord& record, PortId plane, bool certain);
  // The round trip of the packet with this PSN, of which `echoed` is the rest after whole `range`s. 0: not known.
  TimePs round_trip(TimePs now, PortId plane, Psn psn, TimePs echoed, TimePs range) const;
  // Round trip and transit of the packet with this PSN, which may have left the window already.
  void sampled(PortId plane, TimePs rtt, Transit transit, Psn psn, PortId via, bool marked);
  // Fills `lost` with packets of the window that are lost by now.
  void end_feedback(TimePs now, const SendWindow& window, std::vector<Psn>& lost);
  // The packet left flight otherwise: its port went down, or a switch trimmed it.
  void withdrawn(PortId plane, std::uint32_t bytes) { planes_[plane].in_flight_bytes -= bytes; }
  void trimmed(PortId plane, std::uint32_t bytes);

  // --- silence

  TimePs next_timer() const { return std::min(next_check_, wake_); }
  // Fills `lost` with what was under way on planes that fell silent, and `changed` with these planes.
  void handle_timer(TimePs now, const SendWindow& window, std::vector<Psn>& lost, PortMask& changed);
  // A plane whose peer is to be asked now; false: none on a free port. `order` comes back with the answer.
  bool next_probe(TimePs now, PortMask usable, PortMask free, PortId& plane, std::uint32_t& order);
  bool probe_due() const { return probe_due_ != 0; }
  // True: the plane was silent and is not any more. `rtt`: of the question, service time removed, with the answer
  // coming back over `via`.
  bool answered(TimePs now, PortId plane, std::uint32_t order, TimePs rtt, PortId via);
  // Much is about to be sent: planes that have carried nothing lately are asked first, so that an idle round trip is
  // known.
  void begin_work(TimePs now);
  void set_usable(TimePs now, PortMask usable);
  PortMask not_silent() const;
  // How long acknowledgements may be left unread without a plane running dry, or so much falling due at once.
  TimePs patience() const;
  PortMask answering() const;  // planes that are not silent; all of them where every one is

  bool silent(PortId plane) const { return planes_[plane].silent; }
  bool marking(PortId plane) const { return planes_[plane].marking; }
  std::int64_t marking_in_flight() const;
  std::int64_t take_marking_acked();
  // A sample that lies far above what the plane shows otherwise: its EV is slower than the others.
  bool outlier(PortId plane, TimePs rtt) const;
  PlaneStats stats(PortId plane) const;
  void rebase(TimePs by);

 private:
  struct Flying {
    Psn psn = 0;
    std::uint32_t order = 0;
  };
  // Of each PSN of the window, and of some below it: where and when it was last sent.
  struct Sent {
    TimePs time = 0;
    std::uint32_t order = 0;  // of the plane
    std::uint16_t bytes = 0;
    PortId plane = 0;
    std::uint8_t quarter = 0;
    bool repeated = true;  // also of what was never noted: its time says nothing
  };
  struct Plane {
    PlaneWindow window;
    Ring<Flying> flight;
    std::int64_t in_flight_bytes = 0;
    std::int64_t unasked_bytes = 0;  // sent since a packet asked for an acknowledgement
    std::uint32_t next_order = 1;
    std::uint32_t delivered_order = 1;
    // The same a moment ago, which is what losses are judged by: news that came together are read one after the other.
    std::uint32_t settled_order = 1, settling_order = 1;
    TimePs settling_since = 0;
    std::uint32_t reordering = 3;  // packets that a late one may lie behind
    TimePs heard = 0;              // something of this plane arrived, or the first packet left after a pause
    TimePs sent = 0;
    TimePs probe_at = kNever, probe_gap = 0;
    bool asked_idle = false;  // the last question left while nothing of ours was under way
    PlaneFeedback feedback;
    bool touched = false;
    bool silent = false;
    // Does the plane mark?
    bool marking = false;
    std::uint32_t samples = 0, marks = 0, marked_rounds = 0, unmarked_rounds = 0, round_order = 0;
    TimePs judged = kLongAgo;
    PlaneStats counters;
  };

  Sent& sent_of(Psn psn) { return sent_[psn & (sent_.size() - 1)]; }
  const Sent& sent_of(Psn psn) const { return sent_[psn & (sent_.size() - 1)]; }
  std::int64_t room(const Plane& plane, TimePs now, std::uint64_t controller_window) const;
  bool ready(const Plane& plane, std::int64_t room, const Request& request) const;
  bool worth_it(const Plane& plane, const Request& request, std::int64_t bytes) const;
  std::int64_t rate_of_plane(const Plane& plane) const;
  TimePs latency(const Plane& plane) const { return plane.window.delay().smoothed_forward(); }
  void settle(TimePs now, Plane& plane);
  void find_losses(TimePs now, Plane& plane, const SendWindow& window, std::vector<Psn>& lost);
  void judge_marks(TimePs now, Plane& plane);
  void arm_probe(TimePs now, Plane& plane);
  TimePs patience(const Plane& plane) const;
  void fall_silent(TimePs now, Plane& plane, const SendWindow& window, std::vector<Psn>& lost);
  void give_up(Plane& plane, const Flying& flying, const SendWindow& window, std::vector<Psn>& lost);
  void reserve(Psn first, Psn psn);

  std::vector<Plane> planes_;
  std::vector<Sent> sent_;
  Psn end_ = 0;       // above the latest PSN that was sent
  TimePs heard_ = 0;  // on any plane
  TimePs others_asked_ = kLongAgo;
  TimePs next_check_ = kNever;
  TimePs wake_ = kNever;  // a plane may send again by its pace
  TimePs repair_since_ = kNever;
  std::int64_t marking_acked_ = 0;
  PortMask probe_due_ = 0;
  PortMask usable_ = ~PortMask{0};
  bool discover_ = false;
};

}  // namespace openmrc
