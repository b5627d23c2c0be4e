#include "netsim/fabric.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"
#include "netsim/arithmetic_plane.hpp"
#include "netsim/queued_plane.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::size_t kNoticesMax = 1U << 16;  // the oldest unread notices are dropped

std::unique_ptr<PlaneModel> make_plane(const FabricConfig& config, const RoutingTables& tables, std::uint32_t index) {
  if (!config.queued) {
    const PlaneConfig plane{config.shape, config.ports_of(index), config.packets_max, config.delivery_lead, config.seed,
                            &tables};
    return std::make_unique<ArithmeticPlane>(plane, index);
  }
  QueuedPlaneConfig plane;
  plane.shape = config.shape;
  plane.ports = config.ports_of(index);
  plane.buffer_bytes = config.queued->buffer_bytes;
  plane.alpha_permille = config.queued->alpha_permille;
  plane.pfc = config.queued->pfc;
  plane.pfc_xoff_bytes = config.queued->pfc_xoff_bytes;
  plane.pfc_xon_bytes = config.queued->pfc_xon_bytes;
  plane.delivery_lead = config.delivery_lead;
  plane.seed = config.seed;
  plane.tables = &tables;
  return std::make_unique<QueuedPlane>(plane, index);
}

}  // namespace

Fabric::Fabric(const FabricConfig& config)
    : shape_(config.shape),
      reconvergence_(config.reconvergence),
      routing_(config.shape),
      link_changes_(config.shape.planes),
      carrier_(std::size_t{config.shape.planes} * config.shape.hosts, true) {
  MRC_ASSERT(shape_.planes > 0 && shape_.hosts > 0 && shape_.hosts_per_t0 > 0 && shape_.t1s > 0);
  MRC_ASSERT(config.unlike.empty() || config.unlike.size() == shape_.planes);
  planes_.reserve(shape_.planes);
  for (std::uint32_t index = 0; index < shape_.planes; ++index) planes_.push_back(make_plane(config, routing_, index));
}

void Fabric::enter(TimePs when, std::uint32_t plane, const Packet& packet, Edge& edge) {
  MRC_ASSERT(plane < planes_.size());
  planes_[plane]->enter(when, packet, edge);
}

void Fabric::run_until(TimePs until, Edge& edge) {
  for (TimePs change = next_fault_change(); change <= until; change = next_fault_change()) {
    run_planes(change, edge);
    change_faults(change);
  }
  run_planes(until, edge);
}

void Fabric::run_planes(TimePs until, Edge& edge) {
  for (auto& plane : planes_) plane->run_until(until, edge);
}

TimePs Fabric::next_event() const {
  TimePs next = next_fault_change();
  for (const auto& plane : planes_) next = std::min(next, plane->next_event());
  return next;
}

TimePs Fabric::next_fault_change() const {
  TimePs next = kNever;
  for (const Fault& fault : faults_) next = std::min(next, fault.next_change);
  for (const Repair& repair : repairs_) next = std::min(next, repair.when);
  if (!convergences_.empty()) next = std::min(next, convergences_.begin()->first);
  return next;
}

std::uint32_t Fabric::add_fault(const FaultSpec& spec) {
  MRC_ASSERT(exists(spec.target, shape_));
  Fault fault;
  fault.id = ++faults_added_;
  fault.spec = spec;
  fault.next_change = spec.start;
  fault.end = spec.duration == kNever ? kNever : spec.start + spec.duration;
  faults_.push_back(fault);
  return fault.id;
}

void Fabric::change_faults(TimePs now) {
  begin_and_end(now);
  do_repairs(now);
  converge(now);
}

