#include "engine/qp/rc_requester.hpp"
#include "engine/generated/event_records.hpp"

#include <algorithm>

namespace openmrc {
namespace {

constexpr std::uint32_t kTimeoutsPerPlane = 2;

bool is_write(WrOpcode opcode) { return opcode == WrOpcode::kWrite || opcode == WrOpcode::kWriteImm; }
bool has_immediate(WrOpcode opcode) { return opcode == WrOpcode::kWriteImm || opcode == WrOpcode::kSendImm; }

std::uint32_t payload_at(const Wqe& wqe, Psn psn, std::uint32_t mtu) {
  if (wqe.result != nullptr) return 0;
  const std::uint64_t offset = (psn - wqe.first_psn) * mtu;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, wqe.wr.length_bytes - offset));
}

// Bytes behind the BTH: packets of a message differ in them.
std::uint32_t header_bytes(const Wqe& wqe, Psn psn) {
  if (wqe.wr.opcode == WrOpcode::kRead) return wire::kRethBytes;
  if (wqe.result != nullptr) return wire::kAtomicEthBytes;
  const bool with_reth = psn == wqe.first_psn && is_write(wqe.wr.opcode);
  const bool with_imm = psn + 1 == wqe.end_psn() && has_immediate(wqe.wr.opcode);
  return static_cast<std::uint32_t>((with_reth ? wire::kRethBytes : 0) + (with_imm ? wire::kImmDtBytes : 0));
}

// The opcodes of SEND and WRITE have the same order.
wire::Opcode rc_opcode(WrOpcode opcode, bool first, bool last) {
  std::uint8_t step = first ? 0 : 1;
  if (last) step = first ? 4 : 2;
  if (last && has_immediate(opcode)) ++step;
  const auto base = is_write(opcode) ? wire::Opcode::kRcWriteFirst : wire::Opcode::kRcSendFirst;
  return static_cast<wire::Opcode>(static_cast<std::uint8_t>(base) + step);
}

}  // namespace

void RcRequester::start(TimePs now, const QpToRts& attributes) {
  queue_.start(attributes.sq_psn);
  first_ = next_ = end_ = first_psn(attributes.sq_psn);
  retry_.start(attributes);
  window_packets_ = std::max(1U, attributes.rc_window_packets);
  reads_max_ = attributes.rc_reads_max;
  rnr_retries_ = attributes.rc_rnr_retries;
  timer_base_ = now;
  // A single path cannot distinguish trimming from loss: switches forward these packets whole or drop them.
  data_class_ = TrafficClass::kNoTrim;
}

// While nothing is in flight and a busy port delays the next packet, the peer owes no answer.
TimePs RcRequester::next_timer() const {
  if (queue_.empty()) return kNever;
  if (receiver_not_ready_) return receiver_ready_;
  const bool waits_for_port = next_ == first_ && ready() && paths_.usable(context_.usable_ports());
  return timer_base_ + retry_.wait(rtt_.high()) + (waits_for_port ? kPortPatience : 0);
}

void RcRequester::rebase(TimePs by) {
  timed_sent_ = rebased(timed_sent_, by);
  timer_base_ = rebased(timer_base_, by);
  receiver_ready_ = rebased(receiver_ready_, by);
}

void RcRequester::handle_timer(TimePs now) {
  if (next_timer() > now) return;
  if (receiver_not_ready_) {
    receiver_not_ready_ = false;
    timer_base_ = now;
    return;
  }
  ++context_.stats.timeouts;
  if (!retry_.expired()) {
    context_.fail(QpErrorCause::kRetryExceeded);
    return;
  }
  context_.services.events.emit(retry_timeout_event(now, context_.qpn, retry_.consecutive()));
  // One timeout may be a lost packet.
  if ((retry_.consecutive() >= kTimeoutsPerPlane || retry_.last()) && paths_.leave(context_.usable_ports())) {
    ++context_.stats.plane_moves;
  }
  go_back();
  timer_base_ = now;
}

// X.8.11: what is in flight on a dead plane is lost.
void RcRequester::handle_ports(TimePs now) {
  if (paths_.usable(context_.usable_ports()) || !paths_.leave(context_.usable_ports())) return;
  ++context_.stats.plane_moves;
  if (receiver_not_ready_) return;
  go_back();
  timer_base_ = now;
}

void RcRequester::go_back() {
  next_ = first_;
  timed_ = 0;
}

bool RcRequester::ready() const {
  if (receiver_not_ready_ || next_ >= queue_.end_psn() || next_ - first_ >= window_packets_) return false;
  const Wqe& wqe = queue_.at(next_);
  if (first_ < wqe.fence_psn) return false;  // X.8.9
  if (wqe.result == nullptr) return true;
  if (!requests_.empty() && next_ < requests_.back()) return true;  // a repetition
  // X.8.6. A request for less than a quarter of the window waits: answers free it packet by packet.
  const Psn least = std::min<Psn>(wqe.end_psn() - next_, std::max(1U, window_packets_ / 4));
  return requests_.size() < reads_max_ && room() >= least;
}

