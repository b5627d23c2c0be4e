// The EV set of one QP: the paths that may carry data, and their state machine (A.11, A.13).
//
// An EV is one path on one port. The set holds the same number of active EVs on every port, plus a backup set; its
// universe is fixed. Only GOOD EVs carry data. The set neither reads a clock nor sends: the requester calls `next()`
// for each packet, reports feedback, and sends the probes that `next_probe()` returns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/hot_memory.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "engine/events.hpp"
#include "engine/generated/enums.hpp"
#include "engine/generated/profiles.hpp"
#include "engine/generated/statistics.hpp"

namespace openmrc {

using EvIndex = std::uint16_t;  // position in the set's universe; stable for the life of the set
inline constexpr EvIndex kNoEv = 0xFFFF;

struct Ev {
  std::uint32_t value = 0;
  PortId port = 0;
};

// Limit on unanswered probes in one probe interval. A dead plane, or a host too busy to answer, affects hundreds of EVs
// of every QP, and probes of all of them would take the remaining capacity. Answers free slots for more probes.
inline constexpr std::uint32_t kProbesUnansweredMax = 4;

// EV selection policy: the order in which positions of the active set are tried. Registered by name.
class EvSelector {
 public:
  virtual ~EvSelector() = default;
  // Feedback about the EV at `position`, for selectors with state of their own (such as REPS). Called before the set
  // acts on the feedback, and never for an EV that has lost its position.
  virtual void on_feedback(TimePs now, std::uint32_t position, EvFeedback feedback) = 0;
  // Position in [0, position_count) to try next; called until an EV is usable, at most 2 * position_count times per
  // packet. Positions of the P ports in use alternate: position i belongs to port (i mod P) of them.
  virtual std::uint32_t next(std::uint32_t position_count) = 0;

  // A selector that pins the QP to one path keeps returning the same position, waits while that position's port is
  // merely busy, and moves on only after `leave` reports that the position can no longer carry data.
  virtual bool pins() const { return false; }
  virtual void leave(std::uint32_t /*position*/) {}
  // The clock was set back by `by`: for selectors that store instants (`rebased` in base/time.hpp).
  virtual void rebase(TimePs /*by*/) {}
};

// Creates a selector by its registered name: "mrc" (pseudo-random rotation, redrawn at each wrap), "random", "reps",
// "round_robin", "single", or a name added by register_ev_selector of custom_selector.hpp. Returns nullptr for an
// unknown name.
std::unique_ptr<EvSelector> make_ev_selector(std::string_view name, Rng rng);
std::span<const std::string_view> ev_selector_names();

class EvSet {
 public:
  // True for at most kEvCountMax EVs with ports below kPortCountMax and distinct EV values: the echo on the wire
  // carries no port.
  static bool valid_universe(std::span<const Ev> universe);

  // Draws `active_per_port` EVs for each port out of `universe` at random; the rest is the backup set. A port with
  // fewer EVs contributes all of them and the other ports are cut to the same number, so that ports stay evenly loaded.
  // `universe` must pass valid_universe.
  EvSet(std::span<const Ev> universe, const EvSetConfig& config, std::unique_ptr<EvSelector> selector, Rng rng,
        EventSink* events, std::uint32_t qp);

  // EV for the next packet (or burst): a usable active EV on a free port, and not `avoid` unless nothing else is left.
  // SKIP EVs that the cursor passes are reset by the rule of section 11.2.2: the first one only, and not used for this
  // packet unless a whole rotation finds nothing else. kNoEv: no usable EV on a free port.
  EvIndex next(TimePs now, PortMask free_ports, EvIndex avoid = kNoEv);

  void on_feedback(TimePs now, EvIndex ev, EvFeedback feedback);

  // Next EV due for a probe: ASSUMED_BAD, or held by min_active, on a port that is up and free. kNoEv: none now.
  // `round_trip`: smoothed, 0 if unknown; answers take as long.
  EvIndex next_probe(TimePs now, PortMask free_ports = ~PortMask{0}, TimePs round_trip = 0);
  TimePs next_probe_time() const { return next_probe_time_; }
  void on_probe_answer(TimePs now, EvIndex ev, bool marked);
  void on_probe_timeout(TimePs now, EvIndex ev);  // an unanswered probe restarts the count of successes

  void rebase(TimePs by);

  // Port state, local or reported by the peer: EVs of a port that is down are not chosen, whatever their state.
  void set_usable_ports(TimePs now, PortMask ports);
  PortMask usable_ports() const { return usable_ports_; }
  PortMask ready_ports() const { return usable_ports_ & ready_ports_; }  // usable ports with an active GOOD or SKIP EV

  // Controller operations (F.2). False for an EV value outside the universe.
  bool deny(TimePs now, std::uint32_t ev_value);
  bool enable(TimePs now, std::uint32_t ev_value);

