// The planes of one QP on a fabric whose switches do not mark: each with its own window and pacing (X.4.1), and its own
// sending order.
//
// Chooses the planes of the next packets, and reports lost packets and silent planes (X.4.4). Loss is judged per plane
// (X.4.3): a plane preserves order, or nearly so, and a packet is lost once later ones of the same plane have arrived.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/ring.hpp"
#include "engine/planes/plane_sharers.hpp"
#include "engine/planes/plane_traffic.hpp"
#include "engine/planes/plane_window.hpp"
#include "engine/qp/send_window.hpp"
#include "engine/types.hpp"

namespace openmrc {

// A packet that a SACK names.
struct PlaneSample {
  TimePs rtt = 0;
  Transit transit;
  Psn psn = 0;
  PortId via = 0;            // plane of the SACK
  std::uint8_t sharers = 0;  // as in PlaneFeedback
};

class PlaneSet {
 public:
  // `discover`: planes that turn out to mark are left to the QP's congestion controller (X.4.2).
  PlaneSet(TimePs now, std::uint32_t plane_count, bool discover, std::uint32_t packet_bytes, std::int64_t buffer_bytes,
           PlaneSharers& sharers, const PlaneTraffic& traffic);
  ~PlaneSet();
  PlaneSet(const PlaneSet&) = delete;
  PlaneSet& operator=(const PlaneSet&) = delete;

  // Nominal size of full packets from now on; not less than before.
  void set_packet_bytes(std::uint32_t packet_bytes) {
    for (Plane& plane : planes_) plane.window.set_packet_bytes(packet_bytes);
  }

  // --- sending

  struct Request {
    PortMask usable = 0, free = 0;
    std::uint32_t first_bytes = 0;        // of the next packet
    std::int64_t backlog_bytes = 0;       // waiting to be sent, these included
    std::int64_t posted_bytes = 0;        // under way or waiting, within the peer's window
    std::uint64_t controller_window = 0;  // for all planes that mark
    bool repair = false;
  };
  struct Choice {
    bool found = false;
    bool busy = false;  // no plane now, but one could carry it once its port is free
    PortId plane = 0;
    std::int64_t bytes = 0;  // limit on the bytes to send on it
  };
  Choice choose(TimePs now, const Request& request);
  // Packets of consecutive PSNs in one burst.
  struct Departure {
    Psn psn = 0;
    std::uint32_t count = 1;
    std::uint32_t bytes = 0;     // of each
    std::uint32_t position = 0;  // of the first one in the burst
    std::uint32_t planned = 1;   // packets of the burst
    bool repeated = false;
  };
  // Records packets; and the whole burst, for pacing. The window of PSNs begins at `first`.
  void sent(TimePs now, PortId plane, Psn first, const Departure& packets);
  void burst_sent(TimePs now, PortId plane, std::int64_t bytes);
  // After a time in which nothing might be sent: neither the silence nor the short queues of that time say anything.
  void resume(TimePs now);
  // True if a burst of this size should request an acknowledgement: a few bursts of a window do.
  bool wants_ack(PortId plane, std::int64_t bytes);

  // --- feedback, in this order for each acknowledgement

  // Records the arrival of a packet; `record` is its state before that. `certain`: the latest copy arrived.
  void acknowledged(TimePs now, Psn psn, const SendRecord& record, PortId plane, bool certain);
  // A packet that counted as lost, sent on this plane `elapsed` ago, had arrived.
  void mistaken(TimePs now, PortId plane, TimePs elapsed);
  // Round trip of the packet with this PSN; `echoed` is its remainder modulo `range`. 0: unknown.
  TimePs round_trip(TimePs now, PortId plane, Psn psn, TimePs echoed, TimePs range) const;
  // Records round trip and transit of the packet with this PSN, which may have left the window already.
  void sampled(PortId plane, const PlaneSample& sample, bool marked);
  // Fills `lost` with packets of the window that count as lost by now.
  void end_feedback(TimePs now, const SendWindow& window, std::vector<Psn>& lost);
  // Takes a packet out of flight for another reason: its port went down, or a switch trimmed it.
  void withdrawn(PortId plane, std::uint32_t bytes) { left_flight(planes_[plane], bytes); }
  void trimmed(PortId plane, std::uint32_t bytes);

  // --- silence

  TimePs next_timer() const { return std::min(next_check_, wake_); }
  // Fills `lost` with the packets in flight on planes that fell silent, and `changed` with these planes.
  void handle_timer(TimePs now, const SendWindow& window, std::vector<Psn>& lost, PortMask& changed);
  // Selects a plane to probe now; false: none on a free port. `order` is echoed with the answer.
  bool next_probe(TimePs now, PortMask usable, PortMask free, PortId& plane, std::uint32_t& order);
  bool probe_due() const { return probe_due_ != 0; }
  // True: the plane was silent and no longer is. `rtt`: of the probe, without service time, with an answer over `via`.
  bool answered(TimePs now, PortId plane, std::uint32_t order, TimePs rtt, PortId via);
  // Called before a large transmission: planes without recent traffic are probed first, to measure their idle round
  // trip.
  void begin_work(TimePs now);
  // Nothing of this QP is under way any more: it was completed or given up.
  void end_work();
  void set_usable(TimePs now, PortMask usable);
  PortMask not_silent() const;
  // Time for which acknowledgements may stay unread without starving a plane or letting too large a burst fall due at
  // once.
  TimePs patience() const;
  PortMask answering() const;  // planes that are not silent; all planes if every one is silent

