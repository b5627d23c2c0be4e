// Construction of an EV set and choice of the EV of a packet; ev_states.cpp has the state machine.
#include "engine/paths/ev_set.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/assert.hpp"

namespace openmrc {
namespace {

constexpr PortMask bit_of(PortId port) { return PortMask{1} << port; }

}  // namespace

// State of the search for one packet's EV.
struct EvSet::Search {
  TimePs now;
  PortMask eligible;  // ports that are free, up and have a usable EV
  EvIndex avoid;
  EvIndex reset = kNoEv;  // the one SKIP EV that this search has reset
  EvIndex found = kNoEv;

  bool takes(const Slot& slot) const { return slot.state == EvState::kGood && slot.ev != avoid && slot.ev != reset; }
};

bool EvSet::valid_universe(std::span<const Ev> universe) {
  if (universe.size() > kEvCountMax) return false;
  std::vector<std::uint32_t> values;
  values.reserve(universe.size());
  for (const Ev& ev : universe) {
    if (ev.port >= kPortCountMax) return false;
    values.push_back(ev.value);
  }
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

EvSet::EvSet(std::span<const Ev> universe, const EvSetConfig& config, std::unique_ptr<EvSelector> selector, Rng rng,
             EventSink* events, std::uint32_t qp)
    : selector_(std::move(selector)), events_(events), rng_(rng), config_(config), qp_(qp) {
  MRC_ASSERT(selector_ != nullptr);
  MRC_ASSERT(valid_universe(universe));
  config_.probe_successes = std::max<std::uint8_t>(config_.probe_successes, 1);
  config_.probe_interval = std::max<TimePs>(config_.probe_interval, kPsPerUs);
  pins_ = selector_->pins();
  entries_.resize(universe.size());
  for (std::size_t i = 0; i < universe.size(); ++i) {
    entries_[i].ev = universe[i];
    PortCounts& port = counts_[universe[i].port];
    if (port.first == kNoEv) port.first = static_cast<EvIndex>(i);
    port.end = static_cast<EvIndex>(i + 1);
  }
  if (config_.skip_lapse > 0) skip_since_.resize(universe.size());
  build_index();
  draw_active();
}

// The same number of EVs on each plane, a random subset inside a plane (A.11.1).
void EvSet::draw_active() {
  std::array<std::vector<EvIndex>, kPortCountMax> of_port;
  for (std::size_t i = 0; i < entries_.size(); ++i) of_port[entries_[i].ev.port].push_back(static_cast<EvIndex>(i));
  std::vector<PortId> ports;
  std::size_t per_port = config_.active_per_port;
  for (std::size_t port = 0; port < kPortCountMax; ++port) {
    if (of_port[port].empty()) continue;
    ports.push_back(static_cast<PortId>(port));
    per_port = std::min(per_port, of_port[port].size());
  }
  for (const PortId port : ports) {
    auto& candidates = of_port[port];
    for (std::size_t i = 0; i < per_port; ++i) {
      std::swap(candidates[i], candidates[i + rng_.below(candidates.size() - i)]);
    }
    counts_[port].positions = static_cast<std::uint16_t>(per_port);
  }
  slots_.resize(per_port * ports.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const PortId port = ports[i % ports.size()];
    slots_[i].port = port;
    occupy(static_cast<std::uint16_t>(i), of_port[port][i / ports.size()]);
  }
}

void EvSet::build_index() {
  const std::size_t bucket_count = std::bit_ceil(std::max<std::size_t>(2, 2 * entries_.size()));
  bucket_shift_ = static_cast<std::uint8_t>(32 - std::countr_zero(bucket_count));
  buckets_.assign(bucket_count, kNoEv);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t bucket = (entries_[i].ev.value * 0x9E3779B1U) >> bucket_shift_;
    while (buckets_[bucket] != kNoEv) bucket = (bucket + 1) & (bucket_count - 1);
    buckets_[bucket] = static_cast<EvIndex>(i);
  }
}

EvIndex EvSet::find(std::uint32_t ev_value) const {
  std::size_t bucket = (ev_value * 0x9E3779B1U) >> bucket_shift_;
  // Terminates: at least half of the buckets are free.
  while (buckets_[bucket] != kNoEv) {
    if (entries_[buckets_[bucket]].ev.value == ev_value) return buckets_[bucket];
    bucket = (bucket + 1) & (buckets_.size() - 1);
  }
  return kNoEv;
}

// Universes mostly list one port after another: a scan of all EVs would first pass those of the other ports.
EvSet::OfPort EvSet::find_of_port(PortId port, EvIndex start) const {
  const PortCounts& own = counts_[port];
  OfPort found;
  if (own.first == kNoEv) return found;
  if (start < own.first || start >= own.end) start = own.first;
  EvIndex index = start;
  do {
    const Entry& entry = entries_[index];
    if (entry.ev.port == port && entry.state != EvState::kDenied) {
      if (trusted(index)) return {.trusted = index};
      EvIndex& first = entry.state == EvState::kAssumedBad ? found.bad : found.held;
      if (first == kNoEv) first = index;
    }
    if (++index == own.end) index = own.first;
  } while (index != start);
  return found;
}

// A.11.3: chosen at transmission.
EvIndex EvSet::next(TimePs now, PortMask free_ports, EvIndex avoid) {
  const PortMask usable = usable_ports_ & ready_ports_;
  Search search{.now = now, .eligible = free_ports & usable, .avoid = avoid};
  if (search.eligible == 0) return kNoEv;
  if (pins_) return next_pinned(now, free_ports);
  if (avoid != kNoEv && only_usable(search.eligible, avoid)) [[unlikely]] {
    if (entries_[avoid].state == EvState::kSkip) set_state(now, avoid, EvState::kGood, EvCause::kCursor);
    return avoid;
  }
  if ((deferred_ports_ & search.eligible) != 0 && try_deferred(search)) return search.found;

  const PortMask busy = usable & ~free_ports;
  const auto positions = static_cast<std::uint32_t>(slots_.size());
  for (std::uint32_t tries = 0; tries < 2 * positions; ++tries) {
    const std::uint32_t position = selector_->next(positions);
    MRC_ASSERT(position < positions);
    const Slot& slot = slots_[position];
    if ((search.eligible & bit_of(slot.port)) != 0) {
      if (search.takes(slot)) [[likely]]
        return slot.ev;
      if (try_slot(search, slot)) return search.found;
    } else if ((busy & bit_of(slot.port)) != 0) {
      defer(position);
    }
  }
  return search_rest(search);
}

// A selector that is not a permutation may skip positions: visit each position once, from a random start.
EvIndex EvSet::search_rest(Search& search) {
  const std::size_t start = rng_.below(slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[(start + i) % slots_.size()];
    if ((search.eligible & bit_of(slot.port)) == 0) continue;
    if (search.takes(slot)) return slot.ev;
    if (try_slot(search, slot)) return search.found;
  }
  return search.reset;
}

EvIndex EvSet::next_pinned(TimePs now, PortMask free_ports) {
  const auto positions = static_cast<std::uint32_t>(slots_.size());
  for (std::uint32_t tries = 0; tries < 2 * positions; ++tries) {
    const std::uint32_t position = selector_->next(positions);
    MRC_ASSERT(position < positions);
    const Slot& slot = slots_[position];
    if (slot.ev == kNoEv || (usable_ports_ & bit_of(slot.port)) == 0) {
      selector_->leave(position);
      continue;
    }
    if ((free_ports & bit_of(slot.port)) == 0) return kNoEv;
    // The rotation has one position, so the EV that it resets is the only one available.
    if (slot.state == EvState::kSkip) set_state(now, slot.ev, EvState::kGood, EvCause::kCursor);
    return slot.ev;
  }
  return kNoEv;
}

// Handles a position on an eligible port whose EV `takes` refused. The first SKIP EV passed is reset to GOOD but not
// used for this packet, one reset per packet (A.11.7), unless the rotation finds nothing but SKIP (A.11.8). The counts
// show in advance whether it would, so the search need not complete the rotation. Positions on ineligible ports do not
// count as passed.
bool EvSet::try_slot(Search& search, const Slot& slot) {
  if (slot.state != EvState::kSkip || slot.ev == search.avoid) return false;
  const EvIndex index = slot.ev;
  if (lapsed(search.now, index)) {
    set_state(search.now, index, EvState::kGood, EvCause::kLapsed);
    search.found = index;
    return true;
  }
  if (half_marked()) {
    set_state(search.now, index, EvState::kGood, EvCause::kCursor);
    search.found = index;
    return true;
  }
  if (search.reset != kNoEv) return false;
  const bool nothing_else = !good_left(search.eligible, search.avoid);
  search.reset = index;
  set_state(search.now, index, EvState::kGood, EvCause::kCursor);
  if (nothing_else) search.found = index;
  return nothing_else;
}

// Turns that eligible ports missed while they were busy come first, so that a wrap still uses every EV once if a driver
// offers ports one at a time.
bool EvSet::try_deferred(Search& search) {
  for (;;) {
    const PortMask ports = deferred_ports_ & search.eligible;
    if (ports == 0) return false;
    const PortMask from_cursor = ports & ~(bit_of(deferred_cursor_) - 1);
    const auto port = static_cast<PortId>(std::countr_zero(from_cursor != 0 ? from_cursor : ports));
    Deferred& missed = deferred_[port];
    const Slot& slot = slots_[missed.slots[missed.first]];
    missed.first = static_cast<std::uint8_t>((missed.first + 1) % kDeferredMax);
    if (--missed.count == 0) deferred_ports_ &= ~bit_of(port);
    deferred_cursor_ = static_cast<std::uint8_t>((port + 1) % kPortCountMax);
    if (search.takes(slot)) {
      search.found = slot.ev;
      return true;
    }
    if (try_slot(search, slot)) return true;
  }
}

void EvSet::defer(std::uint32_t position) {
  const PortId port = slots_[position].port;
  Deferred& missed = deferred_[port];
  // A port that stays busy loses these turns for good: its link is slower than the others.
  if (missed.count == kDeferredMax) return;
  missed.slots[(missed.first + missed.count) % kDeferredMax] = static_cast<std::uint16_t>(position);
  ++missed.count;
  deferred_ports_ |= bit_of(port);
}

bool EvSet::only_usable(PortMask ports, EvIndex index) const {
  const Entry& entry = entries_[index];
  if (entry.slot == kNoSlot || (ports & bit_of(entry.ev.port)) == 0) return false;
  if ((ports & ~bit_of(entry.ev.port)) != 0) return false;  // an eligible port has a usable EV
  return counts_[entry.ev.port].usable == 1;
}

// True if `ports` have a GOOD active EV besides `avoid`.
bool EvSet::good_left(PortMask ports, EvIndex avoid) const {
  std::uint32_t good = 0;
  for (PortMask rest = ports; rest != 0; rest &= rest - 1) {
    good += counts_[static_cast<std::size_t>(std::countr_zero(rest))].good;
  }
  if (avoid != kNoEv) {
    const Entry& entry = entries_[avoid];
    const bool counted = entry.slot != kNoSlot && entry.state == EvState::kGood && (ports & bit_of(entry.ev.port)) != 0;
    if (counted) --good;
  }
  return good != 0;
}

// A.11.9: expiry of SKIP.
bool EvSet::lapsed(TimePs now, EvIndex index) const {
  return config_.skip_lapse > 0 && now - skip_since_[index] >= config_.skip_lapse;
}

// Marks on most paths carry no information about single paths (A.11.16).
bool EvSet::half_marked() const { return config_.half_marked_rule && 2 * marked_count_ > active_count_; }

void EvSet::hot_memory(HotMemory& memory) const {
  memory.push_back(bytes_of(*this));
  memory.push_back(bytes_of(entries_));
  memory.push_back(bytes_of(slots_));
  memory.push_back(bytes_of(buckets_));
}

std::size_t EvSet::memory_bytes() const {
  return sizeof(*this) + entries_.capacity() * sizeof(Entry) + slots_.capacity() * sizeof(Slot) +
         buckets_.capacity() * sizeof(std::uint16_t) + probes_.capacity() * sizeof(ProbeTimer) +
         skip_since_.capacity() * sizeof(TimePs) + held_.capacity() / 8;
}

}  // namespace openmrc