void Fabric::begin_and_end(TimePs now) {
  for (std::size_t i = 0; i < faults_.size();) {
    Fault& fault = faults_[i];
    if (fault.next_change > now) {
      ++i;
      continue;
    }
    if (now >= fault.end) {
      if (fault.on) switch_fault(now, fault, false);
      faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    switch_fault(now, fault, !fault.on);
    const TimePs next = fault.spec.period > 0 ? now + std::max<TimePs>(fault.spec.period / 2, 1) : kNever;
    fault.next_change = std::min(next, fault.end);
    ++i;
  }
}

void Fabric::switch_fault(TimePs now, Fault& fault, bool on) {
  fault.on = on;
  Notice notice;
  notice.time = now;
  notice.kind = on ? NoticeKind::kFaultBegins : NoticeKind::kFaultEnds;
  notice.fault = fault.id;
  notices_.push_back(notice);
  refresh_links(now, fault.spec.target);
}

bool Fabric::repair(TimePs now, std::uint32_t id) {
  const auto found = std::find_if(faults_.begin(), faults_.end(), [id](const Fault& fault) { return fault.id == id; });
  if (found == faults_.end()) return false;
  const Fault fault = *found;
  faults_.erase(found);
  if (fault.on) refresh_links(now, fault.spec.target);
  Notice notice;
  notice.time = now;
  notice.kind = NoticeKind::kFaultRemoved;
  notice.fault = id;
  notices_.push_back(notice);
  return true;
}

std::uint32_t Fabric::repair_all(TimePs now, const FaultTarget& target) {
  std::vector<std::uint32_t> ids;
  for (const Fault& fault : faults_) {
    if (contains(target, fault.spec.target, shape_)) ids.push_back(fault.id);
  }
  for (const std::uint32_t id : ids) repair(now, id);
  return static_cast<std::uint32_t>(ids.size());
}

void Fabric::add_repair(TimePs when, std::uint32_t fault, const FaultTarget& target) {
  repairs_.push_back({.when = when, .fault = fault, .target = target});
}

void Fabric::do_repairs(TimePs now) {
  for (std::size_t i = 0; i < repairs_.size();) {
    if (repairs_[i].when > now) {
      ++i;
      continue;
    }
    const Repair due = repairs_[i];
    repairs_.erase(repairs_.begin() + static_cast<std::ptrdiff_t>(i));
    if (due.fault != 0) {
      repair(now, due.fault);
    } else {
      repair_all(now, due.target);
    }
  }
}

// Recomputes the effects on every link of the target; faults change rarely, so packets bear none of this cost.
void Fabric::refresh_links(TimePs now, const FaultTarget& target) {
  const std::vector<LinkId> links = candidates(target, shape_);
  for (std::uint32_t index = 0; index < shape_.planes; ++index) {
    if (target.plane != kAnywhere && target.plane != index) continue;
    for (const LinkId link : links) {
      const LinkEnds ends = ends_of(shape_, link);
      Effects all;
      for (const Fault& fault : faults_) {
        const FaultTarget& where = fault.spec.target;
        if (!fault.on || (where.plane != kAnywhere && where.plane != index)) continue;
        if (covers(where, fault.spec.effects, ends)) all = combined(all, fault.spec.effects);
      }
      planes_[index]->set_effects(now, link, all);
      note_route(now, index, link, all);
      note_carrier(now, index, link);
    }
  }
  while (notices_.size() > kNoticesMax) notices_.pop_front();
  while (changed_uplinks_.size() > kNoticesMax) changed_uplinks_.pop_front();
}

void Fabric::note_carrier(TimePs now, std::uint32_t index, LinkId changed) {
  const LinkEnds ends = ends_of(shape_, changed);
  if (ends.host == kAnywhere) return;
  if (ends.kind == LinkKind::kNicUp) changed_uplinks_.push_back({index, ends.host});
  const PlaneModel& where = *planes_[index];
  const bool up = !where.effects(shape_.nic_up(ends.host)).down && !where.effects(shape_.nic_down(ends.host)).down;
  const std::size_t slot = std::size_t{index} * shape_.hosts + ends.host;
  if (carrier_[slot] == up) return;
  carrier_[slot] = up;
  Notice notice;
  notice.time = now;
  notice.kind = NoticeKind::kCarrier;
  notice.host = ends.host;
  notice.plane = index;
  notice.up = up;
  notices_.push_back(notice);
}

void Fabric::note_route(TimePs now, std::uint32_t index, LinkId changed, const Effects& effects) {
  if (reconvergence_.down == kNever && reconvergence_.blackhole == kNever) return;
  const auto health = effects.down        ? LinkHealth::kDown
                      : effects.blackhole ? LinkHealth::kBlackhole
                                          : LinkHealth::kAlive;
  auto& known = link_changes_[index];
  const auto found = known.find(changed);
  if ((found == known.end() ? LinkHealth::kAlive : found->second.health) == health) return;
  known[changed] = {health, ++changes_};
  const TimePs either = std::min(reconvergence_.down, reconvergence_.blackhole);
  const TimePs time = health == LinkHealth::kDown        ? reconvergence_.down
                      : health == LinkHealth::kBlackhole ? reconvergence_.blackhole
                                                         : either;
  if (time < kNever - now) convergences_.insert({now + time, {.plane = index, .link = changed, .change = changes_}});
}

void Fabric::converge(TimePs now) {
  while (!convergences_.empty() && convergences_.begin()->first <= now) {
    const Convergence due = convergences_.begin()->second;
    convergences_.erase(convergences_.begin());
    const LinkChange& state = link_changes_[due.plane].at(due.link);
    if (state.number == due.change) routing_.set(due.plane, due.link, state.health != LinkHealth::kAlive);
  }
}

bool Fabric::poll_notice(Notice& notice) {
  if (notices_.empty()) return false;
  notice = notices_.front();
  notices_.pop_front();
  return true;
}

bool Fabric::poll_changed_uplink(ChangedUplink& changed) {
  if (changed_uplinks_.empty()) return false;
  changed = changed_uplinks_.front();
  changed_uplinks_.pop_front();
  return true;
}

bool Fabric::carrier(std::uint32_t host, std::uint32_t plane) const {
  return carrier_[std::size_t{plane} * shape_.hosts + host];
}

std::vector<std::uint32_t> Fabric::active_faults() const {
  std::vector<std::uint32_t> ids;
  for (const Fault& fault : faults_) {
    if (fault.on) ids.push_back(fault.id);
  }
  return ids;
}

std::uint32_t Fabric::packets_inside() const {
  std::uint32_t inside = 0;
  for (const auto& plane : planes_) inside += plane->packets_inside();
  return inside;
}

}  // namespace openmrc::netsim
