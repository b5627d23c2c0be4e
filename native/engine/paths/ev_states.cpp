// The state machine of EVs (A.11): feedback, probes, ports, controller; replacement from the backup set.
#include <algorithm>

#include "engine/base/assert.hpp"
#include "engine/generated/event_records.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {
namespace {

constexpr PortMask bit_of(PortId port) { return PortMask{1} << port; }

constexpr bool carries_data(EvState state) { return state == EvState::kGood || state == EvState::kSkip; }

constexpr EvCause cause_of(EvFeedback feedback) {
  switch (feedback) {
    case EvFeedback::kSkipOnce:
      return EvCause::kEcn;
    case EvFeedback::kAlwaysSkip:
      return EvCause::kAlwaysSkip;
    case EvFeedback::kTrimmed:
      return EvCause::kTrimmed;
    case EvFeedback::kLost:
      return EvCause::kLoss;
    case EvFeedback::kTimeout:
      return EvCause::kTimeout;
    case EvFeedback::kDelivered:
      break;
  }
  return EvCause::kNone;
}

}  // namespace

// ASSUMED_BAD and DENIED ignore feedback (A.11.10): only probes and the controller end them. A mark on an EV already in
// SKIP changes nothing, so marks do not extend the penalty (A.11.6).
void EvSet::on_feedback(TimePs now, EvIndex ev, EvFeedback feedback) {
  MRC_ASSERT(ev < entries_.size());
  if (entries_[ev].slot != kNoSlot) selector_->on_feedback(now, entries_[ev].slot, feedback);
  const EvState state = entries_[ev].state;
  switch (feedback) {
    case EvFeedback::kDelivered:
      note_heard(now);
      release(ev);
      return;
    case EvFeedback::kSkipOnce:
    case EvFeedback::kTrimmed:
      note_heard(now);
      release(ev);
      if (state == EvState::kGood) set_state(now, ev, EvState::kSkip, cause_of(feedback));  // A.11.4
      return;
    case EvFeedback::kAlwaysSkip:
    case EvFeedback::kLost:
    case EvFeedback::kTimeout:
      if (!carries_data(state)) return;
      // A pinned QP moves to another plane: a successor on the same plane, or an EV held by min_active, may be dead as
      // well.
      if (pins_ && entries_[ev].slot != kNoSlot) selector_->leave(entries_[ev].slot);
      if (at_floor(ev)) {
        ++stats_.floor_held;
        hold(now, ev);
        return;
      }
      retire(now, ev, EvState::kAssumedBad, cause_of(feedback));  // A.11.5
      arm_probe(now + config_.probe_interval, ev);
      return;
  }
}

EvIndex EvSet::next_probe(TimePs now, PortMask free_ports, TimePs round_trip) {
  if (now < next_probe_time_) return kNoEv;
  if (now >= probes_since_ + probe_round()) begin_probe_round(now, round_trip);
  if (probes_unanswered_ >= probes_unanswered_max()) return kNoEv;
  for (auto timer = probes_.begin(); timer != probes_.end() && timer->due <= now; ++timer) {
    const EvIndex ev = timer->ev;
    if ((usable_ports_ & free_ports & bit_of(entries_[ev].ev.port)) == 0) continue;
    probes_.erase(timer);
    ++probes_unanswered_;
    arm_probe(now + config_.probe_interval, ev);
    ++stats_.probes;
    return ev;
  }
  return kNoEv;
}

void EvSet::on_probe_answer(TimePs now, EvIndex ev, bool marked) {
  MRC_ASSERT(ev < entries_.size());
  if (probes_unanswered_ > 0) --probes_unanswered_;
  note_heard(now);
  refresh_probe_time();
  Entry& entry = entries_[ev];
  release(ev);
  if (entry.state != EvState::kAssumedBad) return;
  if (++entry.probe_successes < config_.probe_successes) return;  // A.11.11
  disarm_probe(ev);
  ++stats_.revived;
  // A.11.12: marked answer.
  const bool to_skip = marked && !config_.marked_probe_revives_to_good;
  revive(now, ev, to_skip ? EvState::kSkip : EvState::kGood, EvCause::kProbe);
}

void EvSet::on_probe_timeout(TimePs /*now*/, EvIndex ev) {
  MRC_ASSERT(ev < entries_.size());
  entries_[ev].probe_successes = 0;
}