BuildResult RcRequester::build(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst) {
  if (!ready() || !paths_.usable(context_.usable_ports())) return BuildResult::kNothing;
  if (!paths_.usable(free_ports)) return BuildResult::kPortBusy;
  BurstBuilder builder = burst_to_peer(burst, context_, paths_.current().port, paths_.current().value, data_class_);
  if (next_ == first_) timer_base_ = now;
  std::uint32_t first_bytes = 0;
  while (burst.count < burst_max && ready()) {
    const Wqe& wqe = queue_.at(next_);
    const std::uint32_t payload = payload_at(wqe, next_, context_.payload_mtu);
    const std::uint32_t bytes = payload + header_bytes(wqe, next_);
    if (burst.count > 0 && bytes > first_bytes) break;
    if (burst.count == 0) first_bytes = bytes;
    if (timed_ == 0 && next_ == end_) {
      timed_ = next_;
      timed_sent_ = now;
    }
    if (wqe.result == nullptr) {
      add(builder, wqe, payload);
    } else {
      add_request(builder, wqe);
    }
    if (bytes < first_bytes) break;
  }
  return BuildResult::kBuilt;
}

void RcRequester::add(BurstBuilder& builder, const Wqe& wqe, std::uint32_t payload) {
  const std::uint64_t offset = (next_ - wqe.first_psn) * context_.payload_mtu;
  const bool last = next_ + 1 == wqe.end_psn();
  wire::DataHeaders packet;
  packet.bth = bth_to_peer(context_, rc_opcode(wqe.wr.opcode, next_ == wqe.first_psn, last), wire_psn(next_));
  packet.bth.solicited_event = last && wqe.wr.solicited;
  packet.bth.ack_request = last || (next_ - first_) % std::max(1U, window_packets_ / 4) == 0;
  packet.reth = {wqe.wr.remote_address, wqe.wr.rkey, static_cast<std::uint32_t>(wqe.wr.length_bytes)};
  packet.immdt = {wqe.wr.immediate};
  builder.add_data(packet, wqe.payload(offset), payload);
  context_.stats.sent_bytes += payload;
  sent(1);
}

void RcRequester::sent(std::uint32_t psns) {
  context_.stats.sent_packets += 1;
  if (next_ < end_) ++context_.stats.retransmitted_packets;
  next_ += psns;
  end_ = std::max(end_, next_);
}

// One past the last PSN of the request that begins at `next_`. A repetition ends where the request before it did, since
// the responder may have executed that one.
Psn RcRequester::request_end(const Wqe& wqe) const {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] > next_) return requests_[i];
  }
  return wqe.wr.opcode == WrOpcode::kRead ? std::min(wqe.end_psn(), next_ + room()) : wqe.end_psn();
}

// X.8.6: a READ asks for what the window has room for; its answers have consecutive PSNs from that of the request on.
void RcRequester::add_request(BurstBuilder& builder, const Wqe& wqe) {
  const std::uint64_t offset = (next_ - wqe.first_psn) * context_.payload_mtu;
  wire::Packet packet;
  const Psn end = request_end(wqe);
  const auto psns = static_cast<std::uint32_t>(end - next_);
  wire::Opcode opcode = wire::Opcode::kRcReadRequest;
  if (wqe.wr.opcode == WrOpcode::kRead) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(wqe.wr.length_bytes - offset, std::uint64_t{psns} * context_.payload_mtu);
    packet.reth = {wqe.wr.remote_address + offset, wqe.wr.rkey, static_cast<std::uint32_t>(bytes)};
  } else {
    const bool swap = wqe.wr.opcode == WrOpcode::kCompareSwap;
    opcode = swap ? wire::Opcode::kRcCompareSwap : wire::Opcode::kRcFetchAdd;
    packet.atomic = {wqe.wr.remote_address, wqe.wr.rkey, wqe.wr.swap_add, swap ? wqe.wr.compare : 0};
  }
  packet.bth = bth_to_peer(context_, opcode, wire_psn(next_));
  packet.bth.ack_request = true;
  builder.add(packet, nullptr, 0);
  if (requests_.empty() || end > requests_.back()) requests_.push_back(end);
  sent(psns);
}

void RcRequester::advance(TimePs now, Psn end) {
  context_.peer->answered = true;
  if (timed_ != 0 && timed_ < end) {
    rtt_.add(now - timed_sent_);
    timed_ = 0;
  }
  first_ = end;
  next_ = std::max(next_, end);
  retry_.progress();
  rnr_naks_ = 0;
  if (first_ > not_ready_) receiver_not_ready_ = false;
  timer_base_ = now;
  while (!requests_.empty() && requests_.front() <= first_) requests_.pop_front();
  while (!queue_.empty() && queue_.front().end_psn() <= first_) queue_.complete_front();
}

