// Loss of packets, from the arrival of later ones and from time (A.9). On planes that do not mark, `PlaneSet` detects losses.
#include <algorithm>

#include "engine/qp/mrc_requester.hpp"

namespace openmrc {

// A packet is lost if a packet sent later has arrived and more time has passed than the slowest path takes (A.9.5);
// absence from a bitmap is no evidence of loss (A.5.2). If congestion does not lose packets silently, a path may have
// become slower than ever, so stronger evidence is required.
void MrcRequester::detect_losses(TimePs now) {
  const TimePs overdue = std::min(now - rtt_.loss_delay(), latest_delivered_ - 1);
  const TimePs dead = now - rtt_.dead_path_delay();
  Psn psn = window_.oldest_or_end();
  while (psn < window_.end() && window_.record(psn).sent <= overdue) {
    const Psn next = window_.next_in_flight(psn);
    if (window_.record(psn).sent <= dead || path_lost(psn)) declare_lost(now, psn, EvFeedback::kLost);
    psn = next;
  }
}

// A path preserves order: true if a packet sent later on the same path has arrived, or the path is known to be bad.
bool MrcRequester::path_lost(Psn psn) {
  const SendRecord& missing = window_.record(psn);
  const EvState state = context_.ev_set->state(missing.ev);
  if (state == EvState::kAssumedBad || state == EvState::kDenied) return true;
  for (Psn later = psn + 1; later < window_.end(); ++later) {
    const SendRecord& record = window_.record(later);
    const bool arrived = record.state == SendState::kAcked && record.transmissions == 1;
    if (arrived && record.ev == missing.ev && record.sent > missing.sent) return true;
  }
  return false;
}

void MrcRequester::declare_lost(TimePs now, Psn psn, EvFeedback feedback) {
  const SendRecord record = window_.record(psn);
  window_.leave_flight(psn, SendState::kLost);
  ++context_.stats.losses_inferred;
  if (planes_ != nullptr) {
    planes_->withdrawn(context_.ev_set->ev(record.ev).port, record.nominal_bytes);
    return;
  }
  if (!record.path_blameless) context_.ev_set->on_feedback(now, record.ev, feedback);
  context_.cc->on_loss(now, record.nominal_bytes, window_.in_flight_bytes());
}

}  // namespace openmrc