  bool sampled(PortId plane) const { return planes_[plane].window.delay().sampled(); }
  bool silent(PortId plane) const { return planes_[plane].silent; }
  TimePs base(PortId plane) const { return planes_[plane].window.delay().base(); }
  bool marking(PortId plane) const { return planes_[plane].marking; }
  std::int64_t marking_in_flight() const;
  std::int64_t take_marking_acked();
  // True for a sample far above the plane's usual ones: its EV is slower than the others.
  bool outlier(PortId plane, TimePs rtt) const;
  PlaneStats stats(PortId plane) const;
  void rebase(TimePs by);

 private:
  struct Flying {
    Psn psn = 0;
    std::uint32_t order = 0;
  };
  // Plane and time of the latest transmission, for each PSN of the window and some below it.
  struct Sent {
    TimePs time = 0;
    std::uint32_t order = 0;  // of the plane
    std::uint16_t bytes = 0;
    PortId plane = 0;
    std::uint8_t quarter = 0;
    bool repeated = true;  // also if never recorded: its time is meaningless
  };
  struct Plane {
    PlaneWindow window;
    Ring<Flying> flight;
    std::int64_t in_flight_bytes = 0;
    std::int64_t unasked_bytes = 0;  // sent since the last packet that requested an acknowledgement
    std::uint32_t next_order = 1;
    std::uint32_t delivered_order = 1;
    // The delayed order by which losses are judged: reports that arrived together are processed one after another.
    std::uint32_t settled_order = 1, settling_order = 1;
    TimePs settling_since = 0;
    std::uint32_t reordering = 3;  // packets by which a late one may lie behind
    TimePs late = 0,
           late_since = kLongAgo;  // delay beyond a round trip of a report that came after its packet was given up
    TimePs heard = 0;              // latest arrival on this plane, or first departure after a pause
    TimePs sent = 0;
    TimePs probe_at = kNever, probe_gap = 0;
    std::uint32_t idle_questions = 0;  // left, about the idle round trip; 0: answered
    bool asked_idle = false;           // the last probe left while nothing of ours was in flight
    PlaneFeedback feedback;
    bool touched = false;
    bool shares = false;  // counted among the QPs with data on this plane
    bool silent = false;
    std::uint32_t falls = 0;  // of the plane at other QPs, when something of ours last arrived over it
    // True if the plane's switches mark.
    bool marking = false;
    std::uint32_t samples = 0, marks = 0, marked_rounds = 0, unmarked_rounds = 0, round_order = 0;
    TimePs judged = kLongAgo;
    PlaneStats counters;
  };

  // Smoothed forward delays of the planes of one choice.
  struct Latencies {
    std::array<TimePs, kPortCountMax> of{};  // 0: not sampled yet, or not allowed
    TimePs quickest = kNever;
  };

  PortId id_of(const Plane& plane) const { return static_cast<PortId>(&plane - planes_.data()); }
  void join_flight(Plane& plane, std::uint32_t bytes);
  void left_flight(Plane& plane, std::uint32_t bytes);
  void leave_sharers(Plane& plane);
  void end_silence(Plane& plane);
  void note_arrival(TimePs now, Plane& plane);
  PortMask suspects(PortMask usable) const;
  void note_surroundings(Plane& plane, bool alike);
  bool has_faster(const Plane& plane) const;
  bool alike() const;
  Sent& sent_of(Psn psn) { return sent_[psn & (sent_.size() - 1)]; }
  const Sent& sent_of(Psn psn) const { return sent_[psn & (sent_.size() - 1)]; }
  std::int64_t room(const Plane& plane, TimePs now, std::uint64_t controller_window) const;
  bool ready(const Plane& plane, std::int64_t room, const Request& request) const;
  Latencies latencies(PortMask allowed) const;
  bool worth_it(PortId id, const Request& request, const Latencies& latencies, std::int64_t bytes) const;
  std::int64_t rate_of_plane(const Plane& plane) const;
  void settle(TimePs now, Plane& plane);
  TimePs spread() const;
  TimePs slack(TimePs now, const Plane& plane) const;
  void find_losses(TimePs now, Plane& plane, const SendWindow& window, std::vector<Psn>& lost);
  void judge_marks(TimePs now, Plane& plane);
  void arm_probe(TimePs now, Plane& plane);
  TimePs patience(const Plane& plane) const;
  void fall_silent(TimePs now, Plane& plane, const SendWindow& window, std::vector<Psn>& lost);
  void give_up(Plane& plane, const Flying& flying, const SendWindow& window, std::vector<Psn>& lost);
  void reserve(Psn first, Psn psn);

  PlaneSharers& sharers_;
  const PlaneTraffic& traffic_;
  std::vector<Plane> planes_;
  std::vector<Sent> sent_;
  Psn end_ = 0;       // above the latest PSN that was sent
  TimePs heard_ = 0;  // on any plane
  TimePs others_asked_ = kLongAgo;
  TimePs next_check_ = kNever;
  TimePs wake_ = kNever;  // instant at which the pace of a plane next allows a packet
  TimePs repair_since_ = kNever;
  std::int64_t marking_acked_ = 0;
  PortMask probe_due_ = 0;
  PortMask usable_ = ~PortMask{0};
  bool discover_ = false;
  bool resting_ = false;  // nothing is under way but questions about idle round trips
};

}  // namespace openmrc