// False: an answer with data is missing. An acknowledgement of what follows a READ or atomic does not replace its answer.
bool RcRequester::acknowledge_below(TimePs now, Psn end) {
  Psn reached = first_;
  while (reached < end) {
    const Wqe& wqe = queue_.at(reached);
    if (wqe.result != nullptr) break;
    reached = std::min(end, wqe.end_psn());
  }
  if (reached > first_) advance(now, reached);
  return reached >= end;
}

// X.8.7: once for each lost answer; if the repetition is lost, too, the timer helps.
void RcRequester::repeat_request() {
  if (repeated_at_ == first_) return;
  repeated_at_ = first_;
  ++context_.stats.losses_inferred;
  go_back();
}

void RcRequester::handle_acknowledgement(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  if (packet.bth.opcode != wire::Opcode::kRcAck) {
    handle_result(now, datagram, packet);
    return;
  }
  const bool ack = packet.aeth.syndrome == wire::AethSyndrome::kAck;
  const Psn psn = extend24(packet.bth.psn, first_);
  // An ACK carries the last PSN received, a NAK the expected or refused one.
  const Psn below = ack ? psn + 1 : psn;
  if (below > end_) {
    ++context_.stats.stale_packets;
    return;
  }
  ++context_.stats.acks_received;
  const bool complete = acknowledge_below(now, below);
  // A NAK applies to its own PSN, which is reached only with the answers before it.
  const bool fatal = !ack && cause_of_nak(packet.aeth.syndrome) != QpErrorCause::kNone;
  if (!complete && (ack || fatal)) {
    repeat_request();
  } else if (!ack && psn >= first_) {
    handle_nak(now, psn, packet.aeth);
  }
}

void RcRequester::handle_result(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  const Psn psn = extend24(packet.bth.psn, first_);
  if (psn < first_ || psn >= end_) {
    ++context_.stats.stale_packets;
    return;
  }
  if (!acknowledge_below(now, psn)) {
    repeat_request();
    return;
  }
  const Wqe& wqe = queue_.at(psn);
  const bool read = wire::is_rc_read_response(packet.bth.opcode);
  if (wqe.result == nullptr || read != (wqe.wr.opcode == WrOpcode::kRead)) {
    ++context_.stats.stale_packets;
    return;
  }
  ++context_.stats.acks_received;
  if (place_result(wqe, psn, datagram, packet)) advance(now, psn + 1);
}

bool RcRequester::place_result(const Wqe& wqe, Psn psn, const RxDatagram& datagram, const wire::Packet& packet) {
  const std::uint64_t offset = (psn - wqe.first_psn) * context_.payload_mtu;
  const bool atomic = wqe.wr.opcode != WrOpcode::kRead;
  const auto* original = reinterpret_cast<const std::uint8_t*>(&packet.atomic_ack.original);
  const bool carried = datagram.bytes.size() > packet.header_bytes;
  const std::uint8_t* bytes = atomic ? original : carried ? datagram.bytes.data() + packet.header_bytes : nullptr;
  const std::uint64_t wanted = std::min<std::uint64_t>(context_.payload_mtu, wqe.wr.length_bytes - offset);
  if (!atomic && packet.payload_bytes != wanted) {  // X.8.7
    context_.fail(QpErrorCause::kBadResponse);
    return false;
  }
  if (wqe.result->place(context_.services.memory, offset, bytes, wanted) != TakenReceive::Outcome::kPlaced) {
    context_.fail(QpErrorCause::kLocalProtection);
    return false;
  }
  context_.stats.placed_bytes += wanted;
  context_.services.message_open = offset + wanted < wqe.wr.length_bytes;
  return true;
}

void RcRequester::handle_nak(TimePs now, Psn psn, const wire::Aeth& aeth) {
  if (aeth.syndrome == wire::AethSyndrome::kNakPsnSequence) {
    go_back();
    ++context_.stats.losses_inferred;
  } else if (aeth.syndrome == wire::AethSyndrome::kRnrNak) {
    // X.8.4. A NAK about a packet that was never sent, or one more about the same, has no effect.
    if (psn >= end_ || receiver_not_ready_) return;
    ++context_.stats.rnr_naks_received;
    if (rnr_retries_ != kRnrRetriesForEver && ++rnr_naks_ > rnr_retries_) {
      context_.fail(QpErrorCause::kRnrRetryExceeded);
      return;
    }
    go_back();
    receiver_not_ready_ = true;
    not_ready_ = psn;
    receiver_ready_ = now + rnr_time(aeth.rnr_timer);
  } else {
    context_.fail(cause_of_nak(aeth.syndrome));
  }
}

void RcRequester::fill(QpStats& stats) const {
  stats.in_flight_packets = in_flight_packets();
  stats.smoothed_rtt = rtt_.smoothed();
  stats.last_rtt = rtt_.last();
}

}  // namespace openmrc
