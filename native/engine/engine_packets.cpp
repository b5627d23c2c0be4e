// Received datagrams, and bursts of packets to send.
#include <algorithm>

#include "engine/base/assert.hpp"
#include "engine/engine.hpp"
#include "engine/generated/event_records.hpp"
#include "engine/qp/qp.hpp"
#include "engine/seal.hpp"
#include "engine/wire/run_headers.hpp"

namespace openmrc {

// --- received datagrams

bool Engine::parse(const RxDatagram& datagram, wire::Packet& packet) {
  const bool trimmed = is_trimmed(datagram.traffic_class);
  const wire::ParseError error =
      wire::parse(datagram.bytes, trimmed ? wire::Extent::kTrimmed : wire::Extent::kWhole, packet);
  if (error != wire::ParseError::kNone) {  // A.3.11
    ++drops_.parse_errors[static_cast<std::size_t>(error)];
    return false;
  }
  packet.payload_bytes = static_cast<std::uint16_t>(packet.payload_bytes + datagram.phantom_bytes);
  // A.3.8: ICRC; A.6.9: trimmed headers.
  const bool sealed = !trimmed || !(wire::is_data(packet.bth.opcode) || wire::is_rc_data(packet.bth.opcode));
  if (config_.icrc && sealed && !datagram.checked && !packet.bth.no_icrc) {
    icrc_.set_flow(datagram.source, config_.ports[datagram.port].local, datagram.fields.source_port, config_.udp_port);
    if (!icrc_.matches(datagram.bytes)) {
      ++drops_.bad_icrc;
      return false;
    }
  }
  // The top bit of a partition key is the membership type, not part of the partition (A.15.1).
  if (((packet.bth.partition_key ^ config_.partition_key) & 0x7FFF) != 0) {
    ++drops_.wrong_partition_key;
    return false;
  }
  return true;
}

void Engine::handle_datagram(TimePs now, const RxDatagram& datagram) {
  services_.message_open = false;
  bool taken = false;
  const std::size_t first =
      is_trimmed(datagram.traffic_class) ? datagram.bytes.size() : wire::first_packet_bytes(datagram.bytes);
  if (first == datagram.bytes.size()) {
    if (Qp* qp = deliver(now, datagram, taken); qp != nullptr) touch(*qp);
    return;
  }
  // X.4.9: each packet has its own ICRC, so one may be damaged and the other not.
  RxDatagram part = datagram;
  part.bytes = datagram.bytes.first(first);
  if (Qp* qp = deliver(now, part, taken); qp != nullptr) touch(*qp);
  part.bytes = datagram.bytes.subspan(first);
  if (part.bytes[0] != static_cast<std::uint8_t>(wire::Opcode::kAck)) {
    ++drops_.parse_errors[static_cast<std::size_t>(wire::ParseError::kBadJoin)];
    return;
  }
  if (Qp* qp = deliver(now, part, taken); qp != nullptr) touch(*qp);
}

void Engine::handle_train(TimePs now, const RxDatagram& train, std::size_t datagram_bytes) {
  MRC_ASSERT(datagram_bytes > 0);
  const bool whole = !is_trimmed(train.traffic_class) && train.phantom_bytes == 0;
  RxDatagram datagram = train;
  for (std::size_t offset = 0; offset < train.bytes.size();) {
    datagram.bytes = train.bytes.subspan(offset);
    if (whole && datagram.bytes.size() >= 2 * datagram_bytes && wire::RunHeaders::may_begin(datagram.bytes)) {
      offset += handle_run(now, datagram, datagram_bytes) * datagram_bytes;
      continue;
    }
    datagram.bytes = datagram.bytes.first(std::min(datagram_bytes, datagram.bytes.size()));
    handle_datagram(now, datagram);
    offset += datagram_bytes;
  }
}

// Handles the first datagram of a train, from the middle of a message, and those behind it that belong to the same run.
// Returns their number.
std::uint32_t Engine::handle_run(TimePs now, const RxDatagram& train, std::size_t datagram_bytes) {
  services_.message_open = false;
  RxDatagram datagram = train;
  datagram.bytes = train.bytes.first(datagram_bytes);
  bool taken = false;
  Qp* qp = deliver(now, datagram, taken);
  if (qp == nullptr) return 1;
  std::uint32_t more = 0;
  if (taken && (train.checked || packet_.bth.no_icrc || !config_.icrc)) {
    const wire::RunHeaders run(datagram.bytes, packet_.payload_bytes);
    const auto most = static_cast<std::uint32_t>(train.bytes.size() / datagram_bytes) - 1;
    while (more < most && run.continued(more + 1, train.bytes.data() + (more + 1) * datagram_bytes)) ++more;
  }
  if (more > 0) {
    more = qp->handle_run(now, train, packet_, more, datagram_bytes);
    PortStats& stats = port_stats_[train.port];
    stats.received_packets += more;
    stats.received_bytes += more * datagram_bytes;
    services_.plane_traffic.received(now, train.port, more * datagram_bytes);
  }
  touch(*qp);
  return 1 + more;
}

// Passes a datagram to its QP, which is returned; nullptr: no such QP. `taken`: the QP did not drop it.
Qp* Engine::deliver(TimePs now, const RxDatagram& datagram, bool& taken) {
  MRC_ASSERT(datagram.port < config_.ports.size());
  PortStats& stats = port_stats_[datagram.port];
  ++stats.received_packets;
  stats.received_bytes += datagram.bytes.size() + datagram.phantom_bytes;
  services_.plane_traffic.received(now, datagram.port, datagram.bytes.size() + datagram.phantom_bytes);
  if (!parse(datagram, packet_)) return nullptr;
  if (packet_.bth.destination_qp == kEndpointQp) {
    if (packet_.bth.no_icrc) {
      ++drops_.missing_icrc;
      return nullptr;
    }
    handle_endpoint(now, datagram, packet_);
    return nullptr;
  }
  Qp* qp = find(packet_.bth.destination_qp);
  if (qp == nullptr) {  // A.15.2
    ++drops_.unknown_qp;
    return nullptr;
  }
  taken = qp->handle_packet(now, datagram, packet_, drops_);
  const wire::Opcode opcode = packet_.bth.opcode;
  if (qp->urgent() && (wire::is_data(opcode) || wire::is_rc_data(opcode))) note_urgent(now);
  if (services_.peer_ports_changed != nullptr) {
    peer_ports_changed(now, *services_.peer_ports_changed);
    services_.peer_ports_changed = nullptr;
  }
  return qp;
}

void Engine::handle_endpoint(TimePs now, const RxDatagram& datagram, const wire::Packet& packet) {
  if (packet.bth.opcode == wire::Opcode::kEndpointRequest) {
    Peer* changed = endpoint_.handle_request(now, datagram, packet, services_.local_ports_up);
    if (changed != nullptr) peer_ports_changed(now, *changed);
  } else if (packet.bth.opcode == wire::Opcode::kEndpointResponse) {
    Peer* changed = endpoint_.handle_response(now, datagram, packet);
    if (changed != nullptr) peer_ports_changed(now, *changed);
    drain_reverse_probes(now);
  } else {
    ++drops_.unknown_qp;
  }
}

void Engine::drain_reverse_probes(TimePs now) {
  EndpointOperations::Result result;
  while (endpoint_.poll_result(result)) {
    if (result.asker.qp == 0) {
      endpoint_results_.push_back(result.answer);
      continue;
    }
    Qp* qp = find(result.asker.qp);
    if (qp == nullptr) continue;
    if (result.answer.op == wire::EndpointOp::kKernelCheck) {
      qp->on_same_kernel(result.asker.nonce);
      continue;
    }
    if (qp->context().ev_set == nullptr) continue;
    if (result.asker.request_id != 0) {
      qp->handle_payload_probe(now, result.answer);
      touch(*qp);
      continue;
    }
    QpContext& context = qp->context();
    context.reverse.on_probe_result(now, *context.ev_set, {result.answer.ev, result.answer.port},
                                    result.answer.answered ? std::max<TimePs>(result.answer.rtt, 1) : 0);
    touch(*qp);
  }
}

void Engine::peer_ports_changed(TimePs now, Peer& peer) {
  for (PortId port = 0; port < peer.ports.size(); ++port) {
    const std::uint32_t up = peer.ports_up >> port & 1;
    if (up != (peer.ports_announced >> port & 1)) events_.emit(port_state_event(now, port, up, true, 0));
  }
  peer.ports_announced = peer.ports_up;
  if (peer.ports_up != peer.existing_ports()) endpoint_.check_ports(now);
  for (Qp* qp : in_order_) {
    if (qp->context().peer != &peer) continue;
    qp->handle_ports(now);
    touch(*qp);
  }
}

// --- packets to send

bool Engine::build_from(Ring<Qp*>& list, bool Qp::* listed, TimePs now, PortMask free_ports, std::uint32_t burst_max,
                        TxBurst& burst) {
  const bool control = &list == &control_ready_;
  for (std::size_t left = list.size(); left > 0; --left) {
    Qp* qp = list.front();
    list.pop_front();
    const BuildResult result = control ? qp->build_control(now, free_ports, burst_max, burst)
                                       : qp->build_data(now, free_ports, burst_max, burst);
    if (result == BuildResult::kNothing) {
      qp->*listed = false;
      note_change(*qp);  // due packets that could not be built may depend on time again
      continue;
    }
    const bool more = control || result != BuildResult::kBuilt || qp->may_build_data();
    qp->*listed = more;
    if (more) list.push_back(qp);
    if (result != BuildResult::kBuilt) continue;
    note_change(*qp);
    // Also an idle QP sends probes of dead paths, which are not urgent.
    if (qp->urgent() && !control && qp->under_way() != UnderWay::kNothing) note_urgent(now);
    return true;
  }
  return false;
}

bool Engine::build_control(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst) {
  const PortMask up = services_.local_ports_up;
  if (endpoint_.response_overdue(now) && endpoint_.build_response(now, free_ports, up, burst)) return true;
  return endpoint_.build_request(now, free_ports, up, burst) ||
         build_from(control_ready_, &Qp::control_listed, now, free_ports, limit, burst);
}

// A message that begins after a short urgent one must not wait for nothing.
void Engine::note_urgent(TimePs now) {
  account_changes();
  if (backlogs_ > 0) urgent_.note(now);
}

void Engine::end_urgent_time(TimePs now) {
  if (!services_.ordinary_data_waits || urgent_.holds(now)) return;
  services_.ordinary_data_waits = false;
  for (Qp* qp : in_order_) {
    if (qp->urgent()) continue;
    qp->resume(now);
    touch(*qp);
  }
}

// Urgent QPs come first, and data of the others waits for them (X.9.1).
bool Engine::build_data(TimePs now, PortMask free_ports, std::uint32_t limit, TxBurst& burst) {
  if (build_from(urgent_ready_, &Qp::data_listed, now, free_ports, limit, burst)) return true;
  end_urgent_time(now);
  if (urgent_.holds(now) && data_ready_.size() > 0) services_.ordinary_data_waits = true;
  return !services_.ordinary_data_waits && build_from(data_ready_, &Qp::data_listed, now, free_ports, limit, burst);
}

// An ACK is shorter than any packet of data, so both fit one burst (X.4.8).
void Engine::add_ack(TxBurst& burst) {
  if (burst.qp == 0 || burst.count != 1 || burst.packets[0].datagram_bytes() > kJoinedDataBytesMax) return;
  if (Qp* qp = find(burst.qp); qp != nullptr) qp->add_ack(burst);
}

bool Engine::poll_transmit(TimePs now, PortMask free_ports, std::uint32_t burst_max, TxBurst& burst, Outgoing what) {
  const std::uint32_t limit = std::clamp(burst_max, 1U, kBurstPacketsMax);
  const bool everything = what == Outgoing::kEverything;
  const bool built = (everything && build_control(now, free_ports, limit, burst)) ||
                     build_data(now, free_ports, limit, burst) ||
                     (everything && endpoint_.build_response(now, free_ports, services_.local_ports_up, burst));
  if (!built) return false;
  if (what == Outgoing::kDataWithAcks && limit > 1) add_ack(burst);
  if (config_.icrc && !config_.driver_seals) seal(burst, config_.ports[burst.port].local);
  PortStats& stats = port_stats_[burst.port];
  stats.sent_packets += burst.count;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < burst.count; ++i) bytes += burst.packets[i].datagram_bytes();
  stats.sent_bytes += bytes;
  services_.plane_traffic.sent(now, burst.port, bytes);
  return true;
}

}  // namespace openmrc