void EvSet::set_usable_ports(TimePs /*now*/, PortMask ports) {
  usable_ports_ = ports;
  for (std::size_t port = 0; port < kPortCountMax; ++port) {
    if ((ports & bit_of(static_cast<PortId>(port))) == 0) deferred_[port] = Deferred{};
  }
  deferred_ports_ &= ports;
  refresh_probe_time();
}

// A.11.13: controller.
bool EvSet::deny(TimePs now, std::uint32_t ev_value) {
  const EvIndex ev = find(ev_value);
  if (ev == kNoEv) return false;
  const EvState state = entries_[ev].state;
  if (state == EvState::kDenied) return true;
  if (state == EvState::kAssumedBad) disarm_probe(ev);
  retire(now, ev, EvState::kDenied, EvCause::kController);
  return true;
}

bool EvSet::enable(TimePs now, std::uint32_t ev_value) {
  const EvIndex ev = find(ev_value);
  if (ev == kNoEv) return false;
  if (entries_[ev].state == EvState::kDenied) revive(now, ev, EvState::kGood, EvCause::kController);
  return true;
}

void EvSet::set_state(TimePs now, EvIndex index, EvState state, EvCause cause) {
  Entry& entry = entries_[index];
  MRC_ASSERT(entry.state != state);
  if (entry.slot != kNoSlot) {
    MRC_ASSERT(carries_data(state));
    Slot& slot = slots_[entry.slot];
    count(slot, -1);
    slot.state = state;
    count(slot, 1);
  }
  entry.state = state;
  if (state == EvState::kSkip) {
    ++stats_.to_skip;
    if (!skip_since_.empty()) skip_since_[index] = now;
  }
  if (state == EvState::kAssumedBad) ++stats_.to_assumed_bad;
  // F.2.6: EV events.
  if (events_ != nullptr) events_->emit(ev_state_event(now, qp_, entry.ev.port, entry.ev.value, state, cause));
}

// Takes an EV out of use. The replacement comes from the backup of the same plane (A.11.14).
void EvSet::retire(TimePs now, EvIndex index, EvState state, EvCause cause) {
  Entry& entry = entries_[index];
  const std::uint16_t position = entry.slot;
  if (position != kNoSlot) {
    Slot& slot = slots_[position];
    count(slot, -1);
    slot.ev = kNoEv;
    slot.state = EvState::kAssumedBad;
    entry.slot = kNoSlot;
    --active_count_;
  }
  entry.probe_successes = 0;
  release(index);
  set_state(now, index, state, cause);
  if (position == kNoSlot) return;
  const EvIndex backup = find_backup(entry.ev.port, static_cast<std::uint32_t>(rng_.below(entries_.size())));
  if (backup == kNoEv) return;
  occupy(position, backup);
  ++stats_.replaced;
  if (events_ == nullptr) return;
  events_->emit(ev_replaced_event(now, qp_, entry.ev.port, entry.ev.value, entries_[backup].ev.value, cause));
}

// Brings an EV back: into a vacant position of its plane if there is one, else into the backup set.
void EvSet::revive(TimePs now, EvIndex index, EvState state, EvCause cause) {
  const PortId port = entries_[index].ev.port;
  entries_[index].probe_successes = 0;
  set_state(now, index, state, cause);
  if (counts_[port].usable == counts_[port].positions) return;
  for (std::size_t position = 0; position < slots_.size(); ++position) {
    if (slots_[position].port == port && slots_[position].ev == kNoEv) {
      occupy(static_cast<std::uint16_t>(position), index);
      return;
    }
  }
}

// min_active (A.11.15). Only EVs on ports that are up count as usable: the others carry nothing.
bool EvSet::at_floor(EvIndex index) const {
  const Entry& entry = entries_[index];
  if (entry.slot == kNoSlot || (usable_ports_ & bit_of(entry.ev.port)) == 0) return false;
  std::uint32_t usable = 0;
  for (std::size_t port = 0; port < kPortCountMax; ++port) {
    if ((usable_ports_ & bit_of(static_cast<PortId>(port))) != 0) usable += counts_[port].usable;
  }
  return usable <= config_.min_active && find_backup(entry.ev.port, 0) == kNoEv;
}

bool EvSet::trusted(EvIndex index) const {
  return carries_data(entries_[index].state) && (held_count_ == 0 || !held_[index]);
}

// An EV held by min_active is probed like ASSUMED_BAD ones (X.6.1): if every EV of a set is held, probes alone find
// working ones while the retry timer backs off.
void EvSet::hold(TimePs now, EvIndex index) {
  held_.resize(entries_.size());
  if (held_[index]) return;
  held_[index] = true;
  ++held_count_;
  arm_probe(now + config_.probe_interval, index);
}

