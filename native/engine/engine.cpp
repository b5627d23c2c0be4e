// Construction, ports, timers and clock, output queues, getters.
#include "engine/engine.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"
#include "engine/cc/nscc.hpp"
#include "engine/generated/event_records.hpp"
#include "engine/qp/mrc_requester.hpp"
#include "engine/qp/mrc_responder.hpp"
#include "engine/qp/qp.hpp"

namespace openmrc {
namespace {

HashKey secret_of(const EngineConfig& config) {
  if (config.secret != HashKey{}) return config.secret;
  Rng rng = Rng::for_component(config.seed, "secret");
  return {rng.next(), rng.next()};
}

}  // namespace

Engine::Engine(const EngineConfig& config)
    : config_(config),
      secret_(secret_of(config)),
      events_(config.events_max),
      endpoint_(config_, peers_, secret_),
      services_{.config = config_, .memory = memory_, .events = events_, .prober = endpoint_},
      port_stats_(config.ports.size()),
      qpn_rng_(Rng::for_component(config.seed, "qp_numbers")) {
  MRC_ASSERT(!config_.ports.empty() && config_.ports.size() <= kPortCountMax);
  for (std::size_t port = 0; port < config_.ports.size(); ++port) {
    if (config_.ports[port].up) services_.local_ports_up |= PortMask{1} << port;
  }
}

Engine::~Engine() = default;

// --- ports, timers, clock

void Engine::handle_port_state(TimePs now, PortId port, bool up) {
  MRC_ASSERT(port < config_.ports.size());
  const PortMask bit = PortMask{1} << port;
  if (((services_.local_ports_up & bit) != 0) == up) return;
  services_.local_ports_up ^= bit;
  events_.emit(port_state_event(now, port, up, false, 0));
  for (Qp* qp : in_order_) {
    qp->handle_ports(now);
    touch(*qp);
  }
  endpoint_.send_port_status(now, services_.local_ports_up);  // A.13.2
}

void Engine::handle_timer(TimePs now) {
  account_changes();
  endpoint_.handle_timer(now, services_.local_ports_up);
  drain_reverse_probes(now);
  end_urgent_time(now);
  std::vector<Qp*> due;
  while (!timers_.empty() && timers_.top().time <= now) {
    const TimerEntry entry = timers_.top();
    timers_.pop();
    Qp* qp = find(entry.qpn);
    if (qp == nullptr || qp->timer_entry != entry.time) continue;  // superseded by an earlier one, already handled
    qp->timer_entry = kNever;
    due.push_back(qp);
  }
  for (Qp* qp : due) {
    if (qp->next_timer() <= now) qp->handle_timer(now);
    touch(*qp);
  }
}

// Every stored instant has to move: the simulated pairs compare runs with and without.
void Engine::handle_clock_rebase(TimePs by) {
  MRC_ASSERT(by > 0 && by % kClockRebase == 0);
  account_changes();
  events_.rebase(by);
  endpoint_.rebase(by);
  urgent_.rebase(by);
  services_.plane_traffic.rebase(by);
  decltype(timers_) moved;
  for (; !timers_.empty(); timers_.pop()) moved.push({rebased(timers_.top().time, by), timers_.top().qpn});
  timers_ = std::move(moved);
  for (Qp* qp : in_order_) qp->rebase(by);
}

TimePs Engine::next_timer() const {
  account_changes();
  const TimePs next = std::min(endpoint_.next_timer(), services_.ordinary_data_waits ? urgent_.end() : kNever);
  return timers_.empty() ? next : std::min(next, timers_.top().time);
}

void Engine::touch(Qp& qp) {
  if (!qp.control_listed) {
    qp.control_listed = true;
    control_ready_.push_back(&qp);
  }
  if (!qp.data_listed && qp.may_build_data()) {
    qp.data_listed = true;
    (qp.urgent() ? urgent_ready_ : data_ready_).push_back(&qp);
  }
  note_change(qp);
}

void Engine::note_change(Qp& qp) {
  if (qp.change_noted) return;
  qp.change_noted = true;
  changed_.push_back(&qp);
}

void Engine::account_changes() const {
  for (Qp* qp : changed_) {
    qp->change_noted = false;
    count(*qp, qp->under_way());
    count_backlog(*qp, !qp->urgent() && qp->has_backlog());
    arm(*qp);
  }
  changed_.clear();
}

// Deadlines mostly move later while traffic flows. An entry that is too early costs one check when it fires, and then
// moves; only an earlier deadline needs an entry of its own.
void Engine::arm(Qp& qp) const {
  const TimePs next = qp.next_timer();
  if (next >= qp.timer_entry) return;
  qp.timer_entry = next;
  timers_.push({next, qp.context().qpn});
}

void Engine::count(Qp& qp, UnderWay under_way) const {
  if (qp.counted == under_way) return;
  const auto add = [this](UnderWay what, std::uint32_t by) {
    if (what == UnderWay::kStream) streams_ += by;
    if (what == UnderWay::kEnd) ends_ += by;
  };
  add(qp.counted, ~0U);
  add(under_way, 1);
  qp.counted = under_way;
}

void Engine::count_backlog(Qp& qp, bool backlog) const {
  if (qp.backlog_counted == backlog) return;
  backlogs_ += backlog ? 1 : ~0U;
  qp.backlog_counted = backlog;
}

// --- queues for the driver

CompletionQueue* Engine::find_cq(CqId cq) {
  const auto found = cqs_.find(cq);
  return found == cqs_.end() ? nullptr : found->second.get();
}
std::size_t Engine::poll_completions(CqId cq, std::span<Completion> out) {
  CompletionQueue* found = find_cq(cq);
  return found == nullptr ? 0 : found->poll(out);
}
bool Engine::poll_signaled_cq(CqId& cq) {
  if (signaled_cqs_.empty()) return false;
  cq = signaled_cqs_.front();
  signaled_cqs_.pop_front();
  cqs_.at(cq)->signal_taken();
  return true;
}
std::size_t Engine::poll_events(std::span<Event> out) { return events_.poll(out); }
bool Engine::poll_endpoint_result(EndpointResult& result) {
  if (endpoint_results_.empty()) return false;
  result = endpoint_results_.front();
  endpoint_results_.pop_front();
  return true;
}

// --- nouns

TimePs Engine::patience() const {
  account_changes();
  if (ends_ > 0) return 0;
  TimePs least = kNever;
  std::uint32_t left = streams_;
  for (auto qp = in_order_.begin(); left > 0 && qp != in_order_.end(); ++qp) {
    if ((*qp)->counted != UnderWay::kStream) continue;
    least = std::min(least, (*qp)->requester()->patience());
    --left;
  }
  return least;
}

QpState Engine::qp_state(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr ? QpState::kReset : target->context().state;
}
QpErrorCause Engine::qp_error(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr ? QpErrorCause::kNone : target->context().error;
}
TimePs Engine::qp_heard(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr ? kLongAgo : target->context().heard;
}
TimePs Engine::qp_answered(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr ? kLongAgo : target->context().answered;
}
bool Engine::qp_stats(std::uint32_t qp, QpStats& stats) const {
  const Qp* target = find(qp);
  if (target == nullptr) return false;
  stats = target->context().stats;
  if (target->requester() != nullptr) target->requester()->fill(stats);
  return true;
}
std::uint64_t Engine::unsent_packets(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr || target->requester() == nullptr ? 0 : target->requester()->unsent_packets();
}
std::uint64_t Engine::in_flight_packets(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr || target->requester() == nullptr ? 0 : target->requester()->in_flight_packets();
}
bool Engine::cc_stats(std::uint32_t qp, CcStats& stats) const {
  const Qp* target = find(qp);
  if (target == nullptr || target->context().cc == nullptr) return false;
  stats = target->context().cc->stats();
  return true;
}
bool Engine::plane_stats(std::uint32_t qp, PortId plane, PlaneStats& stats) const {
  const Qp* target = find(qp);
  return target != nullptr && target->requester() != nullptr && target->requester()->fill_plane(plane, stats);
}
const EvSet* Engine::ev_set(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr ? nullptr : target->context().ev_set.get();
}
std::uint32_t Engine::sends_outstanding(std::uint32_t qp) const {
  const Qp* target = find(qp);
  return target == nullptr || target->requester() == nullptr ? 0 : target->requester()->outstanding();
}
PortMask Engine::ports_up() const { return services_.local_ports_up; }
PortMask Engine::peer_ports_up(PeerId peer) const {
  const Peer* target = peers_.find(peer);
  return target == nullptr ? 0 : target->ports_up;
}
std::size_t Engine::peer_count() const { return peers_.size(); }
const PortStats& Engine::port_stats(PortId port) const { return port_stats_.at(port); }
DropStats Engine::drops() const {
  DropStats drops = drops_;
  drops.unknown_peer = endpoint_.unknown_peer();
  drops.wrong_nonce = endpoint_.wrong_nonce();
  drops.contradictory_port_status = endpoint_.contradictory();
  drops.unanswered_probes = endpoint_.unanswered();
  drops.events_dropped = events_.dropped();
  return drops;
}
const EngineConfig& Engine::config() const { return config_; }

// Summed on request, so that packets pay for no second set of counters.
QpTotals Engine::qp_totals() const {
  QpTotals totals = retired_;
  for (const Qp* qp : in_order_) add(totals, qp->context().stats);
  return totals;
}

void Engine::hot_memory(HotMemory& hot) const {
  hot.push_back(bytes_of(*this));
  hot.push_back(bytes_of(port_stats_));
  index_.hot_memory(hot);
  for (const Qp* qp : in_order_) qp->hot_memory(hot);
}

std::vector<QpFootprint> qp_footprint() {
  return {{"Qp and context", sizeof(Qp)},
          {"MRC requester", sizeof(MrcRequester)},
          {"MRC responder", sizeof(MrcResponder)},
          {"congestion control", sizeof(Nscc)}};
}

}  // namespace openmrc