  EvIndex find(std::uint32_t ev_value) const;  // kNoEv when unknown
  // EVs of one port, the first of each kind from `start` on, with wrap-around; kNoEv if none exists.
  struct OfPort {
    EvIndex trusted = kNoEv;  // once found, the search for the others ends
    EvIndex held = kNoEv;     // by min_active, although it lost data
    EvIndex bad = kNoEv;      // ASSUMED_BAD
    friend bool operator==(const OfPort&, const OfPort&) = default;
  };
  OfPort find_of_port(PortId port, EvIndex start) const;
  const Ev& ev(EvIndex index) const { return entries_[index].ev; }
  EvState state(EvIndex index) const { return entries_[index].state; }
  bool is_active(EvIndex index) const { return entries_[index].slot != kNoSlot; }
  // True if no evidence speaks against this EV. `state` is not enough: an EV that lost data stays GOOD while min_active
  // holds it.
  bool trusted(EvIndex index) const;
  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  // All ports that EVs have.
  PortMask planes() const {
    PortMask planes = 0;
    for (const Entry& entry : entries_) planes |= PortMask{1} << entry.ev.port;
    return planes;
  }
  // EVs with a position, never ASSUMED_BAD or DENIED ones. Below position_count() while planes lack replacements.
  std::uint32_t active_count() const { return active_count_; }
  std::uint32_t position_count() const { return static_cast<std::uint32_t>(slots_.size()); }
  bool pins() const { return pins_; }  // the selector stays on one path
  const EvSetStats& stats() const { return stats_; }
  void hot_memory(HotMemory& memory) const;
  std::size_t memory_bytes() const;  // this object and all that it owns, without the selector

 private:
  static constexpr std::uint16_t kNoSlot = 0xFFFF;
  static constexpr std::uint32_t kDeferredMax = 4;
  static constexpr std::uint8_t kSilentRoundsMax = 4;

  struct Entry {
    Ev ev;
    EvState state = EvState::kGood;
    std::uint8_t probe_successes = 0;
    std::uint16_t slot = kNoSlot;  // position in slots_; kNoSlot: backup, ASSUMED_BAD or DENIED
  };

  // One position of the active set: the four bytes that the search for an EV reads.
  struct Slot {
    EvIndex ev = kNoEv;  // kNoEv: vacant
    PortId port = 0;
    EvState state = EvState::kAssumedBad;
  };

  struct ProbeTimer {
    TimePs due;
    EvIndex ev;
  };

  // Turns that a port missed because it was busy, oldest first.
  struct Deferred {
    std::array<std::uint16_t, kDeferredMax> slots;
    std::uint8_t first = 0;
    std::uint8_t count = 0;
  };

  struct PortCounts {
    std::uint16_t positions = 0;
    std::uint16_t good = 0;    // active and GOOD
    std::uint16_t usable = 0;  // active and GOOD or SKIP
    EvIndex first = kNoEv;     // the port's EVs all lie between `first`
    EvIndex end = 0;           // and `end`, exclusive
  };

  struct Search;

  void draw_active();
  void build_index();

  EvIndex next_pinned(TimePs now, PortMask free_ports);
  EvIndex search_rest(Search& search);
  bool try_deferred(Search& search);
  bool try_slot(Search& search, const Slot& slot);
  void defer(std::uint32_t position);
  bool only_usable(PortMask ports, EvIndex index) const;
  bool good_left(PortMask ports, EvIndex avoid) const;
  bool lapsed(TimePs now, EvIndex index) const;
  bool half_marked() const;

  void set_state(TimePs now, EvIndex index, EvState state, EvCause cause);
  void retire(TimePs now, EvIndex index, EvState state, EvCause cause);
  void revive(TimePs now, EvIndex index, EvState state, EvCause cause);
  bool at_floor(EvIndex index) const;
  void hold(TimePs now, EvIndex index);
  void release(EvIndex index);
  EvIndex find_backup(PortId port, std::uint32_t start) const;
  void occupy(std::uint16_t position, EvIndex index);
  void count(const Slot& slot, int sign);
  void arm_probe(TimePs due, EvIndex index);
  void disarm_probe(EvIndex index);
  void refresh_probe_time();
  void begin_probe_round(TimePs now, TimePs round_trip);
  TimePs probe_round() const;
  std::uint32_t probes_unanswered_max() const;
  void note_heard(TimePs now);

  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> buckets_;  // hash of the EV values, open addressing, kNoEv = free
  std::vector<ProbeTimer> probes_;      // EVs to be probed, by due time; a single interval, so re-arming appends
  std::vector<TimePs> skip_since_;      // per EV, only when SKIP lapses by time
  std::vector<bool> held_;              // per EV, empty until first use: in use because of min_active alone
  std::unique_ptr<EvSelector> selector_;
  EventSink* events_;
  Rng rng_;
  EvSetConfig config_;
  TimePs next_probe_time_ = kNever;
  TimePs probes_since_ = 0;
  std::uint32_t probes_unanswered_ = 0;  // of the probes sent since then
  TimePs heard_at_ = 0;                  // a packet has arrived, or a probe was answered
  std::uint8_t silent_rounds_ = 0;       // in a row
  std::uint32_t qp_;
  std::uint32_t active_count_ = 0;
  std::uint32_t marked_count_ = 0;  // active and SKIP
  std::uint32_t held_count_ = 0;
  PortMask usable_ports_ = ~PortMask{0};
  PortMask ready_ports_ = 0;     // ports with an active EV that is GOOD or SKIP
  PortMask deferred_ports_ = 0;  // ports with missed turns
  std::uint8_t bucket_shift_ = 31;
  std::uint8_t deferred_cursor_ = 0;  // port whose missed turns are tried first
  bool pins_ = false;
  std::array<PortCounts, kPortCountMax> counts_{};
  std::array<Deferred, kPortCountMax> deferred_{};
  EvSetStats stats_;
};

}  // namespace openmrc