// A packet sent over the EV has arrived, or the EV goes out of use.
void EvSet::release(EvIndex index) {
  if (held_count_ == 0 || !held_[index]) [[likely]]
    return;
  held_[index] = false;
  --held_count_;
  disarm_probe(index);
}

// A GOOD backup EV of the port, else a SKIP one, else kNoEv.
EvIndex EvSet::find_backup(PortId port, std::uint32_t start) const {
  EvIndex skipped = kNoEv;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t index = start + i;
    if (index >= entries_.size()) index -= entries_.size();
    const Entry& entry = entries_[index];
    if (entry.ev.port != port || entry.slot != kNoSlot) continue;
    if (entry.state == EvState::kGood) return static_cast<EvIndex>(index);
    if (entry.state == EvState::kSkip && skipped == kNoEv) skipped = static_cast<EvIndex>(index);
  }
  return skipped;
}

void EvSet::occupy(std::uint16_t position, EvIndex index) {
  Entry& entry = entries_[index];
  Slot& slot = slots_[position];
  MRC_ASSERT(slot.ev == kNoEv && entry.slot == kNoSlot);
  MRC_ASSERT(slot.port == entry.ev.port && carries_data(entry.state));
  slot.ev = index;
  slot.state = entry.state;
  entry.slot = position;
  ++active_count_;
  count(slot, 1);
}

void EvSet::count(const Slot& slot, int sign) {
  PortCounts& counts = counts_[slot.port];
  counts.usable = static_cast<std::uint16_t>(counts.usable + sign);
  if (slot.state == EvState::kGood) counts.good = static_cast<std::uint16_t>(counts.good + sign);
  if (slot.state == EvState::kSkip) marked_count_ += static_cast<std::uint32_t>(sign);
  if (counts.usable != 0) {
    ready_ports_ |= bit_of(slot.port);
  } else {
    ready_ports_ &= ~bit_of(slot.port);
  }
}

void EvSet::arm_probe(TimePs due, EvIndex index) {
  MRC_ASSERT(probes_.empty() || probes_.back().due <= due);
  probes_.push_back({due, index});
  refresh_probe_time();
}

void EvSet::disarm_probe(EvIndex index) {
  const auto timer =
      std::find_if(probes_.begin(), probes_.end(), [index](const ProbeTimer& t) { return t.ev == index; });
  MRC_ASSERT(timer != probes_.end());
  probes_.erase(timer);
  refresh_probe_time();
}

void EvSet::refresh_probe_time() {
  next_probe_time_ = kNever;
  for (const ProbeTimer& timer : probes_) {
    if ((usable_ports_ & bit_of(entries_[timer.ev].ev.port)) == 0) continue;
    const bool held = probes_unanswered_ >= probes_unanswered_max();
    next_probe_time_ = held ? std::max(timer.due, probes_since_ + probe_round()) : timer.due;
    return;
  }
}

// X.6.2: a limit per round. If nothing comes back, many QPs may be asking at once, and what they ask may be all that
// either end has time for.
void EvSet::begin_probe_round(TimePs now, TimePs round_trip) {
  const TimePs longest = config_.probe_interval << kSilentRoundsMax;
  const TimePs patience = round_trip == 0 ? longest / 2 : std::clamp(2 * round_trip, config_.probe_interval, longest);
  const bool silent = probes_unanswered_ > 0 && now - heard_at_ >= patience;
  silent_rounds_ = silent ? std::min<std::uint8_t>(silent_rounds_ + 1, kSilentRoundsMax) : 0;
  probes_unanswered_ = 0;
  probes_since_ = now;
}

TimePs EvSet::probe_round() const { return config_.probe_interval << silent_rounds_; }

std::uint32_t EvSet::probes_unanswered_max() const { return silent_rounds_ == 0 ? kProbesUnansweredMax : 1; }

void EvSet::note_heard(TimePs now) {
  heard_at_ = now;
  if (silent_rounds_ == 0) [[likely]]
    return;
  silent_rounds_ = 0;
  refresh_probe_time();
}

void EvSet::rebase(TimePs by) {
  for (ProbeTimer& timer : probes_) timer.due = rebased(timer.due, by);
  for (TimePs& since : skip_since_) since = rebased(since, by);
  probes_since_ = rebased(probes_since_, by);
  heard_at_ = rebased(heard_at_, by);
  refresh_probe_time();
  selector_->rebase(by);
}

}  // namespace openmrc
